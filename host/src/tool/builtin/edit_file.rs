//! `edit_file`: puts one text in place of another within a file.

use std::fmt::Write;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::super::subject::Subject;
use super::super::workspace::{Workspace, WorkspaceError};
use super::super::{SharedTool, ToolOutput};
use super::{count, file_tool};
use crate::message::EffectClass;

/// Largest file that is edited.
const CAP_BYTES: u64 = 8 * 1024 * 1024;

/// Unchanged lines shown before and after the change.
const CONTEXT_LINES: usize = 3;

/// Most lines shown of the old and of the new text.
const SHOWN_LINES: usize = 40;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The text to replace, exactly as it is in the file, indentation included. Must be in it once, unless replace_all is set.
    #[schemars(length(min = 1))]
    old_text: String,
    /// The text to put in its place.
    new_text: String,
    /// Replace every place where old_text is. Default: false.
    #[serde(default)]
    replace_all: bool,
}

pub(super) fn tool(workspace: &Arc<Workspace>) -> SharedTool {
    file_tool(
        "edit_file",
        "Replaces a text in a file of the workspace by another. Give enough lines around the change for the old text \
                 to be in the file exactly once.",
        EffectClass::Write,
        Subject::File,
        workspace,
        edit,
        target,
    )
}

/// The lines of the text that is replaced, or the reason why nothing will be.
fn target(workspace: &Workspace, asked: &Arguments) -> Result<Option<String>, WorkspaceError> {
    let content = workspace.read(&asked.path, CAP_BYTES)?;
    let content = String::from_utf8_lossy(&content);
    Ok(Some(match replaced(&content, asked) {
        Err(why) => format!("nothing will change: {why}"),
        Ok(change) if change.n_places > 1 => count(change.n_places, "place"),
        Ok(change) => {
            // In bytes: the last one may be within a character.
            let breaks = |offset: usize| {
                let before = content.bytes().take(offset);
                before.filter(|byte| *byte == b'\n').count()
            };
            let at = |offset: usize| breaks(offset) + 1;
            let (first, last) = (at(change.at), at(change.end.saturating_sub(1)));
            match first == last {
                true => format!("line {first}"),
                false => format!("lines {first} to {last}"),
            }
        }
    }))
}

fn edit(
    workspace: &Workspace,
    _: &CancellationToken,
    asked: &Arguments,
) -> Result<ToolOutput, WorkspaceError> {
    let path = &asked.path;
    let Ok(content) = String::from_utf8(workspace.read(path, CAP_BYTES)?) else {
        return Ok(ToolOutput::error(format!(
            "`{path}` is not UTF-8 text and cannot be edited by text"
        )));
    };
    let change = match replaced(&content, asked) {
        Ok(change) => change,
        Err(why) => return Ok(ToolOutput::error(format!("`{path}` is unchanged: {why}"))),
    };
    workspace.write(path, change.content.as_bytes())?;
    let places = count(change.n_places, "place");
    Ok(ToolOutput::ok(format!(
        "edited `{path}` in {places}\n{}",
        change.snippet
    )))
}

struct Change {
    /// First byte that is replaced, and the one behind the last.
    at: usize,
    end: usize,
    content: String,
    n_places: usize,
    snippet: String,
}

fn replaced(content: &str, asked: &Arguments) -> Result<Change, String> {
    let (old, new) = with_line_endings_of(content, &asked.old_text, &asked.new_text);
    if old.is_empty() {
        return Err("old_text is empty".to_owned());
    }
    if old == new {
        return Err("old_text and new_text are the same".to_owned());
    }
    let n_places = content.matches(&*old).count();
    match n_places {
        0 => Err(
            "old_text is not in it. It must match exactly, white space included; read the file again".to_owned(),
        ),
        1 => Ok(()),
        _ if asked.replace_all => Ok(()),
        _ => Err(format!(
            "old_text is in it {n_places} times. Give more lines around it so that it is unique, or set replace_all"
        )),
    }?;
    let at = content.find(&*old).unwrap_or(0);
    Ok(Change {
        at,
        end: at + old.len(),
        content: content.replace(&*old, &new),
        n_places,
        snippet: snippet(content, at, &old, &new),
    })
}

