//! Lists the files of a source, and reads them only when they are needed.
//!
//! A source is a directory, an archive in memory, or a git commit. [`SkillSourceTree`] hides the
//! difference from callers. Directories that sessions ignore are listed as
//! [`SkillSourceEntryKind::Hidden`], without their content.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::super::archive::{ArchiveEntries, SETUID_SETGID_MODE_BITS};
use super::super::contents::FileContentsByPath;
use super::git::GitObjectReader;
use rind_lib::beneath::{self, MissingParentFolderHandling};
use rind_lib::skill::{self, is_skipped_folder_name};

/// Maximum number of files and directories in a source of skills.
pub(super) const MAX_SOURCE_FILES_AND_FOLDERS: usize = 50_000;

/// Maximum depth of directories in a source of skills.
const MAX_SOURCE_FOLDER_DEPTH: usize = 16;

/// Name of a directory that contains skills.
const SKILLS_FOLDER_NAME: &str = skill::SKILLS_FOLDER_NAME;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SkillSourceEntryKind {
    File,
    /// Special file that cannot be part of a skill. Contains the reason as a predicate, such as
    /// `is a link`.
    Odd(&'static str),
    /// Directory that is skipped because nothing in it can be part of a skill.
    Hidden,
}

/// Returns the number of leading names in `folders` that form the path of a skipped directory;
/// `None` if none is skipped. `folders` are the names of the directories on the path of an entry.
/// Directories that sessions ignore are skipped, for example hidden ones. Exceptions are
/// directories such as `.claude/skills`, which contain skills, and `skills/.curated`, which are
/// separate collections.
pub(super) fn skipped_path_prefix_len(folders: &[String]) -> Option<usize> {
    let mut above = "";
    let mut folders = folders.iter().zip(1..).peekable();
    while let Some((name, n_names)) = folders.next() {
        let is_above_skills = folders
            .peek()
            .is_some_and(|(next, _)| *next == SKILLS_FOLDER_NAME);
        let holds_skills =
            name.starts_with('.') && is_above_skills || is_hidden_skill_folder(above, name);
        if is_skipped_folder_name(name) && !holds_skills {
            return Some(n_names);
        }
        above = name;
    }
    None
}

/// Whether the directory `name`, whose parent is named `above`, is a hidden collection of skills,
/// for example `skills/.curated`.
fn is_hidden_skill_folder(above: &str, name: &str) -> bool {
    above == SKILLS_FOLDER_NAME && name.starts_with('.') && name != ".git"
}

#[derive(Debug)]
enum SkillSourceTreeContent {
    Folder(Dir),
    Memory(FileContentsByPath),
    Git(GitObjectReader),
}

#[derive(Debug)]
pub struct SkillSourceTree {
    pub(super) listed: BTreeMap<Vec<String>, SkillSourceEntryKind>,
    content: SkillSourceTreeContent,
    /// Name of the source: the name of its directory, of the only top-level directory in an
    /// archive, or else of the archive file without extensions.
    pub(super) name: String,
}

impl SkillSourceTree {
    pub(super) fn read_folder_tree(path: &Path, name: String) -> anyhow::Result<Self> {
        let mut listed = BTreeMap::new();
        let mut n_seen = 0;
        let entries = fs::read_dir(path);
        let entries = entries.with_context(|| format!("cannot read {}", path.display()))?;
        list_folder_entries(entries, &mut Vec::new(), &mut listed, &mut n_seen)?;
        let folder = Dir::open_ambient_dir(path, ambient_authority());
        let folder = folder.with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            listed,
            content: SkillSourceTreeContent::Folder(folder),
            name,
        })
    }

    /// Creates the tree of an archive with the file name `file`. If all entries are in one
    /// top-level directory, that directory is the root.
    pub(super) fn from_archive_entries(entries: ArchiveEntries, file: &str) -> Self {
        let ArchiveEntries { files, odd, hidden } = entries;
        let all = || files.keys().chain(odd.keys()).chain(&hidden);
        let top = all().next().and_then(|names| names.first()).cloned();
        let is_in_top = |names: &Vec<String>| names.len() > 1 && names.first() == top.as_ref();
        let has_top = all().all(is_in_top);
        let (n_above, name) = match top.filter(|_| has_top) {
            Some(top) => (1, top),
            None => (0, file.split('.').next().unwrap_or_default().to_owned()),
        };
        let inner = |mut names: Vec<String>| names.split_off(n_above);
        let files: FileContentsByPath = files
            .into_iter()
            .map(|(names, bytes)| (inner(names), bytes))
            .collect();
        let plain = files
            .keys()
            .map(|names| (names.clone(), SkillSourceEntryKind::File));
        let odd = odd.into_iter();
        let odd = odd.map(|(names, what)| (inner(names), SkillSourceEntryKind::Odd(what)));
        let hidden = hidden.into_iter();
        let hidden = hidden.map(|names| (inner(names), SkillSourceEntryKind::Hidden));
        let listed = plain.chain(odd).chain(hidden).collect();
        Self {
            listed,
            content: SkillSourceTreeContent::Memory(files),
            name,
        }
    }

    /// Creates the tree of a git commit from the list of the commit's files.
    pub(super) fn from_git_commit(
        listed: BTreeMap<Vec<String>, SkillSourceEntryKind>,
        objects: GitObjectReader,
        name: String,
    ) -> Self {
        Self {
            listed,
            content: SkillSourceTreeContent::Git(objects),
            name,
        }
    }

    /// Whether the source is a directory on this machine, whose name the user chose.
    pub(super) fn is_local_folder(&self) -> bool {
        matches!(self.content, SkillSourceTreeContent::Folder(_))
    }

    /// Reads the contents of the files `wanted`, at most `max_bytes` in total.
    pub(super) async fn read_files(
        &self,
        wanted: &[Vec<String>],
        max_bytes: u64,
    ) -> anyhow::Result<FileContentsByPath> {
        let too_large = || format!("it has more than {} MiB", max_bytes >> 20);
        let mut left = max_bytes;
        let mut files = FileContentsByPath::new();
        if let SkillSourceTreeContent::Git(objects) = &self.content {
            return objects.read_blobs(wanted, max_bytes).await;
        }
        for names in wanted {
            let bytes = match &self.content {
                SkillSourceTreeContent::Folder(folder) => {
                    read_regular_file_below(folder, names, left)?
                }
                SkillSourceTreeContent::Memory(all) => all.get(names).cloned().unwrap_or_default(),
                SkillSourceTreeContent::Git(_) => Vec::new(),
            };
            left = left
                .checked_sub(bytes.len() as u64)
                .with_context(too_large)?;
            files.insert(names.clone(), bytes);
        }
        Ok(files)
    }
}

