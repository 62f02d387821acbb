//! Keeps the output of a background command that the model has not read.
//!
//! The output is returned as a terminal would show it. Later output may overwrite the last rows of
//! the screen; if a line changes after it was read, it is returned again with all lines after it.
//! Secrets of the environment are masked, and the end of the output is held back while it may be
//! the beginning of a secret, so that no secret is split over two answers. Start from
//! [`UnreadCommandOutput::take_new_output`].

use crate::tool::live::length_before_partial_secret;
use crate::tool::process::CapturedOutput;

/// Maximum size of the unread output that is kept, in bytes. Of longer output, the first half and
/// the last half of this size are kept.
const MAX_KEPT_UNREAD_OUTPUT_BYTES: usize = 128 << 10;

/// Maximum number of bytes at the end of the output that are not returned yet, because they may be
/// the beginning of a secret.
const MAX_WITHHELD_OUTPUT_BYTES: usize = 8 << 10;

/// Minimum length of an incomplete secret, in bytes. If output was lost, the text after the gap may
/// begin with the end of a secret; from this length on, that end is removed.
const MIN_REMOVED_PARTIAL_SECRET_BYTES: usize = 3;

/// Beginnings of the first and the last line of a PEM block, which may contain a private key.
const PEM_BLOCK_LINE_PREFIXES: [&str; 2] = ["-----BEGIN ", "-----END "];

pub(super) struct UnreadCommandOutput {
    captured: CapturedOutput,
    /// Names and values of secrets in the environment of the command.
    secrets: Vec<(String, String)>,
    /// Rows of the screen that the model has read and that later output may still overwrite.
    read_rows: String,
    /// Text above the rows of the screen, which later output can no longer overwrite, and which was
    /// not returned yet.
    held: String,
}

/// Unread output before secrets are masked.
struct UnmaskedCommandOutput {
    text: String,
    /// Start of the part of `text` that may be returned now; it ends at `end`. Both are byte
    /// offsets.
    start: usize,
    end: usize,
    /// Length of the part of `text` that later output can no longer overwrite, in bytes.
    n_final: usize,
}

impl UnreadCommandOutput {
    pub(super) fn new(secrets: Vec<(String, String)>) -> Self {
        Self {
            captured: CapturedOutput::with_terminal_emulation(MAX_KEPT_UNREAD_OUTPUT_BYTES),
            secrets,
            read_rows: String::new(),
            held: String::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.captured.push(bytes);
    }

    /// Returns the output since the last call and marks it as read. If the command has ended
    /// (`is_over`), all output is returned.
    pub(super) fn take_new_output(&mut self, is_over: bool) -> String {
        let unread = self.unmasked_output(is_over);
        let taken = self.mask_secrets(&unread);
        self.captured.discard_scrolled_text();
        let UnmaskedCommandOutput {
            text, end, n_final, ..
        } = unread;
        (self.held, self.read_rows) = match text.get(end..n_final) {
            Some(held) if !held.is_empty() => (held.to_owned(), String::new()),
            _ => {
                let rows = text.get(n_final..end).unwrap_or_default();
                (String::new(), rows.to_owned())
            }
        };
        taken
    }

    /// Returns the same text as [`Self::take_new_output`], without marking it as read.
    pub(super) fn peek(&self, is_over: bool) -> String {
        self.mask_secrets(&self.unmasked_output(is_over))
    }

    fn unmasked_output(&self, is_over: bool) -> UnmaskedCommandOutput {
        let (head, n_left_out, tail) = self.captured.scrolled_off_text();
        let mut text = format!("{}{head}", self.held);
        if n_left_out > 0 {
            text.truncate(self.find_secret_safe_end(&text, text.len()));
            text.push_str(&format!("\n[… {n_left_out} bytes left out …]\n"));
            text.push_str(self.remove_leading_secret_part(&tail));
        }
        let n_final = text.len();
        text.push_str(&self.captured.rows_on_screen());
        let start = count_already_read_bytes(&self.read_rows, &text);
        let end = match is_over {
            true => text.len(),
            false => start + self.find_withheld_output_start(text.get(start..).unwrap_or_default()),
        };
        UnmaskedCommandOutput {
            text,
            start,
            end,
            n_final,
        }
    }

    /// Returns the offset up to which `text` can be returned while more output may follow. The text
    /// after the offset is the last word of an unfinished line, a possible beginning of a secret,
    /// or a key block without its last line.
    fn find_withheld_output_start(&self, text: &str) -> usize {
        let from = text.floor_char_boundary(text.len().saturating_sub(MAX_WITHHELD_OUTPUT_BYTES));
        let last = text.get(from..).unwrap_or_default();
        let mut end = match last.rfind(char::is_whitespace) {
            _ if text.ends_with('\n') => text.len(),
            Some(at) => text.ceil_char_boundary(from + at + 1),
            // The last `MAX_WITHHELD_OUTPUT_BYTES` bytes have no white space and are longer
            // than any key, so the line can be returned up to its end.
            None if from > 0 => text.len(),
            None => 0,
        };
        let [begins, ends] = PEM_BLOCK_LINE_PREFIXES;
        if let Some(at) = last.rfind(begins)
            && !last.get(at..).is_some_and(|block| block.contains(ends))
        {
            end = end.min(from + at);
        }
        self.find_secret_safe_end(text, end)
    }

    /// Returns the last offset in `text`, at most `end`, that is not inside a secret or the
    /// beginning of a secret.
    fn find_secret_safe_end(&self, text: &str, mut end: usize) -> usize {
        for (_, secret) in &self.secrets {
            let kept = text.get(..end).unwrap_or_default();
            if !kept.ends_with(secret.as_str()) {
                end = length_before_partial_secret(kept, secret);
            }
            // If a secret overlaps itself, `end` may still be inside an occurrence of it. Then move
            // `end` to the start of that occurrence.
            let mut whole = text.match_indices(secret.as_str());
            let is_cut = |at: usize| at < end && end < at + secret.len();
            if let Some((at, _)) = whole.find(|(at, _)| is_cut(*at)) {
                end = at;
            }
        }
        end
    }

    /// Removes the end of a secret from the start of `text`, the text after a gap: the secret may
    /// have begun in the bytes that were left out.
    fn remove_leading_secret_part<'a>(&self, text: &'a str) -> &'a str {
        let rests = self.secrets.iter().map(|(_, value)| {
            let ends = value.char_indices().map(|(at, _)| value.get(at..));
            let found = ends.flatten().find(|end| text.starts_with(end));
            found.map_or(0, str::len)
        });
        let longest = rests
            .max()
            .filter(|length| *length >= MIN_REMOVED_PARTIAL_SECRET_BYTES);
        text.get(longest.unwrap_or(0)..).unwrap_or_default()
    }

    fn mask_secrets(&self, unread: &UnmaskedCommandOutput) -> String {
        let text = unread.text.get(unread.start..unread.end);
        let mut text = text.unwrap_or_default().to_owned();
        for (name, value) in &self.secrets {
            if text.contains(value.as_str()) {
                text = text.replace(value.as_str(), &format!("[secret masked: {name}]"));
            }
        }
        text
    }
}

