//! Output of a command in the background that its model has not read.
//!
//! The output is given as a terminal would show it, whole lines first: later output may overwrite
//! the last rows, and then the line that changed is given again with all that follows. Secrets of the
//! environment are masked, and the end of the output is held back while it may be the beginning of a
//! secret, so that no secret is split over two answers. Start from [`UnreadOutput::take`].

use crate::tool::live::without_begun;
use crate::tool::process::Captured;

/// Maximum size of the unread output that is kept, in bytes: the first and the last half of longer
/// output.
const KEPT_BYTES: usize = 128 << 10;

/// Longest end of the output that is held back, in bytes.
const MAX_HELD_BYTES: usize = 8 << 10;

/// Shortest end of a secret that is masked behind a gap.
const LEAST_REST: usize = 3;

/// First and last line of a block that holds a key.
const KEY_BLOCK: [&str; 2] = ["-----BEGIN ", "-----END "];

pub(super) struct UnreadOutput {
    captured: Captured,
    /// Names and values of secrets in the environment of the command.
    secrets: Vec<(String, String)>,
    /// Rows that were read while they still were on the screen.
    read_rows: String,
    /// Held-back text that is no longer on the screen.
    held: String,
}

/// Unread output, before anything is masked.
struct UnreadText {
    text: String,
    /// Range of what may be given.
    start: usize,
    end: usize,
    /// Length of the part that can no longer be overwritten.
    n_final: usize,
}

