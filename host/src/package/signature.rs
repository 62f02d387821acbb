//! Signatures of sources, made with minisign.
//!
//! With keys in the settings nothing unsigned is installed. The key that first signed a plugin stays the only one for its name,
//! also after the plugin was removed: whoever has another of the keys cannot take the name over.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use minisign_verify::{PublicKey, Signature};
use serde::Deserialize;

use super::source::{Fetched, Source};
use crate::config::Section;

/// The operator's settings for installing plugins.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct InstallConfig {
    /// Public keys of minisign, by the name of their owner. With one or more, unsigned plugins are refused.
    pub(crate) keys: BTreeMap<String, String>,
}

impl Section for InstallConfig {
    const NAME: &'static str = "install";
}

/// Checks the signature of a source, where there are keys or the plugin's name is `pinned` to one. Returns the key.
pub(crate) fn check(
    config: &InstallConfig,
    pinned: Option<&str>,
    fetched: &Fetched,
) -> anyhow::Result<Option<String>> {
    let mut keys: Vec<(&str, PublicKey)> = Vec::new();
    for (name, key) in &config.keys {
        let parsed = PublicKey::from_base64(key)
            .with_context(|| format!("[install] keys.{name} is not a public key of minisign"))?;
        keys.push((key, parsed));
    }
    let plugin = &fetched.contents.manifest.name;
    if let Some(pinned) = pinned {
        ensure!(
            keys.is_empty() || keys.iter().any(|(key, _)| *key == pinned),
            "plugin {plugin} was first signed with the key {pinned}, which is not in [install] keys; add it, or take the plugin's \
             line out of [keys] in plugins.lock.toml to trust the other keys with this name"
        );
        let parsed = PublicKey::from_base64(pinned);
        let parsed = parsed.context("[keys] of plugins.lock.toml has a key that is none")?;
        keys = vec![(pinned, parsed)];
    }
    if keys.is_empty() {
        return Ok(None);
    }
    let shown = &fetched.source;
    let why = match pinned {
        Some(pinned) => format!("{plugin} was first signed with the key {pinned}"),
        None => "[install] keys are set".to_owned(),
    };
    let Some(bytes) = &fetched.bytes else {
        bail!(
            "{shown} is a folder, which cannot be signed, and {why}; pack it with `rind plugin pack {shown}` and sign the file"
        );
    };
    let (text, at) = fetched.signature()?;
    let Some(text) = text else {
        let todo = match &fetched.source {
            Source::Path(_) => format!("sign it with `minisign -S -m {shown}`"),
            Source::Registry(_) => {
                "sign the packed file before it is published with `rind plugin publish`".to_owned()
            }
        };
        bail!("{shown} has no signature at {at}, and {why}; {todo}");
    };
    let signature =
        Signature::decode(&text).with_context(|| format!("{at} is not a signature of minisign"))?;
    let signer = keys
        .iter()
        .find(|(_, key)| key.verify(bytes, &signature, false).is_ok());
    match signer {
        Some((key, _)) => Ok(Some((*key).to_owned())),
        None => bail!(
            "{at} is not a signature of these bytes with a key that counts ({why}): {shown} was changed after it was signed, or \
             somebody else signed it"
        ),
    }
}
