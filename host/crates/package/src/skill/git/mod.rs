//! Reads the committed files of a git repository on this machine.
//!
//! The configuration of a repository can make git run programs: hooks, filters, monitors,
//! transports, included settings. Such configuration has no effect here, because git runs in an
//! empty temporary repository that only reads the objects of the real one. The revision is resolved
//! from the real repository's files, and every object from the commit to each file is checked
//! against its hash, so that the recorded commit identifies the content.
//!
//! Start from [`GitRepository::open_at`] and [`list_revision_files`].

mod object;
mod objects;
mod repository;

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};

use super::super::contents::split_relative_path;
use super::tree::{MAX_SOURCE_FILES_AND_FOLDERS, SkillSourceEntryKind, SkillSourceTree};
use object::{GitObjectKind, GitTreeEntry, parse_root_tree_id, parse_tree_entries};
pub(super) use objects::GitObjectReader;
pub(super) use repository::GitRepository;
use rind_lib::skill::{SKILLS_FOLDER_NAME, is_skipped_folder_name};

/// Mode of a directory in a tree object.
const GIT_TREE_FOLDER_MODE: &str = "40000";

/// Maximum size in bytes of a commit, and of all tree objects of one directory level together.
const MAX_GIT_OBJECT_BATCH_BYTES: u64 = 16 << 20;

/// Lists the files of the commit that `rev` names, or of `HEAD`. Also returns the commit's hash.
pub(super) async fn list_revision_files(
    repository: GitRepository,
    rev: Option<&str>,
    name: String,
) -> anyhow::Result<(SkillSourceTree, String)> {
    let shown = repository.shown.clone();
    let wanted = rev.unwrap_or("HEAD");
    let is_short = wanted.len() >= 4 && wanted.bytes().all(|b| b.is_ascii_hexdigit());
    let found = match repository.resolve_revision(wanted)? {
        Some(found) => found,
        None if is_short => wanted.to_owned(),
        None if repository.common.join("reftable").is_dir() => bail!(
            "{shown} stores its branches in an unsupported format; pass the commit with --rev (`git rev-parse HEAD` prints it)"
        ),
        None if wanted == "HEAD" => bail!("{shown} has no commit yet; commit the skill first"),
        None => bail!(
            "{shown} has no branch, tag or commit `{}`",
            wanted.escape_debug()
        ),
    };
    // An abbreviated hash does not reveal whether the repository uses SHA-1 or SHA-256, so try
    // both.
    let formats: &[usize] = match found.len() {
        64 => &[64],
        40 => &[40],
        _ => &[40, 64],
    };
    for n_digits in formats {
        let mut objects = GitObjectReader::new(&repository, *n_digits)?;
        if let Some(commit) = objects.resolve_commit_hash(&found).await {
            let listed = list_commit_files(&mut objects, &commit, &shown).await?;
            return Ok((
                SkillSourceTree::from_git_commit(listed, objects, name),
                commit,
            ));
        }
    }
    bail!("{shown} has no commit {}", found.escape_debug())
}

/// Lists the files of a commit, one directory level at a time, and records in `objects` which git
/// object contains each file.
async fn list_commit_files(
    objects: &mut GitObjectReader,
    commit: &str,
    shown: &str,
) -> anyhow::Result<BTreeMap<Vec<String>, SkillSourceEntryKind>> {
    let text = objects
        .read_objects(GitObjectKind::Commit, &[commit], MAX_GIT_OBJECT_BATCH_BYTES)
        .await?;
    let root = text.first().and_then(|text| parse_root_tree_id(text));
    let root = root.with_context(|| format!("{shown}: the commit {commit} has no tree"))?;
    let mut listed = BTreeMap::new();
    let mut level: Vec<(Vec<String>, String)> = vec![(Vec::new(), root)];
    while !level.is_empty() {
        // Many directories may share one tree object; read it once.
        let mut wanted: Vec<&str> = level.iter().map(|(_, tree)| tree.as_str()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let read = objects
            .read_objects(GitObjectKind::Tree, &wanted, MAX_GIT_OBJECT_BATCH_BYTES)
            .await?;
        let trees: BTreeMap<&str, Vec<u8>> = wanted.into_iter().zip(read).collect();
        let mut below = Vec::new();
        for (folder, tree) in &level {
            let tree = trees.get(tree.as_str()).map(Vec::as_slice);
            for entry in parse_tree_entries(tree.unwrap_or_default(), commit.len())? {
                record_git_tree_entry(entry, folder, objects, &mut listed, &mut below)?;
                ensure!(
                    listed.len() + below.len() <= MAX_SOURCE_FILES_AND_FOLDERS,
                    "{shown} is too large: it has more than {MAX_SOURCE_FILES_AND_FOLDERS} files and folders"
                );
            }
        }
        level = below;
    }
    Ok(listed)
}

/// Adds a tree entry: a file to `listed`, a directory to `below`, which is the next level to read.
fn record_git_tree_entry(
    entry: GitTreeEntry,
    folder: &[String],
    objects: &mut GitObjectReader,
    listed: &mut BTreeMap<Vec<String>, SkillSourceEntryKind>,
    below: &mut Vec<(Vec<String>, String)>,
) -> anyhow::Result<()> {
    let name = String::from_utf8_lossy(&entry.name);
    ensure!(
        split_relative_path(&name)? == [&*name],
        "the path `{}` is refused: a file name contains `/`",
        name.escape_debug()
    );
    // File modes in old repositories begin with a zero.
    let mode = entry.mode.trim_start_matches('0');
    let (is_folder, is_hidden) = (mode == GIT_TREE_FOLDER_MODE, is_skipped_folder_name(&name));
    let is_in_hidden = folder
        .last()
        .is_some_and(|above| is_skipped_folder_name(above));
    if is_in_hidden && !(is_folder && name == SKILLS_FOLDER_NAME) {
        return Ok(());
    }
    let mut path = folder.to_vec();
    path.push(name.clone().into_owned());
    if is_folder && (!is_hidden || name.starts_with('.')) {
        split_relative_path(&path.join("/"))?;
        below.push((path.clone(), entry.object));
        if is_hidden {
            listed.insert(path, SkillSourceEntryKind::Hidden);
        }
        return Ok(());
    }
    let kind = match mode {
        GIT_TREE_FOLDER_MODE => SkillSourceEntryKind::Hidden,
        _ if std::str::from_utf8(&entry.name).is_err() => {
            SkillSourceEntryKind::Odd("has a name that is not UTF-8")
        }
        "100644" | "100755" | "100664" => SkillSourceEntryKind::File,
        "120000" => SkillSourceEntryKind::Odd("is a link"),
        "160000" => SkillSourceEntryKind::Odd("is a submodule"),
        _ => SkillSourceEntryKind::Odd("is neither a file nor a folder"),
    };
    if kind == SkillSourceEntryKind::File {
        objects.names.insert(path.clone(), entry.object);
    }
    let shown = path.join("/");
    let earlier = listed.insert(path, kind);
    ensure!(earlier.is_none(), "it has `{}` twice", shown.escape_debug());
    Ok(())
}
