//! Sessions of a host and the turns that run in them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;

use super::loops::SharedTurnLimitCounters;
use super::material::{SessionPromptResourceProviders, SessionPromptsAndResources};
use super::offers::SharedPluginCommandsAndLoops;
use super::{Error, Host, HostSharedState, PluginReplacer};
use crate::agent::{self, AgentSteeringHandle, AnswerSchema, LiveAgent, TurnOutcome, TurnSpec};
use crate::checkpoint::SessionCheckpoints;
use crate::event::EventSender;
use crate::event::{Event, EventObserver, Stamped};
use crate::message::{Message, PromptImageAttachment, ToolSpec};
use crate::point::payload::Source;
use crate::provider::Provider;
use crate::session::{self, Body, InterruptedTurn, SessionSpec, UndoneTurn};
use crate::tool::approval::Approver;
use crate::tool::approval::SessionApprovals;
use crate::tool::background::BackgroundCommands;
use crate::tool::live::RunningToolCallOutputs;
use crate::tool::policy::Policy;

/// Builder of a session. Every part that is not set is taken from the host.
#[must_use = "`create` or `resume` opens the session"]
pub struct SessionBuilder {
    pub(super) parts: Arc<HostSharedState>,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) model: String,
    pub(super) policy: Arc<dyn Policy>,
    pub(super) approver: Arc<dyn Approver>,
    pub(super) observers: Vec<EventObserver>,
    aside: Option<String>,
}

impl SessionBuilder {
    pub(super) fn new(Host(parts): &Host) -> Self {
        Self {
            parts: parts.clone(),
            provider: parts.provider.clone(),
            model: parts.model.clone(),
            policy: parts.policy.clone(),
            approver: parts.approver.clone(),
            observers: parts.observers.clone(),
            aside: None,
        }
    }

    /// Uses this provider and model instead of the host's.
    pub fn provider(mut self, provider: Arc<dyn Provider>, model: impl Into<String>) -> Self {
        (self.provider, self.model) = (provider, model.into());
        self
    }

    /// Uses this policy instead of the host's to decide on tool calls.
    pub fn policy(mut self, policy: Arc<dyn Policy>) -> Self {
        self.policy = policy;
        self
    }

    /// Uses this approver of tool calls instead of the host's.
    pub fn approver(mut self, approver: Arc<dyn Approver>) -> Self {
        self.approver = approver;
        self
    }

    /// Adds an observer, which is called with every event of the session in the agent's task and
    /// therefore must return soon.
    pub fn observe(mut self, observer: impl Fn(&Stamped) + Send + Sync + 'static) -> Self {
        self.observers.push(Arc::new(observer));
        self
    }

    /// Marks a new session as created by the program itself, for the purpose named `by`, so that
    /// the session id `last` does not resolve to it.
    pub fn aside(mut self, by: impl Into<String>) -> Self {
        self.aside = Some(by.into());
        self
    }

    /// Creates a new session.
    ///
    /// # Errors
    /// The session's files cannot be written.
    pub fn create(self) -> Result<Session, Error> {
        let session = self.parts.store.create(&self.session_spec())?;
        self.open_created_session(session)
    }

    /// Creates a new session with an id that the caller chooses: 1 to 96 letters, digits, `-`, `_`
    /// and `.`.
    ///
    /// # Errors
    /// The id is invalid, another session has it, or the session's files cannot be written.
    pub fn create_named(self, id: &str) -> Result<Session, Error> {
        let session = self.parts.store.create_with_id(id, &self.session_spec())?;
        self.open_created_session(session)
    }

    /// Continues the session with this full id, or creates it if it does not exist.
    ///
    /// # Errors
    /// The id is invalid, the session is open elsewhere, or its files cannot be read or written.
    pub fn resume_or_create(self, id: &str) -> Result<Session, Error> {
        let session = self.parts.store.open_or_create(id, &self.session_spec())?;
        // If no turn has begun, treat the session as a new one: the process that created it may
        // have been killed before it wrote the entry that marks the session as an internal request.
        match session.last_turn_number() {
            0 => self.open_created_session(session),
            _ => self.on(Arc::new(session)),
        }
    }

