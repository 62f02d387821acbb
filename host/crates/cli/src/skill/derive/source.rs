//! Reads the source of a skill: a plugin, a component, a WIT package or a Rust crate.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};

use super::super::super::exit_code::bail_usage;
use super::super::super::{alone, render};
use super::outline;
use rind_cases::CaseFile;
use rind_derive::plugin::PluginPackage;
use rind_derive::sources::{self, CARGO_MANIFEST_FILE_NAME};
use rind_derive::{BundleSourceHasher, SkillDeriveJob, SkillDraft};
use rind_lib::grant::Trust;
use rind_lib::grant::ask::GrantOptions;
use rind_lib::paths::{file_name, file_stem};
use rind_lib::plugin::contract::stamp;
use rind_lib::plugin::load::{FoundPluginSet, PluginSkipReason, PluginWithPermissionDecision};
use rind_lib::plugin::manifest::{FILE_NAME, Manifest};
use rind_lib::plugin::surface::ComponentImportsAndExports;
use rind_lib::plugin::{Error, protected};
use rind_lib::skill;
use rind_package::place::stage_files;
use rind_package::source::{self as package, FetchedPlugin};

/// Maximum size of a component that is not a plugin, in bytes.
const MAX_STANDALONE_COMPONENT_BYTES: u64 = 64 << 20;

/// Maximum size of a file of test cases, in bytes.
const MAX_TEST_CASES_FILE_BYTES: u64 = 1 << 20;

/// Maximum size of a plugin's README, in bytes.
const MAX_README_BYTES: usize = 1 << 20;

/// Kind of a source, with the folder or file that it is read from.
enum SkillDeriveSource {
    Plugin(PathBuf),
    Component(PathBuf),
    Wit(PathBuf),
    Crate(PathBuf),
}

/// Drafts a skill about the plugin, package or crate in this folder or file.
pub(super) async fn draft_skill_from_source(path: &Path) -> anyhow::Result<SkillDraft> {
    let doing = || format!("cannot derive a skill from {}", path.display());
    let (job, hash) = match detect_source_kind(path)? {
        SkillDeriveSource::Plugin(path) => build_plugin_derive_job(&path).await,
        SkillDeriveSource::Component(path) => build_component_derive_job(&path),
        SkillDeriveSource::Wit(path) => build_wit_derive_job(&path),
        SkillDeriveSource::Crate(path) => build_crate_derive_job(&path),
    }
    .with_context(doing)?;
    let drafted = outline::run_derive_job_in_worker_process(&job)
        .await
        .with_context(doing)?;
    drafted
        .notes
        .iter()
        .for_each(|note| render::print_warning(note));
    Ok(SkillDraft {
        source_hash: hash.digest_text(),
        ..drafted.draft
    })
}

/// Returns the source's folder if `path` is its manifest, otherwise `path` itself.
pub(super) fn folder_of_manifest_or_path_itself(path: &Path) -> PathBuf {
    let is_manifest = path
        .file_name()
        .is_some_and(|name| name == FILE_NAME || name == CARGO_MANIFEST_FILE_NAME);
    let above = path.parent().filter(|_| is_manifest && path.is_file());
    match above {
        Some(above) if above.as_os_str().is_empty() => PathBuf::from("."),
        Some(above) => above.to_owned(),
        None => path.to_owned(),
    }
}

