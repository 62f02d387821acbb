//! Reads the files of a git repository directly, to find its object directory and the object that a
//! revision refers to.
//!
//! Only plain files such as `HEAD`, refs and packed refs are read. Repositories that use the
//! objects of another repository (`alternates`) are refused.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use rustix::fs::OFlags;

use super::super::super::contents::{open_file_with_flags, read_open_file_with_limit};
use rind_lib::git::is_git_repository;

/// Maximum size of a file with refs in bytes. A thousand tags take 70 KB.
const MAX_REFS_FILE_BYTES: u64 = 16 << 20;

/// Maximum number of symbolic refs that are followed to find a commit.
const MAX_SYMBOLIC_REF_CHAIN_LENGTH: usize = 5;

pub(super) const GIT_OBJECTS_FOLDER_NAME: &str = "objects";

/// Git repository. `own` is its git directory. `common` is the git directory that contains the
/// objects and branches; it differs from `own` only in a worktree.
#[derive(Debug)]
pub(in super::super) struct GitRepository {
    pub(super) shown: String,
    own: PathBuf,
    pub(super) common: PathBuf,
}

impl GitRepository {
    /// Opens the repository whose git directory or working tree is `folder`. Returns `None` if
    /// `folder` is neither.
    pub(in super::super) fn open_at(folder: &Path) -> anyhow::Result<Option<Self>> {
        let inner = folder.join(".git");
        let own = match inner.symlink_metadata() {
            Ok(found) if found.is_dir() => inner,
            Ok(found) if found.is_file() => {
                let text = read_git_text_file(&inner)?;
                let path = text.trim_end().strip_prefix("gitdir: ");
                folder.join(path.with_context(|| {
                    format!(
                        "{} is not a file of git: it does not begin with `gitdir: `",
                        inner.display()
                    )
                })?)
            }
            Ok(_) => bail!("{} is neither a file nor a folder", inner.display()),
            Err(_) if is_git_repository(folder) => folder.to_owned(),
            Err(_) => return Ok(None),
        };
        let common = match own.join("commondir") {
            path if path.is_file() => own.join(read_git_text_file(&path)?.trim_end()),
            _ => own.clone(),
        };
        let shown = folder.display().to_string();
        let objects = common.join(GIT_OBJECTS_FOLDER_NAME);
        let is_folder = objects.symlink_metadata().is_ok_and(|found| found.is_dir());
        ensure!(
            is_folder,
            "{shown} is not a complete repository: its objects are not in it"
        );
        for name in ["alternates", "http-alternates"] {
            ensure!(
                objects.join("info").join(name).symlink_metadata().is_err(),
                "{shown} borrows objects from other repositories (objects/info/{name}), which are not read; clone it without \
                 --shared and --reference"
            );
        }
        Ok(Some(Self { shown, own, common }))
    }

    /// Resolves a revision to an object name, with git's rules for looking up refs; `None` if there
    /// is no such ref.
    pub(super) fn resolve_revision(&self, rev: &str) -> anyhow::Result<Option<String>> {
        ensure!(
            is_ref_name(rev),
            "`{}` is not a revision: use a branch, a tag or a hash",
            rev.escape_debug()
        );
        if is_object_hash(rev) {
            return Ok(Some(rev.to_owned()));
        }
        let mut places = vec![
            format!("refs/tags/{rev}"),
            format!("refs/heads/{rev}"),
            format!("refs/remotes/{rev}"),
            format!("refs/remotes/{rev}/HEAD"),
        ];
        if rev == "HEAD" || rev.starts_with("refs/") {
            places.insert(0, rev.to_owned());
        }
        for place in places {
            if let Some(hash) = self.resolve_symbolic_reference(place)? {
                return Ok(Some(hash));
            }
        }
        Ok(None)
    }

    fn resolve_symbolic_reference(&self, mut name: String) -> anyhow::Result<Option<String>> {
        for _ in 0..MAX_SYMBOLIC_REF_CHAIN_LENGTH {
            let files = [self.own.join(&name), self.common.join(&name)];
            let found = match files.iter().find(|path| path.is_file()) {
                Some(path) => read_git_text_file(path)?,
                None => match self.find_packed_reference(&name)? {
                    Some(hash) => hash,
                    None => return Ok(None),
                },
            };
            let found = found.trim();
            if is_object_hash(found) {
                return Ok(Some(found.to_owned()));
            }
            match found.strip_prefix("ref: ") {
                Some(next) if next.starts_with("refs/") && !next.contains("..") => {
                    name = next.to_owned()
                }
                _ => bail!("{}: `{}` names no commit", self.shown, name.escape_debug()),
            }
        }
        bail!(
            "{}: `{}` cannot be resolved: too many references follow one another",
            self.shown,
            name.escape_debug()
        )
    }

    fn find_packed_reference(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = self.common.join("packed-refs");
        if !path.is_file() {
            return Ok(None);
        }
        let text = read_git_text_file(&path)?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(_, found)| *found == name);
        Ok(found.map(|(hash, _)| hash.to_owned()))
    }
}

fn read_git_text_file(path: &Path) -> anyhow::Result<String> {
    let file = open_file_with_flags(path, OFlags::empty())
        .with_context(|| format!("cannot read {}", path.display()))?;
    let bytes = read_open_file_with_limit(file, path, MAX_REFS_FILE_BYTES)?;
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Whether a text has the form of a full object hash.
fn is_object_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether git allows `name` as the name of a branch or tag.
fn is_ref_name(name: &str) -> bool {
    let is_refused = |c: char| c.is_control() || " ~^:?*[\\".contains(c);
    let mut parts = name.split('/');
    !name.starts_with('-')
        && !name.chars().any(is_refused)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && parts.all(|part| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock"))
}
