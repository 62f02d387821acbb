//! Checks minisign signatures of the sources of plugins and skills.
//!
//! If the settings contain keys, unsigned packages are refused. A name is pinned to the key that
//! first signed a package of that name, and stays pinned after the package is removed, so that the
//! owner of another configured key cannot take over the name.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};
use minisign_verify::{PublicKey, Signature};
use serde::Deserialize;

use super::source::PluginSource;
use rind_lib::config::Section;

/// Operator's settings for the installation of plugins and skills.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct InstallConfig {
    /// Minisign public keys, by the name of their owner. If there is at least one key, unsigned
    /// packages are refused.
    pub(crate) keys: BTreeMap<String, String>,
}

impl Section for InstallConfig {
    const NAME: &'static str = "install";
}

/// Plugin or skill whose signature is checked before installation.
pub struct SignatureCheckTarget<'a> {
    /// Kind of the installed package, for messages: `plugin` or `skill`.
    pub kind: &'static str,
    /// Name under which the plugin or skill is installed.
    pub name: &'a str,
    pub source: &'a PluginSource,
    /// Signed bytes; `None` if the source is not a single file.
    pub bytes: Option<&'a [u8]>,
    /// Name of the lock file with the pinned public keys.
    pub lock_file: &'static str,
    /// Advice on how to pack a directory into a file that can be signed.
    pub how_to_pack: String,
    /// Advice for the user on how to sign the source, for messages.
    pub how_to_sign: String,
    /// Function that reads the signature. Returns the signature, if one exists, and the location at
    /// which the function searched for it.
    pub signature: &'a dyn Fn() -> anyhow::Result<(Option<String>, String)>,
}

/// Checks a signature if keys are configured or if the name is pinned to the key `pinned`. Returns
/// the key that made the signature; `None` if no check was required.
pub fn check_signature(
    config: &InstallConfig,
    pinned: Option<&str>,
    subject: &SignatureCheckTarget<'_>,
) -> anyhow::Result<Option<String>> {
    let mut keys: Vec<(&str, PublicKey)> = Vec::new();
    for (name, key) in &config.keys {
        let parsed = PublicKey::from_base64(key)
            .with_context(|| format!("[install] keys.{name} is not a public key of minisign"))?;
        keys.push((key, parsed));
    }
    let SignatureCheckTarget {
        kind,
        name,
        lock_file,
        how_to_pack,
        how_to_sign,
        ..
    } = subject;
    if let Some(pinned) = pinned {
        ensure!(
            keys.is_empty() || keys.iter().any(|(key, _)| *key == pinned),
            "{kind} {name} was first signed with the key {pinned}, which is not in [install] keys; add it, or remove the {kind}'s line from [keys] in {lock_file} to trust the other keys with this name"
        );
        let parsed = PublicKey::from_base64(pinned);
        let parsed = parsed.with_context(|| format!("[keys] of {lock_file} has an invalid key"))?;
        keys = vec![(pinned, parsed)];
    }
    if keys.is_empty() {
        return Ok(None);
    }
    let shown = subject.source;
    let why = match pinned {
        Some(pinned) => format!("{name} was first signed with the key {pinned}"),
        None => "[install] keys are set".to_owned(),
    };
    let Some(bytes) = subject.bytes else {
        bail!(
            "{shown} is a folder and cannot be signed, but a signature is required, because {why}; {how_to_pack}"
        );
    };
    let (text, at) = (subject.signature)()?;
    let Some(text) = text else {
        bail!(
            "{shown} has no signature at {at}, but one is required, because {why}; {how_to_sign}"
        );
    };
    let signature =
        Signature::decode(&text).with_context(|| format!("{at} is not a signature of minisign"))?;
    let signer = keys
        .iter()
        .find(|(_, key)| key.verify(bytes, &signature, false).is_ok());
    match signer {
        Some((key, _)) => Ok(Some((*key).to_owned())),
        None => bail!(
            "the signature {at} does not match ({why}): {shown} was changed after it was signed, or was signed with another key"
        ),
    }
}
