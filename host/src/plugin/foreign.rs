//! Recognizes files that were built for another host: core modules, and components that need
//! another version of WASI or disabled WebAssembly proposals.
//!
//! Parsers and linkers describe such files by byte offsets and missing functions. An author needs
//! three things instead: the target that the file was built for, the target that this host runs,
//! and the target to build for.

use std::path::Path;

use wasmparser::{Encoding, Parser, Payload, Validator, WasmFeatures};

use super::Error;

/// Advice that ends each message of this module.
pub(super) const REBUILD_FOR_WASI_ADVICE: &str = "build it for `wasm32-wasip2`, as `rind plugin build` does, or for WASI 0.2 in another language";

/// Major and minor number of the WASI version that this host runs.
const SUPPORTED_WASI_VERSION: (u64, u64) = (0, 2);

/// Names of the modules that a core module for WASI preview 1 imports.
const WASI_PREVIEW1_MODULE_NAMES: [&str; 2] = ["wasi_snapshot_preview1", "wasi_unstable"];

/// WebAssembly proposals that the engine disables, with their names in messages.
const DISABLED_WASM_PROPOSALS: &[(WasmFeatures, &str)] = &[
    (
        WasmFeatures::CM_ASYNC
            .union(WasmFeatures::CM_ASYNC_STACKFUL)
            .union(WasmFeatures::CM_MORE_ASYNC_BUILTINS)
            .union(WasmFeatures::CM_ERROR_CONTEXT),
        "async functions (WASI 0.3)",
    ),
    (
        WasmFeatures::THREADS
            .union(WasmFeatures::SHARED_EVERYTHING_THREADS)
            .union(WasmFeatures::CM_THREADING),
        "threads",
    ),
    (
        WasmFeatures::GC
            .union(WasmFeatures::GC_TYPES)
            .union(WasmFeatures::FUNCTION_REFERENCES)
            .union(WasmFeatures::CM_GC),
        "garbage collection (GC)",
    ),
    (
        WasmFeatures::EXCEPTIONS.union(WasmFeatures::LEGACY_EXCEPTIONS),
        "exceptions",
    ),
    (
        WasmFeatures::MEMORY64.union(WasmFeatures::CM64),
        "64-bit memory (memory64)",
    ),
    (WasmFeatures::RELAXED_SIMD, "relaxed SIMD"),
    (WasmFeatures::STACK_SWITCHING, "stack switching"),
    (WasmFeatures::WIDE_ARITHMETIC, "wide arithmetic"),
    (WasmFeatures::CUSTOM_PAGE_SIZES, "custom page sizes"),
    (
        WasmFeatures::CM_FIXED_LENGTH_LISTS
            .union(WasmFeatures::CM_MAP)
            .union(WasmFeatures::CM_IMPLEMENTS)
            .union(WasmFeatures::CM_VALUES),
        "newer types of the component model",
    ),
];

/// Checks by their header that the bytes are a component.
pub(super) fn check_component_header(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let path = path.to_owned();
    if !bytes.starts_with(b"\0asm") {
        let message = "it is not WebAssembly; build it again".to_owned();
        return Err(Error::Compile { path, message });
    }
    match describe_core_module(bytes) {
        Some(message) => Err(Error::Foreign { path, message }),
        None => Ok(()),
    }
}

/// Describes a core module, which is not a component; `None` if the bytes are not a core module.
pub fn describe_core_module(bytes: &[u8]) -> Option<String> {
    let mut payloads = Parser::new(0).parse_all(bytes);
    let Some(Ok(Payload::Version { encoding, .. })) = payloads.next() else {
        return None;
    };
    if encoding == Encoding::Component {
        return None;
    }
    let mut imported = payloads.map_while(Result::ok).filter_map(|payload| {
        let Payload::ImportSection(section) = payload else {
            return None;
        };
        let mut imports = section.into_imports().flatten();
        imports.find(|import| WASI_PREVIEW1_MODULE_NAMES.contains(&import.module))
    });
    let built_for = match imported.next() {
        Some(import) => format!(", built for WASI 0.1 (`{}`)", import.module),
        None => String::new(),
    };
    Some(format!(
        "is a core module, not a component{built_for}; this host runs components: {REBUILD_FOR_WASI_ADVICE}"
    ))
}

/// Returns the reason why a WASI import is not offered in its version; `None` for a supported
/// version and for other packages.
pub(super) fn unsupported_wasi_reason(interface: &str) -> Option<String> {
    let (name, version) = interface.split_once('@').unwrap_or((interface, ""));
    if !name.starts_with("wasi:") {
        return None;
    }
    let known = semver::Version::parse(version);
    if known.is_ok_and(|known| {
        (known.major, known.minor) == SUPPORTED_WASI_VERSION && known.pre.is_empty()
    }) {
        return None;
    }
    let (major, minor) = SUPPORTED_WASI_VERSION;
    let wasi = match version {
        "" => "WASI without a version".to_owned(),
        version => format!(
            "WASI {}",
            crate::text::escape_and_truncate_line(version, 40)
        ),
    };
    Some(format!(
        "which belongs to {wasi}; this host runs WASI {major}.{minor}: {REBUILD_FOR_WASI_ADVICE}"
    ))
}

/// Describes a valid component that the engine refuses because it needs disabled proposals; `None`
/// for a component that is not valid at all. Validates the bytes several times, which is slow, so
/// it is called only in the compile process.
pub fn describe_disabled_wasm_proposals(bytes: &[u8]) -> Option<String> {
    let is_valid = |features| {
        let mut validator = Validator::new_with_features(features);
        validator.validate_all(bytes).is_ok()
    };
    let switched_off = DISABLED_WASM_PROPOSALS
        .iter()
        .fold(WasmFeatures::empty(), |all, row| all.union(row.0));
    if is_valid(WasmFeatures::all().difference(switched_off)) || !is_valid(WasmFeatures::all()) {
        return None;
    }
    let needed = DISABLED_WASM_PROPOSALS
        .iter()
        .filter(|(features, _)| !is_valid(WasmFeatures::all().difference(*features)));
    let needed: Vec<&str> = needed.map(|(_, words)| *words).collect();
    if needed.is_empty() {
        return None;
    }
    Some(format!(
        "was built for {}; this host has no support for this, because it runs components for WASI 0.2: {REBUILD_FOR_WASI_ADVICE}",
        needed.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_wasi_that_are_not_offered_are_named() {
        for offered in ["0.2.0", "0.2.3", "0.2.12"] {
            assert_eq!(
                unsupported_wasi_reason(&format!("wasi:cli/stdin@{offered}")),
                None
            );
        }
        assert_eq!(unsupported_wasi_reason("rind:plugin/log@0.3.0"), None);
        for (other, says) in [
            ("@0.3.0", "to WASI 0.3.0"),
            ("@0.3.0-rc-2025-09-16", "to WASI 0.3.0-rc-2025-09-16"),
            ("@0.2.0-rc-2023-11-10", "to WASI 0.2.0-rc-2023-11-10"),
            ("@1.0.0", "to WASI 1.0.0"),
            ("@0.2", "to WASI 0.2;"),
            ("", "to WASI without a version"),
        ] {
            let said = unsupported_wasi_reason(&format!("wasi:cli/stdin{other}")).unwrap();
            assert!(said.contains(says), "{said}");
            assert!(said.contains("this host runs WASI 0.2: build it"), "{said}");
        }
    }
}
