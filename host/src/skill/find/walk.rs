//! Walks a directory of skills, on disk or held in memory, and collects bundles and flat skill
//! files.
//!
//! The number of directories is limited, and symlinks are followed only at the top level, so that a
//! walk ends on any file system. A directory that cannot be read is reported, because it may
//! contain restrictions.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::model::{Source, UnusableSkill};
use super::{FoundSkillFile, SKILL_FILE_NAME, SKILLS_FOLDER_NAME, SkillSearchDirectory};
use crate::disk::is_dangling_symlink;
use crate::grant::held::InMemoryFolder;
use crate::paths::{file_name, file_stem};

/// Maximum depth, in directories below the root, at which bundles are searched.
const MAX_BUNDLE_SEARCH_DEPTH: usize = 5;

/// Maximum number of directories and of skills that are single files, per root in which skills are
/// searched.
const MAX_FOLDERS_AND_SKILLS_PER_ROOT: usize = 2_000;

/// Names of directories that are never searched for skills.
const SKIPPED_FOLDER_NAMES: [&str; 3] = ["node_modules", "target", "__pycache__"];

/// Prefixes, in lower case, of the names of Markdown files that are not skills.
const NON_SKILL_MARKDOWN_PREFIXES: [&str; 6] = [
    "readme",
    "license",
    "changelog",
    "contributing",
    "agents",
    "claude",
];

pub(super) struct SkillDirectoryWalk<'a, 'b> {
    root: &'a SkillSearchDirectory,
    found: &'b mut Vec<FoundSkillFile<'a>>,
    unusable: &'b mut Vec<UnusableSkill>,
    n_folders: usize,
}

impl<'a, 'b> SkillDirectoryWalk<'a, 'b> {
    pub(super) fn new(
        root: &'a SkillSearchDirectory,
        found: &'b mut Vec<FoundSkillFile<'a>>,
        unusable: &'b mut Vec<UnusableSkill>,
    ) -> Self {
        Self {
            root,
            found,
            unusable,
            n_folders: 0,
        }
    }

    pub(super) fn walk_root(&mut self) {
        let path = &self.root.path;
        if let Some(held) = &self.root.held {
            if held.file_content(path).is_some() {
                self.report_unusable_root(
                    "it is not a folder",
                    "replace it with a folder of skills",
                );
            }
            return self.walk_in_memory_folder(held, path, 0);
        }
        let Ok(real) = fs::canonicalize(path) else {
            if is_dangling_symlink(path) {
                self.report_unusable_root(
                    "the link leads nowhere",
                    "restore its target or remove it",
                );
            }
            return;
        };
        if real.is_file() && self.root.source != Source::Local {
            return self
                .report_unusable_root("it is not a folder", "replace it with a folder of skills");
        }
        match &self.root.source {
            Source::Local => self.walk_command_line_path(path, &real),
            _ => self.walk_folder(path, &real, 0),
        }
    }

    /// Collects the skills at a path from the command line: a file, a bundle, or a directory of
    /// skills.
    fn walk_command_line_path(&mut self, path: &Path, real: &Path) {
        if real.is_file() && !file_name(real).eq_ignore_ascii_case(SKILL_FILE_NAME) {
            return self.add_flat_skill_file(path.to_owned(), real.to_owned());
        }
        let (dir, real) = match (real.is_file(), real.parent()) {
            (true, Some(parent)) => (path.parent().unwrap_or(parent), parent),
            _ => (path, real),
        };
        // `.` and `..` have no base name; use the canonical path instead.
        let (dir, folder) = match dir.file_name() {
            Some(own) => (dir, own.to_string_lossy().into_owned()),
            None => (real, file_name(real)),
        };
        if !self.add_skill_bundle(&folder, dir, real) {
            self.walk_folder(dir, real, 0);
        }
    }

    fn report_unusable_path(&mut self, path: &Path, text: String, hint: &str) {
        let id = file_name(path);
        self.unusable
            .push(self.root.create_unusable_skill(&id, path, text, hint));
    }