    /// Continues the session with this id or prefix of an id; `last` is the last session of this
    /// workspace.
    ///
    /// # Errors
    /// There is no such session, it is open elsewhere, or the session's files cannot be read.
    pub fn resume(self, id: &str) -> Result<Session, Error> {
        let store = &self.parts.store;
        let id = store.resolve_session_id_in_workspace(id, &self.parts.paths.workspace)?;
        let session = store.resume(&id, &self.session_spec())?;
        self.on(Arc::new(session))
    }

    /// Opens a session that was created just now. If the program created it for a purpose of its
    /// own (`aside`), such as a turn of a loop, first appends the entry that records this.
    fn open_created_session(mut self, session: session::Session) -> Result<Session, Error> {
        if let Some(by) = self.aside.take() {
            session.append(session::Body::Aside { by })?;
        }
        self.on(Arc::new(session))
    }

    /// Continues `session`, which is already open.
    ///
    /// # Errors
    /// The plugins cannot be prepared for the session.
    pub fn on(self, session: Arc<session::Session>) -> Result<Session, Error> {
        let host = Host(self.parts.clone());
        let (agent, replacer, offers, materials) = super::agent::build_agent(self, session)?;
        Ok(Session {
            agent,
            offers,
            materials,
            shared: SharedTurnLimitCounters::default(),
            host,
            replacer,
        })
    }

    fn session_spec(&self) -> SessionSpec {
        SessionSpec {
            workspace: self.parts.paths.workspace.clone(),
            provider: self.provider.name().to_owned(),
            model: self.model.clone(),
        }
    }
}

impl_partial_debug!(SessionBuilder, self, model = self.model);

/// Open session with its agent, which runs one turn at a time. Dropping the session stops
/// everything that it runs; it can be resumed later. Only [`close`](Self::close) calls the
/// `session-end` hooks.
pub struct Session {
    pub(super) agent: LiveAgent,
    pub(super) offers: SharedPluginCommandsAndLoops,
    /// Prompts and resources that the session's tool sources provide.
    materials: SessionPromptResourceProviders,
    /// Counters of the limits of one turn. All runs of the session's loops share them.
    pub(super) shared: SharedTurnLimitCounters,
    host: Host,
    replacer: PluginReplacer,
}

impl Session {
    /// Returns the id of the session.
    #[must_use]
    pub fn id(&self) -> &Arc<str> {
        self.agent.spec().session.id()
    }

    /// Returns the stored session, which can be read while a turn runs.
    #[doc(hidden)]
    #[must_use]
    pub fn stored(&self) -> Arc<session::Session> {
        self.agent.spec().session.clone()
    }

    /// Returns a handle that reads the prompts and resources of the session's tool sources.
    #[must_use]
    pub fn materials(&self) -> SessionPromptsAndResources {
        SessionPromptsAndResources::new(&self.materials)
    }

    /// Returns the host of the session.
    #[must_use]
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Returns the messages of the session's conversation so far.
    #[must_use]
    pub fn messages(&self) -> Vec<Message> {
        self.agent.spec().session.messages()
    }

    /// Returns the last `n` messages of the conversation, or all if there are fewer.
    #[must_use]
    pub fn last_messages(&self, n: usize) -> Vec<Message> {
        self.agent.spec().session.last_messages(n)
    }

    /// Returns the approvals that apply to the rest of the session, to list and to revoke them.
    pub fn approvals(&self) -> Arc<SessionApprovals> {
        self.agent.session_approvals()
    }

    /// Returns the outputs of the running tool calls, to show them to the user.
    #[must_use]
    pub fn live_outputs(&self) -> RunningToolCallOutputs {
        self.agent.spec().live.clone()
    }

    /// Returns the session's background commands, to show and to stop them.
    #[must_use]
    pub fn background_commands(&self) -> BackgroundCommands {
        self.agent.spec().background.clone()
    }

    /// Returns the tools that the model may call.
    #[must_use]
    pub fn tools(&self) -> Vec<Arc<ToolSpec>> {
        self.agent.spec().tools.specs()
    }

