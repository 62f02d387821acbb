//! The task that owns the session of a chat and does one thing with it at a time, so that keys are
//! never waited for.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::command::{Call, Commands, Outcome, permissions_event};
use super::super::render::bare;
use rind_lib::agent::{Error, TurnOutcome};
use rind_lib::event::{Event, Events};
use rind_lib::host::Session;
use rind_lib::message::Attachment;
use rind_lib::provider::Selected;

/// Work on the session.
enum Job {
    Turn(Prompt, CancellationToken),
    Command(Call, CancellationToken),
    Model(Selected),
    /// Tells those who watch of a command.
    Tell(Event),
    Close,
}

/// Work that can be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Turn,
    Command,
}

pub(super) struct Prompt {
    pub(super) text: String,
    /// The slash command that it comes from.
    pub(super) command: Option<String>,
    /// Images that the text names.
    pub(super) images: Vec<Attachment>,
}

pub(super) enum Done {
    Turn(Result<TurnOutcome, Error>),
    Command(anyhow::Result<Outcome>),
    /// Outcome of a command that ran without the session.
    Aside(anyhow::Result<Outcome>),
    Closed(Result<(), Error>),
}

/// The way to the task.
pub(super) struct Worker {
    commands: Arc<Commands>,
    jobs: UnboundedSender<Job>,
    ended: UnboundedSender<Done>,
    done: UnboundedReceiver<Done>,
    /// The task; `None` once it has ended.
    task: Option<JoinHandle<()>>,
    /// Turn or command that runs; the token ends it.
    running: Option<(Kind, CancellationToken)>,
    events: BesideSession,
}

/// The way to those who watch, while a turn has the session.
#[derive(Clone)]
struct BesideSession {
    events: Events,
    jobs: UnboundedSender<Job>,
    /// Whether the event that the session is open was emitted; it comes before all others.
    is_open: Arc<AtomicBool>,
}

impl BesideSession {
    fn tell(&self, event: Event) {
        if self.is_open.load(Ordering::Acquire) {
            self.events.emit(event);
        } else {
            let _ = self.jobs.send(Job::Tell(event));
        }
    }
}

impl Worker {
    pub(super) fn new(session: Session, commands: Arc<Commands>) -> Self {
        let (jobs, waiting) = mpsc::unbounded_channel();
        let (ended, done) = mpsc::unbounded_channel();
        let events = BesideSession {
            events: session.event_stream(),
            jobs: jobs.clone(),
            is_open: Arc::default(),
        };
        let shared = (commands.clone(), events.is_open.clone());
        let task = tokio::spawn(work(session, shared, waiting, ended.clone()));
        Self {
            commands,
            jobs,
            ended,
            done,
            task: Some(task),
            running: None,
            events,
        }
    }

    pub(super) fn commands(&self) -> &Commands {
        &self.commands
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether a turn runs, and no command.
    pub(super) fn is_turn(&self) -> bool {
        matches!(self.running, Some((Kind::Turn, _)))
    }

    pub(super) fn turn(&mut self, prompt: Prompt) {
        let cancel = self.begin(Kind::Turn);
        // Ignore a closed channel: `done` reports that the task has ended.
        let _ = self.jobs.send(Job::Turn(prompt, cancel));
    }

    /// Runs a command: with the session if it is free, else without it.
    pub(super) fn command(&mut self, call: Call) {
        if !self.is_running() {
            let cancel = self.begin(Kind::Command);
            let _ = self.jobs.send(Job::Command(call, cancel));
            return;
        }
        let (commands, ended) = (self.commands.clone(), self.ended.clone());
        let events = self.events.clone();
        tokio::spawn(async move {
            let (outcome, event) = commands.run_alone(&call).await;
            events.tell(event);
            // Ignore a closed channel: the chat may be over.
            let _ = ended.send(Done::Aside(outcome));
        });
    }

    /// Emits the event that the person listed or revoked approvals.
    pub(super) fn tell_permissions(&self, lines: &[String]) {
        let text: Vec<String> = lines.iter().map(|line| bare(line)).collect();
        self.events.tell(permissions_event(text.join("\n")));
    }

    /// Asks another model from the next turn on.
    pub(super) fn model(&self, selected: Selected) {
        let _ = self.jobs.send(Job::Model(selected));
    }

    fn begin(&mut self, kind: Kind) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.running = Some((kind, cancel.clone()));
        cancel
    }

    /// Interrupts the turn. Returns whether a turn runs that was not already interrupted.
    pub(super) fn interrupt(&self) -> bool {
        match &self.running {
            Some((_, running)) if !running.is_cancelled() => {
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

    /// Waits for the end of a job; `None` when the task has ended, which it does by itself only
    /// when something in it panics.
    pub(super) async fn done(&mut self) -> Option<Done> {
        let done = match &mut self.task {
            None => self.done.try_recv().ok(),
            Some(task) => tokio::select! {
                biased;
                done = self.done.recv() => done,
                _ = task => {
                    self.task = None;
                    // The result may have arrived between the two polls.
                    self.done.try_recv().ok()
                }
            },
        };
        if let None | Some(Done::Turn(_) | Done::Command(_)) = &done {
            self.running = None;
        }
        done
    }
}

async fn work(
    mut session: Session,
    (commands, is_open): (Arc<Commands>, Arc<AtomicBool>),
    mut jobs: UnboundedReceiver<Job>,
    done: UnboundedSender<Done>,
) {
    while let Some(job) = jobs.recv().await {
        if !matches!(job, Job::Model(_) | Job::Close) {
            session.tell_opening();
            is_open.store(true, Ordering::Release);
        }
        let ended = match job {
            Job::Turn(prompt, cancel) => {
                let turn = session.turn(prompt.text).attach(prompt.images);
                let turn = turn.until(&cancel);
                Done::Turn(match prompt.command {
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
            Job::Tell(event) => {
                session.tell_command(event);
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

#[cfg(test)]
mod tests {
    use super::super::super::command::About;
    use super::*;
    use rind_lib::Host;
    use rind_lib::paths::Paths;
    use rind_lib::provider::scripted::{Reply, Script, Scripted};

    async fn commands() -> Arc<Commands> {
        let about = About {
            paths: Paths::under("/none/home".as_ref(), "/none/work".as_ref()),
            plugins: Arc::default(),
            skills: Arc::default(),
            rules: Vec::new(),
            compact: rind_lib::agent::CompactConfig::default(),
        };
        Arc::new(Commands::new(about, None, "/none/rind".into()).await)
    }

    #[tokio::test]
    async fn whoever_waits_for_a_task_that_panicked_is_told_that_it_is_gone() {
        let model = Scripted::new(Script::new(vec![Reply::text("done")]));
        let host = Host::builder().provider(Arc::new(model), "m");
        let host = host.build().await.unwrap();
        let session = host.session().create().unwrap();
        session.observe(|event| assert_ne!(event.event.name(), "step-start", "on purpose"));
        let mut worker = Worker::new(session, commands().await);
        worker.turn(Prompt {
            text: "go".to_owned(),
            command: None,
            images: Vec::new(),
        });
        assert!(worker.is_turn());
        assert!(worker.done().await.is_none() && worker.done().await.is_none());
        assert!(!worker.is_running());
    }
}
