//! `read_file`: reads a text file or a part of it, or an image.
//!
//! Long files are answered in pages, limited by lines and bytes. The tool records which lines the
//! model was shown, so that `write_file` can refuse to overwrite unseen text. Skills read their
//! files with the same code. Start from [`read_file_tool`].

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::super::encoding::{self, TextEncoding};
use super::super::known::{FileContentVersion, FileLinesReadByCall};
use super::super::subject::Subject;
use super::super::workspace::{Workspace, WorkspaceError, file_version_from_attributes};
use super::super::{SharedTool, ToolOutput};
use super::stale::{self, MAX_COMPARED_FILE_BYTES};
use super::{FileToolCall, WORKSPACE_READ_TIMEOUT, build_file_tool, omit_changed_file_description};
use crate::message::blob::{MAX_IMAGE_BYTES, detect_image};
use crate::message::{Blob, EffectClass};

/// Maximum number of bytes in one answer, about as much as a model can use well.
const MAX_ANSWER_BYTES: usize = 256 * 1024;

/// Maximum number of lines in one answer.
const MAX_ANSWER_LINES: u64 = 2_000;

/// Number of bytes at the start of a large file that are searched for a NUL, which marks binary
/// data.
const BINARY_DETECTION_BYTES: usize = 8 * 1024;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// Number of the first line to read, from 1. Default: 1.
    #[serde(default)]
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// Number of lines to read. Default and maximum: 2000.
    #[serde(default)]
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

pub(super) fn read_file_tool(workspace: &Arc<Workspace>) -> SharedTool {
    Arc::new(build_file_tool(
        "read_file",
        "Reads a text file of the workspace, or shows an image (PNG, JPEG, GIF, WebP). Long texts are cut; a note at \
                 the end then says with which offset to go on.",
        EffectClass::Read,
        Subject::File,
        workspace,
        read_file,
        omit_changed_file_description,
    ))
}

/// Reads a file in a directory other than the workspace, with the same result as the tool.
pub(crate) async fn read_file_outside_workspace(
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
    let work = move |folder: &Workspace, cancel: &CancellationToken| {
        let (file, bytes) = folder.open_file(&asked.path)?;
        Ok(read_opened_file(file, bytes, cancel, &asked)?.output)
    };
    folder
        .run_blocking_read_only(cancel, WORKSPACE_READ_TIMEOUT, work)
        .await
}

/// Returns lines of a file whose content is in memory, with the same result as the tool.
pub(crate) fn read_file_from_memory(
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
    Ok(read_opened_file(content, content.len() as u64, cancel, &asked)?.output)
}

/// Answer to a call, with the range of the file that it shows.
struct ReadFileAnswer {
    output: ToolOutput,
    /// Version of the file, computed from its content; `None` if the content was not hashed, as for
    /// a large file.
    version: Option<FileContentVersion>,
    /// Numbers of the first and the last line that the answer shows completely.
    lines: Option<(u64, u64)>,
    /// Number of lines of the file, if its end was reached.
    n_lines: Option<u64>,
}

impl ReadFileAnswer {
    /// Builds an answer that shows no text of the file.
    fn new_without_file_text(output: ToolOutput) -> Self {
        Self {
            output,
            version: None,
            lines: None,
            n_lines: None,
        }
    }
}

fn read_file(
    workspace: &Workspace,
    call: &FileToolCall,
    asked: &Arguments,
) -> Result<ToolOutput, WorkspaceError> {
    let (file, bytes) = workspace.open_file(&asked.path)?;
    // Read the file's attributes before its content: if the file changes meanwhile, the attributes
    // of the next check differ.
    let stamp = file_version_from_attributes(&file).ok();
    let answer = read_opened_file(file, bytes, &call.cancel, asked)?;
    let is_text = answer.lines.is_some() || answer.n_lines == Some(0);
    if let (Some(known), Some(version), true) = (&call.known, answer.version.or(stamp), is_text) {
        let reading = FileLinesReadByCall {
            version,
            lines: answer.lines,
            n_lines: answer.n_lines,
        };
        let text = answer.output.content.to_string();
        known.record_file_read(
            &call.id,
            stale::canonical_file_key(workspace, &asked.path),
            reading,
            &text,
        );
    }
    Ok(answer.output)
}

fn read_opened_file(
    mut file: impl Read,
    size: u64,
    cancel: &CancellationToken,
    asked: &Arguments,
) -> Result<ReadFileAnswer, WorkspaceError> {
    let failed = |source| WorkspaceError::Io {
        path: asked.path.clone(),
        source,
    };
    let mut begin = Vec::new();
    // The reported size can be wrong: files grow, and files in `/proc` report 0.
    file.by_ref()
        .take(MAX_COMPARED_FILE_BYTES + 1)
        .read_to_end(&mut begin)
        .map_err(failed)?;
    let is_whole = begin.len() as u64 <= MAX_COMPARED_FILE_BYTES;
    let size = size.max(begin.len() as u64);
    if detect_image(&begin).is_some() {
        let output = read_image(begin.chain(file), size, &asked.path).map_err(failed)?;
        return Ok(ReadFileAnswer::new_without_file_text(output));
    }
    let binary = || {
        ReadFileAnswer::new_without_file_text(ToolOutput::from_error_content(format!(
            "`{}` is a binary file of {size} bytes; this tool reads text and images",
            asked.path
        )))
    };
    if is_whole {
        let version = FileContentVersion::from_content(&begin);
        let Some(decoded) = encoding::decode_text_file(begin) else {
            return Ok(binary());
        };
        let text = match decoded.encoding {
            TextEncoding::Damaged => encoding::replace_invalid_bytes(&decoded.text),
            _ => decoded.text,
        };
        let mut answer = read_lines(text.as_bytes(), cancel, asked)?;
        answer.version = Some(version);
        if let Some(note) = decoded
            .encoding
            .encoding_note()
            .filter(|_| !answer.output.is_error)
        {
            answer.output = append_host_note(answer.output, &note);
        }
        return Ok(answer);
    }
    if encoding::strip_utf16_bom(&begin).is_some() {
        return Ok(ReadFileAnswer::new_without_file_text(
            ToolOutput::from_error_content(format!(
                "`{}` is UTF-16 text of {size} bytes, more than the {MAX_COMPARED_FILE_BYTES} that are decoded; convert it to UTF-8 first, for \
             example with `iconv -f UTF-16 -t UTF-8`",
                asked.path
            )),
        ));
    }
    if begin[..BINARY_DETECTION_BYTES.min(begin.len())].contains(&0) {
        return Ok(binary());
    }
    let mut answer = read_lines(BufReader::new(begin.chain(file)), cancel, asked)?;
    if answer.output.content.to_string().contains('\u{fffd}') {
        let note = "some bytes of the file are not UTF-8 and are shown as U+FFFD";
        answer.output = append_host_note(answer.output, note);
    }
    Ok(answer)
}

