//! Reads the content of a skill: its text in pages, and the files of its folder.
//!
//! Files are opened relative to the descriptor of the folder: neither `..` nor a symlink leads out
//! of the folder, and if the folder was replaced by another one or by a symlink, it is not read. If
//! the host has copies of the skill's files in memory, the copies are returned instead. Reading a
//! file needs no question, because the user who confirmed the skill confirmed its files too.

use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::grant::held::InMemoryFolder;
use crate::skill::Skill;
use crate::text::escape_to_one_line;
use crate::tool::ToolOutput;
use crate::tool::builtin::{read_file_from_memory, read_file_outside_workspace};
use crate::tool::workspace::Workspace;

/// Maximum size of one page, in bytes. Nearly every skill fits into one page.
const MAX_SKILL_PAGE_BYTES: usize = 64 << 10;

/// Maximum number of files of a skill's folder that are listed.
const MAX_LISTED_SKILL_FILES: usize = 60;

/// Maximum depth of a skill's subfolders whose files are listed.
const MAX_LISTED_SUBFOLDER_DEPTH: usize = 5;

/// Maximum number of directory entries that are examined to list the files of a skill.
const MAX_EXAMINED_DIRECTORY_ENTRIES: usize = 2_000;

/// Reads a file in the folder of a skill, for the model.
pub(super) async fn read_skill_file(
    skill: &Skill,
    file: &str,
    offset: u64,
    cancel: &CancellationToken,
) -> Result<ToolOutput, String> {
    let id = &skill.id;
    if skill.is_flat {
        return Err(format!(
            "the skill {id} is a single file; no other files belong to it"
        ));
    }
    // Also accept an absolute path of a file in the folder.
    let below = Path::new(file).strip_prefix(&skill.dir).ok();
    let name = below.and_then(Path::to_str).unwrap_or(file);
    if skill.path_in_bundle(Path::new(name)).is_none() {
        return Err(format!(
            "`{}` leads out of the folder of the skill {id}; name a file relative to that folder",
            crate::text::escape_and_truncate_line(file, 200)
        ));
    }
    let in_folder = |error| format!("in the folder of the skill {id}: {error}");
    if let Some(held) = &skill.held {
        let Some(content) = held.file_content(&skill.dir.join(name)) else {
            return Err(format!(
                "the skill {id} has no file `{}`",
                crate::text::escape_and_truncate_line(name, 200)
            ));
        };
        return read_file_from_memory(content, name, offset, cancel).map_err(in_folder);
    }
    let place = skill.real_dir.clone();
    let opened = tokio::task::spawn_blocking(move || Workspace::open_root_folder(&place)).await;
    let folder = opened
        .map_err(io::Error::other)
        .flatten()
        .map_err(|error| format!("the folder of the skill {id} cannot be read: {error}"))?;
    if folder.root() != skill.real_dir {
        return Err(format!(
            "the folder of the skill {id} is now a link to another place; its files are not read"
        ));
    }
    let read = read_file_outside_workspace(&Arc::new(folder), name, offset, cancel).await;
    read.map_err(in_folder)
}

/// Returns a page of a skill's text, from line `offset` of the inner text on. The first and the
/// last line of `text` are its wrapper. Every page has the complete wrapper, so that no text of the
/// skill is outside the wrapper, and no text of the host inside.
pub(super) fn extract_skill_text_page(text: &str, offset: u64) -> Result<ToolOutput, String> {
    let (head, rest) = text.split_once('\n').unwrap_or((text, ""));
    let (inner, close) = rest.rsplit_once('\n').unwrap_or(("", rest));
    let n_before = usize::try_from(offset.saturating_sub(1)).unwrap_or(usize::MAX);
    let mut lines = inner.split_inclusive('\n').skip(n_before).peekable();
    if lines.peek().is_none() && offset > 1 {
        let n_lines = inner.lines().count();
        return Err(format!("the text of the skill has only {n_lines} lines"));
    }
    let mut shown = String::new();
    let mut goes_on = None;
    for (next, line) in (offset..).zip(lines) {
        if !shown.is_empty() && shown.len() + line.len() > MAX_SKILL_PAGE_BYTES {
            goes_on = Some(next);
            break;
        }
        let end = line.floor_char_boundary(MAX_SKILL_PAGE_BYTES.min(line.len()));
        shown.push_str(&line[..end]);
        if end < line.len() {
            shown.push_str(&format!(
                "\n[line {next} is longer than {MAX_SKILL_PAGE_BYTES} bytes and was cut]\n"
            ));
        }
    }
    let mut page = format!("{head}\n{}\n{close}", shown.trim_end_matches('\n'));
    if let Some(next) = goes_on {
        page.push_str(&format!(
            "\n[the text continues: call again with offset {next}]"
        ));
    }
    Ok(ToolOutput::ok(page))
}

