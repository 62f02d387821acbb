//! Reads the committed files of a git repository on this machine.
//!
//! The configuration of a repository can make git run programs: hooks, filters, monitors,
//! transports, included settings. Such configuration has no effect here, because git runs in an
//! empty temporary repository that only reads the objects of the real one. The revision is resolved
//! from the real repository's files, and every object from the commit to each file is checked
//! against its hash, so that the recorded commit identifies the content.
//!
//! Start from [`GitRepository::open_at`] and [`list_repository`].

mod object;
mod objects;
mod repository;

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};

use super::super::contents::split_path;
use super::tree::{ListedSourceNode, MAX_LISTED, SourceTree};
use object::{GitObjectKind, TreeEntry, parse_tree, root_tree};
pub(super) use objects::GitObjects;
pub(super) use repository::GitRepository;
use rind_lib::skill::{FOLDER, is_skipped_folder_name};

/// Mode of a directory in a tree object.
const FOLDER_MODE: &str = "40000";

/// Maximum size in bytes of a commit, and of all tree objects of one directory level together.
const MAX_TREES_BYTES: u64 = 16 << 20;

/// Lists the files of the commit that `rev` names, or of `HEAD`. Also returns the commit's hash.
pub(super) async fn list_repository(
    repository: GitRepository,
    rev: Option<&str>,
    name: String,
) -> anyhow::Result<(SourceTree, String)> {
    let shown = repository.shown.clone();
    let wanted = rev.unwrap_or("HEAD");
    let is_short = wanted.len() >= 4 && wanted.bytes().all(|b| b.is_ascii_hexdigit());
    let found = match repository.find_revision(wanted)? {
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
        let mut objects = GitObjects::new(&repository, *n_digits)?;
        if let Some(commit) = objects.find_commit(&found).await {
            let listed = list_commit_files(&mut objects, &commit, &shown).await?;
            return Ok((SourceTree::git_tree(listed, objects, name), commit));
        }
    }
    bail!("{shown} has no commit {}", found.escape_debug())
}

/// Lists the files of a commit, one directory level at a time, and records in `objects` which git
/// object contains each file.
async fn list_commit_files(
    objects: &mut GitObjects,
    commit: &str,
    shown: &str,
) -> anyhow::Result<BTreeMap<Vec<String>, ListedSourceNode>> {
    let text = objects
        .read_objects(GitObjectKind::Commit, &[commit], MAX_TREES_BYTES)
        .await?;
    let root = text.first().and_then(|text| root_tree(text));
    let root = root.with_context(|| format!("{shown}: the commit {commit} has no tree"))?;
    let mut listed = BTreeMap::new();
    let mut level: Vec<(Vec<String>, String)> = vec![(Vec::new(), root)];
    while !level.is_empty() {
        // Many directories may share one tree object; read it once.
        let mut wanted: Vec<&str> = level.iter().map(|(_, tree)| tree.as_str()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let read = objects
            .read_objects(GitObjectKind::Tree, &wanted, MAX_TREES_BYTES)
            .await?;
        let trees: BTreeMap<&str, Vec<u8>> = wanted.into_iter().zip(read).collect();
        let mut below = Vec::new();
        for (folder, tree) in &level {
            let tree = trees.get(tree.as_str()).map(Vec::as_slice);
            for entry in parse_tree(tree.unwrap_or_default(), commit.len())? {
                add_tree_entry(entry, folder, objects, &mut listed, &mut below)?;
                ensure!(
                    listed.len() + below.len() <= MAX_LISTED,
                    "{shown} is too large: it has more than {MAX_LISTED} files and folders"
                );
            }
        }
        level = below;
    }
    Ok(listed)
}

/// Adds a tree entry: a file to `listed`, a directory to `below`, which is the next level to read.
fn add_tree_entry(
    entry: TreeEntry,
    folder: &[String],
    objects: &mut GitObjects,
    listed: &mut BTreeMap<Vec<String>, ListedSourceNode>,
    below: &mut Vec<(Vec<String>, String)>,
) -> anyhow::Result<()> {
    let name = String::from_utf8_lossy(&entry.name);
    ensure!(
        split_path(&name)? == [&*name],
        "the path `{}` is refused: a file name contains `/`",
        name.escape_debug()
    );
    // File modes in old repositories begin with a zero.
    let mode = entry.mode.trim_start_matches('0');
    let (is_folder, is_hidden) = (mode == FOLDER_MODE, is_skipped_folder_name(&name));
    let is_in_hidden = folder
        .last()
        .is_some_and(|above| is_skipped_folder_name(above));
    if is_in_hidden && !(is_folder && name == FOLDER) {
        return Ok(());
    }
    let mut path = folder.to_vec();
    path.push(name.clone().into_owned());
    if is_folder && (!is_hidden || name.starts_with('.')) {
        split_path(&path.join("/"))?;
        below.push((path.clone(), entry.object));
        if is_hidden {
            listed.insert(path, ListedSourceNode::Hidden);
        }
        return Ok(());
    }
    let kind = match mode {
        FOLDER_MODE => ListedSourceNode::Hidden,
        _ if std::str::from_utf8(&entry.name).is_err() => {
            ListedSourceNode::Odd("has a name that is not UTF-8")
        }
        "100644" | "100755" | "100664" => ListedSourceNode::File,
        "120000" => ListedSourceNode::Odd("is a link"),
        "160000" => ListedSourceNode::Odd("is a submodule"),
        _ => ListedSourceNode::Odd("is neither a file nor a folder"),
    };
    if kind == ListedSourceNode::File {
        objects.names.insert(path.clone(), entry.object);
    }
    let shown = path.join("/");
    let earlier = listed.insert(path, kind);
    ensure!(earlier.is_none(), "it has `{}` twice", shown.escape_debug());
    Ok(())
}
