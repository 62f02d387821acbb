//! Tracks the event streams of one server over HTTP: which streams contain answers, how often each
//! was resumed, and why an answer was abandoned.
//!
//! The library sends the same request to resume an answer and to open the standing stream, on which
//! the server sends messages unasked. An event id in the request distinguishes the two. Start from
//! [`ConnectionEventStreams`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use sse_stream::{Error as SseError, Sse};

use rind_lib::egress::EventStreamPurpose;
use rind_lib::lock::lock_ignoring_poison;

/// Maximum number of times that one answer is resumed, and that the standing stream (for messages
/// which the server sends on its own) is opened again after it was open only briefly. Without a
/// limit, a server that ends every stream at once would cause an endless loop.
pub(crate) const MAX_STREAM_RESUMPTIONS: u32 = 50;

/// Minimum duration of a standing stream after which opening it again is not counted.
const MIN_LONG_LIVED_STREAM_DURATION: Duration = Duration::from_secs(60);

/// Maximum number of answers whose position in the stream is remembered so that they can be
/// resumed.
const MAX_RESUMABLE_ANSWERS: usize = 64;

/// Maximum length of an event id, in bytes; events with longer ids are ignored.
const MAX_EVENT_ID_BYTES: usize = 1 << 10;

/// Stream of server-sent events from an MCP server over HTTP.
pub(crate) type ServerSentEventStream = BoxStream<'static, Result<Sse, SseError>>;

/// Event streams of one connection to a server. Clones share the data.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionEventStreams(Arc<Mutex<ConnectionEventStreamsState>>);

#[derive(Debug, Default)]
struct ConnectionEventStreamsState {
    /// Id of the last event of each answer, and the number of times that the answer was resumed.
    answers: VecDeque<(String, u32)>,
    /// Number of times that the standing stream, which carries messages that belong to no answer,
    /// was opened since it last stayed open for [`MIN_LONG_LIVED_STREAM_DURATION`].
    n_standing: u32,
    standing: Option<Instant>,
    /// Reason why the stream of an answer was not resumed after an interruption.
    fault: Option<String>,
}

/// Purpose and history of an event stream that is about to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventStreamOpenAttempt {
    /// Purpose of the stream that is opened.
    pub(crate) stream_use: EventStreamPurpose,
    /// Number of times that the same stream was opened or resumed before.
    pub(crate) n_before: u32,
}

impl ConnectionEventStreams {
    /// Records the ids of an answer's events, with which the answer can be resumed. It was already
    /// resumed `n` times.
    pub(crate) fn record_event_ids_for_resume(
        &self,
        events: ServerSentEventStream,
        n: u32,
    ) -> ServerSentEventStream {
        let own = self.clone();
        let mut last: Option<String> = None;
        events
            .inspect(move |event| {
                let id = event.as_ref().ok().and_then(|event| event.id.clone());
                if let Some(id) = id.filter(|id| id.len() <= MAX_EVENT_ID_BYTES) {
                    own.record_stream_event_id(last.replace(id.clone()), id, n);
                }
            })
            .boxed()
    }

    fn record_stream_event_id(&self, before: Option<String>, id: String, n: u32) {
        let mut log = lock_ignoring_poison(&self.0);
        // Never decrease the number of times that the stream was resumed: the answer may have been
        // resumed meanwhile, and a server may reuse an id.
        let known = log.answers.iter().find(|(own, _)| *own == id);
        let n = known.map_or(n, |(_, known)| n.max(*known));
        log.answers
            .retain(|(own, _)| Some(own) != before.as_ref() && *own != id);
        if log.answers.len() == MAX_RESUMABLE_ANSWERS {
            log.answers.pop_front();
        }
        log.answers.push_back((id, n));
    }

