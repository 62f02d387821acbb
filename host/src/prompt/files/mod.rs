//! Context files: instructions of a project and its user for agents, in `AGENTS.md`, `CLAUDE.md`
//! and similar files.
//!
//! The files are searched in the workspace and in its parent directories up to the root of its git
//! repository: directories above the root are not part of the project. Files in directories below
//! the workspace are read when a tool call first concerns a file there
//! ([`read_context_files_down_to`]). The user's own files come first, and the file nearest to the
//! workspace comes last and takes precedence.
//!
//! The text of context files is sent to a provider. So a symlink or an import is followed only to a
//! Markdown file in the same repository: otherwise a link to a file with a key would leak the key.
//! The `.git` directory of the repository must have the same owner as the workspace: otherwise, on
//! a shared machine, any user could create a repository in a world-writable directory above the
//! workspace.
//!
//! Start from [`read_context_files`].

mod folder;
mod import;
mod read;

use std::fs;
use std::path::{Path, PathBuf};

use self::read::{ContextFileText, read_markdown_in_folder};
use crate::point::payload::{PromptPart, Tier};
use crate::tool::policy::ToolVerdict;
use crate::tool::walk::is_ignored_by_git;

/// Maximum size of one file, in bytes: several thousand tokens, enough for a long guide.
pub(crate) const MAX_CONTEXT_FILE_BYTES: usize = 32 << 10;

/// Maximum size of all context files together, in bytes. If it is exceeded, files are dropped in
/// prompt order: first the user's own files, then the files farthest above the workspace.
pub(crate) const MAX_TOTAL_CONTEXT_FILE_BYTES: usize = 64 << 10;

/// Maximum depth of nested imports, as in Claude Code.
const MAX_FILE_IMPORT_DEPTH: usize = 5;

/// Maximum number of files that are imported when the context files are read once.
const MAX_IMPORTED_FILES: usize = 50;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ContextFilePromptParts {
    /// Parts of the prompt, one for each file, outermost folder first, so that the nearest file
    /// takes precedence.
    pub parts: Vec<PromptPart>,
    /// Messages for the user about files that were ignored or truncated.
    pub notices: Vec<String>,
}

/// Function that applies the operator's rules for tool calls to reading a file, given by its path
/// relative to the workspace. A context file that the rules deny is ignored. An imported file is
/// also ignored if the rules require asking the user, because an import must not bypass the rules.
pub(crate) type ContextFileReadPolicy = dyn Fn(&str) -> ToolVerdict + Send + Sync;

/// Reads the user's own context files (`own`), if they exist, and then those of the workspace.
#[must_use]
pub(crate) fn read_context_files(
    workspace: &Path,
    own: &[PathBuf],
    rules: &ContextFileReadPolicy,
) -> ContextFilePromptParts {
    let mut reader = ContextFileReader::new(workspace, rules);
    for (number, path) in own.iter().enumerate() {
        reader.read_user_file(number, path);
    }
    let Ok(workspace) = workspace.canonicalize() else {
        return reader.found;
    };
    let folders = folders_from_repository_root(&workspace);
    if let Some(root) = folders.first() {
        for (depth, folder) in folders.iter().enumerate() {
            reader.read_folder_context_files(&format!("files/{depth:02}"), folder, (root, root));
        }
    }
    enforce_total_byte_limit(&mut reader.found);
    reader.found
}