/// The two texts with `\r\n` where the model wrote `\n` and the file's lines all end in `\r\n`.
fn with_line_endings_of(content: &str, old: &str, new: &str) -> (String, String) {
    let n_breaks = content.matches('\n').count();
    let is_crlf = n_breaks > 0 && content.matches("\r\n").count() == n_breaks;
    if !is_crlf {
        return (old.to_owned(), new.to_owned());
    }
    let convert = |text: &str| text.replace("\r\n", "\n").replace('\n', "\r\n");
    (convert(old), convert(new))
}

/// The first changed place as a unified diff shows it, with whole lines.
fn snippet(content: &str, at: usize, old: &str, new: &str) -> String {
    let start = content[..at].rfind('\n').map_or(0, |line| line + 1);
    let old_end = at + old.len();
    let end = if old.ends_with('\n') {
        old_end
    } else {
        content[old_end..]
            .find('\n')
            .map_or(content.len(), |more| old_end + more)
    };
    let removed = &content[start..end];
    let added = format!("{}{new}{}", &content[start..at], &content[old_end..end]);
    let before: Vec<&str> = content[..start].lines().collect();
    let shown_before = &before[before.len().saturating_sub(CONTEXT_LINES)..];
    let rest = &content[end..];
    let after = if old.ends_with('\n') {
        rest
    } else {
        let after_break = rest.strip_prefix("\r\n").or(rest.strip_prefix('\n'));
        after_break.unwrap_or_default()
    };
    let mut text = format!("@@ line {} @@\n", before.len() + 1);
    let mut push = |sign: char, lines: &mut dyn Iterator<Item = &str>, cap: usize| {
        let mut n_more = 0_usize;
        for (number, line) in lines.enumerate() {
            if number < cap {
                let _ = writeln!(text, "{sign}{line}");
            } else {
                n_more += 1;
            }
        }
        if n_more > 0 {
            let _ = writeln!(text, "{sign}[… {} more]", count(n_more, "line"));
        }
    };
    push(' ', &mut shown_before.iter().copied(), CONTEXT_LINES);
    push('-', &mut removed.lines(), SHOWN_LINES);
    push('+', &mut added.lines(), SHOWN_LINES);
    push(' ', &mut after.lines().take(CONTEXT_LINES), CONTEXT_LINES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(content: &str, old: &str, new: &str, replace_all: bool) -> Result<Change, String> {
        replaced(
            content,
            &Arguments {
                path: String::new(),
                old_text: old.to_owned(),
                new_text: new.to_owned(),
                replace_all,
            },
        )
    }

    #[test]
    fn the_snippet_shows_whole_lines_around_the_change() {
        for (content, old, new, expected) in [
            (
                "one\ntwo\nthree\nfour\nfive\n",
                "re",
                "r33",
                "@@ line 3 @@\n one\n two\n-three\n+thr33e\n four\n five\n",
            ),
            (
                "one\ntwo\nthree\n",
                "two\n",
                "",
                "@@ line 2 @@\n one\n-two\n three\n",
            ),
        ] {
            let change = change(content, old, new, false).map(|change| change.snippet);
            assert_eq!(change.as_deref(), Ok(expected));
        }
    }

    #[test]
    fn lines_and_characters_stay_whole_and_end_as_the_file_has_them() {
        for (content, old, new, expected) in [
            ("one\ntwo\nthree\n", "two\n", "", "one\nthree\n"),
            ("äöü\nß\n", "ö", "€", "ä€ü\nß\n"),
            ("a\r\nb\r\n", "a\nb", "a\nx\nb", "a\r\nx\r\nb\r\n"),
        ] {
            let change = change(content, old, new, false).map(|change| change.content);
            assert_eq!(change.as_deref(), Ok(expected));
        }
    }

    #[test]
    fn a_file_with_both_line_endings_is_taken_as_it_is() {
        assert!(change("a\r\nb\n", "a\nb", "x", false).is_err());
    }

    #[test]
    fn the_number_of_places_is_told() {
        let why = change("x x x", "x", "y", false).map(|change| change.content);
        assert!(why.is_err_and(|why| why.contains("3 times")));
        let all = change("x x x", "x", "y", true).map(|change| change.content);
        assert_eq!(all.as_deref(), Ok("y y y"));
    }
}
