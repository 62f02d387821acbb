//! Answers calls of the tool `read_output`.

use crate::keep;
use crate::rows::{OutputRow, split_into_output_rows};
use rind_sdk::prelude::Error;

/// Maximum number of rows in one answer of the tool `read_output`.
const MAX_ROWS_PER_ANSWER: usize = 2000;

/// Arguments of `read_output`, without the handle that names the stored output.
pub(crate) struct OutputRowsRequest<'a> {
    /// Number of the first row to return, from 1.
    pub(crate) offset: usize,
    /// Maximum number of rows to return.
    pub(crate) limit: usize,
    /// Text that the returned rows must contain.
    pub(crate) search: Option<&'a str>,
}

/// Searches all outputs, the newest first, for the requested text, and returns as many of the rows
/// that contain it as fit in `bytes`.
pub(crate) fn search_all_outputs(
    handles: Vec<String>,
    request: &OutputRowsRequest<'_>,
    bytes: usize,
) -> Result<String, Error> {
    let Some(search) = request.search else {
        let text = "give the handle of an output, or a `search` that looks through all of them";
        return Err(Error::Failed(text.to_owned()));
    };
    let n_searched = handles.len();
    let needle = search.to_ascii_lowercase();
    let (mut found, mut n_more) = (String::new(), 0);
    for handle in handles.iter().rev() {
        // The output may have been removed in the meantime to make room for another.
        let Ok(text) = keep::get_output(handle) else {
            continue;
        };
        if !split_into_output_rows(&text).any(|row| has_search_match_start(&row, &needle)) {
            continue;
        }
        let left = (bytes * 3 / 4).saturating_sub(found.len());
        let rows = format_output_rows(&text, handle, request, left);
        if !found.is_empty() && rows.len() > left {
            n_more += 1;
            continue;
        }
        found.push_str(&rows);
        found.push('\n');
    }
    if found.is_empty() {
        return Ok(format!(
            "[no row of {n_searched} outputs contains {search:?}]"
        ));
    }
    if n_more > 0 {
        found.push_str(&format!("[{n_more} more outputs contain this text]\n"));
    }
    Ok(found.trim_end_matches('\n').to_owned())
}

/// Returns the requested rows, as many as fit in `bytes`, after a line with the total number of
/// rows and the offset to continue from.
pub(crate) fn format_output_rows(
    text: &str,
    handle: &str,
    request: &OutputRowsRequest<'_>,
    bytes: usize,
) -> String {
    let total = split_into_output_rows(text).count();
    let offset = request.offset.max(1);
    let limit = request.limit.clamp(1, MAX_ROWS_PER_ANSWER);
    let needle = request.search.map(str::to_ascii_lowercase);
    let numbered = split_into_output_rows(text)
        .enumerate()
        .map(|(index, row)| (index + 1, row))
        .skip(offset - 1);
    let mut wanted = numbered.filter(|(_, row)| {
        needle
            .as_ref()
            .is_none_or(|needle| has_search_match_start(row, needle))
    });

    let mut body = String::new();
    let mut last = None;
    let mut n_rows = 0;
    let mut next = None;
    for (number, row) in wanted.by_ref() {
        let line = if needle.is_some() {
            format!("{number}: {}\n", row.text)
        } else {
            format!("{}\n", row.text)
        };
        if n_rows == limit || (n_rows > 0 && body.len() + line.len() > bytes * 3 / 4) {
            next = Some(number);
            break;
        }
        body.push_str(&line);
        n_rows += 1;
        last = Some(number);
    }
    let more = match next {
        Some(next) => format!("; go on with \"offset\": {next}"),
        None => String::new(),
    };
    let head = match (request.search, last) {
        (Some(search), Some(_)) => format!(
            "[{handle}: {n_rows} of {total} rows, from row {offset} on, contain {search:?}{more}]"
        ),
        (Some(search), None) => format!(
            "[{handle}: no row from {offset} on contains {search:?}; there are {total} rows]"
        ),
        (None, Some(last)) => format!("[{handle}: rows {offset} to {last} of {total}{more}]"),
        (None, None) => format!("[{handle}: there are only {total} rows]"),
    };
    format!("{head}\n{body}").trim_end_matches('\n').to_owned()
}

/// Whether `needle` starts in this row. The match may extend into the next row of the same line.
fn has_search_match_start(row: &OutputRow<'_>, needle: &str) -> bool {
    let end = (row.text.len() + needle.len()).saturating_sub(1);
    let window = &row.rest[..row.rest.ceil_char_boundary(end)];
    window.to_ascii_lowercase().contains(needle)
}
