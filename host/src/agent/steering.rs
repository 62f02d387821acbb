//! Input that comes in while a turn runs.
//!
//! Owns the two queues and nothing else: the turn takes from them at its safe points.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::point::payload::{Source, TurnInput};

/// The way to say something to an agent whose turn is running. Cheap to clone; it outlives the turn.
#[derive(Clone, Debug, Default)]
pub struct SteerHandle(Arc<Mutex<Queues>>);

#[derive(Debug, Default)]
struct Queues {
    steering: VecDeque<TurnInput>,
    follow_ups: VecDeque<TurnInput>,
}

impl SteerHandle {
    /// Queues text for the next safe point: before the next request to the model.
    pub fn steer(&self, text: impl Into<String>, source: Source) {
        let text = text.into();
        self.lock().steering.push_back(TurnInput { text, source });
    }

    /// Queues text for when the turn would end.
    pub fn follow_up(&self, text: impl Into<String>, source: Source) {
        let text = text.into();
        self.lock().follow_ups.push_back(TurnInput { text, source });
    }

    /// Whether something waits for the next safe point.
    #[must_use]
    pub fn has_steering(&self) -> bool {
        !self.lock().steering.is_empty()
    }

    /// Takes back everything that was queued and not taken yet, steering first. For a user who interrupted the turn and
    /// wants to write something else.
    #[must_use]
    pub fn take_all(&self) -> Vec<TurnInput> {
        let mut queues = self.lock();
        let Queues {
            steering,
            follow_ups,
        } = &mut *queues;
        steering.drain(..).chain(follow_ups.drain(..)).collect()
    }

    /// The next steering text. It stays queued until [`SteerHandle::pop_steering`], so that an interrupted turn loses none.
    pub(super) fn next_steering(&self) -> Option<TurnInput> {
        self.lock().steering.front().cloned()
    }

    pub(super) fn pop_steering(&self) {
        self.lock().steering.pop_front();
    }

    /// The next follow-up. It stays queued until [`SteerHandle::pop_follow_up`].
    pub(super) fn next_follow_up(&self) -> Option<TurnInput> {
        self.lock().follow_ups.front().cloned()
    }

    pub(super) fn pop_follow_up(&self) {
        self.lock().follow_ups.pop_front();
    }

    fn lock(&self) -> MutexGuard<'_, Queues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
