//! `rind plugin pack`, `publish`, `install`, `update`, `remove` and `search-path`.

pub(super) mod args;
mod credentials;
mod data;
mod installation;
mod wider;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};

use super::args::PluginArgs;
use super::environment::{find_rind_paths, process_environment};
use super::exit_code::{ExitStatus, Usage};
use super::terminal::can_ask_at_terminal;
use super::{alone, carried, render};
use args::{
    PackArgs, PluginInstallArgs, PluginRemoveArgs, PluginUpdateArgs, PublishArgs,
    SearchPathCommandArgs,
};
use installation::{ExclusivelyLockedPluginInstallation, PluginInstallRequest};
use rind_lib::grant::Trust;
use rind_lib::grant::ask::GrantOptions;
use rind_operator::project;
use rind_package::bundle::{BundledPackageFile, PackageBuildOptions, PluginToBundle, make_bundle};
use rind_package::ecosystem::PackageKind;
use rind_package::registry::PluginRegistryClient;
use rind_package::source::{self, FetchedPlugin, PluginSource};
use rind_package::{pack as packing, place};

pub(super) use data::PluginDataMoveOnInstall;
pub(super) use installation::{
    PluginInstallChangeKind, PluginInstallOutcome, PluginRemovalOutcome,
};

pub(super) async fn run_pack(args: PackArgs) -> anyhow::Result<ExitStatus> {
    let options = args.package.to_package_build_options();
    let fetched = read_plugin_to_pack(&args.folder, options.is_some())?;
    let contents = &fetched.contents;
    let name = &contents.manifest.name;
    // Check the plugin from a copy of exactly the bytes that are packed.
    let checked = tempfile::tempdir().context("cannot make a temporary folder")?;
    let staged = place::stage_files(contents.files(), name, checked.path())?;
    let set = alone::load_single_plugin_with_grants(
        &staged.folder,
        Trust::Managed,
        GrantOptions::default(),
    )
    .await?;
    if let Some(why) = alone::find_plugin_load_failure(&set, name) {
        let why = staged.replace_staging_path_in_message(&why, &args.folder);
        bail!("{name} is not packed, because it cannot be loaded: {why}");
    }
    for plugin in set
        .plugins
        .iter()
        .filter(|plugin| !plugin.is_component_used())
    {
        let name = &plugin.manifest.name;
        render::print_warning(&format!(
            "{name}: {}",
            render::plugins::NO_USABLE_EXPORT_NOTE
        ));
    }
    let (bytes, file_name) = match &options {
        Some(options) => {
            let bundle = build_package(&fetched, options)?;
            (bundle.bytes, bundle.file_name)
        }
        None => {
            let version = &contents.manifest.version;
            let bytes = packing::pack_plugin(contents)?;
            (bytes, format!("{name}-{version}.wasm"))
        }
    };
    let out = args.out.unwrap_or_else(|| file_name.clone().into());
    if let Some(options) = &options {
        check_wheel_name(&out, &file_name, options)?;
    }
    write_file_atomically(&out, &bytes)
        .with_context(|| format!("cannot write {}", out.display()))?;
    render::install::show_packed_plugin(contents, &out, bytes.len() as u64);
    if let Some(options) = &options {
        render::install::print_publish_instructions(options.kind, &out);
    }
    Ok(ExitStatus::Done)
}

/// Reads the plugin to pack from a folder or, if it is packed for a package registry, from a folder
/// or a packed file.
fn read_plugin_to_pack(path: &Path, is_for_package: bool) -> anyhow::Result<FetchedPlugin> {
    if path.is_dir() {
        return source::read_local_plugin(path);
    }
    let shown = path.display();
    if !is_for_package || !path.exists() {
        return Err(Usage(format!("{shown} is not a folder")).into());
    }
    let fetched = source::read_local_plugin(path)?;
    let bytes = fetched.bytes.as_deref();
    if !bytes.is_some_and(packing::is_wasm_binary) {
        let why =
            format!("{shown} is neither a folder nor a `.wasm` file that `rind plugin pack` wrote");
        return Err(Usage(why).into());
    }
    Ok(fetched)
}

/// Builds a package. An already packed plugin is included byte for byte, so that its signature
/// stays valid.
fn build_package(
    fetched: &FetchedPlugin,
    options: &PackageBuildOptions,
) -> anyhow::Result<BundledPackageFile> {
    let (packed, signature) = match &fetched.bytes {
        Some(bytes) => (bytes.clone(), fetched.read_signature()?.0),
        None => (packing::pack_plugin(&fetched.contents)?, None),
    };
    let source = PluginToBundle {
        contents: &fetched.contents,
        packed,
        signature,
    };
    make_bundle(source, options)
}

/// Refuses a different file name for a wheel, because pip reads name, version and tags from it.
fn check_wheel_name(
    out: &Path,
    file_name: &str,
    options: &PackageBuildOptions,
) -> anyhow::Result<()> {
    let is_named = out.file_name().is_some_and(|name| name == file_name);
    if options.kind == PackageKind::Pypi && !is_named {
        let why = format!("a wheel must be named {file_name}: --out must end with this name");
        return Err(Usage(why).into());
    }
    Ok(())
}

