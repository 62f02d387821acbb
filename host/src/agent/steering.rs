//! Queues for user input that arrives while a turn runs.
//!
//! Texts of the first queue are added to the conversation before the next request to the model,
//! those of the second queue when the turn would end.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock::lock_ignoring_poison;
use crate::message::PromptImageAttachment;
use crate::point::payload::{Source, TurnInput};

/// Handle to send messages to an agent whose turn is running. Cheap to clone; it outlives the turn.
#[derive(Clone, Debug, Default)]
pub struct AgentSteeringHandle(Arc<Mutex<SteeringQueues>>);

#[derive(Debug, Default)]
struct SteeringQueues {
    steering: VecDeque<QueuedSteeringText>,
    follow_ups: VecDeque<QueuedSteeringText>,
    next: u64,
}

/// Queued text with a unique number, from which the turn finds out whether the author withdrew the
/// text while hooks judged it.
#[derive(Clone, Debug)]
pub(super) struct QueuedSteeringText {
    pub(super) number: u64,
    pub(super) input: TurnInput,
    pub(super) attached: Arc<[PromptImageAttachment]>,
}

/// A queued text, for a front end that shows the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueuedSteeringTextSnapshot {
    /// Number of the text, unique within this agent, for
    /// [`AgentSteeringHandle::withdraw_queued_text`].
    pub number: u64,
    /// Whether the text waits for the end of the turn; otherwise it waits for the next request to
    /// the model.
    pub is_follow_up: bool,
    /// Queued text and its source.
    pub input: TurnInput,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SteeringQueueKind {
    /// Queue of texts that the model receives at the next safe point of the turn.
    Steering,
    /// Queue of texts that the model receives when the turn is about to end.
    FollowUps,
}

impl SteeringQueues {
    fn queue_mut(&mut self, queue: SteeringQueueKind) -> &mut VecDeque<QueuedSteeringText> {
        match queue {
            SteeringQueueKind::Steering => &mut self.steering,
            SteeringQueueKind::FollowUps => &mut self.follow_ups,
        }
    }
}

impl AgentSteeringHandle {
    /// Queues text for the next safe point: before the next request to the model. Tool calls that
    /// have not started by then are skipped. Returns the number of the text, which
    /// [`Event::SteeringTaken`](crate::event::Event::SteeringTaken) repeats.
    pub fn steer(&self, text: impl Into<String>, source: Source) -> u64 {
        self.steer_with_images(text, source, Vec::new())
    }

    /// Queues text with images, as [`steer`](Self::steer) does.
    pub fn steer_with_images(
        &self,
        text: impl Into<String>,
        source: Source,
        attached: Vec<PromptImageAttachment>,
    ) -> u64 {
        self.queue_text(SteeringQueueKind::Steering, text.into(), source, attached)
    }

    /// Queues text as a follow-up, which the turn takes instead of ending. Returns the number of
    /// the text.
    pub fn follow_up(&self, text: impl Into<String>, source: Source) -> u64 {
        self.queue_follow_up_with_images(text, source, Vec::new())
    }

    /// Queues text with images, as [`follow_up`](Self::follow_up) does.
    pub fn queue_follow_up_with_images(
        &self,
        text: impl Into<String>,
        source: Source,
        attached: Vec<PromptImageAttachment>,
    ) -> u64 {
        self.queue_text(SteeringQueueKind::FollowUps, text.into(), source, attached)
    }

    /// Returns the queued texts in the order in which the turn will take them.
    #[must_use]
    pub fn waiting_texts(&self) -> Vec<QueuedSteeringTextSnapshot> {
        let queues = self.lock_queues();
        let of = |queue: &VecDeque<QueuedSteeringText>, is_follow_up| {
            let texts = queue.iter().map(move |queued| QueuedSteeringTextSnapshot {
                number: queued.number,
                is_follow_up,
                input: queued.input.clone(),
            });
            texts.collect::<Vec<_>>()
        };
        [of(&queues.steering, false), of(&queues.follow_ups, true)].concat()
    }

    /// Withdraws a queued text and returns it; `None` if the turn has already taken it.
    #[must_use]
    pub fn withdraw_queued_text(&self, number: u64) -> Option<TurnInput> {
        let mut queues = self.lock_queues();
        [SteeringQueueKind::Steering, SteeringQueueKind::FollowUps]
            .into_iter()
            .find_map(|queue| {
                let waiting = queues.queue_mut(queue);
                let at = waiting.iter().position(|queued| queued.number == number)?;
                waiting.remove(at).map(|queued| queued.input)
            })
    }

    /// Whether a text is queued for the next safe point, which is before the next request to the
    /// model.
    #[must_use]
    pub fn has_steering(&self) -> bool {
        !self.lock_queues().steering.is_empty()
    }

    /// Removes all queued texts and returns them, steering first, so that a user who interrupted
    /// the turn can edit them.
    #[must_use]
    pub fn take_queued_texts(&self) -> Vec<TurnInput> {
        let mut queues = self.lock_queues();
        let SteeringQueues {
            steering,
            follow_ups,
            ..
        } = &mut *queues;
        let all = steering.drain(..).chain(follow_ups.drain(..));
        all.map(|queued| queued.input).collect()
    }

    /// Returns the next text of a queue without removing it. The text stays queued until
    /// [`AgentSteeringHandle::remove_queued_text`], so that an interrupted turn does not lose it.
    pub(super) fn next_queued_text(&self, queue: SteeringQueueKind) -> Option<QueuedSteeringText> {
        self.lock_queues().queue_mut(queue).front().cloned()
    }

    /// Removes a text from its queue. Returns false if the text is no longer queued, because its
    /// author has withdrawn it; the caller must then not use it.
    pub(super) fn remove_queued_text(
        &self,
        queue: SteeringQueueKind,
        taken: &QueuedSteeringText,
    ) -> bool {
        let mut queues = self.lock_queues();
        let waiting = queues.queue_mut(queue);
        let at = waiting
            .iter()
            .position(|queued| queued.number == taken.number);
        at.is_some_and(|at| waiting.remove(at).is_some())
    }

    fn queue_text(
        &self,
        queue: SteeringQueueKind,
        text: String,
        source: Source,
        attached: Vec<PromptImageAttachment>,
    ) -> u64 {
        let mut queues = self.lock_queues();
        let number = queues.next;
        queues.next += 1;
        let input = TurnInput { text, source };
        queues.queue_mut(queue).push_back(QueuedSteeringText {
            number,
            input,
            attached: attached.into(),
        });
        number
    }

    fn lock_queues(&self) -> MutexGuard<'_, SteeringQueues> {
        lock_ignoring_poison(&self.0)
    }
}
