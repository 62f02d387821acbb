//! Installation of skills: reading their sources, selecting the files that belong to a skill, and
//! moving them into the directory of skills.
//!
//! Nothing in a source is ever executed, and nothing is written while it is read: of a repository
//! only the objects are read, never its settings, hooks and filters. This module must not know the
//! terminal. Start from [`fetch_skills`], [`find_candidates`] and [`SkillStore`].

mod git;
mod installed;
mod pick;
mod store;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::fs::OFlags;

use super::archive;
use super::contents::{MAX_BYTES, open_file, read_open};
use super::source::{PluginSource, how_to_sign, signature_beside};
pub use installed::{unverified_skills, verify_skills};
pub use pick::{CandidateBundle, SkillCandidate, find_candidates, pick_bundle};
pub use store::{LockedSkill, SkillChange, SkillPlace, SkillStore, names_in_use};
use tree::{SourceTree, hidden_folder};

/// Magic number of zip files.
const ZIP: &[u8] = b"PK\x03\x04";

/// Source of skills whose files were listed.
#[derive(Debug)]
pub struct FetchedSkills {
    pub tree: SourceTree,
    pub source: PluginSource,
    /// Commit that the files of a repository are from.
    pub commit: Option<String>,
    pub bytes: Option<Vec<u8>>,
    /// Path as typed, possibly a symlink.
    typed: PathBuf,
}

impl FetchedSkills {
    /// Returns advice on how to sign the source, for a message.
    pub fn how_to_sign(&self) -> String {
        how_to_sign(Path::new(&self.source.to_string()))
    }

    /// Reads the signature of an archive. Returns it with its location: next to the typed path, or
    /// next to the symlink's target.
    pub fn signature(&self) -> anyhow::Result<(Option<String>, String)> {
        match &self.source {
            PluginSource::Path(path) => match signature_beside(&self.typed)? {
                (None, _) => signature_beside(path),
                found => Ok(found),
            },
            PluginSource::Registry(_) | PluginSource::Package(_) => {
                bail!("registries have no skills")
            }
        }
    }
}

/// Lists the files of a source: a directory, an archive, or the committed files of a repository.
pub async fn fetch_skills(typed: &Path, rev: Option<&str>) -> anyhow::Result<FetchedSkills> {
    // Canonicalize, so that a source has one name regardless of the typed path.
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
    let of = |tree, commit, bytes| FetchedSkills {
        tree,
        source: source.clone(),
        commit,
        bytes,
        typed: typed.to_owned(),
    };
    if found.is_dir()
        && let Some(repository) = git::GitRepository::open_at(path)?
    {
        let (tree, commit) = git::list_repository(repository, rev, name).await?;
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
        return Ok(of(SourceTree::folder_tree(path, name)?, None, None));
    }
    let file = open_file(path, OFlags::empty()).with_context(|| format!("cannot read {shown}"))?;
    let bytes = read_open(file, path, MAX_BYTES)?;
    if bytes.starts_with(ZIP) {
        bail!(
            "{shown} is a zip file, which is not supported; unpack it, review it, and install the folder"
        );
    }
    if !archive::is_archive(&bytes) {
        bail!(
            "{shown} is not a source of skills: use a folder, a git repository, or a `.tar.gz` or `.tar` archive"
        );
    }
    let entries = archive::read_entries(&bytes, hidden_folder)
        .with_context(|| format!("cannot read {shown}"))?;
    Ok(of(
        SourceTree::memory_tree(entries, &name),
        None,
        Some(bytes),
    ))
}
