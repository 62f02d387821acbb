//! Splits a text into rows, and builds the preview that the model gets in place of a large result.

use rind_sdk::prelude::{Error, data};
use std::fmt::Write;

/// Maximum size of a row, in bytes: longer lines continue in the next row.
pub(crate) const MAX_ROW_BYTES: usize = 1000;

/// Settings of the plugin: which outputs are replaced by a preview, and its size.
#[data]
pub(crate) struct SandboxSettings {
    /// Size in bytes above which a result is replaced by a preview.
    pub(crate) threshold: usize,
    /// Maximum number of rows from the start in a preview.
    pub(crate) head: usize,
    /// Maximum number of rows from the end in a preview.
    pub(crate) tail: usize,
}

/// A row of a text: a line, or a part of a long line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutputRow<'a> {
    /// Text of the row.
    pub(crate) text: &'a str,
    /// Text of the row and the text that follows it on the same line.
    pub(crate) rest: &'a str,
}

/// Splits a text into rows. A long line is cut at character boundaries.
pub(crate) fn split_into_output_rows(text: &str) -> impl Iterator<Item = OutputRow<'_>> {
    text.lines().flat_map(|line| {
        let mut rest = Some(line);
        std::iter::from_fn(move || {
            let line = rest.take()?;
            let (row, more) = line.split_at(line.floor_char_boundary(MAX_ROW_BYTES));
            rest = (!more.is_empty()).then_some(more);
            Some(OutputRow {
                text: row,
                rest: line,
            })
        })
    })
}

/// Returns the preview that replaces a large result: the beginning, the end, and how to read the
/// part between them.
pub(crate) fn preview_output(
    text: &str,
    kept: &Result<String, Error>,
    settings: &SandboxSettings,
) -> String {
    let all: Vec<OutputRow<'_>> = split_into_output_rows(text).collect();
    // `count_fitting_rows` counts line breaks too. The two limits are together three eighths of the
    // threshold. Only a single row of at most `MAX_ROW_BYTES` bytes may exceed its limit, so the
    // preview stays far below the threshold.
    let head = count_fitting_rows(all.iter(), settings.head, settings.threshold / 4);
    let tail = count_fitting_rows(
        all[head..].iter().rev(),
        settings.tail,
        settings.threshold / 8,
    );
    let left_out = all.len() - head - tail;

    let mut shown = format!(
        "[This output has {} bytes in {} rows. ",
        text.len(),
        all.len()
    );
    let _ = match kept {
        Ok(handle) => write!(
            shown,
            "It is kept as {handle:?}. The first {head} and the last {tail} rows follow; read on with read_output \
             {{\"handle\": {handle:?}, \"offset\": {}}}, or search it with {{\"handle\": {handle:?}, \"search\": \"…\"}}.]",
            head + 1
        ),
        Err(error) => write!(
            shown,
            "It could not be kept ({}), so only the first {head} and the last {tail} rows follow; if you need more, make \
             the call again so that it answers with less.]",
            error.message()
        ),
    };
    let mut push = |row: &str| {
        shown.push('\n');
        shown.push_str(row);
    };
    all[..head].iter().for_each(|row| push(row.text));
    push(&format!("[… {left_out} rows left out …]"));
    all[all.len() - tail..]
        .iter()
        .for_each(|row| push(row.text));
    shown
}

/// Returns the number of leading rows that fit in `bytes` with their line breaks, at least 1 and at
/// most `most`.
fn count_fitting_rows<'a>(
    rows: impl Iterator<Item = &'a OutputRow<'a>>,
    most: usize,
    bytes: usize,
) -> usize {
    let mut used = 0;
    let fit = rows.take(most).take_while(|row| {
        let first = used == 0;
        used += row.text.len() + 1;
        first || used <= bytes
    });
    fit.count()
}
