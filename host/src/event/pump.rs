//! Passes the events of a session to a watcher. Work that emits events, such as a turn, never waits
//! for the watcher. Before the next work begins, however, the forwarder waits until the watcher has
//! received all events.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::mpsc::{Sender, UnboundedReceiver};
use tokio_util::sync::CancellationToken;

use super::Stamped;

/// Time that a watcher has after cancellation to receive the remaining events. A watcher that
/// receives nothing must not keep the host from ending.
const EVENT_FLUSH_TIMEOUT_AFTER_CANCEL: Duration = Duration::from_secs(2);

pub(crate) struct SessionEventForwarder {
    events: UnboundedReceiver<Stamped>,
    /// Channel to the receiver of the session's events (the watcher); `None` if there is none or it
    /// is closed.
    watcher: Option<Sender<Stamped>>,
    /// Next event for the watcher, which has not received it yet.
    next: Option<Stamped>,
}

impl SessionEventForwarder {
    pub(crate) fn new(
        events: UnboundedReceiver<Stamped>,
        watcher: Option<Sender<Stamped>>,
    ) -> Self {
        Self {
            events,
            watcher,
            next: None,
        }
    }

    /// Runs `work` to its end and forwards events to the watcher in the meantime. `work` never
    /// waits for the watcher to handle an event.
    pub(crate) async fn forward_events_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.forward_event() => {}
            }
        }
    }

    /// Passes on the remaining events. After cancellation, waits for the watcher at most
    /// [`EVENT_FLUSH_TIMEOUT_AFTER_CANCEL`].
    pub(crate) async fn flush_events(&mut self, cancel: &CancellationToken) {
        let given_up = async {
            cancel.cancelled().await;
            tokio::time::sleep(EVENT_FLUSH_TIMEOUT_AFTER_CANCEL).await;
        };
        let all = async {
            while self.next.is_some() || !self.events.is_empty() {
                self.forward_event().await;
            }
        };
        tokio::select! {
            () = all => {}
            () = given_up => {}
        }
    }

    /// Forwards one event to the watcher. Cancel-safe: no event is lost if the future is dropped.
    async fn forward_event(&mut self) {
        if self.next.is_none() {
            match self.events.recv().await {
                Some(event) => self.next = Some(event),
                None => std::future::pending().await,
            }
        }
        let Some(watcher) = &self.watcher else {
            self.next = None;
            return;
        };
        let is_open = match watcher.reserve().await {
            Ok(place) => {
                if let Some(event) = self.next.take() {
                    place.send(event);
                }
                true
            }
            Err(_) => false,
        };
        if !is_open {
            (self.watcher, self.next) = (None, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventSender};
    use crate::point::outcome::Level;
    use tokio::sync::mpsc::channel;

    #[tokio::test]
    async fn work_does_not_wait_for_a_watcher_and_no_event_is_lost() {
        let (events, receiver) = EventSender::new_with_receiver();
        let (sender, mut taken) = channel(1);
        let mut pump = SessionEventForwarder::new(receiver, Some(sender));
        let work = async {
            for n in 0..9 {
                events.emit(Event::create_host_notice(Level::Info, n.to_string()));
                tokio::task::yield_now().await;
            }
        };
        pump.forward_events_during(work).await;
        let never = CancellationToken::new();
        let take = async {
            let mut all = Vec::new();
            while all.len() < 9 {
                all.extend(taken.recv().await);
            }
            all
        };
        let (all, ()) = tokio::join!(take, pump.flush_events(&never));
        let texts = all.iter().map(|stamped| match &stamped.event {
            Event::Notice { text, .. } => text.as_str(),
            _ => "",
        });
        assert_eq!(texts.collect::<String>(), "012345678");
    }

    #[tokio::test]
    async fn a_watcher_that_takes_nothing_does_not_keep_loops_from_ending() {
        let (events, receiver) = EventSender::new_with_receiver();
        let (sender, _taken) = channel(1);
        let mut pump = SessionEventForwarder::new(receiver, Some(sender));
        for _ in 0..3 {
            events.emit(Event::create_host_notice(Level::Info, "x"));
        }
        let cancel = CancellationToken::new();
        cancel.cancel();
        let flushed = tokio::time::timeout(
            EVENT_FLUSH_TIMEOUT_AFTER_CANCEL * 10,
            pump.flush_events(&cancel),
        )
        .await;
        assert_eq!(flushed, Ok(()));
    }
}