pub(super) async fn run_publish(args: PublishArgs) -> anyhow::Result<ExitStatus> {
    let PluginSource::Registry(reference) = PluginSource::new(Path::new(&args.target))? else {
        return Err(Usage(format!("{} does not begin with oci://", args.target)).into());
    };
    if reference.digest.is_some() {
        return Err(Usage(
            "publish to a tag, or name no tag to use the version, but not to a digest".to_owned(),
        )
        .into());
    }
    let fetched = source::read_local_plugin(&args.file)?;
    let Some(bytes) = fetched
        .bytes
        .clone()
        .filter(|bytes| packing::is_wasm_binary(bytes))
    else {
        let file = args.file.display();
        return Err(Usage(format!(
            "{file} is not a packed plugin; run `rind plugin pack` first"
        ))
        .into());
    };
    let (signature, _) = fetched.read_signature()?;
    let manifest = &fetched.contents.manifest;
    let mut registry =
        PluginRegistryClient::new(&reference, credentials::registry_credentials_lookup())?;
    let published = registry
        .publish_plugin(manifest, bytes, signature.clone())
        .await;
    let published = published
        .with_context(|| format!("{} is not published", fetched.contents.name_and_version()))?;
    render::install::show_published_plugin(&fetched.contents, &published, signature.is_some());
    Ok(ExitStatus::Done)
}

/// Writes a file atomically with mode 0644.
fn write_file_atomically(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".pack-")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

pub(super) async fn run_plugin_install(args: PluginInstallArgs) -> anyhow::Result<ExitStatus> {
    let mut installation = ExclusivelyLockedPluginInstallation::open_with_exclusive_lock()?;
    let source = PluginSource::new(&args.source)?;
    let wanted = PluginInstallRequest {
        source: &source,
        name: None,
        may_change_source: args.change_source,
        wider: &args.wider,
        has_terminal: can_ask_at_terminal(),
    };
    let outcome = installation.install_plugin(&wanted).await?;
    render::install::show_installed_plugin(&outcome);
    warn_about_tool_collisions(&outcome.name).await;
    Ok(ExitStatus::Done)
}

/// Warns if another plugin has a tool with the same name as a tool of this plugin, because a
/// session offers only one of them. Ignores errors in loading the plugins; commands that need the
/// plugins report them.
async fn warn_about_tool_collisions(name: &str) {
    let Ok(plugins) = super::plugin::load_session_plugins(&PluginArgs::default()).await else {
        return;
    };
    let collisions = plugins.find_tool_collisions();
    let own = collisions.iter().filter(|one| one.involves_plugin(name));
    own.for_each(|collision| render::print_warning(&collision.to_string()));
}

pub(super) async fn run_update(args: PluginUpdateArgs) -> anyhow::Result<ExitStatus> {
    let mut installation = ExclusivelyLockedPluginInstallation::open_with_exclusive_lock()?;
    let installed = installation.installed_plugin_sources();
    let chosen: Vec<_> = match &args.plugin {
        None => installed,
        Some(name) => {
            let chosen = installed.into_iter().filter(|(found, _)| found == name);
            let chosen: Vec<_> = chosen.collect();
            if chosen.is_empty() {
                return Err(Usage(installation.unknown_plugin_error(name)).into());
            }
            chosen
        }
    };
    if chosen.is_empty() {
        render::print_note("no plugins are installed; see `rind plugin install --help`");
    }
    let mut exit = ExitStatus::Done;
    for (name, source) in chosen {
        let wanted = PluginInstallRequest {
            source: &source,
            name: Some(&name),
            may_change_source: false,
            wider: &args.wider,
            has_terminal: can_ask_at_terminal(),
        };
        match installation.install_plugin(&wanted).await {
            Ok(outcome) => render::install::show_installed_plugin(&outcome),
            Err(error) => {
                // Continue with the other plugins after a failed update.
                render::install::print_update_failure(&name, &error);
                exit = ExitStatus::Failed;
            }
        }
    }
    Ok(exit)
}

pub(super) fn run_remove(args: &PluginRemoveArgs) -> anyhow::Result<ExitStatus> {
    let mut installation = ExclusivelyLockedPluginInstallation::open_with_exclusive_lock()?;
    let removed = installation.remove_plugin(&args.plugin)?;
    render::install::show_removed_plugin(&removed);
    Ok(ExitStatus::Done)
}

pub(super) fn run_search_path_command(args: &SearchPathCommandArgs) -> anyhow::Result<ExitStatus> {
    let paths = find_rind_paths(None)?;
    let mut places: Vec<_> = process_environment()
        .list_bundled_plugin_folders()?
        .into_iter()
        .map(|path| (Trust::Managed, path))
        .collect();
    places.push((Trust::User, installation::plugins_folder(&paths)));
    places.push((
        Trust::Project,
        project::project_plugin_search_path(&paths).path,
    ));
    render::install::print_plugin_search_folders(
        &places,
        &carried::core_plugins_folder(),
        args.json,
    )?;
    Ok(ExitStatus::Done)
}
