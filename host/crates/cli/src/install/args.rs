//! Arguments of the commands that pack, publish and install plugins.

use std::path::PathBuf;

use clap::Args;

use rind_lib::grant::decide::GrantFlagValue;
use rind_package::bundle::PackageBuildOptions;
use rind_package::ecosystem::PackageKind;

#[derive(Debug, Args)]
pub(in super::super) struct PackArgs {
    /// Folder of the plugin, with `plugin.toml` and the built component; for a package also a
    /// `.wasm` of this command, together with its signature in `FILE.minisig`
    #[arg(value_name = "FOLDER")]
    pub(super) folder: PathBuf,
    /// File to write; by default in the current folder, named after plugin and version
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    pub(super) package: PackageArgs,
}

/// Kind of package to make, with its metadata.
#[derive(Debug, Args)]
pub(super) struct PackageArgs {
    /// Make a package of npm with the packed plugin in it, a `.tgz`
    #[arg(long, group = "package_kind")]
    npm: bool,
    /// Make a Python package with the packed plugin in it, a wheel
    #[arg(long, group = "package_kind")]
    pypi: bool,
    /// Make a crate with the packed plugin in it, a `.crate`
    #[arg(long = "crate", group = "package_kind")]
    is_crate: bool,
    /// Name of the package, such as `@team/hello`; by default the plugin's
    #[arg(long, value_name = "NAME", requires = "package_kind")]
    package_name: Option<String>,
    /// License of the plugin, such as `MIT OR Apache-2.0`; some registries require one
    #[arg(long, value_name = "SPDX", requires = "package_kind")]
    license: Option<String>,
}

impl PackageArgs {
    /// Returns the options of the package; `None` if no package is requested.
    pub(super) fn to_package_build_options(&self) -> Option<PackageBuildOptions> {
        let kinds = [
            (self.npm, PackageKind::Npm),
            (self.pypi, PackageKind::Pypi),
            (self.is_crate, PackageKind::Crates),
        ];
        let (_, kind) = kinds.into_iter().find(|(is_asked, _)| *is_asked)?;
        Some(PackageBuildOptions {
            kind,
            name: self.package_name.clone(),
            license: self.license.clone(),
        })
    }
}

#[derive(Debug, Args)]
pub(in super::super) struct PublishArgs {
    /// A `.wasm` of `rind plugin pack`; a signature in `FILE.minisig` is published too
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// `oci://HOST/REPOSITORY`, or with `:TAG` if the tag is not the version
    #[arg(value_name = "REFERENCE")]
    pub(super) target: String,
}

#[derive(Debug, Args)]
pub(in super::super) struct PluginInstallArgs {
    /// A plugin's folder, a `.wasm` of `rind plugin pack`, a `.tar.gz` of a folder,
    /// `oci://HOST/REPOSITORY:TAG`, or a package: `npm:NAME@VERSION`, `pypi:NAME==VERSION`,
    /// `crates:NAME@VERSION`, a `.tgz`, `.whl` or `.crate`
    #[arg(value_name = "SOURCE")]
    pub(super) source: PathBuf,
    /// Accept that the installed plugin of this name came from another source
    #[arg(long)]
    pub(super) change_source: bool,
    #[command(flatten)]
    pub(super) wider: AcceptAddedPermissionsArgs,
}

#[derive(Debug, Args)]
pub(in super::super) struct PluginUpdateArgs {
    /// Name of an installed plugin; all of them by default
    #[arg(value_name = "NAME")]
    pub(super) plugin: Option<String>,
    #[command(flatten)]
    pub(super) wider: AcceptAddedPermissionsArgs,
}

#[derive(Debug, Args)]
pub(super) struct AcceptAddedPermissionsArgs {
    /// Accept that an update of this plugin requests more; `PLUGIN=CAPABILITY,…` accepts only these
    #[arg(long, value_name = "PLUGIN")]
    pub(super) grant: Vec<GrantFlagValue>,
}

#[derive(Debug, Args)]
pub(in super::super) struct PluginRemoveArgs {
    /// Name of an installed plugin
    #[arg(value_name = "NAME")]
    #[arg(add = super::super::completion::plugin_name_candidates())]
    pub(super) plugin: String,
}

#[derive(Debug, Args)]
pub(in super::super) struct SearchPathCommandArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