/// Appends a note of the host, in brackets, to the text that the tool returns.
fn append_host_note(output: ToolOutput, note: &str) -> ToolOutput {
    let text = output.content.to_string();
    let line = if text.ends_with('\n') { "" } else { "\n" };
    ToolOutput::ok(format!("{text}{line}[{note}]"))
}

/// Reads the lines of a file that the call requests.
fn read_lines(
    mut reader: impl BufRead,
    cancel: &CancellationToken,
    asked: &Arguments,
) -> Result<ReadFileAnswer, WorkspaceError> {
    let failed = |source| WorkspaceError::Io {
        path: asked.path.clone(),
        source,
    };
    let first = asked.offset.unwrap_or(1).max(1);
    let limit = asked
        .limit
        .unwrap_or(MAX_ANSWER_LINES)
        .min(MAX_ANSWER_LINES);
    let mut text = Vec::new();
    let mut number = 1;
    while number < first {
        if cancel.is_cancelled() {
            return Err(WorkspaceError::Cancelled);
        }
        if reader.skip_until(b'\n').map_err(failed)? == 0 {
            let n_lines = number - 1;
            return Ok(ReadFileAnswer::new_without_file_text(
                ToolOutput::from_error_content(format!(
                    "`{}` has only {n_lines} lines; offset {first} is behind its end",
                    asked.path
                )),
            ));
        }
        number += 1;
    }
    while number < first.saturating_add(limit) {
        let before = text.len();
        // Read one byte more than fits, to distinguish a line that just fits from one that is too
        // long.
        let room = (MAX_ANSWER_BYTES - before) as u64 + 1;
        let count = reader
            .by_ref()
            .take(room)
            .read_until(b'\n', &mut text)
            .map_err(failed)?;
        if count == 0 {
            break;
        }
        if text.len() > MAX_ANSWER_BYTES {
            let output = build_size_limited_answer(text, before, first, number);
            return Ok(ReadFileAnswer {
                lines: (before > 0).then_some((first, number - 1)),
                ..ReadFileAnswer::new_without_file_text(output)
            });
        }
        number += 1;
    }
    let is_end = reader.fill_buf().map_err(failed)?.is_empty();
    let mut content = String::from_utf8_lossy(&text).into_owned();
    if content.is_empty() && first == 1 && is_end {
        content.push_str("[the file is empty]");
    } else if !is_end {
        content.push_str(&format_range_note(first, number - 1, number));
    }
    Ok(ReadFileAnswer {
        lines: (number > first).then_some((first, number - 1)),
        n_lines: is_end.then_some(number - 1),
        ..ReadFileAnswer::new_without_file_text(ToolOutput::ok(content))
    })
}

/// Returns the image, or an error with the reason why no model accepts the image.
fn read_image(file: impl Read, size: u64, path: &str) -> std::io::Result<ToolOutput> {
    let mut bytes = Vec::new();
    // Read one byte more than allowed, to detect an oversized image.
    file.take(MAX_IMAGE_BYTES + 1).read_to_end(&mut bytes)?;
    let mut blob = Blob::from_bytes(&bytes, "");
    blob.size = blob.size.max(size);
    Ok(match blob.model_rejection_reason() {
        None => ToolOutput::from_bytes(bytes, ""),
        Some(why) => ToolOutput::from_error_content(format!(
            "`{path}` cannot be shown, it is {}. Make a smaller copy of it and read that",
            blob.unshown_blob_placeholder(&why)
        )),
    })
}

/// Builds the answer when line `number` exceeds the maximum size of an answer: the lines before it,
/// or the beginning of this line if none precedes it.
fn build_size_limited_answer(
    mut text: Vec<u8>,
    before: usize,
    first: u64,
    number: u64,
) -> ToolOutput {
    if before > 0 {
        text.truncate(before);
        let mut text = String::from_utf8_lossy(&text).into_owned();
        text.push_str(&format_range_note(first, number - 1, number));
        return ToolOutput::ok(text);
    }
    text.truncate(MAX_ANSWER_BYTES);
    let next = number + 1;
    ToolOutput::ok(format!(
        "{}\n[line {number} is longer than {MAX_ANSWER_BYTES} bytes and was cut; continue with offset {next}]",
        String::from_utf8_lossy(&text)
    ))
}

fn format_range_note(first: u64, last: u64, next: u64) -> String {
    format!("[lines {first}–{last}; the file continues: read it with offset {next}]")
}