/// Returns the length, in bytes, of the lines at the beginning of `text` that equal the lines of
/// `read`, the rows that the model has read.
fn count_already_read_bytes(read: &str, text: &str) -> usize {
    let lines = read.split_inclusive('\n').zip(text.split_inclusive('\n'));
    let same = lines.take_while(|(read, line)| read == line);
    let n = same.map(|(line, _)| line.len()).sum();
    // If `text` ends with an unfinished line that begins with the rest of `read`, all of `read` is
    // a common prefix.
    match text.get(n..) {
        Some(rest)
            if !rest.contains('\n') && read.get(n..).is_some_and(|was| rest.starts_with(was)) =>
        {
            read.len()
        }
        _ => n,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unread() -> UnreadCommandOutput {
        UnreadCommandOutput::new(vec![("TOKEN".to_owned(), "hunter2 hunter2".to_owned())])
    }

    #[test]
    fn each_line_is_given_once_and_a_line_that_changes_is_given_again() {
        let mut output = unread();
        output.push(b"one\n\x1b[31mtwo\x1b[0m\n");
        assert_eq!(output.take_new_output(false), "one\ntwo\n");
        assert_eq!(output.take_new_output(false), "");
        output.push(b"10 % of");
        assert_eq!(output.take_new_output(false), "10 % ");
        assert_eq!(output.take_new_output(false), "");
        output.push(b" it\r20 % of it\n");
        assert_eq!(output.take_new_output(false), "20 % of it\n");
        for n in 0..200 {
            output.push(format!("{n}\n").as_bytes());
        }
        let lines = output.take_new_output(false);
        assert!(
            lines.starts_with("0\n1\n") && lines.ends_with("199\n"),
            "{lines}"
        );
        output.push(b"end");
        assert_eq!(output.peek(true), "end");
        assert_eq!(output.take_new_output(true), "end");
        assert_eq!(output.take_new_output(true), "");
    }

    #[test]
    fn a_secret_is_never_split_over_two_answers() {
        let whole = "key hunter2 hunter2 end\n";
        for cut in 1..whole.len() {
            let mut output = unread();
            output.push(&whole.as_bytes()[..cut]);
            let mut given = output.take_new_output(false);
            assert!(!given.contains("hunter2 h"), "{cut}: {given}");
            output.push(&whole.as_bytes()[cut..]);
            given.push_str(&output.take_new_output(false));
            assert!(
                given.contains("[secret masked: TOKEN] end\n"),
                "{cut}: {given}"
            );
            assert!(!given.contains("hunter2"), "{cut}: {given}");
        }
        // A key that is recognized by its form is not split over two answers either.
        let mut output = unread();
        output.push(b"id AKIAIOSF");
        assert_eq!(output.take_new_output(false), "id ");
        output.push(b"ODNN7EXAMPLF\n-----BEGIN KEY-----\nabc\n");
        assert_eq!(output.take_new_output(false), "id AKIAIOSFODNN7EXAMPLF\n");
        output.push(b"def\n-----END KEY-----\n");
        let key = "-----BEGIN KEY-----\nabc\ndef\n-----END KEY-----\n";
        assert_eq!(output.take_new_output(false), key);
    }

    #[test]
    fn output_without_end_keeps_its_beginning_and_its_end_and_no_part_of_a_secret() {
        let mut output = unread();
        output.push(b"first\n");
        output.push(&b"hunter2 hunter2".repeat(100_000));
        output.push(b"\nlast\n");
        let given = output.take_new_output(false);
        assert!(
            given.len() < 2 * MAX_KEPT_UNREAD_OUTPUT_BYTES + (1 << 20),
            "{}",
            given.len()
        );
        assert!(given.starts_with("first\n") && given.ends_with("last\n"));
        assert!(given.contains("bytes left out") && !given.contains("hunter"));
    }
}
