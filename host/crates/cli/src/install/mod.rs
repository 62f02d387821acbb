//! `rind plugin pack`, `install`, `update`, `remove` and `search-path`.

pub(super) mod args;
mod credentials;
mod data;
mod installation;
mod wider;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};

use super::args::PluginArgs;
use super::environment::{environment, paths};
use super::exit_code::{ExitStatus, Usage};
use super::terminal::can_ask;
use super::{alone, carried, render};
use args::{InstallArgs, PackArgs, PublishArgs, RemoveArgs, SearchPathArgs, UpdateArgs};
use installation::{Installation, Wanted};
use rind_lib::grant::Trust;
use rind_operator::project;
use rind_package::registry::Registry;
use rind_package::source::{self, Source};
use rind_package::{pack as packing, place};

pub(super) use data::StoredData;
pub(super) use installation::{Change, Outcome, Removed};

pub(super) async fn pack(args: PackArgs) -> anyhow::Result<ExitStatus> {
    if !args.folder.is_dir() {
        return Err(Usage(format!("{} is not a folder", args.folder.display())).into());
    }
    let fetched = source::read(&args.folder)?;
    let contents = &fetched.contents;
    let name = &contents.manifest.name;
    // Check the same bytes that are packed.
    let checked = tempfile::tempdir().context("make a temporary folder")?;
    let staged = place::stage(contents.files(), name, checked.path())?;
    let set = alone::load(&staged.folder).await?;
    if let Some(why) = alone::refusal(&set, name) {
        let why = staged.in_words_of(&why, &args.folder);
        bail!("{name} is not packed, because it cannot be loaded: {why}");
    }
    for plugin in set.plugins.iter().filter(|plugin| !plugin.is_called()) {
        let name = &plugin.manifest.name;
        render::warn(&format!("{name}: {}", render::plugins::NEVER_CALLED));
    }
    let bytes = packing::pack(contents)?;
    let version = &contents.manifest.version;
    let out = args
        .out
        .unwrap_or_else(|| format!("{name}-{version}.wasm").into());
    write(&out, &bytes).with_context(|| format!("cannot write {}", out.display()))?;
    render::install::packed(contents, &out, bytes.len() as u64);
    Ok(ExitStatus::Done)
}

pub(super) async fn publish(args: PublishArgs) -> anyhow::Result<ExitStatus> {
    let Source::Registry(reference) = Source::new(Path::new(&args.target))? else {
        return Err(Usage(format!("{} does not begin with oci://", args.target)).into());
    };
    if reference.digest.is_some() {
        return Err(Usage(
            "publish to a tag, or to none for the version; not to a digest".to_owned(),
        )
        .into());
    }
    let fetched = source::read(&args.file)?;
    let Some(bytes) = fetched
        .bytes
        .clone()
        .filter(|bytes| packing::is_packed(bytes))
    else {
        let file = args.file.display();
        return Err(Usage(format!(
            "{file} is not packed; run `rind plugin pack` first"
        ))
        .into());
    };
    let (signature, _) = fetched.signature()?;
    let manifest = &fetched.contents.manifest;
    let mut registry = Registry::new(&reference, credentials::find())?;
    let published = registry.push(manifest, bytes, signature.clone()).await;
    let published =
        published.with_context(|| format!("{} is not published", fetched.contents.title()))?;
    render::install::published(&fetched.contents, &published, signature.is_some());
    Ok(ExitStatus::Done)
}

/// Writes a file atomically, readable for all users.
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
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

pub(super) async fn install(args: InstallArgs) -> anyhow::Result<ExitStatus> {
    let mut installation = Installation::open()?;
    let source = Source::new(&args.source)?;
    let wanted = Wanted {
        source: &source,
        name: None,
        may_change_source: args.change_source,
        wider: &args.wider,
        has_terminal: can_ask(),
    };
    let outcome = installation.install(&wanted).await?;
    render::install::installed(&outcome);
    warn_of_collisions(&outcome.name).await;
    Ok(ExitStatus::Done)
}

/// Warns of tools of a plugin whose names other plugins use: a session offers only one of each
/// name. Errors in loading the plugins are left to the commands that need them.
async fn warn_of_collisions(name: &str) {
    let Ok(plugins) = super::plugin::load(&PluginArgs::default()).await else {
        return;
    };
    let collisions = plugins.tool_collisions();
    let own = collisions.iter().filter(|one| one.is_about(name));
    own.for_each(|collision| render::warn(&collision.to_string()));
}

pub(super) async fn update(args: UpdateArgs) -> anyhow::Result<ExitStatus> {
    let mut installation = Installation::open()?;
    let installed = installation.sources();
    let chosen: Vec<_> = match &args.plugin {
        None => installed,
        Some(name) => {
            let chosen = installed.into_iter().filter(|(found, _)| found == name);
            let chosen: Vec<_> = chosen.collect();
            if chosen.is_empty() {
                return Err(Usage(installation.unknown(name)).into());
            }
            chosen
        }
    };
    if chosen.is_empty() {
        render::note("no plugins are installed; see `rind plugin install --help`");
    }
    let mut exit = ExitStatus::Done;
    for (name, source) in chosen {
        let wanted = Wanted {
            source: &source,
            name: Some(&name),
            may_change_source: false,
            wider: &args.wider,
            has_terminal: can_ask(),
        };
        match installation.install(&wanted).await {
            Ok(outcome) => render::install::installed(&outcome),
            Err(error) => {
                // A failed update does not stop the others.
                render::install::not_updated(&name, &error);
                exit = ExitStatus::Failed;
            }
        }
    }
    Ok(exit)
}

pub(super) fn remove(args: &RemoveArgs) -> anyhow::Result<ExitStatus> {
    let mut installation = Installation::open()?;
    let removed = installation.remove(&args.plugin)?;
    render::install::removed(&removed);
    Ok(ExitStatus::Done)
}

pub(super) fn search_path(args: &SearchPathArgs) -> anyhow::Result<ExitStatus> {
    let paths = paths(None)?;
    let mut places: Vec<_> = environment()
        .managed_folders()?
        .into_iter()
        .map(|path| (Trust::Managed, path))
        .collect();
    places.push((Trust::User, installation::folder(&paths)));
    places.push((Trust::Project, project::source(&paths).path));
    render::install::search_path(&places, &carried::core(), args.json)?;
    Ok(ExitStatus::Done)
}
