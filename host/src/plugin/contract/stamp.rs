//! Custom section that SDKs stamp into components: contract version, language, and the SDK with its
//! own version.
//!
//! The contract version of a component without a stamp is read from the names of its interfaces
//! alone. A second section contains the manifest that the plugin was built with, so that the
//! component file alone is a complete plugin.

use std::io;

use serde::{Deserialize, Serialize};
use wasmparser::{Parser, Payload};

use super::sources::SOURCE_DIGEST_SECTION_NAME;
use super::{Error, check_contract_version, split_interface_name};
use crate::text;

/// Name of the custom section. The section contains JSON:
/// `{"contract":"0.1.0","language":"rust","sdk":"rind-sdk 0.1.0"}`.
pub const CONTRACT_STAMP_SECTION_NAME: &str = "rind:contract";

/// Name of the custom section with the manifest. A packed plugin stores all its files in sections
/// with this prefix.
pub const MANIFEST_SECTION_NAME: &str = "rind:file/plugin.toml";

/// Maximum length in bytes of the custom section that contains a component's stamp. A component
/// with a longer section is refused.
const MAX_STAMP_SECTION_BYTES: usize = 1024;

/// Maximum length in bytes of a stamp's text when it is displayed.
const MAX_DISPLAYED_BUILD_INFO_BYTES: usize = 64;

/// Stamp of a component: contract version, language and SDK that it was built with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentBuildInfo {
    /// Version of the plugin contract that the component was built with.
    pub contract: String,
    /// Programming language in which the plugin is written.
    pub language: String,
    /// Name and version of the SDK that the component was built with.
    pub sdk: String,
}

impl ComponentBuildInfo {
    /// Appends the stamp section to a component that has none.
    ///
    /// # Errors
    /// The bytes are not a component, or the stamp would exceed the maximum length of a stamp
    /// section.
    pub fn append_to_component(&self, component: &mut Vec<u8>) -> io::Result<()> {
        if !Parser::is_component(component) {
            return invalid_data_error("it is not a component");
        }
        let content = serde_json::to_vec(self)?;
        if content.len() > MAX_STAMP_SECTION_BYTES {
            return invalid_data_error("its stamp is too long");
        }
        append_custom_section(component, CONTRACT_STAMP_SECTION_NAME, &content);
        Ok(())
    }
}

/// Appends the section with the manifest to a component that has none.
///
/// # Errors
/// The bytes are not a component.
pub fn append_manifest_section(component: &mut Vec<u8>, manifest: &[u8]) -> io::Result<()> {
    if !Parser::is_component(component) {
        return invalid_data_error("it is not a component");
    }
    append_custom_section(component, MANIFEST_SECTION_NAME, manifest);
    Ok(())
}

/// Appends the section with the [digest of the sources](super::sources) to a component that has
/// none.
///
/// # Errors
/// The bytes are not a component.
pub fn append_source_digest_section(component: &mut Vec<u8>, digest: &str) -> io::Result<()> {
    if !Parser::is_component(component) {
        return invalid_data_error("it is not a component");
    }
    append_custom_section(component, SOURCE_DIGEST_SECTION_NAME, digest.as_bytes());
    Ok(())
}

/// Returns the manifest that a component was built with; `None` if the component contains no
/// manifest.
#[must_use]
pub fn read_embedded_manifest(component: &[u8]) -> Option<Vec<u8>> {
    find_custom_section(component, MANIFEST_SECTION_NAME)
}

/// Returns the first custom section with this name in the outermost component.
pub(super) fn find_custom_section(component: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(component) {
        match payload.ok()? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if depth == 1 && section.name() == name => {
                return Some(section.data().to_vec());
            }
            _ => {}
        }
    }
    None
}

fn invalid_data_error(why: &str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::InvalidData, why))
}

fn append_custom_section(component: &mut Vec<u8>, name: &str, content: &[u8]) {
    let mut section = Vec::new();
    write_leb128_length(&mut section, name.len());
    section.extend(name.as_bytes());
    section.extend(content);
    // The id of a custom section is 0.
    component.push(0);
    write_leb128_length(component, section.len());
    component.extend(section);
}

