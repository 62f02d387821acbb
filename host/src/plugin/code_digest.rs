//! Digest of the parts of a component that determine its native code.
//!
//! The manifest, the files of a packed plugin and the stamp of a build are custom sections of the
//! component, which the compiler skips. The digest does not cover them, so that a plugin keeps its
//! cache entry when it is packed or only its manifest changes.

use wasmparser::BinaryReader;

/// Length in bytes of the header with which a component begins.
const COMPONENT_HEADER_SIZE_IN_BYTES: usize = 8;

/// Id of custom sections in WebAssembly components.
const CUSTOM_SECTION_ID: u8 = 0;

/// Prefix of the names of custom sections that this host writes.
const HOST_CUSTOM_SECTION_PREFIX: &str = "rind:";

/// Returns the digest of a component without the custom sections of this host at its outermost
/// level; `None` if its sections cannot be read.
pub(super) fn component_code_digest(component: &[u8]) -> Option<String> {
    let (header, sections) = component.split_at_checked(COMPONENT_HEADER_SIZE_IN_BYTES)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(header);
    let mut reader = BinaryReader::new(sections, 0);
    while !reader.eof() {
        let start = reader.current_position();
        let id = reader.read_u8().ok()?;
        let n_bytes = usize::try_from(reader.read_var_u32().ok()?).ok()?;
        let body = reader.read_bytes(n_bytes).ok()?;
        if id != CUSTOM_SECTION_ID || !is_host_custom_section(body) {
            // Hash the id and the length of each section too, so that two different lists of
            // sections never produce the same input.
            hasher.update(sections.get(start..reader.current_position())?);
        }
    }
    Some(format!("code:{}", hasher.finalize().to_hex()))
}

fn is_host_custom_section(custom: &[u8]) -> bool {
    let name = BinaryReader::new(custom, 0).read_string();
    name.is_ok_and(|name| name.starts_with(HOST_CUSTOM_SECTION_PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn component(sections: &[(u8, &str, &[u8])]) -> Vec<u8> {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        for (id, name, data) in sections {
            let n_bytes = 1 + name.len() + data.len();
            bytes.extend([*id, u8::try_from(n_bytes).unwrap()]);
            bytes.push(u8::try_from(name.len()).unwrap());
            bytes.extend(name.as_bytes());
            bytes.extend(*data);
        }
        bytes
    }

    #[test]
    fn only_the_hosts_own_outermost_sections_do_not_count() {
        let digest =
            |sections: &[(u8, &str, &[u8])]| component_code_digest(&component(sections)).unwrap();
        let bare = digest(&[(1, "module", b"")]);
        for own in ["rind:sources", "rind:file/plugin.toml"] {
            assert_eq!(digest(&[(1, "module", b""), (0, own, b"x")]), bare);
            assert_eq!(digest(&[(0, own, b""), (1, "module", b"")]), bare);
        }
        for sections in [
            &[(1, "modules", &b""[..])][..],
            &[(2, "module", b"")],
            &[(1, "module", b""), (0, "name", b"x")],
            &[(1, "module", b""), (0, "rind", b"x")],
            // Section that has the name but is a module, not a custom section.
            &[(1, "module", b""), (1, "rind:sources", b"")],
        ] {
            assert_ne!(digest(sections), bare, "{sections:?}");
        }
    }

    #[test]
    fn torn_components_have_no_digest() {
        let whole = component(&[(1, "module", b"")]);
        for end in [0, 7, 9, whole.len() - 1] {
            assert_eq!(component_code_digest(&whole[..end]), None, "{end}");
        }
        assert!(component_code_digest(&whole).is_some());
    }
}
