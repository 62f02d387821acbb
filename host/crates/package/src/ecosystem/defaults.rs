//! Addresses of the registries that the ordinary clients use when nothing else is configured.
//!
//! Each address is written here and nowhere else. `None` means that an address has to come from the
//! settings of the ordinary client.

use super::PackageKind;

/// Registry of npm packages.
pub(super) const NPM: Option<&str> = None;

/// Index of Python packages.
const PYPI: Option<&str> = None;

/// Sparse index of crates.
const CRATES: Option<&str> = None;

/// Returns the registry of an ecosystem that applies without settings.
pub(super) fn default_registry(kind: PackageKind) -> Option<&'static str> {
    match kind {
        PackageKind::Npm => NPM,
        PackageKind::Pypi => PYPI,
        PackageKind::Crates => CRATES,
    }
}
