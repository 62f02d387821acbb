//! Content of a skill: its text in pages, the files of its folder.
//!
//! Files are opened beneath the folder: neither `..` nor a link leads out of it. Reading one asks nobody, since whoever let the
//! skill be used let it be read.

use std::path::Path;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::skill::Skill;
use crate::tool::ToolOutput;
use crate::tool::builtin::read_within;
use crate::tool::workspace::Workspace;

/// Most bytes of one page: nearly every skill is one page.
const PAGE_BYTES: usize = 64 << 10;

/// Most files that are listed.
const MAX_LISTED: usize = 60;

/// Deepest folder whose files are listed.
const MAX_DEPTH: usize = 5;

/// Most entries that are looked at for the list.
const MAX_SEEN: usize = 2_000;

/// Reads a file of a skill's folder.
pub(super) async fn read(
    skill: &Skill,
    file: &str,
    offset: u64,
    cancel: &CancellationToken,
) -> Result<ToolOutput, String> {
    let id = &skill.id;
    if skill.is_flat {
        return Err(format!(
            "the skill {id} is a file of its own; no others belong to it"
        ));
    }
    // A path below the folder may also be given whole.
    let below = Path::new(file).strip_prefix(&skill.dir).ok();
    let name = below.and_then(Path::to_str).unwrap_or(file);
    if skill.within(Path::new(name)).is_none() {
        return Err(format!(
            "`{}` leads out of the folder of the skill {id}; name a file relative to that folder",
            crate::text::clean(file, 200)
        ));
    }
    let cannot =
        |why: &dyn std::fmt::Display| format!("the folder of the skill {id} cannot be read: {why}");
    let folder = Workspace::open(&skill.dir).map_err(|error| cannot(&error))?;
    let read = read_within(&Arc::new(folder), name, offset, cancel).await;
    read.map_err(|error| format!("in the folder of the skill {id}: {error}"))
}

/// One page of a text, from the line `offset` on.
pub(super) fn page(text: &str, offset: u64) -> Result<ToolOutput, String> {
    let n_before = usize::try_from(offset.saturating_sub(1)).unwrap_or(usize::MAX);
    let mut lines = text.split_inclusive('\n').skip(n_before).peekable();
    if lines.peek().is_none() {
        let n_lines = text.lines().count();
        return Err(format!("the text has only {n_lines} lines"));
    }
    let mut shown = String::new();
    for (next, line) in (offset..).zip(lines) {
        if !shown.is_empty() && shown.len() + line.len() > PAGE_BYTES {
            shown.push_str(&format!(
                "\n[the text goes on: call again with offset {next}]"
            ));
            break;
        }
        let end = line.floor_char_boundary(PAGE_BYTES.min(line.len()));
        shown.push_str(&line[..end]);
        if end < line.len() {
            shown.push_str(&format!(
                "\n[line {next} is longer than {PAGE_BYTES} bytes and was cut]\n"
            ));
        }
    }
    Ok(ToolOutput::ok(shown))
}

/// Files that belong to a skill, in words for the model; empty when there are none.
pub(super) async fn files_of(skill: &Arc<Skill>) -> String {
    let skill = skill.clone();
    let listed = tokio::task::spawn_blocking(move || files(&skill));
    listed.await.unwrap_or_default()
}

fn files(skill: &Skill) -> String {
    let mut names = Vec::new();
    let mut n_seen = 0;
    if !skill.is_flat {
        list(&skill.dir, "", 0, &mut n_seen, &mut names);
    }
    let own = skill.file.file_name().and_then(|name| name.to_str());
    names.retain(|name| Some(name.as_str()) != own);
    if names.is_empty() {
        return String::new();
    }
    names.sort();
    let n_more = names.len().saturating_sub(MAX_LISTED);
    let more = match (n_more, n_seen >= MAX_SEEN) {
        (0, false) => String::new(),
        (n, false) => format!(" and {n} more"),
        (_, true) => " and more".to_owned(),
    };
    names.truncate(MAX_LISTED);
    format!(
        "\n[files of the skill in {}: {}{more}. Read them with `skill` and `file`; scripts are run with `bash`, by their interpreter and \
         with their whole path, as in `python3 {}`]",
        skill.dir.display(),
        names.join(", "),
        skill.dir.join("NAME.py").display(),
    )
}

fn list(folder: &Path, before: &str, depth: usize, n_seen: &mut usize, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut entries: Vec<_> = entries.flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        *n_seen += 1;
        if *n_seen > MAX_SEEN {
            return;
        }
        let name = entry.file_name();
        let shown = format!("{before}{}", crate::text::one_line(&name.to_string_lossy()));
        match entry.file_type() {
            Ok(kind) if kind.is_file() => names.push(shown),
            Ok(kind) if kind.is_dir() && depth < MAX_DEPTH && !is_left_out(&name) => {
                list(
                    &entry.path(),
                    &format!("{shown}/"),
                    depth + 1,
                    n_seen,
                    names,
                );
            }
            // Links are not listed: where they lead is found out when they are read.
            _ => {}
        }
    }
}

/// Whether nobody wants the files of this folder in a list.
fn is_left_out(name: &std::ffi::OsStr) -> bool {
    [".git", "node_modules", "__pycache__", ".venv"]
        .iter()
        .any(|own| name == *own)
}