/// Reads the context files of the folders between the workspace and `file`, a path relative to the
/// workspace. The workspace itself is excluded. The names of the parts are paths relative to the
/// workspace; `is_told` returns whether the model already got the file with such a name.
#[must_use]
pub(crate) fn read_context_files_down_to(
    workspace: &Path,
    file: &str,
    is_told: impl Fn(&str) -> bool,
    rules: &ContextFileReadPolicy,
) -> ContextFilePromptParts {
    let mut reader = ContextFileReader::new(workspace, rules);
    let Ok(workspace) = workspace.canonicalize() else {
        return reader.found;
    };
    let outer = folders_from_repository_root(&workspace);
    let Some(root) = outer.first() else {
        return reader.found;
    };
    let parent = Path::new(file).parent().unwrap_or(Path::new(""));
    let mut folders: Vec<&Path> = parent.ancestors().collect();
    folders.reverse();
    for (depth, below) in folders.into_iter().enumerate().skip(1) {
        let folder = workspace.join(below);
        if let Some(why) = outside_project_reason(&workspace, below) {
            let mut ignored = Vec::new();
            for found in folder::find_context_file_names(&folder, &mut ignored, |_| true) {
                let path = below.join(found.name);
                if !is_told(&path.to_string_lossy()) {
                    reader.report_skipped_file(&path, why);
                }
            }
            break;
        }
        reader.read_folder_context_files(&format!("files/{depth:02}"), &folder, (root, &workspace));
    }
    let mut found = reader.found;
    let touched = workspace.join(file).canonicalize().ok();
    found.parts.retain(|part| {
        let real = workspace.join(&part.source).canonicalize().ok();
        let folder = real.as_deref().and_then(Path::parent);
        // Skip context files directly in the workspace folder and in its parent folders, which are
        // in the system prompt, and `file` itself, which the model has just read.
        let is_above = folder.is_some_and(|folder| outer.iter().any(|outer| outer == folder));
        !is_told(&part.source) && !is_above && real != touched
    });
    enforce_total_byte_limit(&mut found);
    found
}

/// Returns the reason why a folder is not part of the project, if there is one.
fn outside_project_reason(workspace: &Path, below: &Path) -> Option<&'static str> {
    let folder = workspace.join(below);
    if folder.join(".git").symlink_metadata().is_ok() {
        return Some("its folder is a git repository of its own");
    }
    if below.file_name().is_some_and(|name| name == "node_modules") {
        return Some("it belongs to a dependency of the project");
    }
    is_ignored_by_git(workspace, below)
        .then_some("git ignores its folder, so it is not the project's text")
}

/// Drops files from the beginning of the prompt until the rest fits in the byte limit, so that the
/// files nearest to the workspace are kept.
fn enforce_total_byte_limit(found: &mut ContextFilePromptParts) {
    let mut n_bytes = 0;
    let nearest_first = found.parts.iter().rev();
    let n_kept = nearest_first
        .take_while(|part| {
            n_bytes += part.text.len();
            n_bytes <= MAX_TOTAL_CONTEXT_FILE_BYTES
        })
        .count();
    for part in found.parts.drain(..found.parts.len() - n_kept) {
        found.notices.push(format!(
            "{} is left out: the context files nearer to the workspace use up the limit of {MAX_TOTAL_CONTEXT_FILE_BYTES} bytes",
            part.source
        ));
    }
}

/// Returns the folders from the repository root down to the workspace; only the workspace if there
/// is no trusted repository.
fn folders_from_repository_root(workspace: &Path) -> Vec<PathBuf> {
    let has_git = |folder: &&Path| folder.join(".git").exists();
    let root = workspace.ancestors().find(has_git);
    let root = root.filter(|root| has_same_owner(root, workspace));
    let root = root.unwrap_or(workspace);
    let within = workspace.ancestors().take_while(|it| it.starts_with(root));
    let mut folders: Vec<PathBuf> = within.map(Path::to_owned).collect();
    folders.reverse();
    folders
}

/// Whether the `.git` directory in `root` belongs to the owner of `workspace`, or to the superuser,
/// who can change every file anyway.
#[cfg(unix)]
fn has_same_owner(root: &Path, workspace: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path: &Path| fs::metadata(path).map(|meta| meta.uid()).ok();
    let Some(of_workspace) = owner(workspace) else {
        return false;
    };
    let is_trusted = |path: &Path| owner(path).is_some_and(|of| of == 0 || of == of_workspace);
    let mut below = workspace
        .ancestors()
        .take_while(|folder| folder.starts_with(root));
    is_trusted(&root.join(".git")) && below.all(is_trusted)
}

