//! Native code of the built-in components, embedded in the program.
//!
//! The program's build script compiles the components with the engine's settings for a baseline
//! processor of the platform. The code is compressed; it is unpacked once, when a component is
//! first loaded, and then stored in the cache. A component without embedded code is compiled on the
//! user's machine. If the user's processor is not supported, every component is compiled there.
//! Start from [`PrecompiledComponents`].

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rind_embed::decompress_with_dictionary;

/// Packed native code of one component: the digest of the component, as `sha256:` and 64 hex
/// digits, and the code.
pub type CompressedNativeCode = (&'static str, &'static [u8]);

/// Native code of components, packed with `rind_embed::compress_with_dictionary`: the first is
/// complete, and each other is stored as a difference from the first. Empty by default.
///
/// A non-empty set is `unsafe` to create, because the code is executed without a check.
#[derive(Clone, Default)]
pub struct PrecompiledComponents {
    packed: &'static [CompressedNativeCode],
    /// Unpacked code of the first component, which is needed to unpack the others. Kept in memory
    /// only while a caller uses it.
    first: Arc<Mutex<Weak<Vec<u8>>>>,
}

impl_partial_debug!(PrecompiledComponents, self, components = self.packed.len());

impl PrecompiledComponents {
    /// Creates a set of packed native code.
    ///
    /// # Safety
    /// Each code must have been compiled by this engine, with its settings, from the component with
    /// that digest, and must not have been changed since.
    #[expect(
        unsafe_code,
        reason = "only its maker knows where native code comes from"
    )]
    pub unsafe fn new(packed: &'static [CompressedNativeCode]) -> Self {
        Self {
            packed,
            first: Arc::default(),
        }
    }

    /// Returns the native code of a component; `None` if the program contains no code for the
    /// component, or if unpacking fails because the program is corrupt.
    pub(super) fn unpack_component_code(&self, digest: &str) -> Option<Arc<Vec<u8>>> {
        let at = self.packed.iter().position(|(of, _)| *of == digest)?;
        let first = self.unpack_first_component()?;
        if at == 0 {
            return Some(first);
        }
        let (_, packed) = self.packed.get(at)?;
        decompress_with_dictionary(&first, packed)
            .ok()
            .map(Arc::new)
    }

    fn unpack_first_component(&self) -> Option<Arc<Vec<u8>>> {
        let mut held = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = held.upgrade() {
            return Some(first);
        }
        let (_, packed) = self.packed.first()?;
        let first = Arc::new(decompress_with_dictionary(&[], packed).ok()?);
        *held = Arc::downgrade(&first);
        Some(first)
    }
}
