//! Stores derived skills on disk: reads the current bundle of a skill, and replaces it atomically.

use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};

use super::super::super::exit_code::bail_usage;
use rind_derive::SkillBundle;
use rind_lib::disk::exchange_folders;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::skill::SKILL_FILE_NAME;
use rind_package::place;

/// Refuses to write a bundle over the source or over a folder that contains the source. A folder
/// inside the source is allowed, because the author may ship skills there and nothing in it is read
/// as source.
pub(super) fn refuse_overlap_with_source(folder: &Path, source: &Path) -> anyhow::Result<()> {
    let own = source
        .canonicalize()
        .with_context(|| format!("cannot read the metadata of {}", source.display()))?;
    let place = canonicalize_existing_prefix(folder)?;
    if own.starts_with(&place) {
        bail_usage!(
            "{} is, or contains, the source {}, and a skill never replaces its source: choose another folder with --into",
            folder.display(),
            source.display()
        );
    }
    Ok(())
}

/// Returns the path with symlinks resolved, even if its last parts do not exist yet.
fn canonicalize_existing_prefix(path: &Path) -> anyhow::Result<PathBuf> {
    let path = std::path::absolute(path)
        .with_context(|| format!("cannot read the metadata of {}", path.display()))?;
    for above in path.ancestors() {
        let Ok(known) = above.canonicalize() else {
            continue;
        };
        let rest = path.strip_prefix(above).unwrap_or(Path::new(""));
        if rest
            .components()
            .all(|part| matches!(part, Component::Normal(_)))
        {
            return Ok(known.join(rest));
        }
        break;
    }
    bail_usage!("a parent folder of {} does not exist", path.display())
}

/// Reads the bundle in a folder; `None` if the path does not exist. Fails for a symlink and for a
/// folder without a skill, which must not be replaced.
pub(super) fn read_existing_bundle(folder: &Path) -> anyhow::Result<Option<SkillBundle>> {
    let found = match folder.symlink_metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error)
                .with_context(|| format!("cannot read the metadata of {}", folder.display()));
        }
    };
    if !found.is_dir() {
        bail!(
            "{} is a link or a file: move it away, or choose another folder",
            folder.display()
        );
    }
    if !folder.join(SKILL_FILE_NAME).is_file() {
        bail_usage!(
            "{} exists and is not a skill, as it has no {SKILL_FILE_NAME}: choose another folder with --into",
            folder.display()
        );
    }
    let held = InMemoryFolder::read(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?;
    let files = held.into_files().into_iter();
    let files = files.map(|(names, bytes)| {
        (
            names.join("/"),
            String::from_utf8_lossy(&bytes).into_owned(),
        )
    });
    Ok(Some(SkillBundle(files.collect())))
}

/// Writes a bundle atomically: to a new folder, or by exchange with the existing bundle `earlier`.
/// If `is_kept`, the old bundle is moved aside and its new path returned.
pub(super) fn write_bundle(
    bundle: &SkillBundle,
    folder: &Path,
    earlier: Option<&SkillBundle>,
    is_kept: bool,
) -> anyhow::Result<Option<PathBuf>> {
    let above = folder.parent().unwrap_or(Path::new("."));
    let doing = || format!("cannot write {}", folder.display());
    fs::create_dir_all(above).with_context(doing)?;
    let private = tempfile::Builder::new()
        .prefix(".derive-")
        .tempdir_in(above)
        .with_context(doing)?;
    // Give the temporary folder the final base name: `move_to_backup_folder` uses it for the
    // old bundle.
    let fresh = private.path().join(folder.file_name().unwrap_or_default());
    for (path, text) in &bundle.0 {
        let file = fresh.join(path);
        fs::create_dir_all(file.parent().unwrap_or(&fresh))
            .and_then(|()| fs::write(&file, text))
            .with_context(doing)?;
    }
    let Some(earlier) = earlier else {
        fs::rename(&fresh, folder).with_context(doing)?;
        return Ok(None);
    };
    exchange_folders(&fresh, folder).with_context(doing)?;
    // The exchange moved the old bundle to `fresh`. Compare it with what was read earlier, so that
    // an edit made since then is not lost.
    if read_existing_bundle(&fresh).ok().flatten().as_ref() != Some(earlier) {
        exchange_folders(&fresh, folder).with_context(doing)?;
        bail!(
            "{} was changed meanwhile, so it was not replaced; run the command again",
            folder.display()
        );
    }
    if !is_kept {
        return Ok(None);
    }
    match place::move_to_backup_folder(&fresh, above) {
        Ok(kept) => Ok(Some(kept)),
        Err(error) => {
            exchange_folders(&fresh, folder).with_context(doing)?;
            Err(error)
        }
    }
}
