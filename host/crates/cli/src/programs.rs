//! Connects programs that follow a turn: they receive its events and may steer it.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::event_file::EventFile;
use super::steer::{self, Lines, TurnSteering};
use rind_lib::agent::SteerHandle;
use rind_lib::event::{Event, Stamped};

type Watch = Box<dyn FnMut(&Event) + Send>;

/// Receivers of the events of a turn, and the source of texts that steer it; by default none.
#[derive(Default)]
pub(super) struct TurnFollowers {
    watch: Option<Watch>,
    file: Option<EventFile>,
    lines: Option<Lines>,
    steering: Option<TurnSteering>,
}

impl TurnFollowers {
    /// Creates a follower that calls a function of this program with every event.
    pub(super) fn with_event_watch(watch: impl FnMut(&Event) + Send + 'static) -> Self {
        Self {
            watch: Some(Box::new(watch)),
            ..Self::default()
        }
    }

    /// Opens the file to which events are written, and the input from which lines to steer the turn
    /// are read.
    pub(super) fn open_turn_followers(
        events: Option<&Path>,
        steer_from: Option<&Path>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            watch: None,
            file: events.map(EventFile::open_file).transpose()?,
            lines: steer_from.map(steer::open_steering_input).transpose()?,
            steering: None,
        })
    }

    /// Begins to steer the turn of `handle` with the lines of the steering input, if such an input
    /// was opened.
    pub(super) fn begin_steering(
        &mut self,
        handle: SteerHandle,
        cancel: &CancellationToken,
        is_json: bool,
    ) {
        let lines = self.lines.take();
        self.steering =
            lines.map(|lines| TurnSteering::new(lines, handle, cancel.clone(), is_json));
    }

    /// Passes an event to all programs.
    pub(super) fn handle_event(&mut self, event: &Stamped) {
        if let Some(watch) = &mut self.watch {
            watch(&event.event);
        }
        if let Some(file) = &mut self.file {
            file.write_event(event);
        }
        if let Some(steering) = &mut self.steering {
            steering.handle_event(event);
        }
    }

    pub(super) async fn next_steering_line(&mut self) -> steer::Line {
        match &mut self.steering {
            Some(steering) => steering.next_line().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn steer_turn(&mut self, line: steer::Line) {
        if let Some(steering) = &mut self.steering {
            steering.steer_turn(line);
        }
    }

    /// Reports the lines that arrived too late to steer the turn.
    pub(super) async fn finish_followers(&mut self) {
        if let Some(steering) = &mut self.steering {
            steering.finish_steering().await;
        }
    }
}
