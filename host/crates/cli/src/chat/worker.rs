//! Runs the task that owns the session of a chat. The task handles one job at a time, and the chat
//! reads keys meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::super::command::{
    SlashCommandCall, SlashCommandRunOutcome, SlashCommandSet, build_permissions_command_event,
};
use super::super::render::strip_styles;
use super::super::resource::{McpResourceMention, fetch_and_append_resources};
use rind_lib::agent::{Error, TurnOutcome};
use rind_lib::event::{Event, EventSender};
use rind_lib::host::Session;
use rind_lib::message::PromptImageAttachment;
use rind_lib::provider::SelectedProviderAndModel;

/// Job that the chat gives to the task which owns the session.
enum ChatSessionJob {
    Turn(ChatTurnInput, CancellationToken),
    Continue(CancellationToken),
    Command(SlashCommandCall, CancellationToken),
    Model(SelectedProviderAndModel),
    /// Emits an event about a command to the observers of the session.
    Tell(Event),
    Close,
}

/// Kind of a job of the chat that can be interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InterruptibleChatJobKind {
    Turn,
    Command,
}

#[derive(Default)]
pub(super) struct ChatTurnInput {
    pub(super) text: String,
    /// Slash command that produced the input; `None` if the person typed it.
    pub(super) command: Option<String>,
    /// Images that the text mentions, sent to the model with the text.
    pub(super) images: Vec<PromptImageAttachment>,
    /// Resources of MCP servers that the text names, which are fetched before it is sent.
    pub(super) resources: Vec<McpResourceMention>,
}

pub(super) enum ChatOperationResult {
    Turn(Result<TurnOutcome, Error>),
    /// The text was not sent. The value is the reason, for example that a resource could not be
    /// fetched.
    Unsent(String),
    Command(anyhow::Result<SlashCommandRunOutcome>),
    /// Outcome of a command that needs no session and ran at the same time as another job.
    Aside(anyhow::Result<SlashCommandRunOutcome>),
    Closed(Result<(), Error>),
}

/// Handle of the task that owns the chat's session.
pub(super) struct ChatSessionTaskHandle {
    commands: Arc<SlashCommandSet>,
    jobs: UnboundedSender<ChatSessionJob>,
    ended: UnboundedSender<ChatOperationResult>,
    done: UnboundedReceiver<ChatOperationResult>,
    /// The task that owns the session; `None` once it has ended.
    task: Option<JoinHandle<()>>,
    /// Running turn or command, and the token that interrupts it.
    running: Option<(InterruptibleChatJobKind, CancellationToken)>,
    events: ConcurrentSessionEventSender,
}

/// Emits events to the observers of the session, also while a turn has exclusive access to the
/// session.
#[derive(Clone)]
struct ConcurrentSessionEventSender {
    events: EventSender,
    jobs: UnboundedSender<ChatSessionJob>,
    /// Whether the event that opens the session was emitted. It must be emitted before all other
    /// events.
    is_open: Arc<AtomicBool>,
}

impl ConcurrentSessionEventSender {
    fn emit_event_to_observers(&self, event: Event) {
        if self.is_open.load(Ordering::Acquire) {
            self.events.emit(event);
        } else {
            let _ = self.jobs.send(ChatSessionJob::Tell(event));
        }
    }
}

