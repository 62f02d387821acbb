//! `plugin.toml`, the manifest of a plugin.
//!
//! This module owns the format of manifests and the checks; it grants no permission. An unknown key
//! is an error that names the line of the key.
//!
//! Start from [`Manifest::read`].

mod check;
mod network;
mod sections;
#[cfg(test)]
mod tests;
mod units;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Spanned;

use super::{Error, astray, files};
use crate::grant::held::InMemoryFolder;
use crate::grant::{Capability, FolderAccess, SideEffect, Trust};
use crate::near::append_nearest_key_hint;

pub(crate) use check::check_plugin_name;
pub use sections::{
    Compat, ExtensionPointDeclaration, External, Filesystem, HookOptions, Limits, Network,
    SocketCompatMode, ToolOptions,
};

/// Content of a `plugin.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Unique name, `[a-z0-9-]`, at most 64 bytes, not starting with `-`.
    pub name: String,
    /// Version of the plugin.
    pub version: semver::Version,
    /// Description of the plugin in one sentence.
    pub description: String,
    /// File name of the WebAssembly component; absent for a plugin that has only prompts and
    /// skills.
    #[serde(default)]
    pub component: Option<String>,
    /// Side effects that the plugin declares, such as `network` or `session`.
    #[serde(default)]
    pub side_effects: Vec<SideEffect>,
    /// Trust level of the plugin. It applies only if it is lower than the trust level of the
    /// plugin's location.
    #[serde(default)]
    pub trust: Option<Trust>,
    /// Options of the plugin's hooks, by point. The component's exports decide which hooks exist.
    #[serde(default, serialize_with = "serialize_plain_keys")]
    pub hooks: BTreeMap<Spanned<String>, HookOptions>,
    /// Directories that the plugin reads and writes; needs the side effect `filesystem`.
    #[serde(default)]
    pub filesystem: Option<Filesystem>,
    /// Hosts that the plugin may reach, and credentials that the host adds to the plugin's
    /// requests; needs the side effect `network`.
    #[serde(default)]
    pub network: Option<Network>,
    /// Requested use of the model, of subagents and of tools; needs the side effect `external`.
    #[serde(default)]
    pub external: Option<External>,
    /// Limits on the memory, time, files and HTTP requests of the plugin.
    #[serde(default)]
    pub limits: Limits,
    /// JSON Schema of the plugin's settings.
    #[serde(default)]
    pub config: Option<Value>,
    /// Plugins that must be loaded before this one, with the required versions.
    #[serde(default)]
    pub dependencies: BTreeMap<String, semver::VersionReq>,
    /// Points that the plugin defines for hooks of other plugins.
    #[serde(default)]
    pub points: BTreeMap<String, ExtensionPointDeclaration>,
    /// Points of other plugins that this plugin implements, written `owner.NAME`, with the options
    /// of each implementation.
    #[serde(default)]
    pub implements: BTreeMap<String, HookOptions>,
    /// Options of the plugin's tools, by tool name. An empty map is not serialized, so that
    /// manifests without tool options keep the digests that they had before this field existed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolOptions>,
    /// Exceptions for components that import more than they use, as the runtimes of some languages
    /// do.
    #[serde(default)]
    pub compat: Compat,
}

/// Maximum size of a manifest, in bytes. Manifests of first-party plugins have less than 2 KiB; a
/// manifest with JSON Schemas may have 100 KiB.
const MAX_BYTES: u64 = 1 << 20;

/// File name of a manifest.
pub const FILE_NAME: &str = "plugin.toml";

impl Manifest {
    /// Reads and checks `folder/plugin.toml`: from memory if `held` contains the folder, otherwise
    /// from disk.
    pub fn read(folder: &Path, held: Option<&InMemoryFolder>) -> Result<Self, Error> {
        let path = folder.join(FILE_NAME);
        let bytes = files::read_plugin_file(&path, held, MAX_BYTES).map_err(|error| match error
            .kind()
        {
            ErrorKind::NotFound => Error::NoManifest {
                todo: astray::misplaced_plugin_advice(folder, held),
                folder: folder.to_owned(),
            },
            _ => Error::io("read", &path)(error),
        })?;
        let refuse = |message: String| Error::Manifest {
            path: path.clone(),
            message,
        };
        if bytes.len() as u64 > MAX_BYTES {
            return Err(refuse(format!(
                "the manifest has more than {MAX_BYTES} bytes"
            )));
        }
        let text = String::from_utf8(bytes).map_err(|e| refuse(e.to_string()))?;
        Self::parse(&text, &path)
    }

    /// Parses and checks a manifest. `path` is only used in messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Error> {
        let refuse = |message: String| Error::Manifest {
            path: path.to_owned(),
            message,
        };
        let mut manifest: Self = toml::from_str(text).map_err(|error| {
            let place = error.to_string();
            let place = place.trim_end();
            let place = place.strip_suffix(error.message()).unwrap_or(place);
            refuse(format!(
                "{place}{}",
                append_nearest_key_hint(error.message())
            ))
        })?;
        manifest.check_manifest(text).map_err(refuse)?;
        Ok(manifest)
    }

    /// Whether the manifest declares the side effect `effect`.
    #[must_use]
    pub fn has_side_effect(&self, effect: SideEffect) -> bool {
        self.side_effects.contains(&effect)
    }

    /// Returns the permissions that the manifest requests, sorted and without duplicates.
    #[must_use]
    pub fn requested_permissions(&self) -> Vec<Capability> {
        let mut requested = Vec::new();
        if self.has_side_effect(SideEffect::Session) {
            requested.push(Capability::Session);
        }
        if let Some(section) = &self.filesystem {
            let reads = section
                .read
                .iter()
                .map(|folder| (FolderAccess::Read, folder));
            let writes = section
                .write
                .iter()
                .map(|folder| (FolderAccess::Write, folder));
            let files = |(access, folder): (_, &crate::grant::GrantableFolder)| {
                Capability::Files(access, folder.clone())
            };
            requested.extend(reads.chain(writes).map(files));
        }
        if let Some(section) = &self.network {
            requested.extend(section.hosts.iter().cloned().map(Capability::Network));
            let private = section.private.iter().cloned();
            requested.extend(private.map(Capability::PrivateNetwork));
            let credentials = section.credentials.iter().cloned();
            requested.extend(credentials.map(Capability::Credential));
        }
        if let Some(section) = &self.external {
            requested.extend(section.calls().map(Capability::ExternalCall));
            requested.extend(section.tools.iter().cloned().map(Capability::Tool));
        }
        requested.sort();
        requested.dedup();
        requested
    }

    /// Returns the options that the manifest sets for the hook on `point`, or the defaults if it
    /// sets none.
    #[must_use]
    pub fn hook(&self, point: &str) -> HookOptions {
        self.hooks
            .iter()
            .find(|(name, _)| name.get_ref() == point)
            .map(|(_, options)| options.clone())
            .unwrap_or_default()
    }

    /// Returns the path of the component in the plugin's folder, if the plugin has a component.
    #[must_use]
    pub fn component_path(&self, folder: &Path) -> Option<PathBuf> {
        self.component.as_ref().map(|name| folder.join(name))
    }
}

fn serialize_plain_keys<S: serde::Serializer>(
    hooks: &BTreeMap<Spanned<String>, HookOptions>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        hooks
            .iter()
            .map(|(name, options)| (name.get_ref(), options)),
    )
}