/// Detects the kind of a source: of a file by its name, of a folder by its manifest. Fails for a
/// folder with several manifests, and asks for the file.
fn detect_source_kind(path: &Path) -> anyhow::Result<SkillDeriveSource> {
    let shown = path.display();
    if !path.exists() {
        bail_usage!(
            "{shown} does not exist: name a folder or file of a plugin, a component, a WIT package or a Rust crate"
        );
    }
    let name = file_name(path);
    if path.is_file() {
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        let above = above.unwrap_or(Path::new(".")).to_owned();
        return Ok(match name.as_str() {
            FILE_NAME => SkillDeriveSource::Plugin(above),
            CARGO_MANIFEST_FILE_NAME => SkillDeriveSource::Crate(above),
            name if name.ends_with(".wit") => SkillDeriveSource::Wit(path.to_owned()),
            name if name.ends_with(".wasm") && !contains_plugin_manifest(path) => {
                SkillDeriveSource::Component(path.to_owned())
            }
            _ => SkillDeriveSource::Plugin(path.to_owned()),
        });
    }
    let within = path.join("wit");
    Ok(if path.join(FILE_NAME).is_file() {
        SkillDeriveSource::Plugin(path.to_owned())
    } else if path.join(CARGO_MANIFEST_FILE_NAME).is_file() {
        SkillDeriveSource::Crate(path.to_owned())
    } else if sources::contains_wit_files(path) {
        SkillDeriveSource::Wit(path.to_owned())
    } else if sources::contains_wit_files(&within) {
        SkillDeriveSource::Wit(within)
    } else {
        bail_usage!(
            "no skill can be derived from {shown}: it has no {FILE_NAME} (a plugin), no {CARGO_MANIFEST_FILE_NAME} (a Rust crate) and no file `*.wit`"
        )
    })
}

/// Whether a WebAssembly file contains the manifest of a plugin. A file too large for a component
/// counts as a plugin, so that the plugin loader reports it.
fn contains_plugin_manifest(path: &Path) -> bool {
    let is_small = |found: &std::fs::Metadata| found.len() <= MAX_STANDALONE_COMPONENT_BYTES;
    let bytes = path
        .metadata()
        .ok()
        .filter(is_small)
        .and_then(|_| std::fs::read(path).ok());
    bytes.is_none_or(|bytes| stamp::read_embedded_manifest(&bytes).is_some())
}

/// Reads the test cases of a plugin. They must be regular files, not symlinks.
fn read_plugin_test_cases(folder: &Path) -> anyhow::Result<Vec<CaseFile>> {
    let tests = folder.join("tests");
    let entries = std::fs::read_dir(&tests).into_iter().flatten().flatten();
    for entry in entries {
        let path = entry.path();
        let found = entry.metadata()?;
        let is_case = path.extension().is_some_and(|end| end == "toml");
        if is_case && (!found.is_file() || found.len() > MAX_TEST_CASES_FILE_BYTES) {
            bail!(
                "{} is a link, or has more than {} MiB",
                path.display(),
                MAX_TEST_CASES_FILE_BYTES >> 20
            );
        }
    }
    if tests
        .symlink_metadata()
        .is_ok_and(|found| found.is_symlink())
    {
        return Ok(Vec::new());
    }
    Ok(CaseFile::read_all_in_folder(folder)?)
}

async fn build_plugin_derive_job(
    path: &Path,
) -> anyhow::Result<(SkillDeriveJob, BundleSourceHasher)> {
    let fetched = package::read_local_plugin(path)?;
    let manifest = &fetched.contents.manifest;
    let cases = if path.is_dir() {
        read_plugin_test_cases(path)?
    } else {
        Vec::new()
    };
    let mut hash = BundleSourceHasher::new("plugin");
    hash.add_source("contents", fetched.contents.digest().as_bytes());
    for file in &cases {
        let name = file_name(&file.path);
        hash.add_source(&name, &std::fs::read(&file.path)?);
    }
    let private = tempfile::tempdir().context("cannot make a temporary folder")?;
    let staged = stage_files(fetched.contents.files(), &manifest.name, private.path())?;
    let readme = std::fs::read(staged.folder.join("README.md")).unwrap_or_default();
    let readme = String::from_utf8(readme)
        .ok()
        .filter(|text| text.len() <= MAX_README_BYTES);
    let set = load_plugin_to_list_tools(&staged.folder, &fetched).await?;
    let loaded = find_plugin_ignoring_permissions(&set);
    let loaded = loaded.map_err(|why| {
        anyhow!(staged.replace_staging_path_in_message(&format!("{why:#}"), path))
    })?;
    let skills = list_folders(&staged.folder.join(skill::SKILLS_FOLDER_NAME));
    let package = PluginPackage::new(manifest, loaded, readme, &cases, skills);
    Ok((SkillDeriveJob::Plugin(Box::new(package)), hash))
}

