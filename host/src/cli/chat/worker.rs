//! The task that owns the session of a chat and does one thing with it at a time, so that keys are never waited for.

use std::sync::Arc;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

use super::super::command::{Call, Commands, Outcome};
use crate::agent::{Error, TurnOutcome};
use crate::host::Session;
use crate::provider::Selected;

/// Work on the session.
enum Job {
    Turn(Prompt, CancellationToken),
    Command(Call, CancellationToken),
    Model(Selected),
    Close,
}

/// Input of a turn.
pub(super) struct Prompt {
    pub(super) text: String,
    /// The slash command that it comes from.
    pub(super) command: Option<String>,
}

/// End of a job.
pub(super) enum Done {
    Turn(Result<TurnOutcome, Error>),
    Command(anyhow::Result<Outcome>),
    /// A command that ran beside the session.
    Aside(anyhow::Result<Outcome>),
    Closed(Result<(), Error>),
}

/// The way to the task.
pub(super) struct Worker {
    commands: Arc<Commands>,
    jobs: UnboundedSender<Job>,
    ended: UnboundedSender<Done>,
    done: UnboundedReceiver<Done>,
    /// Set while a turn or a command runs; it ends that.
    running: Option<CancellationToken>,
}

impl Worker {
    pub(super) fn new(session: Session, commands: Commands) -> Self {
        let (jobs, waiting) = mpsc::unbounded_channel();
        let (ended, done) = mpsc::unbounded_channel();
        let commands = Arc::new(commands);
        tokio::spawn(work(session, commands.clone(), waiting, ended.clone()));
        Self {
            commands,
            jobs,
            ended,
            done,
            running: None,
        }
    }

    pub(super) fn commands(&self) -> &Commands {
        &self.commands
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Begins a turn.
    pub(super) fn turn(&mut self, prompt: Prompt) {
        let cancel = self.begin();
        // A task that ended says so in `done`.
        let _ = self.jobs.send(Job::Turn(prompt, cancel));
    }

    /// Runs a command: with the session when that is free, else beside it.
    pub(super) fn command(&mut self, call: Call) {
        if !self.is_running() {
            let cancel = self.begin();
            let _ = self.jobs.send(Job::Command(call, cancel));
            return;
        }
        let (commands, ended) = (self.commands.clone(), self.ended.clone());
        tokio::spawn(async move {
            let outcome = commands.run(&call, None, &CancellationToken::new()).await;
            // Nobody listens when the chat is over.
            let _ = ended.send(Done::Aside(outcome));
        });
    }

    /// Asks another model from the next turn on.
    pub(super) fn model(&self, selected: Selected) {
        let _ = self.jobs.send(Job::Model(selected));
    }

    fn begin(&mut self) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.running = Some(cancel.clone());
        cancel
    }

    /// Ends the turn in good order. Whether one runs that was not ended before.
    pub(super) fn interrupt(&self) -> bool {
        match &self.running {
            Some(running) if !running.is_cancelled() => {
                running.cancel();
                true
            }
            _ => false,
        }
    }

    /// Ends the turn, and then the session.
    pub(super) fn close(&self) {
        self.interrupt();
        let _ = self.jobs.send(Job::Close);
    }

    /// Waits for the end of a job.
    pub(super) async fn done(&mut self) -> Option<Done> {
        let done = self.done.recv().await;
        if let None | Some(Done::Turn(_) | Done::Command(_)) = &done {
            self.running = None;
        }
        done
    }
}

async fn work(
    mut session: Session,
    commands: Arc<Commands>,
    mut jobs: UnboundedReceiver<Job>,
    done: UnboundedSender<Done>,
) {
    while let Some(job) = jobs.recv().await {
        let ended = match job {
            Job::Turn(Prompt { text, command }, cancel) => {
                let turn = session.turn(text).until(&cancel);
                Done::Turn(match command {
                    Some(command) => turn.of_command(command).await,
                    None => turn.await,
                })
            }
            Job::Command(call, cancel) => {
                Done::Command(commands.run(&call, Some(&mut session), &cancel).await)
            }
            Job::Model(selected) => {
                session.set_model(selected.provider, selected.model);
                continue;
            }
            Job::Close => {
                let _ = done.send(Done::Closed(session.close().await));
                return;
            }
        };
        let _ = done.send(ended);
    }
}
