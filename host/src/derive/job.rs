//! Work on what strangers wrote, as data that can be sent to another process.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::Draft;
use super::plugin::{self, PluginPackage};
use super::rust::{self, CrateFiles, CrateOutline, CratePackage};
use super::wit::{self, Interfaces, WitFiles};

/// A source that was read, to be parsed and written as a skill.
#[derive(Serialize, Deserialize)]
pub(crate) enum Job {
    Plugin(Box<PluginPackage>),
    /// A crate, with the sources of its library if it has one.
    Crate(Box<CratePackage>, Option<CrateFiles>),
    /// A WIT package, with its README.
    Wit(WitFiles, Option<String>),
    /// Name of a component, and its bytes in base64.
    Component(String, String),
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Drafted {
    /// The skill, without the digest of its source.
    pub(crate) draft: Draft,
    /// Things that could not be followed.
    pub(crate) notes: Vec<String>,
}

impl Job {
    /// A component, as `name` calls it.
    pub(crate) fn component(name: String, bytes: &[u8]) -> Self {
        Self::Component(name, STANDARD.encode(bytes))
    }

    /// Parses the source and writes the skill.
    ///
    /// # Errors
    /// The source cannot be parsed, or there is too much of it.
    pub(crate) fn run(self) -> Result<Drafted, String> {
        let mut notes = Vec::new();
        let mut draft = match self {
            Self::Plugin(package) => plugin::draft(&package),
            Self::Crate(package, files) => {
                let mut outline = match &files {
                    Some(files) => rust::outline(files)?,
                    None => CrateOutline::default(),
                };
                // The crate may make nothing from it.
                if let Some(Ok(interfaces)) = files
                    .and_then(|files| files.wit)
                    .map(|wit| Interfaces::read(&wit))
                {
                    outline.describe_made(&interfaces);
                }
                notes = std::mem::take(&mut outline.notes);
                rust::draft(&package, &outline)
            }
            Self::Wit(files, readme) => wit::draft(&wit::package(&files)?, readme.as_deref()),
            Self::Component(name, text) => {
                let bytes = STANDARD.decode(text).map_err(|error| error.to_string())?;
                wit::draft(&wit::component(&name, &bytes)?, None)
            }
        };
        draft.cut();
        Ok(Drafted { draft, notes })
    }
}