    /// Determines the purpose of a stream that the library is about to open: a resumed answer if
    /// `last_event` is the last event of an answer, otherwise the standing stream. Returns `None`
    /// if the stream must not be opened because it was opened too often.
    pub(crate) fn classify_stream_to_open(
        &self,
        last_event: Option<&str>,
    ) -> Option<EventStreamOpenAttempt> {
        let mut log = lock_ignoring_poison(&self.0);
        let answer = last_event.and_then(|last| {
            let mut answers = log.answers.iter_mut();
            answers.find(|(id, _)| id == last).map(|(_, n)| n)
        });
        if let Some(n) = answer {
            // Count before the stream is opened: a resumed stream may end without an event.
            *n = n.saturating_add(1);
            let n_before = *n;
            if n_before > MAX_STREAM_RESUMPTIONS {
                log.fault = Some(format!(
                    "ended the stream of its answer {MAX_STREAM_RESUMPTIONS} times without the answer"
                ));
                return None;
            }
            return Some(EventStreamOpenAttempt {
                stream_use: EventStreamPurpose::Answer,
                n_before,
            });
        }
        if log
            .standing
            .is_some_and(|since| since.elapsed() >= MIN_LONG_LIVED_STREAM_DURATION)
        {
            log.n_standing = 1;
        }
        let n_before = log.n_standing;
        if n_before > MAX_STREAM_RESUMPTIONS {
            return None;
        }
        log.n_standing += 1;
        log.standing = Some(Instant::now());
        Some(EventStreamOpenAttempt {
            stream_use: EventStreamPurpose::Standing,
            n_before,
        })
    }

    /// Stores the reason why the server's interrupted answer is not resumed.
    pub(crate) fn record_resume_fault(&self, why: String) {
        lock_ignoring_poison(&self.0).fault = Some(why);
    }

    /// Returns and clears the reason why an answer was not resumed, phrased to follow "the server".
    pub(crate) fn take_resume_failure_reason(&self) -> Option<String> {
        lock_ignoring_poison(&self.0).fault.take()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    async fn read(streams: &ConnectionEventStreams, n: u32, ids: &[&str]) {
        let events = ids.iter().map(|id| Ok(Sse::default().id((*id).to_owned())));
        let events: Vec<Result<Sse, SseError>> = events.collect();
        let followed = streams.record_event_ids_for_resume(stream::iter(events).boxed(), n);
        assert_eq!(followed.count().await, ids.len());
    }

    #[tokio::test]
    async fn each_answer_is_continued_by_its_own_count() {
        let streams = ConnectionEventStreams::default();
        read(&streams, 0, &["a", "b"]).await;
        read(&streams, MAX_STREAM_RESUMPTIONS, &["c"]).await;
        let answer = |n_before| EventStreamOpenAttempt {
            stream_use: EventStreamPurpose::Answer,
            n_before,
        };
        assert_eq!(streams.classify_stream_to_open(Some("b")), Some(answer(1)));
        // `a` is no longer the last event of the answer.
        let other = streams.classify_stream_to_open(Some("a")).unwrap();
        assert_eq!(other.stream_use, EventStreamPurpose::Standing);
        assert_eq!(streams.take_resume_failure_reason(), None);
        assert_eq!(streams.classify_stream_to_open(Some("c")), None);
        assert!(
            streams
                .take_resume_failure_reason()
                .unwrap()
                .contains("50 times")
        );
        assert_eq!(streams.classify_stream_to_open(Some("b")), Some(answer(2)));
    }

    #[tokio::test]
    async fn an_answer_is_continued_a_bounded_number_of_times_without_an_event_or_with_the_same_id()
    {
        let none: &[&str] = &[];
        for ids in [none, &["a"]] {
            let streams = ConnectionEventStreams::default();
            read(&streams, 0, &["a"]).await;
            let mut n_continued = 0;
            while let Some(next) = streams.classify_stream_to_open(Some("a")) {
                assert_eq!(next.stream_use, EventStreamPurpose::Answer);
                n_continued += 1;
                assert_eq!(next.n_before, n_continued);
                assert!(n_continued <= MAX_STREAM_RESUMPTIONS);
                read(&streams, next.n_before, ids).await;
                // Another answer with the same first id does not reset the count.
                read(&streams, 0, &["a"]).await;
            }
            assert_eq!(n_continued, MAX_STREAM_RESUMPTIONS);
            assert!(
                streams
                    .take_resume_failure_reason()
                    .unwrap()
                    .contains("50 times")
            );
        }
    }

    #[tokio::test]
    async fn a_stream_without_an_answer_is_opened_again_a_bounded_number_of_times() {
        let streams = ConnectionEventStreams::default();
        let opened = (0..200).filter(|_| streams.classify_stream_to_open(None).is_some());
        assert_eq!(opened.count(), MAX_STREAM_RESUMPTIONS as usize + 1);
        let many: Vec<String> = (0..200).map(|n| n.to_string()).collect();
        for id in &many {
            read(&streams, 0, &[id]).await;
        }
        assert_eq!(
            lock_ignoring_poison(&streams.0).answers.len(),
            MAX_RESUMABLE_ANSWERS
        );
    }
}
