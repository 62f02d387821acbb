//! An open session, which runs one prompt at a time.
//!
//! Every turn runs through the host, so that hooks, policy, budget and journal apply as they do on
//! the command line.

mod offers;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use rind_lib::Session;
use rind_lib::agent::TurnOutcome;
use rind_lib::host::Turn;
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::message::Finish;
use rind_lib::point::payload::StopReason as TurnStop;
use rind_lib::provider::{Provider, SelectedProviderAndModel};
use rind_lib::text::{escape_and_truncate_line, format_error_chain};
use rind_lib::tool::policy::{ApprovalMode, CARRY_OUT_PLAN_PROMPT, SharedApprovalMode};
use tokio_util::sync::CancellationToken;

use crate::backend::{AcpSlashCommandOutcome, SessionCommandRunner};
use crate::calls::fence_text;
use crate::carry_out::ask_to_run_plan;
use crate::client::AcpClientHandle;
use crate::later::SessionReopener;
use crate::options::CurrentAndAvailableModels;
use crate::prompt::ConvertedPromptInput;
use crate::replay::session_title_from_input;
use crate::view::{ClientUpdateOrNotice, SessionEventConverter, text_chunk};
use crate::wire::{SessionInfoUpdate, SessionUpdate, StopReason, WireError};

/// Maximum length of the error message of a failed turn, in bytes.
const MAX_TURN_ERROR_BYTES: usize = 2000;

/// Constructor arguments of [`OpenAcpSession`].
pub(crate) struct OpenAcpSessionParams {
    pub(crate) session: Session,
    pub(crate) view: Arc<Mutex<SessionEventConverter>>,
    pub(crate) commands: Arc<dyn SessionCommandRunner>,
    pub(crate) switch: SharedApprovalMode,
    pub(crate) notes: Vec<String>,
    /// Questions that could not be asked before the session was open, and how to open the session
    /// again after they are answered; `None` if there are none.
    pub(crate) later: Option<SessionReopener>,
}

/// Commands and mode switch of a session, which are created anew when the session is reopened.
#[derive(Clone)]
struct SessionCommandsAndMode {
    commands: Arc<dyn SessionCommandRunner>,
    switch: SharedApprovalMode,
}

/// Open session of a client.
pub(crate) struct OpenAcpSession {
    id: Arc<str>,
    link: Arc<AcpClientHandle>,
    /// The session; `None` once it is closed. Locked while a prompt runs.
    session: tokio::sync::Mutex<Option<Session>>,
    view: Arc<Mutex<SessionEventConverter>>,
    /// Slash commands of the session, and the switch for its approval mode.
    offers: Mutex<SessionCommandsAndMode>,
    told_mode: Mutex<ApprovalMode>,
    /// Questions that were postponed until the session is open; `None` if there are none, and as
    /// soon as the first prompt asks them.
    later: Mutex<Option<SessionReopener>>,
    models: Mutex<CurrentAndAvailableModels>,
    /// Provider of the model that was selected last. Its list of models is offered to the client.
    provider: Mutex<Arc<dyn Provider>>,
    /// Whether another provider was selected since the client got a list of models.
    is_list_outdated: AtomicBool,
    /// Model to which the next prompt switches; `None` for no change.
    wanted: Mutex<Option<SelectedProviderAndModel>>,
    /// Token whose cancellation cancels the running prompt; `None` while no prompt runs.
    running: Mutex<Option<CancellationToken>>,
    is_ending: AtomicBool,
    notes: Mutex<Vec<String>>,
}

