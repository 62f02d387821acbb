//! Jobs that parse untrusted input, as serializable data that can be sent to another process.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::SkillDraft;
use super::plugin::{self, PluginPackage};
use super::rust::{self, CrateFiles, CrateOutline, CratePackage};
use super::wit::{self, WitFiles, WitInterfacesForBindings};

/// Source that was read from disk, to be parsed and rendered as a skill.
#[derive(Serialize, Deserialize)]
pub enum SkillDeriveJob {
    /// A plugin, as described by its manifest and component.
    Plugin(Box<PluginPackage>),
    /// Crate, with the sources of its library if it has one.
    Crate(Box<CratePackage>, Option<CrateFiles>),
    /// WIT package, with the text of its README if it has one.
    Wit(WitFiles, Option<String>),
    /// WebAssembly component: its name, and its bytes in base64.
    Component(String, String),
}

/// Skill that a [`SkillDeriveJob`] produced, with notes for the user.
#[derive(Serialize, Deserialize)]
pub struct DeriveJobResult {
    /// Derived skill, without the digest of its source.
    pub draft: SkillDraft,
    /// Notes for the user about parts of the source that could not be resolved.
    pub notes: Vec<String>,
}

impl SkillDeriveJob {
    /// Creates a job that derives a skill from the component with this name.
    pub fn from_component(name: String, bytes: &[u8]) -> Self {
        Self::Component(name, STANDARD.encode(bytes))
    }

    /// Parses the source and renders the skill.
    ///
    /// # Errors
    /// The source cannot be parsed, or is too large.
    pub fn run_job(self) -> Result<DeriveJobResult, String> {
        let mut notes = Vec::new();
        let mut draft = match self {
            Self::Plugin(package) => plugin::draft_plugin_skill(&package),
            Self::Crate(package, files) => {
                let mut outline = match &files {
                    Some(files) => rust::outline_crate(files)?,
                    None => CrateOutline::default(),
                };
                // The crate may not use its WIT package, so ignore errors in the package.
                if let Some(Ok(interfaces)) = files
                    .and_then(|files| files.wit)
                    .map(|wit| WitInterfacesForBindings::from_wit_files(&wit))
                {
                    outline.add_wit_module_docs(&interfaces);
                }
                notes = std::mem::take(&mut outline.notes);
                rust::draft_crate_skill(&package, &outline)
            }
            Self::Wit(files, readme) => {
                wit::draft_wit_skill(&wit::read_package(&files)?, readme.as_deref())
            }
            Self::Component(name, text) => {
                let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
                wit::draft_wit_skill(&wit::outline_component_world(&name, &bytes)?, None)
            }
        };
        draft.truncate_to_limits();
        Ok(DeriveJobResult { draft, notes })
    }
}