/// Writes a length in unsigned LEB128, as WebAssembly does.
fn write_leb128_length(bytes: &mut Vec<u8>, mut length: usize) {
    loop {
        let low = u8::try_from(length & 0x7f).unwrap_or_default();
        length >>= 7;
        if length == 0 {
            return bytes.push(low);
        }
        bytes.push(low | 0x80);
    }
}

/// Checks the contract versions in a component's stamps and interface names. Returns the first
/// stamp, if there is one. A composed component has several stamps; each version must be supported.
pub(in super::super) fn check_component_contract_versions(
    bytes: &[u8],
) -> Result<Option<ComponentBuildInfo>, Error> {
    let mut first = None;
    let mut names = Vec::new();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(bytes) {
        // If the bytes cannot be parsed, leave the error to the compiler, whose message is more
        // precise.
        let Ok(payload) = payload else { break };
        match payload {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if section.name() == CONTRACT_STAMP_SECTION_NAME => {
                let stamp = parse_stamp(section.data())?;
                let what = format!("it was built with {} ({})", stamp.sdk, stamp.language);
                check_contract_version(&what, &stamp.contract)?;
                first.get_or_insert(stamp);
            }
            // Only the imports and exports of the outermost component are linked to the host.
            Payload::ComponentImportSection(section) if depth == 1 => {
                let imports = section.into_iter().flatten();
                names.extend(imports.map(|import| ("imports", import.name.name.to_owned())));
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                let exports = section.into_iter().flatten();
                names.extend(exports.map(|export| ("exports", export.name.name.to_owned())));
            }
            _ => {}
        }
    }
    for (side, name) in names {
        if let Some((_, version)) = split_interface_name(&name) {
            check_contract_version(&format!("the component {side} `{name}`"), version)?;
        }
    }
    Ok(first)
}

fn parse_stamp(section: &[u8]) -> Result<ComponentBuildInfo, Error> {
    let refuse = |why: String| Error::Start {
        message: format!("its section `{CONTRACT_STAMP_SECTION_NAME}` {why}; build it again"),
    };
    if section.len() > MAX_STAMP_SECTION_BYTES {
        return Err(refuse(format!(
            "has more than {MAX_STAMP_SECTION_BYTES} bytes"
        )));
    }
    let stamp: ComponentBuildInfo = serde_json::from_slice(section)
        .map_err(|e| refuse(format!("does not have the format that an SDK writes ({e})")))?;
    Ok(ComponentBuildInfo {
        contract: text::escape_and_truncate_line(&stamp.contract, MAX_DISPLAYED_BUILD_INFO_BYTES),
        language: text::escape_and_truncate_line(&stamp.language, MAX_DISPLAYED_BUILD_INFO_BYTES),
        sdk: text::escape_and_truncate_line(&stamp.sdk, MAX_DISPLAYED_BUILD_INFO_BYTES),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::contract::CURRENT_CONTRACT_VERSION;

    #[test]
    fn an_appended_stamp_is_read_again_and_nothing_else_takes_one() {
        let stamp = ComponentBuildInfo {
            contract: CURRENT_CONTRACT_VERSION.to_owned(),
            language: "python".to_owned(),
            // Text whose length takes two LEB128 bytes.
            sdk: format!("rind-sdk {}", "9".repeat(50)),
        };
        let mut component = b"\0asm\x0d\0\x01\0".to_vec();
        stamp.append_to_component(&mut component).unwrap();
        assert_eq!(
            check_component_contract_versions(&component).unwrap(),
            Some(stamp.clone())
        );
        assert_eq!(read_embedded_manifest(&component), None);
        append_manifest_section(&mut component, b"name = \"x\"").unwrap();
        assert_eq!(
            read_embedded_manifest(&component),
            Some(b"name = \"x\"".to_vec())
        );
        assert_eq!(
            check_component_contract_versions(&component).unwrap(),
            Some(stamp.clone())
        );
        let mut module = b"\0asm\x01\0\0\0".to_vec();
        assert!(stamp.append_to_component(&mut module).is_err());
        let long = ComponentBuildInfo {
            sdk: "9".repeat(MAX_STAMP_SECTION_BYTES),
            ..stamp
        };
        assert!(
            long.append_to_component(&mut b"\0asm\x0d\0\x01\0".to_vec())
                .is_err()
        );
    }
}