impl OpenAcpSession {
    pub(crate) fn new(link: Arc<AcpClientHandle>, parts: OpenAcpSessionParams) -> Self {
        let OpenAcpSessionParams {
            session,
            view,
            commands,
            switch,
            notes,
            later,
        } = parts;
        forward_session_events(&session, &link, &view);
        let model = session.model().1.to_owned();
        lock_ignoring_poison(&view).window = session.provider().profile(&model).window_tokens;
        Self {
            id: session.id().clone(),
            link,
            view,
            told_mode: Mutex::new(switch.mode()),
            offers: Mutex::new(SessionCommandsAndMode { commands, switch }),
            later: Mutex::new(later),
            models: Mutex::new(CurrentAndAvailableModels::new(&model)),
            provider: Mutex::new(session.provider().clone()),
            is_list_outdated: AtomicBool::new(false),
            wanted: Mutex::default(),
            running: Mutex::default(),
            is_ending: AtomicBool::new(false),
            notes: Mutex::new(notes),
            session: tokio::sync::Mutex::new(Some(session)),
        }
    }

    fn approval_mode_handle(&self) -> SharedApprovalMode {
        lock_ignoring_poison(&self.offers).switch.clone()
    }

    fn command_runner(&self) -> Arc<dyn SessionCommandRunner> {
        lock_ignoring_poison(&self.offers).commands.clone()
    }

    pub(crate) fn id(&self) -> &Arc<str> {
        &self.id
    }

    fn send_update(&self, update: SessionUpdate) {
        self.link.send_update(&self.id, update);
    }

    fn send_text(&self, text: &str) {
        self.send_update(SessionUpdate::AgentMessageChunk(text_chunk(text)));
    }

    /// Cancels the prompt that is running; does nothing if none is.
    fn cancel_prompt(&self) {
        if let Some(running) = &*lock_ignoring_poison(&self.running) {
            running.cancel();
        }
    }

    /// Whether a prompt of the client is being processed.
    pub(crate) fn is_prompt_running(&self) -> bool {
        lock_ignoring_poison(&self.running).is_some()
    }

    /// Runs a prompt, which is a turn or a slash command, until it is done or `cancel` is set.
    ///
    /// # Errors
    /// Another prompt is running, the session is closed, or the turn failed.
    pub(crate) async fn run_prompt(
        &self,
        input: ConvertedPromptInput,
        cancel: &CancellationToken,
    ) -> Result<StopReason, WireError> {
        let Ok(mut guard) = self.session.try_lock() else {
            return Err(WireError::new(
                -32600,
                "a prompt of the session runs; wait for its end, or end it with session/cancel",
            ));
        };
        let _running = RunningPromptGuard::begin(self, cancel.clone());
        let later = lock_ignoring_poison(&self.later).take();
        if let Some(later) = later.filter(|_| !self.is_closing()) {
            self.ask_postponed_questions(&mut guard, later, cancel)
                .await?;
        }
        let Some(session) = guard.as_mut().filter(|_| !self.is_closing()) else {
            return Err(WireError::new(
                -32600,
                "the session is closed; load it again",
            ));
        };
        if cancel.is_cancelled() {
            return Ok(StopReason::Cancelled);
        }
        if let Some(selected) = lock_ignoring_poison(&self.wanted).take() {
            session.switch_model(selected.provider, selected.model);
        }
        for note in std::mem::take(&mut *lock_ignoring_poison(&self.notes)) {
            let shown = text_chunk(&format!("{note}\n"));
            self.send_update(SessionUpdate::AgentThoughtChunk(shown));
        }
        if !input.images.is_empty() {
            let (_, model) = session.model();
            if session.provider().profile(model).images == Some(false) {
                let model = escape_and_truncate_line(model, 100);
                let why = format!("the model {model} takes no images; choose another model");
                return Err(WireError::new(-32602, why));
            }
        }
        let n_before = session.turn_number();
        let title = (n_before == 0).then(|| session_title_from_input(&input.text));
        let is_compaction = input.text.starts_with("/compact");
        let mut stop = self
            .run_command_or_turn_for_input(session, input, cancel)
            .await;
        self.send_mode_update();
        let is_plan = self.approval_mode_handle().mode() == ApprovalMode::Plan
            && session.turn_number() > n_before
            && !is_compaction;
        if is_plan && matches!(stop, Ok(StopReason::EndTurn)) {
            stop = self.ask_about_plan(session, cancel).await;
        }
        if let Some(title) = title.filter(|_| session.turn_number() > 0) {
            let update = SessionInfoUpdate::new().title(title);
            self.send_update(SessionUpdate::SessionInfoUpdate(update));
        }
        match cancel.is_cancelled() {
            true => Ok(StopReason::Cancelled),
            false => stop,
        }
    }

