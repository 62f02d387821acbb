//! Installs skills: reads their sources, selects the files that belong to a skill, and moves them
//! into the directory of skills.
//!
//! Nothing in a source is ever executed, and reading a source writes nothing to it. Of a git
//! repository only objects and refs are read, never its settings, hooks and filters. This module
//! does not use the terminal. Start from [`fetch_skill_source`], [`find_skill_candidates`] and
//! [`InstalledSkillStore`].

mod git;
mod installed;
mod pick;
mod store;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::fs::OFlags;

use super::archive;
use super::contents::{MAX_PACKAGE_SOURCE_BYTES, open_file_with_flags, read_open_file_with_limit};
use super::source::{PluginSource, read_signature_file, signing_advice};
pub use installed::{list_skills_as_unverified, verify_installed_skills};
pub use pick::{SkillCandidate, SkillCandidateFiles, find_skill_candidates, read_skill_bundle};
pub use store::{
    InstalledSkillStore, SkillInstallResult, SkillLockFileEntry, SkillNameState, skill_names_in_use,
};
use tree::{SkillSourceTree, skipped_path_prefix_len};

/// Magic bytes at the beginning of a zip file.
const ZIP_MAGIC_BYTES: &[u8] = b"PK\x03\x04";

/// Source of skills that was read: a list of its files and where they come from.
#[derive(Debug)]
pub struct FetchedSkillSource {
    pub tree: SkillSourceTree,
    pub source: PluginSource,
    /// Commit from which the files are read; `None` if the source is not a git repository.
    pub commit: Option<String>,
    pub bytes: Option<Vec<u8>>,
    /// Path of the source as the user typed it, possibly a symlink.
    typed: PathBuf,
}

impl FetchedSkillSource {
    /// Returns advice on how to sign the source, for a message.
    pub fn signing_advice(&self) -> String {
        signing_advice(Path::new(&self.source.to_string()))
    }

    /// Reads the signature file of an archive, which is next to the path that the user typed or, if
    /// that is a symlink, next to its target. Returns the signature, if there is one, and its
    /// location.
    pub fn read_signature(&self) -> anyhow::Result<(Option<String>, String)> {
        match &self.source {
            PluginSource::Path(path) => match read_signature_file(&self.typed)? {
                (None, _) => read_signature_file(path),
                found => Ok(found),
            },
            PluginSource::Registry(_) | PluginSource::Package(_) => {
                bail!("registries have no skills")
            }
        }
    }
}

/// Lists the files of a source: of a directory, of an archive, or of a commit of a git repository,
/// which `rev` names.
pub async fn fetch_skill_source(
    typed: &Path,
    rev: Option<&str>,
) -> anyhow::Result<FetchedSkillSource> {
    // Canonicalize the path, so that a source always has the same name in the lock file.
    let real = typed.canonicalize();
    let source = PluginSource::new(real.as_deref().unwrap_or(typed))?;
    let PluginSource::Path(path) = &source else {
        bail!("registries have no skills: {source} may be a plugin, for `rind plugin install`");
    };
    let shown = path.display();
    let found = path.metadata().with_context(|| {
        let hint = match typed.to_string_lossy().contains(":/") {
            true => "; a source is a folder, archive or repository on this machine: download or clone it first",
            false => "",
        };
        format!("cannot read {shown}{hint}")
    })?;
    let name = path.file_name();
    let name = name.unwrap_or_default().to_string_lossy().into_owned();
    let of = |tree, commit, bytes| FetchedSkillSource {
        tree,
        source: source.clone(),
        commit,
        bytes,
        typed: typed.to_owned(),
    };
    if found.is_dir()
        && let Some(repository) = git::GitRepository::open_at(path)?
    {
        let (tree, commit) = git::list_revision_files(repository, rev, name).await?;
        return Ok(of(tree, Some(commit), None));
    }
    ensure!(
        found.is_dir() || found.is_file(),
        "{shown} is neither a file nor a folder"
    );
    ensure!(
        rev.is_none(),
        "{shown} is not a git repository, so --rev cannot be used"
    );
    if found.is_dir() {
        return Ok(of(
            SkillSourceTree::read_folder_tree(path, name)?,
            None,
            None,
        ));
    }
    let file = open_file_with_flags(path, OFlags::empty())
        .with_context(|| format!("cannot read {shown}"))?;
    let bytes = read_open_file_with_limit(file, path, MAX_PACKAGE_SOURCE_BYTES)?;
    if bytes.starts_with(ZIP_MAGIC_BYTES) {
        bail!(
            "{shown} is a zip file, which is not supported; unpack it, review it, and install the folder"
        );
    }
    if !archive::is_archive(&bytes) {
        bail!(
            "{shown} is not a source of skills: use a folder, a git repository, or a `.tar.gz` or `.tar` archive"
        );
    }
    let entries = archive::read_archive_entries(&bytes, skipped_path_prefix_len)
        .with_context(|| format!("cannot read {shown}"))?;
    Ok(of(
        SkillSourceTree::from_archive_entries(entries, &name),
        None,
        Some(bytes),
    ))
}
