//! Programs that follow a turn in addition to the person: they receive its events, and may steer
//! it.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::event_file::EventFile;
use super::steer::{self, Lines, Steering};
use rind_lib::agent::SteerHandle;
use rind_lib::event::{Event, Stamped};

type Watch = Box<dyn FnMut(&Event) + Send>;

/// Programs that follow a turn. None does by default.
#[derive(Default)]
pub(super) struct Programs {
    watch: Option<Watch>,
    file: Option<EventFile>,
    lines: Option<Lines>,
    steering: Option<Steering>,
}

impl Programs {
    /// Calls a function of the program itself with every event.
    pub(super) fn watching(watch: impl FnMut(&Event) + Send + 'static) -> Self {
        Self {
            watch: Some(Box::new(watch)),
            ..Self::default()
        }
    }

    /// Writes events to a file, and reads lines that steer.
    pub(super) fn open(events: Option<&Path>, steer_from: Option<&Path>) -> anyhow::Result<Self> {
        Ok(Self {
            watch: None,
            file: events.map(EventFile::open).transpose()?,
            lines: steer_from.map(steer::open).transpose()?,
            steering: None,
        })
    }

    /// Steers with this handle from now on.
    pub(super) fn begin(&mut self, handle: SteerHandle, cancel: &CancellationToken, is_json: bool) {
        let lines = self.lines.take();
        self.steering = lines.map(|lines| Steering::new(lines, handle, cancel.clone(), is_json));
    }

    /// Tells them of an event.
    pub(super) fn take(&mut self, event: &Stamped) {
        if let Some(watch) = &mut self.watch {
            watch(&event.event);
        }
        if let Some(file) = &mut self.file {
            file.write(event);
        }
        if let Some(steering) = &mut self.steering {
            steering.take(event);
        }
    }

    pub(super) async fn line(&mut self) -> steer::Line {
        match &mut self.steering {
            Some(steering) => steering.line().await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn steer(&mut self, line: steer::Line) {
        if let Some(steering) = &mut self.steering {
            steering.steer(line);
        }
    }

    /// Answers the lines that came too late.
    pub(super) async fn finish(&mut self) {
        if let Some(steering) = &mut self.steering {
            steering.finish().await;
        }
    }
}
