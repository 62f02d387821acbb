//! Walks the workspace for `list_files`, `search` and snapshots: in order, without following
//! symlinks, without files excluded by `.gitignore` and `.ignore`, and without `.git` itself.
//!
//! The `ignore` crate evaluates the patterns, but this module opens the directories, each relative
//! to the handle of its parent. Opened by path, a directory that is replaced by a symlink meanwhile
//! could lead out of the workspace. Start from [`walk_workspace`].

use std::ffi::OsString;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use cap_std::fs::Dir;
use globset::{GlobBuilder, GlobMatcher};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use tokio_util::sync::CancellationToken;

use super::workspace::{Workspace, WorkspaceError};

/// Maximum number of files and folders in one walk of the workspace.
const MAX_WALK_ENTRIES: usize = 200_000;

/// Maximum depth of folders, relative to the start of the walk.
pub(crate) const MAX_WALK_DEPTH: u32 = 64;

/// Maximum size of an ignore file that is read, in bytes.
const MAX_IGNORE_FILE_BYTES: u64 = 1024 * 1024;

/// Names of ignore files. A later file in this list overrides an earlier one, as in ripgrep.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WalkEntryKind {
    File,
    Folder,
    Link,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkEndReason {
    /// The walk visited all entries, or the visitor stopped it.
    Complete,
    /// The walk ended at the maximum number of entries.
    TooMany,
}

/// Glob that selects files. It is matched against paths relative to the workspace and against paths
/// relative to the start of the walk, because models write both.
pub(super) struct WorkspaceFileGlob(GlobMatcher);

impl WorkspaceFileGlob {
    /// Compiles a pattern. A pattern without a slash matches the base name in any directory.
    pub(super) fn new(pattern: &str) -> Result<Self, String> {
        let anywhere = if pattern.contains('/') {
            pattern.trim_start_matches('/').to_owned()
        } else {
            format!("**/{pattern}")
        };
        GlobBuilder::new(&anywhere)
            .literal_separator(true)
            .build()
            .map(|glob| Self(glob.compile_matcher()))
            .map_err(|error| format!("`{pattern}` is not a valid glob: {}", error.kind()))
    }

    pub(super) fn is_match(&self, path: &Path, start: &str) -> bool {
        let below = path.strip_prefix(start);
        self.0.is_match(path) || below.is_ok_and(|below| self.0.is_match(below))
    }
}

/// Function that is called for each entry, with the directory that contains the entry, the entry's
/// path relative to the root, and its kind.
type WalkEntryVisitor<'a> = &'a mut dyn FnMut(&Dir, &Path, WalkEntryKind) -> ControlFlow<()>;

/// Visits everything below `start` (relative to the root), up to `depth` levels, each directory
/// before its entries.
pub(crate) fn walk_workspace(
    workspace: &Workspace,
    start: &str,
    depth: u32,
    cancel: &CancellationToken,
    visit: WalkEntryVisitor<'_>,
) -> Result<WalkEndReason, WorkspaceError> {
    let dir = workspace.open_folder(start).ok();
    let start = Path::new(start);
    let mut walk = WorkspaceWalk {
        workspace,
        cancel,
        ignores: parent_ignore_patterns(workspace, start),
        visit,
        n_seen: 0,
    };
    match walk.walk_folder(dir, start, depth.min(MAX_WALK_DEPTH))? {
        ControlFlow::Continue(()) => Ok(WalkEndReason::Complete),
        ControlFlow::Break(end) => Ok(end),
    }
}

struct WorkspaceWalk<'a> {
    workspace: &'a Workspace,
    cancel: &'a CancellationToken,
    /// Ignore patterns of the current directory and of the directories above it, outermost first.
    ignores: Vec<Gitignore>,
    visit: WalkEntryVisitor<'a>,
    n_seen: usize,
}