    /// Asks the questions that could not be asked before the session was open. If the user answers
    /// one of them with yes, the session is closed and opened again, because a session's tools are
    /// selected while it is opened.
    async fn ask_postponed_questions(
        &self,
        session: &mut Option<Session>,
        later: SessionReopener,
        cancel: &CancellationToken,
    ) -> Result<(), WireError> {
        let asked = later.ask_postponed_questions(&self.link, &self.id, || {
            lock_ignoring_poison(&self.view).next_call_id("server")
        });
        let yes = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            yes = asked => yes,
        };
        if yes.is_empty() {
            return Ok(());
        }
        if let Some(session) = session.take()
            && let Err(error) = session.close().await
        {
            return Err(WireError::new(-32603, format_error_chain(&error)));
        }
        self.command_runner().free_session_resources();
        let opened = later
            .reopen_with_yes_answers(&self.id, yes, self.approval_mode_handle().mode())
            .await?;
        lock_ignoring_poison(&self.view).set_session_tools(opened.session.tools());
        forward_session_events(&opened.session, &self.link, &self.view);
        *lock_ignoring_poison(&self.offers) = SessionCommandsAndMode {
            commands: opened.commands,
            switch: opened.switch,
        };
        *session = Some(opened.session);
        Ok(())
    }

    /// Asks the user whether to carry out the plan of the last turn. If the user agrees, runs a
    /// turn that carries it out.
    async fn ask_about_plan(
        &self,
        session: &mut Session,
        cancel: &CancellationToken,
    ) -> Result<StopReason, WireError> {
        let id = lock_ignoring_poison(&self.view).next_call_id("plan");
        let mode = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(StopReason::Cancelled),
            mode = ask_to_run_plan(&self.link, &self.id, id) => mode,
        };
        let Some(mode) = mode else {
            return Ok(StopReason::EndTurn);
        };
        self.approval_mode_handle().set_mode(mode);
        self.send_mode_update();
        self.send_update(SessionUpdate::UserMessageChunk(text_chunk(
            CARRY_OUT_PLAN_PROMPT,
        )));
        self.run_turn(session.turn(CARRY_OUT_PLAN_PROMPT), cancel)
            .await
    }

    async fn run_command_or_turn_for_input(
        &self,
        session: &mut Session,
        input: ConvertedPromptInput,
        cancel: &CancellationToken,
    ) -> Result<StopReason, WireError> {
        let line = input.slash_command_line();
        let Some(line) = line.filter(|line| self.command_runner().is_command(line)) else {
            let text = input.text + &input.resources;
            return self
                .run_turn(session.turn(text).attach(input.images), cancel)
                .await;
        };
        let line = line.to_owned();
        match self.command_runner().run_line(&line, session, cancel).await {
            Ok(AcpSlashCommandOutcome::Prompt {
                text,
                command,
                images,
            }) => {
                let turn = session.turn(text + &input.resources).attach(images);
                let turn = turn.attach(input.images).of_command(command);
                return self.run_turn(turn, cancel).await;
            }
            Ok(AcpSlashCommandOutcome::Continue) => {
                if let Some(turn) = session.continue_turn() {
                    return self.run_turn(turn, cancel).await;
                }
            }
            Ok(AcpSlashCommandOutcome::Text(text)) => self.send_text(&format_command_output(&text)),
            Ok(AcpSlashCommandOutcome::Model(name)) => match self.choose_model(&name, false) {
                Ok(name) => {
                    self.send_config_options();
                    self.send_text(&format!("the next turns use the model {name}"));
                }
                Err(why) => self.send_text(&why),
            },
            Ok(AcpSlashCommandOutcome::Nothing) => {}
            Err(why) => self.send_text(&why),
        }
        Ok(StopReason::EndTurn)
    }

    async fn run_turn(
        &self,
        turn: Turn<'_>,
        cancel: &CancellationToken,
    ) -> Result<StopReason, WireError> {
        let outcome = turn.until(cancel).await;
        let outcome =
            outcome.map_err(|error| WireError::new(-32603, format_error_chain(&error)))?;
        self.turn_stop_reason(&outcome)
    }

    fn turn_stop_reason(&self, outcome: &TurnOutcome) -> Result<StopReason, WireError> {
        let (finish, failure) = {
            let mut view = lock_ignoring_poison(&self.view);
            (view.last_finish_reason(), view.take_turn_error())
        };
        Ok(match (outcome.summary.stop, finish) {
            (TurnStop::Cancelled, _) => StopReason::Cancelled,
            (TurnStop::Blocked, _) | (_, Some(Finish::Refused)) => StopReason::Refusal,
            // The host asks the model to continue an answer that was cut off at the token limit.
            // The turn ends like this only if the continuation was cut off as well.
            (TurnStop::Done | TurnStop::MaxSteps, Some(Finish::MaxTokens)) => StopReason::MaxTokens,
            (TurnStop::MaxSteps, _) => StopReason::MaxTurnRequests,
            (TurnStop::Done, _) => StopReason::EndTurn,
            (TurnStop::Failed, _) => {
                let why = failure.unwrap_or_else(|| outcome.output.clone());
                return Err(WireError::new(
                    -32603,
                    escape_and_truncate_line(&why, MAX_TURN_ERROR_BYTES),
                ));
            }
        })
    }

    fn is_closing(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Cancels the running prompt, closes the session and waits until it is closed.
    pub(crate) async fn end_session(&self) {
        self.is_ending.store(true, Ordering::Release);
        self.cancel_prompt();
        let session = self.session.lock().await.take();
        self.command_runner().free_session_resources();
        if let Some(session) = session
            && let Err(error) = session.close().await
        {
            let error = format_error_chain(&error);
            tracing::warn!(
                session = &*self.id,
                error,
                "a session did not close cleanly"
            );
        }
    }
}

