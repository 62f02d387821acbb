//! `write_file`: creates a file or replaces its content.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::super::encoding::{self, TextEncoding};
use super::super::known::{FileContentVersion, FileWriteRefusal};
use super::super::subject::Subject;
use super::super::workspace::{ExpectedFileState, Workspace, WorkspaceError};
use super::super::{ProposedFileChange, SharedTool, ToolOutput};
use super::stale::{self, MAX_COMPARED_FILE_BYTES};
use super::{FileTool, FileToolCall, build_file_tool, format_count_with_noun};
use crate::message::EffectClass;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace. Missing folders are made.
    path: String,
    /// The whole new content.
    content: String,
}

pub(super) fn write_file_tool(workspace: &Arc<Workspace>) -> SharedTool {
    Arc::new(FileTool {
        check: |workspace, call, asked| Ok(plan_file_write(workspace, call, asked)?.err()),
        change: preview_write,
        ..build_file_tool(
            "write_file",
            "Writes a whole text file of the workspace, in one step; what was in it before is gone. A file that exists \
                 must have been read first. To change a part of a file use edit_file.",
            EffectClass::Write,
            Subject::File,
            workspace,
            write_file,
            describe_replaced_file,
        )
    })
}

fn describe_replaced_file(
    workspace: &Workspace,
    asked: &Arguments,
) -> Result<Option<String>, WorkspaceError> {
    Ok(Some(
        match workspace.read_file(&asked.path, MAX_COMPARED_FILE_BYTES) {
            Ok(content) => {
                let lines = format_count_with_noun(
                    content.split_inclusive(|byte| *byte == b'\n').count(),
                    "line",
                );
                let names = workspace.hard_link_note(&asked.path)?;
                format!("replaces {} bytes, {lines}{names}", content.len())
            }
            Err(WorkspaceError::Missing(_)) => "a file that is not there yet".to_owned(),
            Err(error) => return Err(error),
        },
    ))
}

/// Returns the text of an existing file before and after the write.
fn preview_write(
    workspace: &Workspace,
    asked: &Arguments,
) -> Result<Option<ProposedFileChange>, WorkspaceError> {
    let content = match workspace.read_file(&asked.path, MAX_COMPARED_FILE_BYTES) {
        Err(WorkspaceError::Missing(_)) => return Ok(None),
        content => content?,
    };
    let decoded = encoding::decode_text_file(content);
    // The text of a file with invalid bytes contains placeholders for these bytes, so a diff would
    // show text that is not in the file.
    let decoded = decoded.filter(|decoded| decoded.encoding != TextEncoding::Damaged);
    Ok(decoded.map(|decoded| ProposedFileChange {
        path: asked.path.clone(),
        after: decoded.encoding.strip_bom(&asked.content).to_owned(),
        before: decoded.text,
    }))
}

/// Bytes to write, and the expected state of the file before the write.
struct PlannedFileWrite {
    bytes: Vec<u8>,
    expected: ExpectedFileState,
    /// Notes for the model about side effects of the write.
    notes: Vec<String>,
}

