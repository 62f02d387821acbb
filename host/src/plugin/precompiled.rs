//! Native code that a program carries for components that it carries.
//!
//! The build script of the program makes it, with the settings of the engine and for a usual processor of the platform. It is
//! compressed: it is unpacked once, when a component is first loaded, and kept in the cache then. On another processor, or without
//! it, components are compiled. Start from [`Precompiled`].

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

/// Native code by the digest of its component, compressed with gzip. Empty by default.
///
/// Only this crate makes one that has code, because code is run as it is.
#[derive(Clone, Default)]
pub struct Precompiled(Arc<BTreeMap<String, &'static [u8]>>);

debug_some!(Precompiled, self, components = self.0.len());

impl Precompiled {
    /// Makes a set of pairs: the digest of a component, as `sha256:` and 64 hex digits, and its native code.
    #[cfg(feature = "cli")]
    pub(crate) fn new(code: impl IntoIterator<Item = (String, &'static [u8])>) -> Self {
        Self(Arc::new(code.into_iter().collect()))
    }

    /// Returns the native code of a component; `None` for one that the program does not carry.
    pub(super) fn unpack(&self, digest: &str) -> Option<Vec<u8>> {
        let packed = *self.0.get(digest)?;
        let mut code = Vec::new();
        // What cannot be unpacked is compiled; the program is then not as it was built.
        flate2::read::GzDecoder::new(packed)
            .read_to_end(&mut code)
            .ok()?;
        Some(code)
    }
}
