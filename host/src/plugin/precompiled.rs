//! Native code that a program carries for components that it carries.
//!
//! The build script of the program makes it, with the settings of the engine and for a usual processor of the platform. On another
//! processor, or without it, components are compiled when they are first loaded. Start from [`Precompiled`].

use std::collections::BTreeMap;
use std::sync::Arc;

/// Native code by the digest of its component. Empty by default.
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

    pub(super) fn find(&self, digest: &str) -> Option<&'static [u8]> {
        self.0.get(digest).copied()
    }
}
