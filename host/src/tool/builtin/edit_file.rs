//! `edit_file`: replaces a text in a file.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::encoding::{self, TextEncoding};
use super::super::known::FileContentVersion;
use super::super::subject::Subject;
use super::super::workspace::{ExpectedFileState, Workspace, WorkspaceError};
use super::super::{ProposedFileChange, SharedTool, ToolOutput};
use super::edit_text::{TextReplacement, TextReplacementResult, replace_text};
use super::stale::{self, MAX_COMPARED_FILE_BYTES};
use super::{FileTool, FileToolCall, build_file_tool, format_count_with_noun};
use crate::message::EffectClass;

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

pub(super) fn edit_file_tool(workspace: &Arc<Workspace>) -> SharedTool {
    Arc::new(FileTool {
        check: find_edit_refusal_reason,
        change: preview_edit,
        ..build_file_tool(
            "edit_file",
            "Replaces a text in a file of the workspace by another. Give enough lines around the change for the old text \
                 to be in the file exactly once.",
            EffectClass::Write,
            Subject::File,
            workspace,
            edit_file,
            describe_replaced_lines,
        )
    })
}

/// Describes the edit for the approval question: the lines to be replaced, or the reason why the
/// edit will fail.
fn describe_replaced_lines(
    workspace: &Workspace,
    asked: &Arguments,
) -> Result<Option<String>, WorkspaceError> {
    let content = workspace.read_file(&asked.path, MAX_COMPARED_FILE_BYTES)?;
    let change = match plan_edit(content, asked) {
        Err(why) => {
            return Ok(Some(format!(
                "the edit will fail and change nothing: {why}"
            )));
        }
        Ok(PlannedFileEdit { change, .. }) => change,
    };
    let (first, last) = change.lines;
    let place = match change.n_places > 1 {
        true => format_count_with_noun(change.n_places, "place"),
        false if first == last => format!("line {first}"),
        false => format!("lines {first} to {last}"),
    };
    let names = workspace.hard_link_note(&asked.path)?;
    Ok(Some(format!("{place}{names}")))
}

/// Returns the text of the file before and after the edit.
fn preview_edit(
    workspace: &Workspace,
    asked: &Arguments,
) -> Result<Option<ProposedFileChange>, WorkspaceError> {
    let content = workspace.read_file(&asked.path, MAX_COMPARED_FILE_BYTES)?;
    let Some(decoded) = encoding::decode_text_file(content.clone()) else {
        return Ok(None);
    };
    let change = plan_edit(content, asked).ok();
    // The text of a file with invalid bytes contains placeholders for these bytes, so a diff would
    // show text that is not in the file.
    let change = change.filter(|plan| plan.encoding != TextEncoding::Damaged);
    Ok(change.map(|plan| ProposedFileChange {
        path: asked.path.clone(),
        before: decoded.text,
        after: plan.change.content,
    }))
}

/// Returns the reason why the edit would fail: the file changed since the model read it, or the
/// text cannot be replaced.
fn find_edit_refusal_reason(
    workspace: &Workspace,
    call: &FileToolCall,
    asked: &Arguments,
) -> Result<Option<String>, WorkspaceError> {
    let path = &asked.path;
    let content = workspace.read_file(path, MAX_COMPARED_FILE_BYTES)?;
    let version = FileContentVersion::from_content(&content);
    if let Some(why) = stale_file_refusal(workspace, call, path, version) {
        return Ok(Some(why));
    }
    Ok(plan_edit(content, asked)
        .err()
        .map(|why| format_edit_refusal(path, &why)))
}

/// Formats the error for an edit that was not made, from the reason `why`.
fn format_edit_refusal(path: &str, why: &str) -> String {
    format!("`{path}` is unchanged: {why}")
}

fn stale_file_refusal(
    workspace: &Workspace,
    call: &FileToolCall,
    path: &str,
    version: FileContentVersion,
) -> Option<String> {
    let known = call.known.as_ref()?;
    let checked = known.check_edit(&stale::canonical_file_key(workspace, path), version);
    checked
        .err()
        .map(|why| stale::format_write_refusal(path, why))
}

/// Edit that is not written yet, with the bytes that the file will have.
struct PlannedFileEdit {
    change: TextReplacementResult,
    bytes: Vec<u8>,
    encoding: TextEncoding,
}

/// Plans an edit, or returns the reason why it is impossible.
fn plan_edit(content: Vec<u8>, asked: &Arguments) -> Result<PlannedFileEdit, String> {
    let decoded = encoding::decode_text_file(content)
        .ok_or("it is a binary file and cannot be edited by text".to_owned())?;
    let encoding = decoded.encoding;
    if let Some(why) = encoding.find_unstorable_text_reason(&asked.new_text) {
        return Err(format!("in `new_text`, {why}"));
    }
    let change = replace_text(
        &decoded.text,
        TextReplacement {
            // The byte order mark is not part of the text, but models copy it from the output of
            // other tools.
            old: encoding.strip_bom(&asked.old_text),
            new: encoding.strip_bom(&asked.new_text),
            is_everywhere: asked.replace_all,
        },
    )?;
    Ok(PlannedFileEdit {
        bytes: encoding.encode_text(&change.content)?,
        change,
        encoding,
    })
}

fn edit_file(
    workspace: &Workspace,
    call: &FileToolCall,
    asked: &Arguments,
) -> Result<ToolOutput, WorkspaceError> {
    let path = &asked.path;
    let content = workspace.read_file(path, MAX_COMPARED_FILE_BYTES)?;
    let version = FileContentVersion::from_content(&content);
    if let Some(why) = stale_file_refusal(workspace, call, path, version) {
        return Ok(ToolOutput::from_error_content(why));
    }
    let plan = match plan_edit(content, asked) {
        Ok(plan) => plan,
        Err(why) => {
            return Ok(ToolOutput::from_error_content(format_edit_refusal(
                path, &why,
            )));
        }
    };
    let expected = ExpectedFileState::Version {
        version,
        cap: MAX_COMPARED_FILE_BYTES,
    };
    let written = workspace.write_file_checking_state(
        path,
        &plan.bytes,
        expected,
        call.recorder.as_deref(),
    )?;
    if let Some(known) = &call.known {
        let place = stale::canonical_file_key(workspace, path);
        known.record_partial_edit(
            &call.id,
            place,
            FileContentVersion::from_content(&plan.bytes),
        );
    }
    let places = format_count_with_noun(plan.change.n_places, "place");
    let snippet = match plan.encoding {
        TextEncoding::Damaged => encoding::replace_invalid_bytes(&plan.change.snippet),
        _ => plan.change.snippet,
    };
    let mut text = format!("edited `{path}` in {places}\n{snippet}");
    let encoded = (!plan.encoding.is_utf8_without_bom())
        .then(|| format!("encoded as {}, as before", plan.encoding.encoding_name()));
    for note in encoded.into_iter().chain(written.hard_link_note()) {
        text.push_str(&format!("[{note}]\n"));
    }
    Ok(ToolOutput::ok(text))
}
