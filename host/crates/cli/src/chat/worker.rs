//! Runs the task that owns the session of a chat. The task handles one job at a time, and the chat
//! reads keys meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::command::{CommandCall, CommandCallResult, CommandSet, permissions_event};
use super::super::render::bare_text;
use super::super::resource::{ResourceMention, append_resources};
use rind_lib::agent::{Error, TurnOutcome};
use rind_lib::event::{Event, Events};
use rind_lib::host::Session;
use rind_lib::message::Attachment;
use rind_lib::provider::SelectedModel;

/// Job for the task that owns the session.
enum ChatJob {
    Turn(ChatPrompt, CancellationToken),
    Continue(CancellationToken),
    Command(CommandCall, CancellationToken),
    Model(SelectedModel),
    /// Emits an event about a command to the observers of the session.
    Tell(Event),
    Close,
}

/// Kind of a job of the chat that can be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChatJobKind {
    Turn,
    Command,
}

#[derive(Default)]
pub(super) struct ChatPrompt {
    pub(super) text: String,
    /// Slash command that produced the input, if any.
    pub(super) command: Option<String>,
    /// Images that the text names.
    pub(super) images: Vec<Attachment>,
    /// Resources of MCP servers that the text names, which are fetched before it is sent.
    pub(super) resources: Vec<ResourceMention>,
}

pub(super) enum ChatJobResult {
    Turn(Result<TurnOutcome, Error>),
    /// The text was not sent. The value is the reason, for example that a resource could not be
    /// fetched.
    Unsent(String),
    Command(anyhow::Result<CommandCallResult>),
    /// Outcome of a command that needs no session and ran at the same time as another job.
    Aside(anyhow::Result<CommandCallResult>),
    Closed(Result<(), Error>),
}

/// Handle of the task that owns the chat's session.
pub(super) struct ChatWorker {
    commands: Arc<CommandSet>,
    jobs: UnboundedSender<ChatJob>,
    ended: UnboundedSender<ChatJobResult>,
    done: UnboundedReceiver<ChatJobResult>,
    /// The task that owns the session; `None` once it has ended.
    task: Option<JoinHandle<()>>,
    /// Running turn or command, and the token that interrupts it.
    running: Option<(ChatJobKind, CancellationToken)>,
    events: ObserverChannel,
}

/// Emits events to the observers of the session, also while a turn has exclusive access to the
/// session.
#[derive(Clone)]
struct ObserverChannel {
    events: Events,
    jobs: UnboundedSender<ChatJob>,
    /// Whether the event that opens the session was emitted. It must be emitted before all other
    /// events.
    is_open: Arc<AtomicBool>,
}

impl ObserverChannel {
    fn emit_event_to_observers(&self, event: Event) {
        if self.is_open.load(Ordering::Acquire) {
            self.events.emit(event);
        } else {
            let _ = self.jobs.send(ChatJob::Tell(event));
        }
    }
}

impl ChatWorker {
    pub(super) fn new(session: Session, commands: Arc<CommandSet>) -> Self {
        let (jobs, waiting) = mpsc::unbounded_channel();
        let (ended, done) = mpsc::unbounded_channel();
        let events = ObserverChannel {
            events: session.event_stream(),
            jobs: jobs.clone(),
            is_open: Arc::default(),
        };
        let shared = (commands.clone(), events.is_open.clone());
        let task = tokio::spawn(run_jobs_on_session(session, shared, waiting, ended.clone()));
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

    pub(super) fn commands(&self) -> &CommandSet {
        &self.commands
    }

    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the running job is a turn.
    pub(super) fn is_turn_running(&self) -> bool {
        matches!(self.running, Some((ChatJobKind::Turn, _)))
    }

    pub(super) fn start_turn(&mut self, prompt: ChatPrompt) {
        let cancel = self.begin_job(ChatJobKind::Turn);
        // Ignore a closed channel: `done` reports that the task has ended.
        let _ = self.jobs.send(ChatJob::Turn(prompt, cancel));
    }

    /// Continues the interrupted turn.
    pub(super) fn continue_turn(&mut self) {
        let cancel = self.begin_job(ChatJobKind::Turn);
        let _ = self.jobs.send(ChatJob::Continue(cancel));
    }

    /// Runs a command: with the session if no job runs, otherwise without it and at the same time.
    pub(super) fn start_command(&mut self, call: CommandCall) {
        if !self.is_running() {
            let cancel = self.begin_job(ChatJobKind::Command);
            let _ = self.jobs.send(ChatJob::Command(call, cancel));
            return;
        }
        let (commands, ended) = (self.commands.clone(), self.ended.clone());
        let events = self.events.clone();
        tokio::spawn(async move {
            let (outcome, event) = commands.run_without_session(&call).await;
            events.emit_event_to_observers(event);
            // Ignore a closed channel: the chat may have ended.
            let _ = ended.send(ChatJobResult::Aside(outcome));
        });
    }

    /// Emits the event that the person listed or revoked approvals.
    pub(super) fn emit_permissions_event(&self, lines: &[String]) {
        let text: Vec<String> = lines.iter().map(|line| bare_text(line)).collect();
        self.events
            .emit_event_to_observers(permissions_event(text.join("\n")));
    }

    /// Sets the model for the next turn and later ones.
    pub(super) fn set_model(&self, selected: SelectedModel) {
        let _ = self.jobs.send(ChatJob::Model(selected));
    }

    fn begin_job(&mut self, kind: ChatJobKind) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.running = Some((kind, cancel.clone()));
        cancel
    }