    /// Returns a channel that receives every event from now on. The event that the session is open,
    /// and those that follow it, are emitted only when the first turn starts.
    #[must_use]
    pub fn events(&self) -> UnboundedReceiver<Stamped> {
        self.agent.spec().events.subscribe()
    }

    /// Returns the event stream, through which events can be sent while a turn borrows the session.
    pub fn event_stream(&self) -> EventSender {
        self.agent.spec().events.clone()
    }

    /// Adds an observer, which is called with every event from now on in the agent's task and
    /// therefore must return soon.
    pub fn observe(&self, observer: impl Fn(&Stamped) + Send + Sync + 'static) {
        self.agent.spec().events.add_observer(Arc::new(observer));
    }

    /// Returns a handle that sends messages to the model while a turn runs.
    #[must_use]
    pub fn steering(&self) -> AgentSteeringHandle {
        self.agent.steer_handle()
    }

    /// Returns the names of the provider and of the model that answer the session's requests.
    #[must_use]
    pub fn model(&self) -> (&str, &str) {
        let spec = self.agent.spec();
        (spec.provider.name(), &spec.model)
    }

    /// Returns the client of the session's model API.
    #[must_use]
    pub fn provider(&self) -> &Arc<dyn Provider> {
        &self.agent.spec().provider
    }

    /// Removes the last turn from the conversation, so that the model no longer sees it. The turn's
    /// effects (files, data of plugins, cost) and its lines in the session file stay. `None` if no
    /// turn is left.
    ///
    /// # Errors
    /// A part of the turn was replaced by a summary, or the session cannot be read or written.
    pub async fn undo(&mut self) -> Result<Option<UndoneTurn>, Error> {
        let (entries, _) = self.host.store().read_entries(self.id())?;
        Ok(self.agent.undo_turn(&entries).await?)
    }

    /// Returns the last turn that still has messages in the conversation.
    ///
    /// # Errors
    /// A part of the turn was replaced by a summary, or the session cannot be read.
    pub fn last_turn(&self) -> Result<Option<UndoneTurn>, Error> {
        let (entries, _) = self.host.store().read_entries(self.id())?;
        Ok(self.agent.spec().session.last_turn(&entries)?)
    }

    /// Returns the turns that [`rewind`](Self::rewind) would remove, the last turn first.
    ///
    /// # Errors
    /// A part of a turn was replaced by a summary, or the session cannot be read.
    pub fn turns_since(&self, turn: u32) -> Result<Vec<UndoneTurn>, Error> {
        let (entries, _) = self.host.store().read_entries(self.id())?;
        Ok(self.agent.spec().session.turns_to_rewind(&entries, turn)?)
    }

    /// Removes a turn and all later turns from the conversation, as [`undo`](Self::undo) does with
    /// the last turn. Files are restored separately, through [`checkpoints`](Self::checkpoints).
    ///
    /// # Errors
    /// A part of a turn was replaced by a summary, or the session cannot be read or written.
    pub async fn rewind(&mut self, turn: u32) -> Result<Vec<UndoneTurn>, Error> {
        let (entries, _) = self.host.store().read_entries(self.id())?;
        Ok(self.agent.rewind_turns(&entries, turn).await?)
    }

    /// Returns the number of the last turn that started; 0 before the first turn.
    #[must_use]
    pub fn turn_number(&self) -> u32 {
        self.agent.spec().session.last_turn_number()
    }

    /// Returns the session's checkpoints: copies of files as they were before a tool call changed
    /// them.
    #[must_use]
    pub fn checkpoints(&self) -> Arc<SessionCheckpoints> {
        self.agent.checkpoints()
    }

    /// Emits the event that the session is open, unless it was already emitted. If this function is
    /// not called, the first turn emits the event.
    pub fn emit_opening(&mut self) {
        self.agent.emit_session_opened();
    }

    /// Emits an event that reports a command which a person ran.
    pub fn report_command(&mut self, event: Event) {
        self.agent.emit_event_to_observers(event);
    }

