//! Reads the imports, the exports and the SDK stamp of a component from its bytes, without
//! compiling or running it.

use std::path::Path;

use wasmparser::{Parser, Payload};

use super::contract;
use super::contract::stamp::{self, ComponentBuildInfo};
use super::{Error, foreign};

/// Imports and exports of a component, without those of nested components, and other facts from its
/// sections.
#[derive(Clone, Debug, Default)]
pub struct ComponentImportsAndExports {
    /// Imported interfaces, as the component spells them.
    pub imports: Vec<String>,
    /// Exported interfaces, as the component spells them.
    pub exports: Vec<String>,
    /// Size of the component in bytes.
    pub bytes: u64,
    /// Size of the debug information in the component and all nested modules, in bytes.
    pub debug_bytes: u64,
    /// Build information that the SDK wrote into the component; `None` if it has none.
    pub stamp: Option<ComponentBuildInfo>,
}

impl ComponentImportsAndExports {
    /// Reads a component. `path` is only used in messages.
    ///
    /// # Errors
    /// The bytes are not a component, or the component needs a version of the contract that this
    /// host does not support.
    pub fn read_component_surface(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        foreign::check_component_header(path, bytes)?;
        let mut surface = Self {
            bytes: bytes.len() as u64,
            ..Self::default()
        };
        let mut depth = 0_usize;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(|error| Error::Compile {
                path: path.to_owned(),
                message: error.to_string(),
            })? {
                Payload::Version { .. } => depth += 1,
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::CustomSection(section) if section.name().starts_with(".debug") => {
                    surface.debug_bytes += section.data().len() as u64;
                }
                // Only the imports and exports of the outermost component are linked to the host.
                Payload::ComponentImportSection(section) if depth == 1 => {
                    let imports = section.into_iter().flatten();
                    let names = imports.map(|import| import.name.name.to_owned());
                    surface.imports.extend(names);
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    let exports = section.into_iter().flatten();
                    let names = exports.map(|export| export.name.name.to_owned());
                    surface.exports.extend(names);
                }
                _ => {}
            }
        }
        surface.stamp = stamp::check_component_contract_versions(bytes)?;
        Ok(surface)
    }

    /// Whether the component imports an interface of the contract, given by its short name
    /// (`files`), or any interface of another package (`wasi:http`).
    #[must_use]
    pub fn has_import(&self, name: &str) -> bool {
        let is_it = |import: &String| match contract::split_interface_name(import) {
            Some((own, _)) => own == name,
            None => name.contains(':') && import.starts_with(name),
        };
        self.imports.iter().any(is_it)
    }

    /// Returns the names of the contract's interfaces that the component exports, without package
    /// and version.
    pub fn contract_exports(&self) -> impl Iterator<Item = &str> {
        let exports = self.exports.iter();
        exports.filter_map(|export| Some(contract::split_interface_name(export)?.0))
    }
}
