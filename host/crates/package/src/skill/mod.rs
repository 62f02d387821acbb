//! Installation of skills: reading their sources, selecting the files that belong to a skill, and
//! moving them into the directory of skills.
//!
//! Nothing in a source is ever executed, and nothing is written while it is read: of a repository
//! only the objects are read, never its settings, hooks and filters. This module must not know the
//! terminal. Start from [`fetch`], [`candidates`] and [`SkillStore`].

mod git;
mod installed;
mod pick;
mod store;
mod tree;

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::fs::OFlags;

use super::archive;
use super::contents::{MAX_BYTES, open, read_open};
use super::source::{Source, signature_beside};
pub use installed::{unverified, verify};
pub use pick::{Bundle, Candidate, bundle, candidates};
pub use store::{Change, LockedSkill, Place, SkillStore, taken};
use tree::{Tree, hides};

/// Magic number of zip files.
const ZIP: &[u8] = b"PK\x03\x04";

/// Source of skills whose files were listed.
#[derive(Debug)]
pub struct Fetched {
    pub tree: Tree,
    pub source: Source,
    /// Commit that the files of a repository are from.
    pub commit: Option<String>,
    pub bytes: Option<Vec<u8>>,
    /// Path as typed, possibly a symlink.
    typed: PathBuf,
}

impl Fetched {
    /// Reads the signature of an archive. Returns it with its location: next to the typed path, or
    /// next to the symlink's target.
    pub fn signature(&self) -> anyhow::Result<(Option<String>, String)> {
        match &self.source {
            Source::Path(path) => match signature_beside(&self.typed)? {
                (None, _) => signature_beside(path),
                found => Ok(found),
            },
            Source::Registry(_) => bail!("skills are not in registries"),
        }
    }
}

/// Lists the files of a source: a directory, an archive, or the committed files of a repository.
pub async fn fetch(typed: &Path, rev: Option<&str>) -> anyhow::Result<Fetched> {
    // Canonicalize, so that a source has one name regardless of the typed path.
    let real = typed.canonicalize();
    let source = Source::new(real.as_deref().unwrap_or(typed))?;
    let Source::Path(path) = &source else {
        bail!("skills are not in registries: {source} may be a plugin, for `rind plugin install`");
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
    let of = |tree, commit, bytes| Fetched {
        tree,
        source: source.clone(),
        commit,
        bytes,
        typed: typed.to_owned(),
    };
    if found.is_dir()
        && let Some(repository) = git::Repository::at(path)?
    {
        let (tree, commit) = git::list(repository, rev, name).await?;
        return Ok(of(tree, Some(commit), None));
    }
    ensure!(
        found.is_dir() || found.is_file(),
        "{shown} is neither a file nor a folder"
    );
    ensure!(
        rev.is_none(),
        "{shown} is no git repository, so that --rev means nothing"
    );
    if found.is_dir() {
        return Ok(of(Tree::folder(path, name)?, None, None));
    }
    let file = open(path, OFlags::empty()).with_context(|| format!("cannot read {shown}"))?;
    let bytes = read_open(file, path, MAX_BYTES)?;
    if bytes.starts_with(ZIP) {
        bail!(
            "{shown} is a zip file, which is not read; unpack it, look at it, and install the folder"
        );
    }
    if !archive::is_archive(&bytes) {
        bail!(
            "{shown} is no source of skills: those are folders, git repositories, and `.tar.gz` and `.tar` archives"
        );
    }
    let entries =
        archive::entries(&bytes, hides).with_context(|| format!("cannot read {shown}"))?;
    Ok(of(Tree::memory(entries, &name), None, Some(bytes)))
}