    /// Copies the session as it is now, without opening the copy, and returns the copy's id.
    ///
    /// # Errors
    /// The session cannot be read, or the copy cannot be written.
    pub fn fork(&self) -> Result<String, Error> {
        let spec = self.agent.spec();
        let copy = SessionSpec {
            workspace: spec.workspace.clone(),
            provider: spec.provider.name().to_owned(),
            model: spec.model.clone(),
        };
        spec.session.sync()?;
        let copy = self.host.store().fork(self.id(), None, &copy)?;
        Ok(copy.id().to_string())
    }

    /// Returns a turn that replaces all messages but the first input and the last exchange with a
    /// summary, regardless of the compaction settings. It runs when awaited; its output describes
    /// the result.
    pub fn compact(&mut self) -> Turn<'_> {
        let mut turn = self.turn("");
        if let Some(begin) = &mut turn.begin {
            begin.is_compaction = true;
        }
        turn
    }

    /// Returns a handle that replaces a plugin, also while a turn runs.
    #[must_use]
    pub fn replacer(&self) -> PluginReplacer {
        self.replacer.clone()
    }

    /// Changes provider and model, with effect from the next turn, without recording the choice.
    pub fn set_model(&mut self, provider: Arc<dyn Provider>, model: impl Into<String>) {
        let spec = self.agent.spec_mut();
        (spec.provider, spec.model) = (provider, model.into());
    }

    /// Changes the model, with effect from the next turn, and records the choice, so that resuming
    /// the session uses it.
    pub fn switch_model(&mut self, provider: Arc<dyn Provider>, model: impl Into<String>) {
        let model = model.into();
        self.agent
            .spec()
            .session
            .append_or_defer_error(Body::Resumed {
                provider: provider.name().to_owned(),
                model: model.clone(),
                is_switch: true,
            });
        self.set_model(provider, model);
    }

    /// Returns a turn, which runs when awaited: from the user's text to the final output.
    pub fn turn(&mut self, text: impl Into<String>) -> Turn<'_> {
        Turn {
            begin: Some(UnstartedTurn {
                agent: &mut self.agent,
                spec: TurnSpec::new(text, Source::Terminal),
                is_compaction: false,
                cancel: CancellationToken::new(),
            }),
            running: None,
        }
    }

    /// Returns the last turn if it was interrupted: the program ended during the turn, or the
    /// turn's future was dropped.
    #[must_use]
    pub fn interrupted(&self) -> Option<InterruptedTurn> {
        self.agent.spec().session.interrupted_turn()
    }

    /// Returns a turn that continues the interrupted turn when it is awaited; `None` if no turn was
    /// interrupted. Finished calls do not run again; the model is informed which unfinished calls
    /// may have run.
    pub fn continue_turn(&mut self) -> Option<Turn<'_>> {
        let spec = TurnSpec::from_interrupted(self.interrupted()?);
        let mut turn = self.turn("");
        if let Some(begin) = &mut turn.begin {
            begin.spec = spec;
        }
        Some(turn)
    }

    /// Begins a turn in which single hooks are called directly, without running the agent loop.
    #[doc(hidden)]
    pub fn direct_turn(&mut self) -> Result<agent::HookOnlyTurn<'_>, agent::Error> {
        agent::HookOnlyTurn::begin_turn(&mut self.agent)
    }

    /// Returns the handle through which plugins act on the session.
    #[doc(hidden)]
    pub fn handle(&self) -> std::sync::Arc<dyn crate::point::handle::AgentHandle> {
        self.replacer.agent_handle()
    }

    /// Returns the tools of the session, with the validators of their arguments.
    #[doc(hidden)]
    pub fn tool_registry(&self) -> &crate::tool::registry::ToolRegistry {
        &self.agent.spec().tools
    }

    /// Archives the turns that are due for archival, and returns when they are archived. Without
    /// this call they are archived during the next turn.
    pub async fn finish_archival(&mut self) {
        self.agent.archive_due_turns_and_wait().await;
    }

    /// Ends the session: runs the `session-end` hooks, waits for background hooks, and writes
    /// everything to disk.
    ///
    /// # Errors
    /// The session cannot be written, or a hook whose failure blocks the turn has failed since the
    /// last turn.
    pub async fn close(self) -> Result<(), agent::Error> {
        self.agent.close_agent().await
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.agent.fmt(f)
    }
}

