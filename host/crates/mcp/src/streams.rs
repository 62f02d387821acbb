//! Tracks the event streams of one server over HTTP: which streams contain answers, how often each
//! was resumed, and why an answer was abandoned.
//!
//! The library sends the same request to resume an answer and to open the standing stream, on which
//! the server sends messages unasked. An event id in the request distinguishes the two. Start from
//! [`ServerStreams`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sse_stream::{Error as SseError, Sse};

use rind_lib::egress::EventStreamPurpose;
use rind_lib::lock::lock;

/// Maximum number of times that one answer is resumed, and that the standing stream (for messages
/// which the server sends on its own) is opened again after it was open only briefly. Without a
/// limit, a server that ends every stream at once would cause an endless loop.
pub(crate) const MAX_CONTINUED: u32 = 50;

/// Minimum duration of a standing stream after which opening it again is not counted.
const LASTING: Duration = Duration::from_secs(60);

/// Maximum number of answers whose position in the stream is remembered so that they can be
/// resumed.
const MAX_ANSWERS: usize = 64;

/// Maximum length of an event id, in bytes; events with longer ids are ignored.
const MAX_ID_BYTES: usize = 1 << 10;

/// Events of a stream.
pub(crate) type Events = BoxStream<'static, Result<Sse, SseError>>;

/// Event streams of one connection. Clones share the data.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerStreams(Arc<Mutex<EventStreamState>>);

#[derive(Debug, Default)]
struct EventStreamState {
    /// Id of the last event of each answer, and the number of times that the answer was resumed.
    answers: VecDeque<(String, u32)>,
    /// Number of times that the standing stream, which carries messages that belong to no answer,
    /// was opened since it last stayed open for [`LASTING`].
    n_standing: u32,
    standing: Option<Instant>,
    /// Reason why the stream of an answer was not resumed after an interruption.
    fault: Option<String>,
}

/// Purpose and history of an event stream that is about to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenedStreamPurpose {
    /// Purpose of the stream.
    pub(crate) stream_use: EventStreamPurpose,
    /// Number of times that the same stream was opened or resumed before.
    pub(crate) n_before: u32,
}

impl ServerStreams {
    /// Records the ids of an answer's events, with which the answer can be resumed. It was already
    /// resumed `n` times.
    pub(crate) fn record_resume_ids(&self, events: Events, n: u32) -> Events {
        let own = self.clone();
        let mut last: Option<String> = None;
        events
            .inspect(move |event| {
                let id = event.as_ref().ok().and_then(|event| event.id.clone());
                if let Some(id) = id.filter(|id| id.len() <= MAX_ID_BYTES) {
                    own.record_stream_event_id(last.replace(id.clone()), id, n);
                }
            })
            .boxed()
    }

    fn record_stream_event_id(&self, before: Option<String>, id: String, n: u32) {
        let mut log = lock(&self.0);
        // Never decrease the number of times that the stream was resumed: the answer may have been
        // resumed meanwhile, and a server may reuse an id.
        let known = log.answers.iter().find(|(own, _)| *own == id);
        let n = known.map_or(n, |(_, known)| n.max(*known));
        log.answers
            .retain(|(own, _)| Some(own) != before.as_ref() && *own != id);
        if log.answers.len() == MAX_ANSWERS {
            log.answers.pop_front();
        }
        log.answers.push_back((id, n));
    }

