//! Arguments of the commands for packed and installed plugins.

use std::path::PathBuf;

use clap::Args;

use rind_lib::grant::decide::GrantFlag;

#[derive(Debug, Args)]
pub(in super::super) struct PackArgs {
    /// Folder of the plugin, with `plugin.toml` and the built component
    #[arg(value_name = "FOLDER")]
    pub(super) folder: PathBuf,
    /// File to write; `NAME-VERSION.wasm` in the current folder by default
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(in super::super) struct PublishArgs {
    /// A `.wasm` of `rind plugin pack`; a signature in `FILE.minisig` goes along
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// `oci://HOST/REPOSITORY`, with `:TAG` where that is not to be the version
    #[arg(value_name = "REFERENCE")]
    pub(super) target: String,
}

#[derive(Debug, Args)]
pub(in super::super) struct InstallArgs {
    /// A plugin's folder, a `.wasm` of `rind plugin pack`, a `.tar.gz` of a folder, or
    /// `oci://HOST/REPOSITORY:TAG`
    #[arg(value_name = "SOURCE")]
    pub(super) source: PathBuf,
    /// Accept that a plugin of this name was installed from another source before
    #[arg(long)]
    pub(super) change_source: bool,
    #[command(flatten)]
    pub(super) wider: WiderArgs,
}

#[derive(Debug, Args)]
pub(in super::super) struct UpdateArgs {
    /// Name of an installed plugin; all of them by default
    #[arg(value_name = "NAME")]
    pub(super) plugin: Option<String>,
    #[command(flatten)]
    pub(super) wider: WiderArgs,
}

#[derive(Debug, Args)]
pub(super) struct WiderArgs {
    /// Accept that an update asks for more; `PLUGIN=CAPABILITY,…` accepts only that
    #[arg(long, value_name = "PLUGIN")]
    pub(super) grant: Vec<GrantFlag>,
}

#[derive(Debug, Args)]
pub(in super::super) struct RemoveArgs {
    /// Name of an installed plugin
    #[arg(value_name = "NAME")]
    #[arg(add = super::super::completion::complete_plugins())]
    pub(super) plugin: String,
}

#[derive(Debug, Args)]
pub(in super::super) struct SearchPathArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}
