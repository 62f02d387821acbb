//! Walks the workspace as `list_files` and `search` see it: in order, without following links, without what
//! `.gitignore` and `.ignore` files leave out, and without `.git` itself.
//!
//! The `ignore` crate judges the patterns, but the walk is made through the workspace's own folder handle: a walk by path
//! could be led out by a link that is swapped in while it runs.

use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use tokio_util::sync::CancellationToken;

use super::workspace::{Workspace, WorkspaceError};

/// Maximum number of entries in one walk.
const MAX_ENTRIES: usize = 200_000;

/// Deepest folder one walk enters, counted from where it starts.
pub(super) const MAX_DEPTH: u32 = 64;

/// Largest ignore file that is read.
const MAX_IGNORE_FILE_BYTES: u64 = 1024 * 1024;

/// Later files win, as in ripgrep.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// Kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EntryKind {
    File,
    Folder,
    Link,
    Other,
}

/// End of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// The walk visited all entries, or the visitor stopped it.
    Complete,
    /// The limit of one walk was reached.
    TooMany,
}

/// Compiles a file pattern. One without a slash matches the name in any folder.
pub(super) fn file_glob(pattern: &str) -> Result<GlobMatcher, String> {
    let anywhere = if pattern.contains('/') {
        pattern.trim_start_matches('/').to_owned()
    } else {
        format!("**/{pattern}")
    };
    GlobBuilder::new(&anywhere)
        .literal_separator(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| format!("`{pattern}` is not a valid glob: {}", error.kind()))
}

/// Visits everything below `start` (relative to the root), `depth` levels deep, each folder before what is in it.
pub(super) fn walk(
    workspace: &Workspace,
    start: &Path,
    depth: u32,
    cancel: &CancellationToken,
    visit: &mut dyn FnMut(&Path, EntryKind) -> ControlFlow<()>,
) -> Result<WalkEnd, WorkspaceError> {
    let mut walk = Walk {
        workspace,
        cancel,
        ignores: ignores_above(workspace, start),
        visit,
        n_seen: 0,
    };
    match walk.folder(start, depth.min(MAX_DEPTH))? {
        ControlFlow::Continue(()) => Ok(WalkEnd::Complete),
        ControlFlow::Break(end) => Ok(end),
    }
}

struct Walk<'a> {
    workspace: &'a Workspace,
    cancel: &'a CancellationToken,
    /// Outermost folder first.
    ignores: Vec<Gitignore>,
    visit: &'a mut dyn FnMut(&Path, EntryKind) -> ControlFlow<()>,
    n_seen: usize,
}

impl Walk<'_> {
    fn folder(
        &mut self,
        folder: &Path,
        depth: u32,
    ) -> Result<ControlFlow<WalkEnd>, WorkspaceError> {
        if depth == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        // A folder that cannot be read, or became something else since it was listed, is passed over.
        let Ok(mut entries) = self.entries(folder) else {
            return Ok(ControlFlow::Continue(()));
        };
        entries.sort();
        self.ignores.push(ignore_of(self.workspace, folder));
        for (name, kind) in entries {
            if self.cancel.is_cancelled() {
                return Err(WorkspaceError::Cancelled);
            }
            self.n_seen += 1;
            if self.n_seen > MAX_ENTRIES {
                return Ok(ControlFlow::Break(WalkEnd::TooMany));
            }
            let path = folder.join(&name);
            let is_folder = kind == EntryKind::Folder;
            if name == ".git" || self.is_ignored(&path, is_folder) {
                continue;
            }
            if (self.visit)(&path, kind).is_break() {
                return Ok(ControlFlow::Break(WalkEnd::Complete));
            }
            if is_folder && let ControlFlow::Break(end) = self.folder(&path, depth - 1)? {
                return Ok(ControlFlow::Break(end));
            }
        }
        self.ignores.pop();
        Ok(ControlFlow::Continue(()))
    }

    fn entries(&self, folder: &Path) -> std::io::Result<Vec<(std::ffi::OsString, EntryKind)>> {
        let entries = if folder.as_os_str().is_empty() {
            self.workspace.dir().entries()?
        } else {
            self.workspace.dir().read_dir(folder)?
        };
        Ok(entries
            .flatten()
            .filter_map(|entry| {
                let kind = entry.file_type().ok()?;
                let kind = if kind.is_dir() {
                    EntryKind::Folder
                } else if kind.is_symlink() {
                    EntryKind::Link
                } else if kind.is_file() {
                    EntryKind::File
                } else {
                    EntryKind::Other
                };
                Some((entry.file_name(), kind))
            })
            .take(MAX_ENTRIES + 1)
            .collect())
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

/// Patterns of the folders above `start`: those of the workspace, and those above it up to the root of its repository.
fn ignores_above(workspace: &Workspace, start: &Path) -> Vec<Gitignore> {
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
            build(folder, |name| {
                let path = folder.join(name);
                let is_file = path
                    .symlink_metadata()
                    .is_ok_and(|metadata| metadata.is_file());
                is_file.then(|| std::fs::File::open(path).ok()).flatten()
            })
        }));
    }
    let mut excludes = GitignoreBuilder::new(root);
    add_lines(
        &mut excludes,
        workspace
            .open_file(".git/info/exclude")
            .ok()
            .map(|(file, _)| file),
    );
    ignores.push(excludes.build().unwrap_or_else(|_| Gitignore::empty()));
    let mut outer: Vec<&Path> = start.ancestors().skip(1).collect();
    outer.reverse();
    ignores.extend(outer.into_iter().map(|folder| ignore_of(workspace, folder)));
    ignores
}

fn ignore_of(workspace: &Workspace, folder: &Path) -> Gitignore {
    build(&workspace.root().join(folder), |name| {
        let path: PathBuf = folder.join(name);
        workspace
            .open_file(path.to_str()?)
            .ok()
            .map(|(file, _)| file)
    })
}

fn build<R: Read>(folder: &Path, open: impl Fn(&str) -> Option<R>) -> Gitignore {
    let mut builder = GitignoreBuilder::new(folder);
    for name in IGNORE_FILES {
        add_lines(&mut builder, open(name));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Adds what can be read; a pattern that does not parse is passed over, as git does.
fn add_lines(builder: &mut GitignoreBuilder, file: Option<impl Read>) {
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