/// Guard that marks the session as running a prompt until it is dropped.
struct RunningPromptGuard<'a>(&'a OpenAcpSession);

impl<'a> RunningPromptGuard<'a> {
    fn begin(live: &'a OpenAcpSession, cancel: CancellationToken) -> Self {
        *lock_ignoring_poison(&live.running) = Some(cancel);
        Self(live)
    }
}

impl Drop for RunningPromptGuard<'_> {
    fn drop(&mut self) {
        *lock_ignoring_poison(&self.0.running) = None;
    }
}

/// Registers an observer that forwards all later events of a session to the client.
fn forward_session_events(
    session: &Session,
    link: &Arc<AcpClientHandle>,
    view: &Arc<Mutex<SessionEventConverter>>,
) {
    let (link, view, id) = (link.clone(), view.clone(), session.id().clone());
    session.observe(move |stamped| {
        // Send while the view is locked, so that the client receives the updates in the order of
        // the events.
        let mut view = lock_ignoring_poison(&view);
        let shown = view.convert_event(stamped);
        send_updates_and_notices(&link, &id, shown);
    });
}

/// Sends updates and notices to the client. A notice is sent as a thought if the client does not
/// show notices.
fn send_updates_and_notices(
    link: &AcpClientHandle,
    session: &str,
    shown: Vec<ClientUpdateOrNotice>,
) {
    for shown in shown {
        match shown {
            ClientUpdateOrNotice::Update(update) => link.send_update(session, *update),
            ClientUpdateOrNotice::Notice(severity, text) => {
                if !link.send_notice(session, severity, text.clone()) {
                    let thought =
                        SessionUpdate::AgentThoughtChunk(text_chunk(&format!("{text}\n")));
                    link.send_update(session, thought);
                }
            }
        }
    }
}

/// Returns a command's output as Markdown: several lines become a code block, to preserve their
/// line breaks.
fn format_command_output(text: &str) -> String {
    match text.trim_end().contains('\n') {
        true => fence_text(text),
        false => text.trim_end().to_owned(),
    }
}