impl UnreadOutput {
    pub(super) fn new(secrets: Vec<(String, String)>) -> Self {
        Self {
            captured: Captured::of_screen(KEPT_BYTES),
            secrets,
            read_rows: String::new(),
            held: String::new(),
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.captured.push(bytes);
    }

    /// Takes the output since the last call. If the command has ended, nothing is held back.
    pub(super) fn take(&mut self, is_over: bool) -> String {
        let unread = self.collect(is_over);
        let taken = self.mask(&unread);
        self.captured.forget_text();
        let UnreadText {
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

    /// Returns what [`Self::take`] would return.
    pub(super) fn peek(&self, is_over: bool) -> String {
        self.mask(&self.collect(is_over))
    }

    fn collect(&self, is_over: bool) -> UnreadText {
        let (head, n_left_out, tail) = self.captured.parts();
        let mut text = format!("{}{head}", self.held);
        if n_left_out > 0 {
            text.truncate(self.safe_end(&text, text.len()));
            text.push_str(&format!("\n[… {n_left_out} bytes left out …]\n"));
            text.push_str(self.without_rest(&tail));
        }
        let n_final = text.len();
        text.push_str(&self.captured.rows_on_screen());
        let start = same_lines(&self.read_rows, &text);
        let end = match is_over {
            true => text.len(),
            false => start + self.settled_end(text.get(start..).unwrap_or_default()),
        };
        UnreadText {
            text,
            start,
            end,
            n_final,
        }
    }

    /// Returns the end of the output that can be given while more may come: the last word of an
    /// unfinished line, the beginning of a secret, and a key without its last line stay back.
    fn settled_end(&self, text: &str) -> usize {
        let from = text.floor_char_boundary(text.len().saturating_sub(MAX_HELD_BYTES));
        let last = text.get(from..).unwrap_or_default();
        let mut end = match last.rfind(char::is_whitespace) {
            _ if text.ends_with('\n') => text.len(),
            Some(at) => text.ceil_char_boundary(from + at + 1),
            // No blank in the whole window, which is longer than any key: the line need not be held
            // back.
            None if from > 0 => text.len(),
            None => 0,
        };
        let [begins, ends] = KEY_BLOCK;
        if let Some(at) = last.rfind(begins)
            && !last.get(at..).is_some_and(|block| block.contains(ends))
        {
            end = end.min(from + at);
        }
        self.safe_end(text, end)
    }

    /// Returns the last place up to `end` at which a text can be cut without cutting a secret, or the
    /// beginning of one.
    fn safe_end(&self, text: &str, mut end: usize) -> usize {
        for (_, secret) in &self.secrets {
            let kept = text.get(..end).unwrap_or_default();
            if !kept.ends_with(secret.as_str()) {
                end = without_begun(kept, secret);
            }
            // If a secret overlaps with itself, the cut may be inside an occurrence: cut before it.
            let mut whole = text.match_indices(secret.as_str());
            let is_cut = |at: usize| at < end && end < at + secret.len();
            if let Some((at, _)) = whole.find(|(at, _)| is_cut(*at)) {
                end = at;
            }
        }
        end
    }

    /// Returns a text without the end of a secret at its beginning.
    fn without_rest<'a>(&self, text: &'a str) -> &'a str {
        let rests = self.secrets.iter().map(|(_, value)| {
            let ends = value.char_indices().map(|(at, _)| value.get(at..));
            let found = ends.flatten().find(|end| text.starts_with(end));
            found.map_or(0, str::len)
        });
        let longest = rests.max().filter(|length| *length >= LEAST_REST);
        text.get(longest.unwrap_or(0)..).unwrap_or_default()
    }

    fn mask(&self, unread: &UnreadText) -> String {
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

/// Returns the length of the lines at the beginning of a text that were read before.
fn same_lines(read: &str, text: &str) -> usize {
    let lines = read.split_inclusive('\n').zip(text.split_inclusive('\n'));
    let same = lines.take_while(|(read, line)| read == line);
    let n = same.map(|(line, _)| line.len()).sum();
    // The last line is unfinished and its last word is held back: count it as already read.
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

    fn unread() -> UnreadOutput {
        UnreadOutput::new(vec![("TOKEN".to_owned(), "hunter2 hunter2".to_owned())])
    }

    #[test]
    fn each_line_is_given_once_and_a_line_that_changes_is_given_again() {
        let mut output = unread();
        output.push(b"one\n\x1b[31mtwo\x1b[0m\n");
        assert_eq!(output.take(false), "one\ntwo\n");
        assert_eq!(output.take(false), "");
        output.push(b"10 % of");
        assert_eq!(output.take(false), "10 % ");
        assert_eq!(output.take(false), "");
        output.push(b" it\r20 % of it\n");
        assert_eq!(output.take(false), "20 % of it\n");
        for n in 0..200 {
            output.push(format!("{n}\n").as_bytes());
        }
        let lines = output.take(false);
        assert!(
            lines.starts_with("0\n1\n") && lines.ends_with("199\n"),
            "{lines}"
        );
        output.push(b"end");
        assert_eq!(output.peek(true), "end");
        assert_eq!(output.take(true), "end");
        assert_eq!(output.take(true), "");
    }

    #[test]
    fn a_secret_is_never_split_over_two_answers() {
        let whole = "key hunter2 hunter2 end\n";
        for cut in 1..whole.len() {
            let mut output = unread();
            output.push(&whole.as_bytes()[..cut]);
            let mut given = output.take(false);
            assert!(!given.contains("hunter2 h"), "{cut}: {given}");
            output.push(&whole.as_bytes()[cut..]);
            given.push_str(&output.take(false));
            assert!(
                given.contains("[secret masked: TOKEN] end\n"),
                "{cut}: {given}"
            );
            assert!(!given.contains("hunter2"), "{cut}: {given}");
        }
        // A key that a guard knows by its form comes whole as well.
        let mut output = unread();
        output.push(b"id AKIAIOSF");
        assert_eq!(output.take(false), "id ");
        output.push(b"ODNN7EXAMPLF\n-----BEGIN KEY-----\nabc\n");
        assert_eq!(output.take(false), "id AKIAIOSFODNN7EXAMPLF\n");
        output.push(b"def\n-----END KEY-----\n");
        let key = "-----BEGIN KEY-----\nabc\ndef\n-----END KEY-----\n";
        assert_eq!(output.take(false), key);
    }

    #[test]
    fn output_without_end_keeps_its_beginning_and_its_end_and_no_part_of_a_secret() {
        let mut output = unread();
        output.push(b"first\n");
        output.push(&b"hunter2 hunter2".repeat(100_000));
        output.push(b"\nlast\n");
        let given = output.take(false);
        assert!(given.len() < 2 * KEPT_BYTES + (1 << 20), "{}", given.len());
        assert!(given.starts_with("first\n") && given.ends_with("last\n"));
        assert!(given.contains("bytes left out") && !given.contains("hunter"));
    }
}