/// Lists the files that belong to a skill, as text for the model; empty if there are none.
pub(super) async fn describe_skill_files(skill: &Arc<Skill>) -> String {
    let skill = skill.clone();
    let listed = tokio::task::spawn_blocking(move || list_skill_files(&skill));
    listed.await.unwrap_or_default()
}

fn list_skill_files(skill: &Skill) -> String {
    let mut names = Vec::new();
    let mut n_seen = 0;
    match &skill.held {
        Some(held) if !skill.is_flat => {
            collect_in_memory_file_names(held, &skill.dir, "", 0, &mut n_seen, &mut names);
        }
        None if !skill.is_flat && skill.is_path_unchanged() => {
            collect_skill_file_names(&skill.real_dir, "", 0, &mut n_seen, &mut names);
        }
        _ => {}
    }
    let own = skill.file.file_name().and_then(|name| name.to_str());
    names.retain(|name| Some(name.as_str()) != own && !is_skill_test_file(name));
    if names.is_empty() {
        return String::new();
    }
    names.sort();
    names.iter_mut().for_each(quote_file_name);
    let n_more = names.len().saturating_sub(MAX_LISTED_SKILL_FILES);
    let more = match (n_more, n_seen >= MAX_EXAMINED_DIRECTORY_ENTRIES) {
        (0, false) => String::new(),
        (n, false) => format!(" and {n} more"),
        (_, true) => " and more".to_owned(),
    };
    names.truncate(MAX_LISTED_SKILL_FILES);
    format!(
        "\n[files of the skill in {}: {}{more}. Read them with `skill` and `file`; scripts are run with `bash`, by their interpreter and \
         with their whole path, as in `python3 {}`]",
        skill.dir.display(),
        names.join(", "),
        skill.dir.join("NAME.py").display(),
    )
}

/// Whether a file is a test case of the skill or a snapshot of one. Such files are meant only for
/// the skill's author.
fn is_skill_test_file(name: &str) -> bool {
    let is_file_of_cases = |name: &str| !name.contains('/') && name.ends_with(".toml");
    name.strip_prefix("tests/")
        .is_some_and(|name| is_file_of_cases(name) || name.starts_with("snapshots/"))
}

fn collect_skill_file_names(
    folder: &Path,
    before: &str,
    depth: usize,
    n_seen: &mut usize,
    names: &mut Vec<String>,
) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        *n_seen += 1;
        if *n_seen > MAX_EXAMINED_DIRECTORY_ENTRIES {
            return;
        }
        let name = entry.file_name();
        let shown = format!("{before}{}", escape_to_one_line(&name.to_string_lossy()));
        match entry.file_type() {
            Ok(kind) if kind.is_file() => names.push(shown),
            Ok(kind)
                if kind.is_dir()
                    && depth < MAX_LISTED_SUBFOLDER_DEPTH
                    && !is_skipped_folder(&name) =>
            {
                collect_skill_file_names(
                    &entry.path(),
                    &format!("{shown}/"),
                    depth + 1,
                    n_seen,
                    names,
                );
            }
            // Skip symlinks: their targets are checked only when they are read.
            _ => {}
        }
    }
}

fn collect_in_memory_file_names(
    held: &InMemoryFolder,
    folder: &Path,
    before: &str,
    depth: usize,
    n_seen: &mut usize,
    names: &mut Vec<String>,
) {
    let own = held.file_names_in(folder);
    *n_seen += own.len();
    names.extend(
        own.iter()
            .map(|name| format!("{before}{}", escape_to_one_line(name))),
    );
    for inner in held.subfolders_in(folder) {
        let name = inner.file_name().unwrap_or_default();
        if depth < MAX_LISTED_SUBFOLDER_DEPTH
            && !is_skipped_folder(name)
            && *n_seen <= MAX_EXAMINED_DIRECTORY_ENTRIES
        {
            let before = format!("{before}{}/", escape_to_one_line(&name.to_string_lossy()));
            collect_in_memory_file_names(held, &inner, &before, depth + 1, n_seen, names);
        }
    }
}

/// Quotes a name with characters that could be mistaken for markup or a separator.
fn quote_file_name(name: &mut String) {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./ +@".contains(c);
    if !name.chars().all(is_plain) {
        let quoted = serde_json::Value::from(name.as_str()).to_string();
        *name = quoted.replace('<', "\\u003c");
    }
}

/// Whether a folder of this name is skipped in lists.
fn is_skipped_folder(name: &std::ffi::OsStr) -> bool {
    [".git", "node_modules", "__pycache__", ".venv"]
        .iter()
        .any(|own| name == *own)
}
