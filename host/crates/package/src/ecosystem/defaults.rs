//! Default registries of npm, pip and cargo, which are used if no registry is configured.
//!
//! Each address is defined only here. `None` means that there is no default: the address must come
//! from the settings of the ordinary client.

use super::PackageKind;

/// URL of the default npm registry; none, so the settings must name a registry.
pub(super) const DEFAULT_NPM_REGISTRY_URL: Option<&str> = None;

/// URL of the default Python package index; none, so the settings must name an index.
const DEFAULT_PYPI_INDEX_URL: Option<&str> = None;

/// URL of the default crates registry (a sparse index); none, so the settings must name a registry.
const DEFAULT_CRATES_INDEX_URL: Option<&str> = None;

/// Returns the URL of the default registry for this kind of package, if there is one.
pub(super) fn default_registry_url(kind: PackageKind) -> Option<&'static str> {
    match kind {
        PackageKind::Npm => DEFAULT_NPM_REGISTRY_URL,
        PackageKind::Pypi => DEFAULT_PYPI_INDEX_URL,
        PackageKind::Crates => DEFAULT_CRATES_INDEX_URL,
    }
}