/// A turn, as a future that does nothing before the first poll. When it is dropped, the turn stops
/// at its current await, and the next turn closes the open calls. An error is a fault of the host,
/// such as an unwritable session; failures of model, hooks and tools are in the outcome.
#[must_use = "a turn runs when it is awaited"]
pub struct Turn<'a> {
    begin: Option<UnstartedTurn<'a>>,
    running: Option<BoxFuture<'a, Result<TurnOutcome, agent::Error>>>,
}

struct UnstartedTurn<'a> {
    agent: &'a mut LiveAgent,
    spec: TurnSpec,
    is_compaction: bool,
    cancel: CancellationToken,
}

impl Turn<'_> {
    /// Sets the source of the turn's text. The default is a person at a terminal.
    pub fn source(mut self, source: Source) -> Self {
        if let Some(begin) = &mut self.begin {
            begin.spec.source = source;
        }
        self
    }

    /// Sets the slash command that produced the turn's text. Observers see the command, and the
    /// session file records it.
    pub fn of_command(mut self, command: impl Into<String>) -> Self {
        if let Some(begin) = &mut self.begin {
            begin.spec.command = Some(command.into());
        }
        self
    }

    /// Attaches images, which the model sees after the text. Hooks on the turn's input see only the
    /// text; hooks that read messages see both.
    pub fn attach(mut self, images: impl IntoIterator<Item = PromptImageAttachment>) -> Self {
        if let Some(begin) = &mut self.begin {
            begin.spec.attached.extend(images);
        }
        self
    }

    /// Sets the id of the input. A session runs each id once: a second turn with the id of an ended
    /// turn returns the outcome of that turn, and with the id of an interrupted turn continues that
    /// turn.
    pub fn input_id(mut self, id: impl Into<String>) -> Self {
        if let Some(begin) = &mut self.begin {
            begin.spec.input_id = Some(id.into());
        }
        self
    }

    /// Requires the final answer to be JSON of this schema. The model gets the schema, the
    /// provider's JSON mode is used if there is one, and an invalid answer is requested again up to
    /// three times before the turn fails.
    pub fn answer_schema(mut self, schema: AnswerSchema) -> Self {
        if let Some(begin) = &mut self.begin {
            begin.spec.answer_schema = Some(schema);
        }
        self
    }

    /// Sets the maximum cost of the turn in US dollars, including model requests of its subagents
    /// and plugins. The turn ends before a request that could exceed it. A model without a known
    /// price gets no request.
    pub fn max_cost_usd(mut self, usd: f64) -> Self {
        if let Some(begin) = &mut self.begin {
            begin.spec.max_cost_usd = Some(usd);
        }
        self
    }

    /// Limits the turn to those tools of the session that the subagent preset `name` allows.
    ///
    /// # Errors
    /// No preset has this name; the error message lists the presets.
    pub fn tools_of_preset(mut self, name: &str) -> Result<Self, String> {
        if let Some(begin) = &mut self.begin {
            let preset = begin.agent.spec().presets.find_preset(name)?;
            begin.spec.preset = Some(preset);
        }
        Ok(self)
    }

    /// Ends the turn cleanly when `cancel` is cancelled: every tool call gets a result, and the
    /// outcome is "cancelled".
    pub fn until(mut self, cancel: &CancellationToken) -> Self {
        if let Some(begin) = &mut self.begin {
            begin.cancel = cancel.clone();
        }
        self
    }
}

impl Future for Turn<'_> {
    type Output = Result<TurnOutcome, agent::Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(begin) = self.begin.take() {
            self.running = Some(Box::pin(async move {
                let UnstartedTurn {
                    agent,
                    spec,
                    is_compaction,
                    cancel,
                } = begin;
                if is_compaction {
                    return agent.compact_session(&cancel).await;
                }
                agent.run_turn(spec, &cancel).await
            }));
        }
        match &mut self.running {
            Some(running) => running.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl fmt::Debug for Turn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}