    /// Reports that no skills were read from the root. The id is empty, so that the finding does
    /// not reserve a skill's name.
    fn report_unusable_root(&mut self, text: &str, hint: &str) {
        let refused = self
            .root
            .create_unusable_skill("", &self.root.path, text.to_owned(), hint);
        self.unusable.push(refused);
    }

    /// Counts one more directory or flat file. Returns whether there are more than
    /// [`MAX_FOLDERS_AND_SKILLS_PER_ROOT`], and reports that once.
    fn exceeds_folder_limit(&mut self) -> bool {
        self.n_folders += 1;
        if self.n_folders == MAX_FOLDERS_AND_SKILLS_PER_ROOT + 1 {
            let text = format!(
                "there are more than {MAX_FOLDERS_AND_SKILLS_PER_ROOT} folders and files here; the rest was skipped"
            );
            let hint = "move files that are not skills out of this folder";
            // The id is empty, so that the finding does not reserve a skill's name.
            let path = &self.root.path;
            self.unusable
                .push(self.root.create_unusable_skill("", path, text, hint));
        }
        self.n_folders > MAX_FOLDERS_AND_SKILLS_PER_ROOT
    }

    fn walk_folder(&mut self, path: &Path, real: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(path) else {
            if path.is_dir() {
                self.report_unusable_path(
                    path,
                    "the folder cannot be read".to_owned(),
                    "check its permissions",
                );
            }
            return;
        };
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let (inner, Ok(kind)) = (entry.path(), entry.file_type()) else {
                continue;
            };
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_skipped_folder_name(&name) && !self.is_skill_collection(path, &name) {
                continue;
            }
            let is_link = kind.is_symlink();
            // Follow symlinks only if they are directly in the root; deeper ones could form a loop.
            if is_link && depth > 0 {
                continue;
            }
            let Ok(real) = (if is_link {
                fs::canonicalize(&inner)
            } else {
                Ok(real.join(&name))
            }) else {
                self.report_unusable_path(
                    &inner,
                    "the link leads nowhere".to_owned(),
                    "remove the link",
                );
                continue;
            };
            let is_folder = if is_link {
                real.is_dir()
            } else {
                kind.is_dir()
            };
            if !is_folder {
                if self.accepts_standalone_skill_file(depth, &name) {
                    if self.exceeds_folder_limit() {
                        return;
                    }
                    self.add_flat_skill_file(inner, real);
                }
                continue;
            }
            if self.exceeds_folder_limit() {
                return;
            }
            if !self.add_skill_bundle(&name, &inner, &real) && depth + 1 < MAX_BUNDLE_SEARCH_DEPTH {
                self.walk_folder(&inner, &real, depth + 1);
            }
        }
    }

    /// Whether a hidden directory is a collection of skills, for example `skills/.curated`. Only
    /// for paths from the command line: in the directories that sessions search, hidden ones
    /// contain incomplete installations and replaced skills.
    fn is_skill_collection(&self, path: &Path, name: &str) -> bool {
        let is_named = matches!(self.root.source, Source::Local);
        is_named && file_name(path) == SKILLS_FOLDER_NAME && name.starts_with('.') && name != ".git"
    }

    /// Adds a directory to the found skills if it is a skill bundle. Returns whether it is one.
    fn add_skill_bundle(&mut self, name: &str, dir: &Path, real: &Path) -> bool {
        if name == SKILLS_FOLDER_NAME && contains_skill_folders(dir) {
            return false;
        }
        let mut file = dir.join(SKILL_FILE_NAME);
        let mut meta = fs::symlink_metadata(&file);
        if meta.is_err() {
            let names = fs::read_dir(dir).into_iter().flatten().flatten();
            let mut names = names.map(|entry| entry.file_name());
            let other =
                names.find(|name| name.to_string_lossy().eq_ignore_ascii_case(SKILL_FILE_NAME));
            let Some(other) = other else { return false };
            file = dir.join(other);
            meta = fs::symlink_metadata(&file);
        }
        let mut real_file = real.join(file.file_name().unwrap_or_default());
        if meta.is_ok_and(|meta| meta.is_symlink()) {
            match fs::canonicalize(&file) {
                Ok(target) if target.starts_with(real) => real_file = target,
                _ => {
                    let text =
                        format!("`{SKILL_FILE_NAME}` is a link that leads out of its folder");
                    self.report_unusable_path(
                        dir,
                        text,
                        "put the file itself into the folder, or link the whole folder",
                    );
                    return true;
                }
            }
        }
        let found = FoundSkillFile {
            root: self.root,
            folder: name.to_owned(),
            dir: dir.to_owned(),
            real_dir: real.to_owned(),
            file,
            real_file,
            is_flat: false,
        };
        self.found.push(found);
        true
    }

    /// Whether a file of this name at this depth is a flat skill, which has no directory of its
    /// own.
    fn accepts_standalone_skill_file(&self, depth: usize, name: &str) -> bool {
        (depth == 0 || self.root.is_nested) && is_standalone_skill_name(name)
    }

    fn add_flat_skill_file(&mut self, file: PathBuf, real: PathBuf) {
        let folder = file_stem(&file);
        let parent = |file: &Path| file.parent().unwrap_or(&self.root.path).to_owned();
        self.found.push(FoundSkillFile {
            root: self.root,
            folder,
            dir: parent(&file),
            real_dir: parent(&real),
            file,
            real_file: real,
            is_flat: true,
        });
    }

    fn walk_in_memory_folder(&mut self, held: &InMemoryFolder, path: &Path, depth: usize) {
        for name in held.file_names_in(path) {
            if self.accepts_standalone_skill_file(depth, &name) {
                if self.exceeds_folder_limit() {
                    return;
                }
                let file = path.join(name);
                self.add_flat_skill_file(file.clone(), file);
            }
        }
        for dir in held.subfolders_in(path) {
            let name = file_name(&dir);
            if is_skipped_folder_name(&name) {
                continue;
            }
            if self.exceeds_folder_limit() {
                return;
            }
            let is_bundle = |dir: &PathBuf| held.file_content(&dir.join(SKILL_FILE_NAME)).is_some();
            let is_index =
                name == SKILLS_FOLDER_NAME && held.subfolders_in(&dir).iter().any(is_bundle);
            let mut names = held.file_names_in(&dir);
            names.retain(|_| !is_index);
            let exact = names.iter().find(|name| *name == SKILL_FILE_NAME);
            match exact.or_else(|| {
                names
                    .iter()
                    .find(|name| name.eq_ignore_ascii_case(SKILL_FILE_NAME))
            }) {
                Some(file) => {
                    let file = dir.join(file);
                    self.found.push(FoundSkillFile {
                        root: self.root,
                        folder: name,
                        real_dir: dir.clone(),
                        dir,
                        real_file: file.clone(),
                        file,
                        is_flat: false,
                    });
                }
                None if depth + 1 < MAX_BUNDLE_SEARCH_DEPTH => {
                    self.walk_in_memory_folder(held, &dir, depth + 1)
                }
                None => {}
            }
        }
    }
}

/// Whether a directory contains directories of skills. If it does, a `SKILL.md` directly in it is a
/// table of contents and not a skill.
fn contains_skill_folders(dir: &Path) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut folders = entries.map(|entry| entry.path());
    folders.any(|folder| folder.join(SKILL_FILE_NAME).is_file())
}

/// Whether the search for skills skips directories of this name.
pub fn is_skipped_folder_name(name: &str) -> bool {
    name.starts_with('.') || SKIPPED_FOLDER_NAMES.contains(&name)
}

/// Whether a file of this name can be a flat skill.
fn is_standalone_skill_name(name: &str) -> bool {
    let lower = name.to_lowercase();
    lower.ends_with(".md")
        && !NON_SKILL_MARKDOWN_PREFIXES
            .iter()
            .any(|document| lower.starts_with(document))
}
