//! Arguments of `rind plugin`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::super::args::PluginArgs;
use super::super::completion;
use super::super::install::args::{
    PackArgs, PluginInstallArgs, PluginRemoveArgs, PluginUpdateArgs, PublishArgs,
    SearchPathCommandArgs,
};

#[derive(Debug, Subcommand)]
pub(in super::super) enum PluginSubcommand {
    /// List every plugin that is found, and why some do not run
    List(PluginListArgs),
    /// Say what a plugin does, asks for and may touch, from its bytes
    Inspect(PluginInspectArgs),
    /// List the points, and which plugins define, implement and call them
    Points(PluginListArgs),
    /// List the permissions of plugins and the trusted projects, and revoke them
    Grants(GrantsArgs),
    /// Switch a plugin on again
    Enable(PluginEnablementArgs),
    /// Switch a plugin off
    Disable(PluginEnablementArgs),
    /// Make a folder with a plugin to start from, in Rust, JavaScript or Python
    New(super::new::NewPluginArgs),
    /// Build plugins in Rust, JavaScript or Python to components
    Build(PluginBuildArgs),
    /// Find faults of plugins before anybody installs them; exit code 1 when there are any
    Check(super::super::check::CheckArgs),
    /// Run the cases of plugins, `tests/*.toml`, in the real sandbox, warm and cold; exit code 1
    /// when one fails
    Test(super::super::case::PluginTestArgs),
    /// Watch a plugin that is being written: build it after each change, and replace it in a
    /// running session
    Dev(super::dev::PluginDevArgs),
    /// Call one tool of a plugin by hand, and show the trace; the operator's rules hold as in a run
    Call(super::super::case::PluginCallArgs),
    /// Pack a plugin into one file, or into a package of npm, PyPI or crates
    Pack(PackArgs),
    /// Publish a packed plugin to an OCI registry
    Publish(PublishArgs),
    /// Install a plugin from a folder, a packed file, an archive, an OCI registry, or a package of npm,
    /// PyPI or crates
    Install(PluginInstallArgs),
    /// Install what the sources of installed plugins have now
    Update(PluginUpdateArgs),
    /// Remove an installed plugin
    Remove(PluginRemoveArgs),
    /// List the folders that are searched for plugins, in order
    SearchPath(SearchPathCommandArgs),
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct PluginListArgs {
    #[command(flatten)]
    pub(in super::super) plugins: PluginArgs,
    /// Print JSON
    #[arg(long)]
    pub(in super::super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct PluginInspectArgs {
    /// Name of a plugin that is installed, or its folder
    #[arg(add = completion::plugin_name_candidates())]
    pub(in super::super) plugin: String,
    /// Show only the permissions: asked for, allowed by its trust, granted, and why
    #[arg(long)]
    pub(in super::super) grants: bool,
    /// Print JSON
    #[arg(long)]
    pub(in super::super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct PluginEnablementArgs {
    /// Name of the plugin
    #[arg(add = completion::plugin_name_candidates())]
    pub(in super::super) plugin: String,
    /// Change this project only; the project's own files stay unchanged.
    #[arg(long)]
    pub(in super::super) project: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct GrantsArgs {
    /// Revoke all answers that were given about this plugin
    #[arg(long, value_name = "PLUGIN", add = completion::plugin_name_candidates())]
    pub(in super::super) revoke: Option<String>,
    /// Trust a project no longer
    #[arg(long, value_name = "DIR", conflicts_with = "revoke")]
    pub(in super::super) distrust: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(in super::super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in super::super) struct PluginBuildArgs {
    /// Folders of plugins, each with `plugin.toml` and `Cargo.toml`, `package.json` or
    /// `pyproject.toml`
    #[arg(required = true, value_name = "DIR")]
    pub(in super::super) dirs: Vec<PathBuf>,
    /// Assemble each plugin in `OUT/NAME`, ready to be copied elsewhere, instead of writing into
    /// its own folder
    #[arg(long, value_name = "OUT")]
    pub(in super::super) out: Option<PathBuf>,
}
