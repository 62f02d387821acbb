//! Native code that the program carries for its built-in components.
//!
//! The program's build script compiles it with the engine's settings for a baseline processor of
//! the platform. The code is compressed; it is unpacked once, when a component is first loaded, and
//! then stored in the cache. Components without carried code, or on an unsupported processor, are
//! compiled. Start from [`Precompiled`].

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

/// Native code by the digest of its component, compressed with gzip. Empty by default.
///
/// A non-empty set is `unsafe` to create, because the code is executed without a check.
#[derive(Clone, Default)]
pub struct Precompiled(Arc<BTreeMap<String, &'static [u8]>>);

debug_some!(Precompiled, self, components = self.0.len());

impl Precompiled {
    /// Creates a set from pairs: the digest of a component, as `sha256:` and 64 hex digits, and its
    /// native code.
    ///
    /// # Safety
    /// Each code was compiled by this engine, with its settings, from the component of that digest,
    /// and could not be changed since.
    #[expect(
        unsafe_code,
        reason = "only its maker knows where native code comes from"
    )]
    pub unsafe fn new(code: impl IntoIterator<Item = (String, &'static [u8])>) -> Self {
        Self(Arc::new(code.into_iter().collect()))
    }

    /// Returns the native code of a component; `None` if the program carries none for it.
    pub(super) fn unpack_code(&self, digest: &str) -> Option<Vec<u8>> {
        let packed = *self.0.get(digest)?;
        let mut code = Vec::new();
        // If unpacking fails (the program is corrupt), the component is compiled.
        flate2::read::GzDecoder::new(packed)
            .read_to_end(&mut code)
            .ok()?;
        Some(code)
    }
}
