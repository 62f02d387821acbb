//! Captures the output of a process up to a size limit, and keeps the head and the tail of longer
//! output. Also splits output into lines as it arrives.

use std::collections::VecDeque;

use super::screen::TerminalScreen;

/// Maximum length in bytes of an output line that is not split.
pub const MAX_UNSPLIT_OUTPUT_LINE_BYTES: usize = 1024 * 1024;

/// Output captured up to a limit in bytes. Of longer output, its first bytes and its last bytes are
/// kept, each up to half of the limit.
#[derive(Clone, Debug)]
pub struct CapturedOutput {
    cap: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
    /// Terminal emulation that removes control sequences and overwritten text, if enabled.
    screen: Option<TerminalScreen>,
}

impl CapturedOutput {
    pub(super) fn new(cap: usize) -> Self {
        Self {
            cap,
            head: Vec::new(),
            tail: VecDeque::new(),
            left_out: 0,
            screen: None,
        }
    }

    /// Captures the output as a terminal would show it at the end. The limit applies to the shown
    /// text.
    pub fn with_terminal_emulation(cap: usize) -> Self {
        Self {
            screen: Some(TerminalScreen::default()),
            ..Self::new(cap)
        }
    }

    /// Adds a chunk of the process's output to the captured text.
    pub fn push(&mut self, bytes: &[u8]) {
        match self.screen.take() {
            None => self.append_captured_bytes(bytes),
            Some(mut screen) => {
                screen.push(bytes, &mut |bytes| self.append_captured_bytes(bytes));
                self.screen = Some(screen);
            }
        }
    }

    /// Flushes the screen at the end of the output. `push` must not be called afterwards.
    pub fn flush_terminal_screen(&mut self) {
        if let Some(mut screen) = self.screen.take() {
            screen.flush_screen(&mut |bytes| self.append_captured_bytes(bytes));
            self.screen = Some(screen);
        }
    }

    /// Returns the rows that are still on the screen, which later output may overwrite.
    pub fn rows_on_screen(&self) -> String {
        let mut shown = Vec::new();
        if let Some(mut screen) = self.screen.clone() {
            screen.flush_screen(&mut |bytes| shown.extend_from_slice(bytes));
        }
        String::from_utf8_lossy(&shown).into_owned()
    }

    /// Returns the text that has scrolled off the screen: its head, the number of bytes dropped
    /// after the head, and its tail. If nothing was dropped, the head is the complete text and the
    /// tail is empty.
    pub fn scrolled_off_text(&self) -> (String, u64, String) {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self.left_out {
            0 => (
                text(&[self.head.as_slice(), &tail].concat()),
                0,
                String::new(),
            ),
            left_out => (text(&self.head), left_out, text(&tail)),
        }
    }

    /// Discards the captured text that has scrolled off the emulated screen.
    pub fn discard_scrolled_text(&mut self) {
        self.head.clear();
        self.tail.clear();
        self.left_out = 0;
    }

    /// Returns the number of bytes that were removed because a terminal would not show them at the
    /// end: control sequences and overwritten text.
    #[must_use]
    pub fn n_removed_bytes(&self) -> u64 {
        self.screen
            .as_ref()
            .map_or(0, TerminalScreen::n_removed_bytes)
    }

    fn append_captured_bytes(&mut self, bytes: &[u8]) {
        let head_cap = self.cap / 2;
        let to_head = bytes.len().min(head_cap.saturating_sub(self.head.len()));
        self.head.extend_from_slice(&bytes[..to_head]);
        self.tail.extend(&bytes[to_head..]);
        let excess = self.tail.len().saturating_sub(self.cap - head_cap);
        self.tail.drain(..excess);
        self.left_out += excess as u64;
    }

    /// Whether all output was kept: nothing was dropped because it exceeded the maximum.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.left_out == 0
    }

    /// Returns the captured bytes unchanged; `None` if output was dropped.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let (front, back) = self.tail.as_slices();
        self.is_complete()
            .then(|| [&self.head, front, back].concat())
    }

    /// Returns the output as text. A line between head and tail gives the number of dropped bytes.
    /// Bytes that are not UTF-8 become U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.left_out == 0 {
            // Join before decoding: a character may span head and tail.
            return String::from_utf8_lossy(&[self.head.as_slice(), &tail].concat()).into_owned();
        }
        format!(
            "{}\n[… {} bytes left out …]\n{}",
            String::from_utf8_lossy(&self.head),
            self.left_out,
            String::from_utf8_lossy(&tail)
        )
    }
}

/// Splits output that arrives in chunks into lines.
#[derive(Default)]
pub(super) struct OutputLineSplitter {
    partial: Vec<u8>,
}

impl OutputLineSplitter {
    pub(super) fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(&str)) {
        while let Some(at) = bytes.iter().position(|&byte| byte == b'\n') {
            self.partial.extend_from_slice(&bytes[..at]);
            bytes = &bytes[at + 1..];
            self.emit_split_line(&mut line);
        }
        self.partial.extend_from_slice(bytes);
        if self.partial.len() > MAX_UNSPLIT_OUTPUT_LINE_BYTES {
            self.emit_split_line(&mut line);
        }
    }

    pub(super) fn flush_last_line(&mut self, mut line: impl FnMut(&str)) {
        if !self.partial.is_empty() {
            self.emit_split_line(&mut line);
        }
    }

    fn emit_split_line(&mut self, line: &mut impl FnMut(&str)) {
        let text = String::from_utf8_lossy(&self.partial);
        line(text.strip_suffix('\r').unwrap_or(&text));
        self.partial.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_within_the_cap_is_kept_whole_across_the_border() {
        let mut captured = CapturedOutput::new(8);
        for byte in "aßüzz".as_bytes() {
            captured.push(&[*byte]);
        }
        assert_eq!((captured.text().as_str(), captured.left_out), ("aßüzz", 0));
    }

    #[test]
    fn longer_output_keeps_head_and_tail_and_counts_the_rest() {
        let mut captured = CapturedOutput::new(8);
        captured.push(b"0123456789");
        captured.push(b"abcdef");
        assert_eq!(captured.text(), "0123\n[… 8 bytes left out …]\ncdef");
        assert_eq!(captured.left_out, 8);
    }

    #[test]
    fn lines_are_joined_across_chunks_and_the_last_one_is_not_lost() {
        let mut seen = Vec::new();
        let mut lines = OutputLineSplitter::default();
        for chunk in ["on", "e\r\ntw", "o\n\nthree"] {
            lines.push(chunk.as_bytes(), |line| seen.push(line.to_owned()));
        }
        lines.flush_last_line(|line| seen.push(line.to_owned()));
        assert_eq!(seen, ["one", "two", "", "three"]);
    }
}