    /// Determines the purpose of a stream that the library is about to open: a resumed answer if
    /// `last_event` is the last event of an answer, otherwise the standing stream. Returns `None`
    /// if the stream must not be opened because it was opened too often.
    pub(crate) fn begin_stream(&self, last_event: Option<&str>) -> Option<OpenedStreamPurpose> {
        let mut log = lock(&self.0);
        let answer = last_event.and_then(|last| {
            let mut answers = log.answers.iter_mut();
            answers.find(|(id, _)| id == last).map(|(_, n)| n)
        });
        if let Some(n) = answer {
            // Count before the stream is opened: a resumed stream may end without an event.
            *n = n.saturating_add(1);
            let n_before = *n;
            if n_before > MAX_CONTINUED {
                log.fault = Some(format!(
                    "ended the stream of its answer {MAX_CONTINUED} times without the answer"
                ));
                return None;
            }
            return Some(OpenedStreamPurpose {
                stream_use: EventStreamPurpose::Answer,
                n_before,
            });
        }
        if log.standing.is_some_and(|since| since.elapsed() >= LASTING) {
            log.n_standing = 1;
        }
        let n_before = log.n_standing;
        if n_before > MAX_CONTINUED {
            return None;
        }
        log.n_standing += 1;
        log.standing = Some(Instant::now());
        Some(OpenedStreamPurpose {
            stream_use: EventStreamPurpose::Standing,
            n_before,
        })
    }

    /// Stores the reason why the server's interrupted answer is not resumed.
    pub(crate) fn record_resume_fault(&self, why: String) {
        lock(&self.0).fault = Some(why);
    }

    /// Returns and clears the reason why an answer was not resumed, phrased to follow "the server".
    pub(crate) fn take_resume_fault(&self) -> Option<String> {
        lock(&self.0).fault.take()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn read(streams: &ServerStreams, n: u32, ids: &[&str]) {
        let events = ids.iter().map(|id| Ok(Sse::default().id((*id).to_owned())));
        let events: Vec<Result<Sse, SseError>> = events.collect();
        let followed = streams.record_resume_ids(stream::iter(events).boxed(), n);
        assert_eq!(followed.count().await, ids.len());
    }

    #[tokio::test]
    async fn each_answer_is_continued_by_its_own_count() {
        let streams = ServerStreams::default();
        read(&streams, 0, &["a", "b"]).await;
        read(&streams, MAX_CONTINUED, &["c"]).await;
        let answer = |n_before| OpenedStreamPurpose {
            stream_use: EventStreamPurpose::Answer,
            n_before,
        };
        assert_eq!(streams.begin_stream(Some("b")), Some(answer(1)));
        // `a` is no longer the last event of the answer.
        let other = streams.begin_stream(Some("a")).unwrap();
        assert_eq!(other.stream_use, EventStreamPurpose::Standing);
        assert_eq!(streams.take_resume_fault(), None);
        assert_eq!(streams.begin_stream(Some("c")), None);
        assert!(streams.take_resume_fault().unwrap().contains("50 times"));
        assert_eq!(streams.begin_stream(Some("b")), Some(answer(2)));
    }

    #[tokio::test]
    async fn an_answer_is_continued_a_bounded_number_of_times_without_an_event_or_with_the_same_id()
    {
        let none: &[&str] = &[];
        for ids in [none, &["a"]] {
            let streams = ServerStreams::default();
            read(&streams, 0, &["a"]).await;
            let mut n_continued = 0;
            while let Some(next) = streams.begin_stream(Some("a")) {
                assert_eq!(next.stream_use, EventStreamPurpose::Answer);
                n_continued += 1;
                assert_eq!(next.n_before, n_continued);
                assert!(n_continued <= MAX_CONTINUED);
                read(&streams, next.n_before, ids).await;
                // Another answer with the same first id does not reset the count.
                read(&streams, 0, &["a"]).await;
            }
            assert_eq!(n_continued, MAX_CONTINUED);
            assert!(streams.take_resume_fault().unwrap().contains("50 times"));
        }
    }

    #[tokio::test]
    async fn a_stream_without_an_answer_is_opened_again_a_bounded_number_of_times() {
        let streams = ServerStreams::default();
        let opened = (0..200).filter(|_| streams.begin_stream(None).is_some());
        assert_eq!(opened.count(), MAX_CONTINUED as usize + 1);
        let many: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        for id in &many {
            read(&streams, 0, &[id]).await;
        }
        assert_eq!(lock(&streams.0).answers.len(), MAX_ANSWERS);
    }
}
