//! Patches of Codex and OpenCode, each of which may change several files.
//!
//! Each changed file becomes a separate call to one of Rind's tools, so that a plugin that guards
//! files sees every change. A patch cannot be rebuilt from these calls, so the guard refuses a
//! patch if a plugin changes the arguments of one of its calls.

use std::path::Path;

use rind_lib::message::EffectClass;
use serde_json::json;

use super::event::ToolCallWithRindNames;
use super::tools::to_workspace_relative_path;

/// Maximum number of files that a patch of an agent can change.
const MAX_FILES_PER_PATCH: usize = 200;

const BEGIN_PATCH_LINE: &str = "*** Begin Patch";
// The headers have no trailing space: the agents trim a line before they compare it, and some of
// them do not require a space after the colon.
const ADD_FILE_HEADER: &str = "*** Add File:";
const UPDATE_FILE_HEADER: &str = "*** Update File:";
const DELETE_FILE_HEADER: &str = "*** Delete File:";
const MOVE_FILE_HEADER: &str = "*** Move to:";

/// Kind of change that a patch makes to a file.
#[derive(Clone, Copy, PartialEq)]
enum PatchFileChangeKind {
    Add,
    Update,
    Delete,
}

/// File that a patch changes, with the added and removed text.
struct PatchedFile {
    path: String,
    kind: PatchFileChangeKind,
    moved_to: Option<String>,
    old: String,
    new: String,
}

/// Returns one call per changed file, and another for the new path of a moved file. A context line
/// that looks like a file header counts as a header: judging an unchanged file is safer than
/// missing a changed one.
///
/// # Errors
/// The patch is not in the known format, so its files are unknown, or it has too many files.
pub(crate) fn split_patch_into_calls(
    patch: &str,
    workspace: Option<&Path>,
) -> Result<Vec<ToolCallWithRindNames>, String> {
    let (_, body) = patch
        .split_once(BEGIN_PATCH_LINE)
        .ok_or("the patch is not in the known form, so its files cannot be judged")?;
    let mut files: Vec<PatchedFile> = Vec::new();
    for line in body.lines() {
        if let Some((kind, path)) = parse_file_header(line) {
            files.push(PatchedFile {
                path: path.to_owned(),
                kind,
                moved_to: None,
                old: String::new(),
                new: String::new(),
            });
            continue;
        }
        let Some(file) = files.last_mut() else {
            continue;
        };
        match line.trim().strip_prefix(MOVE_FILE_HEADER) {
            Some(path) => file.moved_to = Some(path.trim().to_owned()),
            None => append_line_to_patched_file(file, line),
        }
    }
    if files.is_empty() {
        return Err("the patch names no file that could be judged".to_owned());
    }
    if files.len() > MAX_FILES_PER_PATCH {
        let n_files = files.len();
        return Err(format!(
            "the patch has {n_files} files, at most {MAX_FILES_PER_PATCH} are supported"
        ));
    }
    let calls = files
        .iter()
        .flat_map(|file| tool_calls_for_patched_file(file, workspace));
    Ok(calls.collect())
}

fn parse_file_header(line: &str) -> Option<(PatchFileChangeKind, &str)> {
    let line = line.trim();
    let is = |prefix: &str, kind| Some((kind, line.strip_prefix(prefix)?.trim()));
    is(ADD_FILE_HEADER, PatchFileChangeKind::Add)
        .or_else(|| is(UPDATE_FILE_HEADER, PatchFileChangeKind::Update))
        .or_else(|| is(DELETE_FILE_HEADER, PatchFileChangeKind::Delete))
}

fn append_line_to_patched_file(file: &mut PatchedFile, line: &str) {
    let (is_old, is_new, text) = match (line.chars().next(), line.get(1..)) {
        (Some('+'), Some(text)) => (false, true, text),
        (Some('-'), Some(text)) => (true, false, text),
        (Some(' '), Some(text)) => (true, true, text),
        (None, _) => (true, true, ""),
        _ => return,
    };
    for (is_meant, side) in [(is_old, &mut file.old), (is_new, &mut file.new)] {
        if is_meant {
            side.push_str(text);
            side.push('\n');
        }
    }
}

fn tool_calls_for_patched_file(
    file: &PatchedFile,
    workspace: Option<&Path>,
) -> Vec<ToolCallWithRindNames> {
    let call = |tool: &str, arguments| ToolCallWithRindNames {
        tool: tool.to_owned(),
        arguments,
        effect_class: EffectClass::Write,
    };
    let path = to_workspace_relative_path(&file.path, workspace);
    let mut calls = vec![match file.kind {
        PatchFileChangeKind::Update => call(
            "edit_file",
            json!({"path": path, "old_text": file.old, "new_text": file.new}),
        ),
        // A guard of paths treats a deletion like a write without content.
        PatchFileChangeKind::Add | PatchFileChangeKind::Delete => {
            call("write_file", json!({"path": path, "content": file.new}))
        }
    }];
    if let Some(to) = &file.moved_to {
        let path = to_workspace_relative_path(to, workspace);
        calls.push(call(
            "write_file",
            json!({"path": path, "content": file.new}),
        ));
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_a_patch_is_a_call() {
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** Update File: /w/b.rs\n*** Move to: c.rs\n@@ fn\n ctx\n-old\n+new\n*** Delete File: d\n*** End Patch\n";
        let calls = split_patch_into_calls(patch, Some(Path::new("/w"))).unwrap();
        let shown: Vec<(String, String)> = calls
            .iter()
            .map(|call| {
                (
                    call.tool.clone(),
                    call.arguments["path"].as_str().unwrap().to_owned(),
                )
            })
            .collect();
        let expected = [
            ("write_file", "a.txt"),
            ("edit_file", "b.rs"),
            ("write_file", "c.rs"),
            ("write_file", "d"),
        ];
        assert_eq!(
            shown,
            expected.map(|(tool, path)| (tool.to_owned(), path.to_owned()))
        );
        assert_eq!(calls[0].arguments["content"], "one\ntwo\n");
        assert_eq!(calls[1].arguments["old_text"], "ctx\nold\n");
    }

    #[test]
    fn heads_that_agents_read_leniently_are_files_and_an_unknown_form_is_an_error() {
        let patch = "*** Begin Patch\n*** Add File: a.txt\n+x\n *** Delete File: secrets/key\n\t*** Add File:b\n*** Update File: c\n *** Move to:d\n*** End Patch";
        let calls = split_patch_into_calls(patch, None).unwrap();
        let paths = calls.iter().map(|call| call.arguments["path"].as_str());
        let paths: Vec<&str> = paths.flatten().collect();
        assert_eq!(paths, ["a.txt", "secrets/key", "b", "c", "d"]);
        let many = "*** Delete File: x\n".repeat(MAX_FILES_PER_PATCH + 1);
        for unknown in [
            "no patch",
            "*** Begin Patch\n*** End Patch",
            &format!("{BEGIN_PATCH_LINE}\n{many}"),
        ] {
            assert!(split_patch_into_calls(unknown, None).is_err(), "{unknown}");
        }
    }
}