impl ChatSessionTaskHandle {
    pub(super) fn new(session: Session, commands: Arc<SlashCommandSet>) -> Self {
        let (jobs, waiting) = mpsc::unbounded_channel();
        let (ended, done) = mpsc::unbounded_channel();
        let events = ConcurrentSessionEventSender {
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

    pub(super) fn slash_command_set(&self) -> &SlashCommandSet {
        &self.commands
    }

    pub(super) fn is_job_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether the running job is a turn.
    pub(super) fn is_turn_running(&self) -> bool {
        matches!(self.running, Some((InterruptibleChatJobKind::Turn, _)))
    }

    pub(super) fn start_turn(&mut self, prompt: ChatTurnInput) {
        let cancel = self.record_job_start(InterruptibleChatJobKind::Turn);
        // Ignore a closed channel: `done` reports that the task has ended.
        let _ = self.jobs.send(ChatSessionJob::Turn(prompt, cancel));
    }

    /// Starts a job that continues the interrupted turn of the session.
    pub(super) fn continue_turn(&mut self) {
        let cancel = self.record_job_start(InterruptibleChatJobKind::Turn);
        let _ = self.jobs.send(ChatSessionJob::Continue(cancel));
    }

    /// Runs a command: with the session if no job runs, otherwise without it and at the same time.
    pub(super) fn start_command(&mut self, call: SlashCommandCall) {
        if !self.is_job_running() {
            let cancel = self.record_job_start(InterruptibleChatJobKind::Command);
            let _ = self.jobs.send(ChatSessionJob::Command(call, cancel));
            return;
        }
        let (commands, ended) = (self.commands.clone(), self.ended.clone());
        let events = self.events.clone();
        tokio::spawn(async move {
            let (outcome, event) = commands.run_sessionless_command(&call).await;
            events.emit_event_to_observers(event);
            // Ignore a closed channel: the chat may have ended.
            let _ = ended.send(ChatOperationResult::Aside(outcome));
        });
    }

    /// Emits the event that the person listed or revoked approvals.
    pub(super) fn emit_permissions_event(&self, lines: &[String]) {
        let text: Vec<String> = lines.iter().map(|line| strip_styles(line)).collect();
        self.events
            .emit_event_to_observers(build_permissions_command_event(text.join("\n")));
    }

    /// Sets the model for the next turn and later ones.
    pub(super) fn set_model(&self, selected: SelectedProviderAndModel) {
        let _ = self.jobs.send(ChatSessionJob::Model(selected));
    }

    fn record_job_start(&mut self, kind: InterruptibleChatJobKind) -> CancellationToken {
        let cancel = CancellationToken::new();
        self.running = Some((kind, cancel.clone()));
        cancel
    }

    /// Interrupts the running turn or command. Returns false if none runs or if it was already
    /// interrupted.
    pub(super) fn interrupt_running_job(&self) -> bool {
        match &self.running {
            Some((_, running)) if !running.is_cancelled() => {
                running.cancel();
                true
            }
            _ => false,
        }
    }

    /// Interrupts the running turn or command, and then closes the session.
    pub(super) fn interrupt_and_close_session(&self) {
        self.interrupt_running_job();
        let _ = self.jobs.send(ChatSessionJob::Close);
    }

    /// Waits until a job has ended. Returns `None` if the task has ended, which happens only if a
    /// job panicked.
    pub(super) async fn next_job_result(&mut self) -> Option<ChatOperationResult> {
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
        use ChatOperationResult::{Command, Turn, Unsent};
        if let None | Some(Turn(_) | Unsent(_) | Command(_)) = &done {
            self.running = None;
        }
        done
    }
}

async fn run_jobs_on_session(
    mut session: Session,
    (commands, is_open): (Arc<SlashCommandSet>, Arc<AtomicBool>),
    mut jobs: UnboundedReceiver<ChatSessionJob>,
    done: UnboundedSender<ChatOperationResult>,
) {
    while let Some(job) = jobs.recv().await {
        if !matches!(job, ChatSessionJob::Model(_) | ChatSessionJob::Close) {
            session.emit_opening();
            is_open.store(true, Ordering::Release);
        }
        let ended = match job {
            ChatSessionJob::Turn(prompt, cancel) => {
                run_turn_with_fetched_resources(
                    &mut session,
                    prompt,
                    commands.is_dry_run_session(),
                    &cancel,
                )
                .await
            }
            ChatSessionJob::Continue(cancel) => match session.continue_turn() {
                Some(turn) => ChatOperationResult::Turn(turn.until(&cancel).await),
                None => ChatOperationResult::Command(Ok(SlashCommandRunOutcome::Nothing)),
            },
            ChatSessionJob::Command(call, cancel) => ChatOperationResult::Command(
                commands
                    .run_command_call(&call, Some(&mut session), &cancel)
                    .await,
            ),
            ChatSessionJob::Model(selected) => {
                session.switch_model(selected.provider, selected.model);
                continue;
            }
            ChatSessionJob::Tell(event) => {
                session.report_command(event);
                continue;
            }
            ChatSessionJob::Close => {
                let _ = done.send(ChatOperationResult::Closed(session.close().await));
                return;
            }
        };
        let _ = done.send(ended);
    }
}

/// Fetches the resources that the text of a prompt names, and then runs its turn.
async fn run_turn_with_fetched_resources(
    session: &mut Session,
    prompt: ChatTurnInput,
    is_dry_run: bool,
    cancel: &CancellationToken,
) -> ChatOperationResult {
    let filled =
        fetch_and_append_resources(&prompt.text, &prompt.resources, session, is_dry_run, cancel);
    let filled = match filled.await {
        Ok(filled) => filled,
        Err(why) => return ChatOperationResult::Unsent(why),
    };
    let turn = session.turn(filled.text).attach(prompt.images);
    let turn = turn.attach(filled.images).until(cancel);
    ChatOperationResult::Turn(match prompt.command {
        Some(command) => turn.of_command(command).await,
        None => turn.await,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::command::BuiltInCommandContext;
    use super::*;
    use rind_lib::Host;
    use rind_lib::paths::RindPaths;
    use rind_lib::provider::scripted::{Reply, Script, Scripted};

    async fn commands() -> Arc<SlashCommandSet> {
        let about = BuiltInCommandContext {
            paths: RindPaths::from_single_root("/none/home".as_ref(), "/none/work".as_ref()),
            plugins: Arc::default(),
            skills: Arc::default(),
            rules: Vec::new(),
            compact: rind_lib::agent::CompactConfig::default(),
            switch: rind_lib::tool::policy::SharedApprovalMode::default(),
            is_dry_run: false,
            servers: Vec::new(),
        };
        Arc::new(SlashCommandSet::new(about, None, "/none/rind".into()).await)
    }

    #[tokio::test]
    async fn whoever_waits_for_a_task_that_panicked_is_told_that_it_is_gone() {
        let model = Scripted::new(Script::new(vec![Reply::text("done")]));
        let host = Host::builder().provider(Arc::new(model), "m");
        let host = host.build().await.unwrap();
        let session = host.session().create().unwrap();
        session.observe(|event| assert_ne!(event.event.name(), "step-start", "on purpose"));
        let mut worker = ChatSessionTaskHandle::new(session, commands().await);
        worker.start_turn(ChatTurnInput {
            text: "go".to_owned(),
            ..ChatTurnInput::default()
        });
        assert!(worker.is_turn_running());
        assert!(
            worker.next_job_result().await.is_none() && worker.next_job_result().await.is_none()
        );
        assert!(!worker.is_job_running());
    }
}
