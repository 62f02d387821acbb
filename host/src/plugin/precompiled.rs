//! Native code of the built-in components, embedded in the program.
//!
//! The program's build script compiles the components with the engine's settings for a baseline
//! processor of the platform. The code is compressed; it is unpacked once, when a component is
//! first loaded, and then stored in the cache. A component without embedded code is compiled on the
//! user's machine, and so is every component if the processor is unsupported. Start from
//! [`Precompiled`].

use std::sync::{Arc, Mutex, PoisonError, Weak};

use rind_embed::unpack_beside;

/// Packed native code of one component: the digest of the component, as `sha256:` and 64 hex
/// digits, and the code.
pub type PackedCode = (&'static str, &'static [u8]);

/// Native code of components, packed with `rind_embed::pack_beside`: the first on its own, each
/// other as a difference from the first. Empty by default.
///
/// A non-empty set is `unsafe` to create, because the code is executed without a check.
#[derive(Clone, Default)]
pub struct Precompiled {
    packed: &'static [PackedCode],
    /// Unpacked code of the first component, which unpacking any other needs. Kept only while a
    /// caller uses it.
    first: Arc<Mutex<Weak<Vec<u8>>>>,
}

debug_some!(Precompiled, self, components = self.packed.len());

impl Precompiled {
    /// Creates a set of packed native code.
    ///
    /// # Safety
    /// Each code must have been compiled by this engine, with its settings, from the component with
    /// that digest, and must not have been changed since.
    #[expect(
        unsafe_code,
        reason = "only its maker knows where native code comes from"
    )]
    pub unsafe fn new(packed: &'static [PackedCode]) -> Self {
        Self {
            packed,
            first: Arc::default(),
        }
    }

    /// Returns the native code of a component; `None` if the program has none for it, or if
    /// unpacking fails because the program is corrupt.
    pub(super) fn unpack_code(&self, digest: &str) -> Option<Arc<Vec<u8>>> {
        let at = self.packed.iter().position(|(of, _)| *of == digest)?;
        let first = self.unpack_first()?;
        if at == 0 {
            return Some(first);
        }
        let (_, packed) = self.packed.get(at)?;
        unpack_beside(&first, packed).ok().map(Arc::new)
    }

    fn unpack_first(&self) -> Option<Arc<Vec<u8>>> {
        let mut held = self.first.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(first) = held.upgrade() {
            return Some(first);
        }
        let (_, packed) = self.packed.first()?;
        let first = Arc::new(unpack_beside(&[], packed).ok()?);
        *held = Arc::downgrade(&first);
        Some(first)
    }
}
