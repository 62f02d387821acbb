//! `read_file`: one text file or a part of it, or an image.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::super::subject::Subject;
use super::super::workspace::{Workspace, WorkspaceError};
use super::super::{SharedTool, ToolOutput};
use super::{MAX_LOOK, file_tool, no_target};
use crate::message::blob::{MAX_IMAGE_BYTES, image};
use crate::message::{Blob, EffectClass};

/// Most bytes of one answer: what a model can still use well.
const CAP_BYTES: usize = 256 * 1024;

/// Most lines of one answer.
const CAP_LINES: u64 = 2_000;

/// Bytes at the start of a file that decide whether it is text.
const SNIFF_BYTES: usize = 8 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// Number of the first line to read, from 1. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Number of lines to read. Default and most: 2000.
    #[serde(default)]
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

pub(super) fn tool(workspace: &Arc<Workspace>) -> SharedTool {
    file_tool(
        "read_file",
        "Reads a text file of the workspace, or shows an image (PNG, JPEG, GIF, WebP). Long texts are cut; a note at \
                 the end then says with which offset to go on.",
        EffectClass::Read,
        Subject::File,
        workspace,
        read,
        no_target,
    )
}

/// Reads a file of a folder that is not the workspace, as the tool does.
pub(crate) async fn read_within(
    folder: &Arc<Workspace>,
    path: &str,
    offset: u64,
    cancel: &CancellationToken,
) -> Result<ToolOutput, WorkspaceError> {
    let asked = Arguments {
        path: path.to_owned(),
        offset: Some(offset),
        limit: None,
    };
    let work = move |folder: &Workspace, cancel: &CancellationToken| read(folder, cancel, &asked);
    folder.looking(cancel, MAX_LOOK, work).await
}

/// Reads a file that is held in memory, as the tool does.
pub(crate) fn read_held(
    content: &[u8],
    path: &str,
    offset: u64,
    cancel: &CancellationToken,
) -> Result<ToolOutput, WorkspaceError> {
    let asked = Arguments {
        path: path.to_owned(),
        offset: Some(offset),
        limit: None,
    };
    read_open(content, content.len() as u64, cancel, &asked)
}

fn read(
    workspace: &Workspace,
    cancel: &CancellationToken,
    asked: &Arguments,
) -> Result<ToolOutput, WorkspaceError> {
    let (file, bytes) = workspace.open_file(&asked.path)?;
    read_open(file, bytes, cancel, asked)
}

fn read_open(
    file: impl Read,
    bytes: u64,
    cancel: &CancellationToken,
    asked: &Arguments,
) -> Result<ToolOutput, WorkspaceError> {
    let failed = |source| WorkspaceError::Io {
        path: asked.path.clone(),
        source,
    };
    let mut reader = BufReader::with_capacity(SNIFF_BYTES, file);
    let head = reader.fill_buf().map_err(failed)?;
    if image(head).is_some() {
        return read_image(reader, bytes, &asked.path).map_err(failed);
    }
    if head.contains(&0) {
        return Ok(ToolOutput::error(format!(
            "`{}` is a binary file of {bytes} bytes; this tool reads text and images",
            asked.path
        )));
    }
    let first = asked.offset.unwrap_or(1).max(1);
    let limit = asked.limit.unwrap_or(CAP_LINES).min(CAP_LINES);
    let mut text = Vec::new();
    let mut number = 1;
    while number < first {
        if cancel.is_cancelled() {
            return Err(WorkspaceError::Cancelled);
        }
        if reader.skip_until(b'\n').map_err(failed)? == 0 {
            let n_lines = number - 1;
            return Ok(ToolOutput::error(format!(
                "`{}` has only {n_lines} lines; offset {first} is behind its end",
                asked.path
            )));
        }
        number += 1;
    }
    while number < first + limit {
        let before = text.len();
        // One byte more than fits, so that a line that just fits is told from one that is too long.
        let room = (CAP_BYTES - before) as u64 + 1;
        let count = reader
            .by_ref()
            .take(room)
            .read_until(b'\n', &mut text)
            .map_err(failed)?;
        if count == 0 {
            break;
        }
        if text.len() > CAP_BYTES {
            return Ok(cut_by_bytes(text, before, first, number));
        }
        number += 1;
    }
    let is_end = reader.fill_buf().map_err(failed)?.is_empty();
    let mut content = String::from_utf8_lossy(&text).into_owned();
    if content.is_empty() && first == 1 && is_end {
        content.push_str("[the file is empty]");
    } else if !is_end {
        content.push_str(&note(first, number - 1, number));
    }
    Ok(ToolOutput::ok(content))
}

/// The image itself, or why no model takes it.
fn read_image(file: impl Read, size: u64, path: &str) -> std::io::Result<ToolOutput> {
    let mut bytes = Vec::new();
    // One byte more, so that one which is too large is known for it.
    file.take(MAX_IMAGE_BYTES + 1).read_to_end(&mut bytes)?;
    let mut blob = Blob::of(&bytes, "");
    blob.size = blob.size.max(size);
    Ok(match blob.unfit() {
        None => ToolOutput::blob(bytes, ""),
        Some(why) => ToolOutput::error(format!(
            "`{path}` cannot be shown, it is {}. Make a smaller copy of it and read that",
            blob.not_shown(&why)
        )),
    })
}

/// The answer when the next line does not fit any more.
fn cut_by_bytes(mut text: Vec<u8>, before: usize, first: u64, number: u64) -> ToolOutput {
    if before > 0 {
        text.truncate(before);
        let mut text = String::from_utf8_lossy(&text).into_owned();
        text.push_str(&note(first, number - 1, number));
        return ToolOutput::ok(text);
    }
    text.truncate(CAP_BYTES);
    let next = number + 1;
    ToolOutput::ok(format!(
        "{}\n[line {number} is longer than {CAP_BYTES} bytes and was cut; go on with offset {next}]",
        String::from_utf8_lossy(&text)
    ))
}

fn note(first: u64, last: u64, next: u64) -> String {
    format!("[lines {first}–{last}; the file goes on: read it with offset {next}]")
}