fn list_folders(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.path().join(skill::SKILL_FILE_NAME).is_file());
    let mut names: Vec<String> = folders
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// Loads the plugin from a private folder in the sandbox, without a session and without grants, to
/// list its tools. If only the operator's part is missing, such as required settings or other
/// plugins, loads it again without these requirements.
async fn load_plugin_to_list_tools(
    folder: &Path,
    fetched: &FetchedPlugin,
) -> anyhow::Result<FoundPluginSet> {
    let manifest = &fetched.contents.manifest;
    // The names of bundled plugins may be used only with managed trust. Granting it is safe,
    // because the plugin is only listed and not run afterwards.
    let trust = match protected::is_protected_plugin(&manifest.name) {
        true => Trust::Managed,
        false => Trust::Local,
    };
    let set = alone::load_single_plugin_with_grants(folder, trust, GrantOptions::default()).await?;
    let needs_operator_action = |why: &PluginSkipReason| matches!(why, PluginSkipReason::Failed(error) if error.needs_operator_action(&manifest.name));
    if !set
        .left_out
        .iter()
        .any(|left| needs_operator_action(&left.why))
    {
        return Ok(set);
    }
    let bare = Manifest {
        config: None,
        dependencies: Default::default(),
        implements: Default::default(),
        ..manifest.clone()
    };
    let text = toml::to_string(&bare)
        .context("cannot convert the manifest of the plugin's temporary copy to TOML")?;
    std::fs::write(folder.join(FILE_NAME), text)
        .context("cannot write the manifest of the plugin's temporary copy")?;
    alone::load_single_plugin_with_grants(folder, trust, GrantOptions::default()).await
}

/// Returns the plugin that `set` loaded, or the plugin that it left out only because permissions
/// are missing.
fn find_plugin_ignoring_permissions(
    set: &FoundPluginSet,
) -> anyhow::Result<&PluginWithPermissionDecision> {
    if let Some(plugin) = set.plugins.first() {
        return Ok(plugin);
    }
    match set.left_out.first().map(|left| &left.why) {
        Some(
            PluginSkipReason::Held(plugin) | PluginSkipReason::Failed(Error::Denied { plugin, .. }),
        ) => Ok(plugin),
        Some(why) => bail!("the plugin cannot be loaded: {why}"),
        None => bail!("no plugin was loaded from the folder"),
    }
}

fn build_component_derive_job(path: &Path) -> anyhow::Result<(SkillDeriveJob, BundleSourceHasher)> {
    let size = path
        .metadata()
        .context("cannot read the size of the file")?
        .len();
    if size > MAX_STANDALONE_COMPONENT_BYTES {
        bail!(
            "the component has more than {} MiB",
            MAX_STANDALONE_COMPONENT_BYTES >> 20
        );
    }
    let bytes = std::fs::read(path).context("cannot read the component")?;
    // `ComponentImportsAndExports::read_component_surface` rejects a core module before other code
    // parses the bytes.
    let surface = ComponentImportsAndExports::read_component_surface(path, &bytes)?;
    if surface.contract_exports().next().is_some() {
        bail!(
            "the component is a plugin without its manifest: name the folder that has its \
             {FILE_NAME}"
        );
    }
    let mut hash = BundleSourceHasher::new("component");
    hash.add_source("component", &bytes);
    let name = file_stem(path);
    Ok((SkillDeriveJob::from_component(name, &bytes), hash))
}

fn build_wit_derive_job(path: &Path) -> anyhow::Result<(SkillDeriveJob, BundleSourceHasher)> {
    let source = sources::read_wit_package(path)?;
    if source.files.main.is_empty() {
        bail_usage!("{} has no file `*.wit`", path.display());
    }
    Ok((
        SkillDeriveJob::Wit(source.files, source.readme),
        source.hash,
    ))
}

fn build_crate_derive_job(path: &Path) -> anyhow::Result<(SkillDeriveJob, BundleSourceHasher)> {
    let source = sources::read_crate(path)?;
    let job = SkillDeriveJob::Crate(Box::new(source.package), source.files);
    Ok((job, source.hash))
}