/// Prepares a write. The inner `Err` is the reason why the file must not be written, worded for the
/// model.
fn plan_file_write(
    workspace: &Workspace,
    call: &FileToolCall,
    asked: &Arguments,
) -> Result<Result<PlannedFileWrite, String>, WorkspaceError> {
    let path = &asked.path;
    let (version, old) = match workspace.read_file(path, MAX_COMPARED_FILE_BYTES) {
        Ok(old) => (FileContentVersion::from_content(&old), Some(old)),
        Err(WorkspaceError::TooLarge { .. }) => {
            (workspace.file_version(path, MAX_COMPARED_FILE_BYTES)?, None)
        }
        Err(WorkspaceError::Missing(_)) => {
            return Ok(Ok(PlannedFileWrite {
                bytes: asked.content.as_bytes().to_vec(),
                expected: ExpectedFileState::Nothing,
                notes: Vec::new(),
            }));
        }
        Err(error) => return Err(error),
    };
    // No text is lost if the file is empty or its content stays the same.
    let is_harmless = old
        .as_ref()
        .is_some_and(|old| old.is_empty() || old == asked.content.as_bytes());
    let known = call.known.as_ref().filter(|_| !is_harmless);
    let checked = known.map_or(Ok(()), |known| {
        known.check_overwrite(
            &stale::canonical_file_key(workspace, path),
            version,
            call.step,
        )
    });
    let decoded = old.map(encoding::decode_text_file);
    match (checked, &decoded) {
        (Err(FileWriteRefusal::Unread | FileWriteRefusal::Partly), Some(None)) => {
            return Ok(Err(format!(
                "`{path}` is not written: it is a binary file, and writing text would destroy it. Choose another path, or delete the file \
                 first if it is to be replaced"
            )));
        }
        (Err(why), _) => return Ok(Err(stale::format_write_refusal(path, why))),
        (Ok(()), _) => {}
    }
    let mut notes = Vec::new();
    let mut encoding = TextEncoding::Utf8 { has_bom: false };
    if let Some(decoded) = decoded.flatten() {
        encoding = decoded.encoding;
        notes.extend(describe_line_ending_change(&decoded.text, &asked.content));
    }
    let refused = match encoding {
        TextEncoding::Damaged if !is_harmless => Some(
            "some of its bytes are not UTF-8, so a text cannot hold all of it. Change a part of it with edit_file, which keeps \
             these bytes, or delete the file first"
                .to_owned(),
        ),
        _ => encoding.find_unstorable_text_reason(&asked.content).map(|why| format!("in `content`, {why}")),
    };
    let bytes = match refused {
        Some(why) => Err(why),
        None if is_harmless && encoding == TextEncoding::Damaged => {
            Ok(asked.content.as_bytes().to_vec())
        }
        None => encoding.encode_text(encoding.strip_bom(&asked.content)),
    };
    if !encoding.is_utf8_without_bom() {
        notes.push(format!(
            "encoded as {}, as before",
            encoding.encoding_name()
        ));
    }
    let cap = MAX_COMPARED_FILE_BYTES;
    Ok(match bytes {
        Ok(bytes) => Ok(PlannedFileWrite {
            bytes,
            expected: ExpectedFileState::Version { version, cap },
            notes,
        }),
        Err(why) => Err(format!("`{path}` is not written: {why}")),
    })
}

/// Returns a note for the model if all lines ended in CR LF and the new content has only LF.
fn describe_line_ending_change(old: &str, new: &str) -> Option<String> {
    let is_crlf = |text: &str| {
        let n_breaks = text.matches('\n').count();
        n_breaks > 0 && text.matches("\r\n").count() == n_breaks
    };
    let is_lf = new.contains('\n') && !new.contains("\r\n");
    (is_crlf(old) && is_lf).then(|| "its lines ended in CR LF and end in LF now".to_owned())
}

fn write_file(
    workspace: &Workspace,
    call: &FileToolCall,
    asked: &Arguments,
) -> Result<ToolOutput, WorkspaceError> {
    let path = &asked.path;
    let plan = match plan_file_write(workspace, call, asked)? {
        Ok(plan) => plan,
        Err(why) => return Ok(ToolOutput::from_error_content(why)),
    };
    let written = workspace.write_file_checking_state(
        path,
        &plan.bytes,
        plan.expected,
        call.recorder.as_deref(),
    )?;
    if let Some(known) = &call.known {
        let n_lines = asked.content.split_inclusive('\n').count() as u64;
        let place = stale::canonical_file_key(workspace, path);
        known.record_file_written(
            &call.id,
            place,
            FileContentVersion::from_content(&plan.bytes),
            n_lines,
        );
    }
    let verb = if written.is_new {
        "created"
    } else {
        "overwrote"
    };
    let mut text = format!("{verb} `{path}` ({} bytes)", plan.bytes.len());
    for note in plan.notes.into_iter().chain(written.hard_link_note()) {
        text.push_str(&format!("\n[{note}]"));
    }
    Ok(ToolOutput::ok(text))
}