    /// Interrupts the running turn or command. Returns false if none runs or if it was already
    /// interrupted.
    pub(super) fn interrupt(&self) -> bool {
        match &self.running {
            Some((_, running)) if !running.is_cancelled() => {
                running.cancel();
                true
            }
            _ => false,
        }
    }

    /// Interrupts the running turn or command, and then closes the session.
    pub(super) fn close_worker(&self) {
        self.interrupt();
        let _ = self.jobs.send(ChatJob::Close);
    }

    /// Waits until a job has ended. Returns `None` if the task has ended, which happens only if a
    /// job panicked.
    pub(super) async fn next_job_result(&mut self) -> Option<ChatJobResult> {
        let done = match &mut self.task {
            None => self.done.try_recv().ok(),
            Some(task) => tokio::select! {
                biased;
                done = self.done.recv() => done,
                _ = task => {
                    self.task = None;
                    // The task may have sent the result after `done` was polled and before the task
                    // was.
                    self.done.try_recv().ok()
                }
            },
        };
        use ChatJobResult::{Command, Turn, Unsent};
        if let None | Some(Turn(_) | Unsent(_) | Command(_)) = &done {
            self.running = None;
        }
        done
    }
}

async fn run_jobs_on_session(
    mut session: Session,
    (commands, is_open): (Arc<CommandSet>, Arc<AtomicBool>),
    mut jobs: UnboundedReceiver<ChatJob>,
    done: UnboundedSender<ChatJobResult>,
) {
    while let Some(job) = jobs.recv().await {
        if !matches!(job, ChatJob::Model(_) | ChatJob::Close) {
            session.emit_opening();
            is_open.store(true, Ordering::Release);
        }
        let ended = match job {
            ChatJob::Turn(prompt, cancel) => {
                run_prompt(&mut session, prompt, commands.is_dry_run(), &cancel).await
            }
            ChatJob::Continue(cancel) => match session.continue_turn() {
                Some(turn) => ChatJobResult::Turn(turn.until(&cancel).await),
                None => ChatJobResult::Command(Ok(CommandCallResult::Nothing)),
            },
            ChatJob::Command(call, cancel) => {
                ChatJobResult::Command(commands.run_call(&call, Some(&mut session), &cancel).await)
            }
            ChatJob::Model(selected) => {
                session.switch_model(selected.provider, selected.model);
                continue;
            }
            ChatJob::Tell(event) => {
                session.report_command(event);
                continue;
            }
            ChatJob::Close => {
                let _ = done.send(ChatJobResult::Closed(session.close().await));
                return;
            }
        };
        let _ = done.send(ended);
    }
}

/// Fetches the resources that the text of a prompt names, and then runs its turn.
async fn run_prompt(
    session: &mut Session,
    prompt: ChatPrompt,
    is_dry_run: bool,
    cancel: &CancellationToken,
) -> ChatJobResult {
    let filled = append_resources(&prompt.text, &prompt.resources, session, is_dry_run, cancel);
    let filled = match filled.await {
        Ok(filled) => filled,
        Err(why) => return ChatJobResult::Unsent(why),
    };
    let turn = session.turn(filled.text).attach(prompt.images);
    let turn = turn.attach(filled.images).until(cancel);
    ChatJobResult::Turn(match prompt.command {
        Some(command) => turn.of_command(command).await,
        None => turn.await,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::command::BuiltInCommandContext;
    use super::*;
    use rind_lib::Host;
    use rind_lib::paths::Paths;
    use rind_lib::provider::scripted::{Reply, Script, Scripted};

    async fn commands() -> Arc<CommandSet> {
        let about = BuiltInCommandContext {
            paths: Paths::under("/none/home".as_ref(), "/none/work".as_ref()),
            plugins: Arc::default(),
            skills: Arc::default(),
            rules: Vec::new(),
            compact: rind_lib::agent::CompactConfig::default(),
            switch: rind_lib::tool::policy::ModeSwitch::default(),
            is_dry_run: false,
            servers: Vec::new(),
        };
        Arc::new(CommandSet::new(about, None, "/none/rind".into()).await)
    }

    #[tokio::test]
    async fn whoever_waits_for_a_task_that_panicked_is_told_that_it_is_gone() {
        let model = Scripted::new(Script::new(vec![Reply::text("done")]));
        let host = Host::builder().provider(Arc::new(model), "m");
        let host = host.build().await.unwrap();
        let session = host.session().create().unwrap();
        session.observe(|event| assert_ne!(event.event.name(), "step-start", "on purpose"));
        let mut worker = ChatWorker::new(session, commands().await);
        worker.start_turn(ChatPrompt {
            text: "go".to_owned(),
            ..ChatPrompt::default()
        });
        assert!(worker.is_turn_running());
        assert!(
            worker.next_job_result().await.is_none() && worker.next_job_result().await.is_none()
        );
        assert!(!worker.is_running());
    }
}