/// Reads a regular file below `folder` without following symlinks, because one may have been
/// created since the files were listed. Reads at most one byte more than `limit`, so that the
/// caller can detect a larger file.
fn read_regular_file_below(folder: &Dir, names: &[String], limit: u64) -> anyhow::Result<Vec<u8>> {
    let path = names.join("/");
    let shown = path.escape_debug();
    let read = || -> std::io::Result<Option<Vec<u8>>> {
        let walked =
            beneath::walk_path_beneath(folder, &path, false, MissingParentFolderHandling::Refused)?;
        if walked.names != names {
            return Ok(None);
        }
        let Some((file, found)) =
            beneath::open_regular_file(&walked.folder, Path::new(&walked.name))?
        else {
            return Ok(None);
        };
        if cap_std::fs::PermissionsExt::mode(&found.permissions()) & SETUID_SETGID_MODE_BITS != 0 {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    };
    let bytes = read().with_context(|| format!("cannot read `{shown}`"))?;
    bytes.with_context(|| format!("`{shown}` changed while it was read"))
}

/// Returns the name of the folder that contains the last name of a path; empty if there is none.
fn parent_folder_name(names: &[String]) -> &str {
    match names {
        [.., parent, _] => parent,
        _ => "",
    }
}

fn list_folder_entries(
    entries: fs::ReadDir,
    above: &mut Vec<String>,
    listed: &mut BTreeMap<Vec<String>, SkillSourceEntryKind>,
    n_seen: &mut usize,
) -> anyhow::Result<()> {
    for entry in entries {
        *n_seen += 1;
        ensure!(
            *n_seen <= MAX_SOURCE_FILES_AND_FOLDERS,
            "there are more than {MAX_SOURCE_FILES_AND_FOLDERS} files and folders; name the folder of the skill itself"
        );
        let entry = entry.context("cannot read a folder of the source")?;
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        // Use the metadata of the entry itself, so that no file is opened and no symlink is
        // followed.
        let found = entry.metadata();
        let found = found.with_context(|| format!("cannot read {}", path.display()))?;
        // From a hidden directory, list only its directory of skills, unless the hidden directory
        // is itself a collection of skills.
        if let [.., last] = above.as_slice()
            && is_skipped_folder_name(last)
            && name != SKILLS_FOLDER_NAME
            && !is_hidden_skill_folder(parent_folder_name(above), last)
        {
            continue;
        }
        let is_text = entry.file_name().to_str().is_some();
        above.push(name);
        let holds_skills = || {
            let inner = path.join(SKILLS_FOLDER_NAME).symlink_metadata();
            let name = above.last().map_or("", String::as_str);
            is_hidden_skill_folder(parent_folder_name(above), name)
                || name.starts_with('.') && inner.is_ok_and(|found| found.is_dir())
        };
        let kind = match found.is_dir() {
            true if above
                .last()
                .is_some_and(|name| is_skipped_folder_name(name))
                && !holds_skills() =>
            {
                SkillSourceEntryKind::Hidden
            }
            true if above.len() >= MAX_SOURCE_FOLDER_DEPTH => {
                bail!(
                    "{} is deeper than {MAX_SOURCE_FOLDER_DEPTH} folders",
                    path.display()
                )
            }
            true => match fs::read_dir(&path) {
                Ok(entries) => {
                    list_folder_entries(entries, above, listed, n_seen)?;
                    above.pop();
                    continue;
                }
                Err(_) => SkillSourceEntryKind::Odd("cannot be read"),
            },
            false if found.is_symlink() => SkillSourceEntryKind::Odd("is a link"),
            false if !found.is_file() => {
                SkillSourceEntryKind::Odd("is neither a file nor a folder")
            }
            false if found.mode() & SETUID_SETGID_MODE_BITS != 0 => {
                SkillSourceEntryKind::Odd("is a setuid or setgid file")
            }
            false if !is_text => SkillSourceEntryKind::Odd("has a name that is not UTF-8"),
            false => SkillSourceEntryKind::File,
        };
        listed.insert(above.clone(), kind);
        above.pop();
    }
    Ok(())
}
