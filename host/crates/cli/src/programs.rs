//! Connects programs that follow a turn: they receive its events and may steer it.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::event_file::EventLogFile;
use super::steer::{self, SteeringLineReceiver, TurnSteeringController};
use rind_lib::agent::AgentSteeringHandle;
use rind_lib::event::{Event, Stamped};

type TurnEventCallback = Box<dyn FnMut(&Event) + Send>;

/// Receivers of the events of a turn, and the source of texts that steer it; by default none.
#[derive(Default)]
pub(super) struct TurnInputOutputChannels {
    watch: Option<TurnEventCallback>,
    file: Option<EventLogFile>,
    lines: Option<SteeringLineReceiver>,
    steering: Option<TurnSteeringController>,
}

impl TurnInputOutputChannels {
    /// Creates receivers of which one is a function of this program that is called with every
    /// event.
    pub(super) fn with_event_callback(watch: impl FnMut(&Event) + Send + 'static) -> Self {
        Self {
            watch: Some(Box::new(watch)),
            ..Self::default()
        }
    }

    /// Opens the file to which events are written, and the input from which lines to steer the turn
    /// are read.
    pub(super) fn open_from_paths(
        events: Option<&Path>,
        steer_from: Option<&Path>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            watch: None,
            file: events.map(EventLogFile::open_file).transpose()?,
            lines: steer_from.map(steer::open_steering_input).transpose()?,
            steering: None,
        })
    }

    /// Begins to steer the turn of `handle` with the lines of the steering input, if such an input
    /// was opened.
    pub(super) fn begin_steering_turn_from_input(
        &mut self,
        handle: AgentSteeringHandle,
        cancel: &CancellationToken,
        is_json: bool,
    ) {
        let lines = self.lines.take();
        self.steering =
            lines.map(|lines| TurnSteeringController::new(lines, handle, cancel.clone(), is_json));
    }

    /// Passes an event of the session to all programs that follow it.
    pub(super) fn forward_event_to_followers(&mut self, event: &Stamped) {
        if let Some(watch) = &mut self.watch {
            watch(&event.event);
        }
        if let Some(file) = &mut self.file {
            file.write_event(event);
        }
        if let Some(steering) = &mut self.steering {
            steering.print_steering_outcomes(event);
        }
    }

    pub(super) async fn next_steering_line(&mut self) -> steer::SteeringLineReadResult {
        match &mut self.steering {
            Some(steering) => steering.next_steering_input_line().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn steer_turn(&mut self, line: steer::SteeringLineReadResult) {
        if let Some(steering) = &mut self.steering {
            steering.handle_steering_line(line);
        }
    }

    /// Reports the lines that arrived too late to steer the turn.
    pub(super) async fn reject_late_steering_lines(&mut self) {
        if let Some(steering) = &mut self.steering {
            steering.reject_pending_steering_lines().await;
        }
    }
}
