//! Parses server-sent events from a byte stream, with size limits.
//!
//! The `sse-stream` crate does the parsing. This module passes the bytes to the parser, enforces
//! the limits, and keeps the raw copy for hooks. It must not know any provider's format nor wait
//! for anything. Start from [`SseParser`].

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::Cursor;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use futures_util::{FutureExt, Stream, StreamExt, stream};
use sse_stream::{Sse, SseStream};

use super::MAX_KEPT_RAW_ANSWER_BYTES;
use super::server_text::MAX_SERVER_TEXT_CHARS;
use crate::lock::lock_ignoring_poison;

/// Maximum size of one event in bytes, many times the size of a tool call that writes a whole file.
/// A server that never ends an event must not fill the memory.
pub(crate) const MAX_SSE_EVENT_BYTES: usize = 16 << 20;

/// Maximum size of an answer in bytes, including its framing. The longest outputs of current models
/// are below 1 MiB of text, and framing multiplies that by less than 50.
pub(crate) const MAX_STREAMED_ANSWER_BYTES: usize = 64 << 20;

type SseEventStream = Pin<Box<dyn Stream<Item = Result<Sse, sse_stream::Error>> + Send>>;

/// Error in an event stream, with an excerpt of the line that caused it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseStreamError {
    pub(crate) what: String,
    pub(crate) excerpt: String,
}

/// Parser of server-sent events that gets the stream in chunks. The chunks may be split anywhere.
///
/// For example:
///
/// ```text
/// event: a        first event: name a, data 1
/// data: 1
///
/// : ping          a comment, no event
///
/// data: x         second event: no name, data x<LF>y
/// data: y
/// ```
pub(crate) struct SseParser {
    queue: Arc<Mutex<VecDeque<Vec<u8>>>>,
    events: SseEventStream,
    line: Vec<u8>,
    /// Start of the current line, which is held back from the parser until a colon arrives.
    held: Vec<u8>,
    /// Whether the start of the current line was already passed to the `sse-stream` parser.
    is_in_line: bool,
    event_bytes: usize,
    /// Whether the current event is a ping.
    is_ping: bool,
    raw: TruncatedRawAnswer,
}

impl Default for SseParser {
    fn default() -> Self {
        let queue = Arc::new(Mutex::new(VecDeque::<Vec<u8>>::new()));
        let feed = Arc::clone(&queue);
        let bytes = stream::poll_fn(move |_| match lock_ignoring_poison(&feed).pop_front() {
            Some(piece) => Poll::Ready(Some(Ok::<_, Infallible>(Cursor::new(piece)))),
            None => Poll::Pending,
        });
        Self {
            queue,
            events: Box::pin(SseStream::from_bytes_stream(bytes)),
            line: Vec::new(),
            held: Vec::new(),
            is_in_line: false,
            event_bytes: 0,
            is_ping: false,
            raw: TruncatedRawAnswer::default(),
        }
    }
}

impl SseParser {
    /// Parses the next chunk and appends the completed events to `events`, even if an error follows
    /// them. Returns whether the chunk contains a part of the answer: comments and pings do not
    /// count.
    pub(crate) fn push(
        &mut self,
        piece: &[u8],
        events: &mut VecDeque<Sse>,
    ) -> Result<bool, SseStreamError> {
        let mut is_answer = false;
        self.raw.push(piece);
        if self.raw.n_bytes > MAX_STREAMED_ANSWER_BYTES {
            return Err(self.error_at_current_line(format!(
                "more than {} MiB",
                MAX_STREAMED_ANSWER_BYTES >> 20
            )));
        }
        // Pass one line at a time to the crate: otherwise it would report a bad line before the
        // events that precede it in the same chunk.
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            self.store_line_start_for_errors(line);
            is_answer |= self.classify_current_line();
            self.event_bytes += line.len();
            if self.event_bytes > MAX_SSE_EVENT_BYTES {
                let what = format!("an event of more than {} MiB", MAX_SSE_EVENT_BYTES >> 20);
                return Err(self.error_at_current_line(what));
            }
            let Some(line) = self.take_complete_line(line) else {
                continue;
            };
            lock_ignoring_poison(&self.queue).push_back(line);
            while let Some(Some(event)) = self.events.next().now_or_never() {
                events.push_back(
                    event.map_err(|error| self.error_at_current_line(error.to_string()))?,
                );
                self.event_bytes = 0;
            }
        }
        Ok(is_answer)
    }

    /// Returns the bytes of a line to pass to the parser: the bytes that were held back, and
    /// `piece`. Returns `None` as long as the line may turn out to have no colon.
    ///
    /// By the specification (WHATWG HTML, section 9.2.6) a line without a colon is a field with an
    /// empty value. An empty `data` adds nothing to a JSON document and the other fields are not
    /// used here, so such a line is skipped; the crate would end the stream at it.
    fn take_complete_line(&mut self, piece: &[u8]) -> Option<Vec<u8>> {
        if self.held.is_empty() && self.is_in_line {
            self.is_in_line = !piece.ends_with(b"\n");
            return Some(piece.to_vec());
        }
        self.held.extend_from_slice(piece);
        let is_whole = piece.ends_with(b"\n");
        if self.held.contains(&b':') || self.held.trim_ascii().is_empty() && is_whole {
            self.is_in_line = !is_whole;
            return Some(std::mem::take(&mut self.held));
        }
        if is_whole {
            self.held.clear();
        }
        None
    }

    /// Updates whether the current event is a ping, and returns whether the received part of the
    /// current line belongs to an answer, so that it is neither a comment nor a ping.
    fn classify_current_line(&mut self) -> bool {
        let line = self.line.trim_ascii();
        if line.is_empty() {
            self.is_ping = false;
            return false;
        }
        if let Some(name) = line.strip_prefix(b"event:") {
            self.is_ping = name.trim_ascii() == b"ping";
            return false;
        }
        !line.starts_with(b":") && !self.is_ping
    }

    /// Returns the raw text of the answer, truncated to [`MAX_KEPT_RAW_ANSWER_BYTES`].
    pub(crate) fn into_raw_text(self) -> String {
        self.raw.into_text()
    }

    /// Stores the start of the current line, so that an error message can quote it.
    fn store_line_start_for_errors(&mut self, piece: &[u8]) {
        if self.line.ends_with(b"\n") {
            self.line.clear();
        }
        let room = (MAX_SERVER_TEXT_CHARS * 4).saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
        if piece.ends_with(b"\n") && !self.line.ends_with(b"\n") {
            self.line.push(b'\n');
        }
    }

    fn error_at_current_line(&self, what: String) -> SseStreamError {
        SseStreamError {
            what,
            excerpt: String::from_utf8_lossy(&self.line).trim_end().to_owned(),
        }
    }
}