impl WorkspaceWalk<'_> {
    /// Visits the entries of a directory. A directory that cannot be read, or was replaced since it
    /// was listed, is skipped.
    fn walk_folder(
        &mut self,
        dir: Option<Dir>,
        folder: &Path,
        depth: u32,
    ) -> Result<ControlFlow<WalkEndReason>, WorkspaceError> {
        let listed = dir.and_then(|dir| Some((read_folder_entries(&dir).ok()?, dir)));
        let Some((entries, dir)) = listed else {
            return Ok(ControlFlow::Continue(()));
        };
        self.ignores
            .push(folder_ignore_patterns(self.workspace, folder));
        for (name, kind) in entries {
            if self.cancel.is_cancelled() {
                return Err(WorkspaceError::Cancelled);
            }
            self.n_seen += 1;
            if self.n_seen > MAX_WALK_ENTRIES {
                return Ok(ControlFlow::Break(WalkEndReason::TooMany));
            }
            let path = folder.join(&name);
            let is_folder = kind == WalkEntryKind::Folder;
            if name == ".git"
                || self.workspace.is_hidden_entry(&dir, &path)
                || self.is_ignored(&path, is_folder)
            {
                continue;
            }
            if (self.visit)(&dir, &path, kind).is_break() {
                return Ok(ControlFlow::Break(WalkEndReason::Complete));
            }
            if is_folder
                && depth > 1
                && let ControlFlow::Break(end) =
                    self.walk_folder(dir.open_dir(&name).ok(), &path, depth - 1)?
            {
                return Ok(ControlFlow::Break(end));
            }
        }
        self.ignores.pop();
        Ok(ControlFlow::Continue(()))
    }

    fn is_ignored(&self, path: &Path, is_folder: bool) -> bool {
        let path = self.workspace.root().join(path);
        for ignore in self.ignores.iter().rev() {
            match ignore.matched(&path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Whether git ignores a directory of the workspace, or one of its parents. The path is relative to
/// the workspace.
pub(crate) fn is_ignored_by_git(workspace: &Path, folder: &Path) -> bool {
    let Ok(workspace) = Workspace::open_root_folder(workspace) else {
        return false;
    };
    let ignores = parent_ignore_patterns(&workspace, folder);
    let is_ignored = |folder: &Path| {
        let path = workspace.root().join(folder);
        let judged = ignores
            .iter()
            .rev()
            .map(|ignore| ignore.matched(&path, true));
        judged
            .into_iter()
            .find(|judged| !judged.is_none())
            .is_some_and(|judged| judged.is_ignore())
    };
    let mut folders = folder
        .ancestors()
        .filter(|folder| !folder.as_os_str().is_empty());
    folders.any(is_ignored)
}

/// Returns the names and kinds of a directory's entries, sorted.
fn read_folder_entries(dir: &Dir) -> io::Result<Vec<(OsString, WalkEntryKind)>> {
    let mut entries: Vec<_> = dir
        .entries()?
        .flatten()
        .filter_map(|entry| {
            let kind = match entry.file_type().ok()? {
                kind if kind.is_dir() => WalkEntryKind::Folder,
                kind if kind.is_symlink() => WalkEntryKind::Link,
                kind if kind.is_file() => WalkEntryKind::File,
                _ => WalkEntryKind::Other,
            };
            Some((entry.file_name(), kind))
        })
        .take(MAX_WALK_ENTRIES + 1)
        .collect();
    entries.sort();
    Ok(entries)
}

/// Returns the patterns of the directories above `start`: those of the workspace, and those above
/// it up to the root of its repository.
fn parent_ignore_patterns(workspace: &Workspace, start: &Path) -> Vec<Gitignore> {
    let mut ignores = Vec::new();
    let root = workspace.root();
    if !root.join(".git").exists()
        && let Some(repository) = root
            .ancestors()
            .skip(1)
            .find(|folder| folder.join(".git").exists())
    {
        let mut above: Vec<&Path> = root
            .ancestors()
            .skip(1)
            .take_while(|folder| folder.starts_with(repository))
            .collect();
        above.reverse();
        ignores.extend(above.into_iter().map(|folder| {
            build_ignore_matcher(folder, |name| {
                let path = folder.join(name);
                let is_file = path
                    .symlink_metadata()
                    .is_ok_and(|metadata| metadata.is_file());
                is_file.then(|| std::fs::File::open(path).ok()).flatten()
            })
        }));
    }
    let mut excludes = GitignoreBuilder::new(root);
    let own = workspace.open_file(".git/info/exclude").ok();
    add_ignore_patterns(&mut excludes, own.map(|(file, _)| file));
    ignores.push(excludes.build().unwrap_or_else(|_| Gitignore::empty()));
    let mut outer: Vec<&Path> = start.ancestors().skip(1).collect();
    outer.reverse();
    ignores.extend(
        outer
            .into_iter()
            .map(|folder| folder_ignore_patterns(workspace, folder)),
    );
    ignores
}

fn folder_ignore_patterns(workspace: &Workspace, folder: &Path) -> Gitignore {
    build_ignore_matcher(&workspace.root().join(folder), |name| {
        let path = folder.join(name);
        let (file, _) = workspace.open_file(path.to_str()?).ok()?;
        Some(file)
    })
}

fn build_ignore_matcher<R: Read>(folder: &Path, open: impl Fn(&str) -> Option<R>) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    for name in IGNORE_FILES {
        add_ignore_patterns(&mut builder, open(name));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Adds the patterns of an ignore file. Invalid patterns are skipped, as in git.
fn add_ignore_patterns(builder: &mut GitignoreBuilder, file: Option<impl Read>) {
    let mut content = Vec::new();
    if let Some(file) = file
        && file
            .take(MAX_IGNORE_FILE_BYTES)
            .read_to_end(&mut content)
            .is_ok()
    {
        for line in String::from_utf8_lossy(&content).lines() {
            let _ = builder.add_line(None, line);
        }
    }
}