#[cfg(not(unix))]
fn has_same_owner(_: &Path, _: &Path) -> bool {
    true
}

struct ContextFileReader<'r> {
    /// Path of the workspace, with symlinks resolved.
    workspace: PathBuf,
    rules: &'r ContextFileReadPolicy,
    found: ContextFilePromptParts,
    /// Paths of files that were already read, with symlinks resolved. Each file is read once, so an
    /// import cycle ends.
    seen: Vec<PathBuf>,
    n_imports: usize,
}

/// Context file to read, with its limits and names.
#[derive(Clone, Copy)]
struct ContextFileToRead<'a> {
    path: &'a Path,
    /// Key of the prompt part for the file.
    key: &'a str,
    /// Folder that must contain the file and all files that it imports.
    boundary: &'a Path,
    /// Folder to which the displayed name of the file is relative.
    base: &'a Path,
}

impl<'r> ContextFileReader<'r> {
    fn new(workspace: &Path, rules: &'r ContextFileReadPolicy) -> Self {
        Self {
            workspace: workspace
                .canonicalize()
                .unwrap_or_else(|_| workspace.to_owned()),
            rules,
            found: ContextFilePromptParts::default(),
            seen: Vec::new(),
            n_imports: 0,
        }
    }

    /// Returns the reason why the text of a file must not be sent to the model, if there is one.
    /// `real` is the path of the file with symlinks resolved.
    fn unreadable_reason(&self, real: &Path, is_import: bool) -> Option<&'static str> {
        let is_git = |part: std::path::Component<'_>| part.as_os_str().eq_ignore_ascii_case(".git");
        if is_import && real.components().any(is_git) {
            return Some("it belongs to a git repository's own data");
        }
        let path = real.strip_prefix(&self.workspace).ok()?;
        match (self.rules)(&path.to_string_lossy()) {
            ToolVerdict::Deny(_) => return Some("the rules in [tools] deny reading it"),
            ToolVerdict::Allow => {}
            _ if is_import => {
                return Some("the rules in [tools] do not allow reading it without a question");
            }
            _ => {}
        }
        let folders = path.parent().filter(|_| is_import)?.ancestors();
        let mut folders = folders.filter(|folder| !folder.as_os_str().is_empty());
        folders.find_map(|folder| outside_project_reason(&self.workspace, folder))
    }

    fn report_skipped_file(&mut self, path: &Path, why: &str) {
        let notice = format!("{} is left out: {why}", path.display());
        if !self.found.notices.contains(&notice) {
            self.found.notices.push(notice);
        }
    }

    /// Reads a context file of the user. It may be a symlink to any folder.
    fn read_user_file(&mut self, number: usize, path: &Path) {
        if path.symlink_metadata().is_err() {
            return;
        }
        let real = path.canonicalize();
        let Some(boundary) = real.as_deref().ok().and_then(Path::parent) else {
            return self
                .report_skipped_file(path, "it cannot be found; it may be a broken symlink");
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.read_context_file(
            ContextFileToRead {
                path,
                // Put a `+` after `files/`, so that the key sorts before the keys of the files in
                // folders, which have a number there.
                key: &format!("files/+own/{number:02}-{name}"),
                boundary,
                base: Path::new(""),
            },
            0,
        );
    }

    /// Reads the context files of a folder. `places` are two folders: one that must contain the
    /// files, and one to which their displayed names are relative.
    fn read_folder_context_files(&mut self, key: &str, folder: &Path, places: (&Path, &Path)) {
        let (boundary, base) = places;
        let is_usable = |path: &Path| {
            read_markdown_in_folder(boundary, path).is_ok_and(|read| !read.text.trim().is_empty())
        };
        let names = folder::find_context_file_names(folder, &mut self.found.notices, is_usable);
        for found in names {
            let path = folder.join(found.name);
            let named = folder.strip_prefix(base).unwrap_or(folder);
            let key = format!("{key}/{}", named.join(&found.key).display());
            self.read_context_file(
                ContextFileToRead {
                    path: &path,
                    key: &key,
                    boundary,
                    base,
                },
                0,
            );
        }
    }

    /// Reads a context file and the files that it imports.
    fn read_context_file(&mut self, place: ContextFileToRead<'_>, depth: usize) {
        let read = match read_markdown_in_folder(place.boundary, place.path) {
            Ok(read) => read,
            Err(why) => return self.report_skipped_file(place.path, &why),
        };
        if self.seen.contains(&read.real) {
            return;
        }
        if let Some(why) = self.unreadable_reason(&read.real, depth > 0) {
            return self.report_skipped_file(place.path, why);
        }
        self.seen.push(read.real.clone());
        for fault in read.describe_faults() {
            let notice = format!("{} is {fault}", place.path.display());
            self.found.notices.push(notice);
        }
        self.add_context_part(place, &read);
        for (number, name) in import::find_import_paths(&read.text).iter().enumerate() {
            self.read_import(place, (number, name), depth + 1);
        }
    }

    fn add_context_part(&mut self, place: ContextFileToRead<'_>, read: &ContextFileText) {
        let name = place.path.strip_prefix(place.base).unwrap_or(place.path);
        let name = name.display().to_string();
        let text = read.context_block(&name);
        // Skip a file with the same text as an earlier file: `AGENTS.md` and `CLAUDE.md` are often
        // links to one file, or copies.
        let body = |text: &str| text.split_once('\n').map(|(_, body)| body.to_owned());
        let parts = &mut self.found.parts;
        if read.text.trim().is_empty() || parts.iter().any(|part| body(&part.text) == body(&text)) {
            return;
        }
        parts.push(PromptPart {
            tier: Tier::Context,
            key: place.key.to_owned(),
            source: name,
            text,
        });
    }

    /// Reads an imported file. An import of a file that does not exist or is outside the project is
    /// ignored; if its name ends in `.md`, the user is notified.
    fn read_import(
        &mut self,
        by: ContextFileToRead<'_>,
        (number, name): (usize, &String),
        depth: usize,
    ) {
        let is_markdown = Path::new(name).extension().is_some_and(|it| it == "md");
        let folder = by
            .path
            .parent()
            .and_then(|folder| folder.canonicalize().ok());
        let Some(folder) = folder else { return };
        let path = normalize_path(&folder.join(name));
        // A file in the workspace may have been written by the model, so it can import only files
        // of the workspace.
        let boundary = match folder.starts_with(&self.workspace) {
            true => self.workspace.clone(),
            false => by.boundary.to_owned(),
        };
        let is_elsewhere = name.starts_with("~/") || !path.starts_with(&boundary);
        let is_there = !is_elsewhere && path.symlink_metadata().is_ok();
        if !is_there && !is_markdown {
            return;
        }
        let importer = by.path.display();
        let why = if is_elsewhere {
            format!("{importer} imports it, but it is outside the project")
        } else if !is_there {
            format!("{importer} imports it, but it does not exist")
        } else if depth > MAX_FILE_IMPORT_DEPTH {
            format!("imports may nest at most {MAX_FILE_IMPORT_DEPTH} files deep")
        } else if self.n_imports >= MAX_IMPORTED_FILES {
            format!("at most {MAX_IMPORTED_FILES} files can be imported")
        } else {
            self.n_imports += 1;
            let key = format!("{}/{number:02}-{name}", by.key);
            let place = ContextFileToRead {
                path: &path,
                key: &key,
                boundary: &boundary,
                ..by
            };
            return self.read_context_file(place, depth);
        };
        let shown = if is_elsewhere { Path::new(name) } else { &path };
        self.report_skipped_file(shown, &why);
    }
}

/// Removes `.` and `..` from a path without accessing the file system.
fn normalize_path(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests;