/// Copy of the first bytes of an answer, for hooks, and the total size of the answer.
#[derive(Default)]
pub(crate) struct TruncatedRawAnswer {
    kept: Vec<u8>,
    n_bytes: usize,
}

impl TruncatedRawAnswer {
    /// Appends the next piece of the answer. Bytes beyond the limit are only counted.
    pub(crate) fn push(&mut self, piece: &[u8]) {
        let room = MAX_KEPT_RAW_ANSWER_BYTES - self.kept.len();
        self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
        self.n_bytes += piece.len();
    }

    /// Returns the stored bytes as text, without an incomplete character at the end.
    pub(crate) fn into_text(mut self) -> String {
        if let Err(error) = std::str::from_utf8(&self.kept)
            && error.error_len().is_none()
        {
            self.kept.truncate(error.valid_up_to());
        }
        String::from_utf8_lossy(&self.kept).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_pings_are_no_part_of_an_answer() {
        let is_answer = |pieces: &[&str]| {
            let mut parser = SseParser::default();
            let mut events = VecDeque::new();
            let push = |piece: &&str| parser.push(piece.as_bytes(), &mut events).unwrap();
            pieces.iter().map(push).collect::<Vec<_>>()
        };
        assert_eq!(is_answer(&[": keep", "-alive\n", "\n"]), [false; 3]);
        let ping = ["event: ping\ndata: {\"type\"", ": \"ping\"}\n\n"];
        assert_eq!(is_answer(&ping), [false; 2]);
        assert_eq!(is_answer(&["event: ping\n\ndata: 1\n"]), [true]);
        assert_eq!(
            is_answer(&["event: delta\n", "da", "ta: 1\n"]),
            [false, true, true]
        );
        assert_eq!(is_answer(&["\r\n\r\n", ":\n:\n"]), [false; 2]);
    }

    fn parse(pieces: &[&[u8]]) -> (Vec<String>, Option<SseStreamError>) {
        let mut parser = SseParser::default();
        let mut events = VecDeque::new();
        let mut push = |piece: &&[u8]| parser.push(piece, &mut events).err();
        let fault = pieces.iter().find_map(&mut push);
        let show = |event: Sse| {
            let name = event.event.unwrap_or_default();
            format!("{name}:{}", event.data.unwrap_or_default())
        };
        (events.into_iter().map(show).collect(), fault)
    }

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let whole = "event: a\ndata: é1\n\n: ping\r\n\r\ndata: x\ndata: y\n\n".as_bytes();
        let expected = (vec!["a:é1".to_owned(), ":x\ny".to_owned()], None);
        for at in 0..whole.len() {
            let (left, right) = whole.split_at(at);
            assert_eq!(parse(&[left, right]), expected, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(parse(&bytes), expected);
        assert_eq!(parse(&[whole]), expected);
    }

    #[test]
    fn a_line_without_a_colon_is_skipped() {
        let whole = b"data: 1\n\n<b>x</b>\ndata\nevent\n\ndata: {\ndata\ndata: }\n\n";
        let expected = (vec![":1".to_owned(), ":{\n}".to_owned()], None);
        assert_eq!(parse(&[whole]), expected);
        let bytes: Vec<&[u8]> = whole.chunks(1).collect();
        assert_eq!(parse(&bytes), expected);
    }

    #[test]
    fn a_bad_line_is_named_and_the_events_before_it_are_kept() {
        let pieces: [&[&[u8]]; 2] = [
            &[b"data: 1\n\ndata: \xff\n"],
            &[b"data: 1\n\nda", b"ta: \xff\n"],
        ];
        for pieces in pieces {
            let (events, fault) = parse(pieces);
            assert_eq!(events, [":1"]);
            assert!(fault.unwrap().excerpt.starts_with("data: "));
        }
    }

    #[test]
    fn an_event_without_end_is_refused() {
        let mut parser = SseParser::default();
        let mut events = VecDeque::new();
        let piece = vec![b'x'; 1 << 20];
        parser.push(b"data: ", &mut events).unwrap();
        let fault = (0..20).find_map(|_| parser.push(&piece, &mut events).err());
        assert_eq!(fault.unwrap().what, "an event of more than 16 MiB");
        assert!(events.is_empty());
    }

    #[test]
    fn the_raw_copy_is_cut_between_characters() {
        let mut raw = TruncatedRawAnswer::default();
        raw.push(b"x");
        for _ in 0..MAX_KEPT_RAW_ANSWER_BYTES {
            raw.push("é".as_bytes());
        }
        let text = raw.into_text();
        assert_eq!(text.len(), MAX_KEPT_RAW_ANSWER_BYTES - 1);
        assert!(text.ends_with('é'));
    }
}
