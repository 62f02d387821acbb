//! Programs that follow a turn in addition to the person: they receive its events, and may steer
//! it.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::event_file::EventFile;
use super::steer::{self, InputSteering, Lines};
use rind_lib::agent::SteerHandle;
use rind_lib::event::{Event, Stamped};

type Watch = Box<dyn FnMut(&Event) + Send>;

/// Programs that follow a turn. None does by default.
#[derive(Default)]
pub(super) struct FollowingPrograms {
    watch: Option<Watch>,
    file: Option<EventFile>,
    lines: Option<Lines>,
    steering: Option<InputSteering>,
}

impl FollowingPrograms {
    /// Calls a function of the program itself with every event.
    pub(super) fn with_watch(watch: impl FnMut(&Event) + Send + 'static) -> Self {
        Self {
            watch: Some(Box::new(watch)),
            ..Self::default()
        }
    }

    /// Writes events to a file, and reads lines that steer.
    pub(super) fn open_programs(
        events: Option<&Path>,
        steer_from: Option<&Path>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            watch: None,
            file: events.map(EventFile::open_file).transpose()?,
            lines: steer_from.map(steer::open_steering).transpose()?,
            steering: None,
        })
    }

    /// Steers with this handle from now on.
    pub(super) fn begin_steering(
        &mut self,
        handle: SteerHandle,
        cancel: &CancellationToken,
        is_json: bool,
    ) {
        let lines = self.lines.take();
        self.steering =
            lines.map(|lines| InputSteering::new(lines, handle, cancel.clone(), is_json));
    }

    /// Passes an event to the programs.
    pub(super) fn take_event(&mut self, event: &Stamped) {
        if let Some(watch) = &mut self.watch {
            watch(&event.event);
        }
        if let Some(file) = &mut self.file {
            file.write_event(event);
        }
        if let Some(steering) = &mut self.steering {
            steering.take_event(event);
        }
    }

    pub(super) async fn next_line(&mut self) -> steer::Line {
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

    /// Answers the lines that arrived too late.
    pub(super) async fn finish_programs(&mut self) {
        if let Some(steering) = &mut self.steering {
            steering.finish_steering().await;
        }
    }
}
