//! The agent loop: from a user's input to the final output.
//!
//! Owns when everything happens: the points of a turn, the steps, the tool calls, what is written to the session before
//! what. It must not know wire formats, WebAssembly, or who shows its events; what a call may do is decided by `tool`, what
//! hooks change by `point`.
//!
//! Start from `Agent::run_turn`. The turn reads from top to bottom in `turn` (start to end), `input` (what comes in),
//! `system` (the system prompt), `step` (one request), `stream` (what is shown of its answer), `calls` (its tool calls), `end` (however it ends), `archive` (what
//! becomes of it then). What plugins may do while they are called stands in `scope` and `host_calls`; a request (`request`) and a
//! tool call (`call`) are the same for both, a question of the host's own (`ask`) too.

mod archive;
mod ask;
mod assess;
mod between;
mod blobs;
mod call;
mod calls;
mod compact;
mod config;
mod context;
#[cfg(feature = "cases")]
mod direct;
mod emit;
mod end;
mod halt;
mod handle;
mod host_calls;
mod input;
mod pending;
mod reflect;
mod replace;
mod request;
mod scope;
mod sink;
mod skill;
mod steering;
mod step;
mod stream;
mod system;
mod turn;
mod watchers;

pub use archive::{
    ArchivalConfig, Style, SubagentsConfig, SummaryConfig, TriggerConfig, check as check_archival,
};
pub(crate) use between::Ended;
#[cfg(feature = "cases")]
pub(crate) use call::NO_TOOL;
pub use compact::CompactConfig;
pub use config::AgentConfig;
#[cfg(feature = "cases")]
pub(crate) use direct::DirectTurn;
#[cfg(feature = "cli")]
pub(crate) use end::NO_ANSWER;
pub use handle::SessionHandle;
pub use reflect::ReflectConfig;
pub(crate) use replace::{Replacement, Replacements};
pub(crate) use scope::Spent;
pub use sink::KeepInStore;
pub use steering::{SteerHandle, Waiting};

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::event::{self, Event, Events};
use crate::message::Attachment;
use crate::point::caller::{CallContext, Caller};
use crate::point::catalog::{Error as ErrorPoint, SessionEnd, SessionStart};
use crate::point::dispatch::Dispatcher;
use crate::point::outcome::Level;
use crate::point::payload::{PromptPart, SessionInfo, Source, TurnInput, TurnSummary};
use crate::point::registry::Registry;
use crate::provider::Provider;
use crate::session::{self, Body, Entry, Session, Undone};
use crate::skill::Skills;
use crate::tool::approval::{Approver, SessionApprovals};
use crate::tool::known::KnownFiles;
use crate::tool::policy::Policy;
use crate::tool::registry::ToolRegistry;
use scope::{ActiveTurns, Family, TurnScope};
use sink::{AgentSink, Outlet};
use skill::{ActiveSkills, Invoked, SkillMemory};
use turn::{Turn, Work};

/// Shortest time that hooks in the background are waited for at the end: what their calls wait for counts, too.
const MIN_SETTLE: Duration = Duration::from_secs(15);

/// Longest time that hooks in the background are waited for at the end, whatever their deadlines.
const MAX_SETTLE: Duration = Duration::from_secs(60);

/// Error that keeps a turn from ending normally: a fault of the host. A failing provider, hook or tool is not one of these.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The session cannot be written or read.
    #[error("the session failed")]
    Session(#[from] session::Error),
    /// A hook that blocks when it fails has failed where nothing was left to refuse.
    #[error("{0}")]
    Guard(String),
}

#[derive(Clone)]
pub(crate) struct AgentSpec {
    /// Client of the model API.
    pub provider: Arc<dyn Provider>,
    /// Name of the model.
    pub model: String,
    /// Sampling temperature; `None` leaves it to the provider.
    pub temperature: Option<f64>,
    /// Most tokens of one answer; `None` leaves it to the provider.
    pub max_tokens: Option<u32>,
    /// Tools that the model may call.
    pub tools: ToolRegistry,
    /// Hooks of the loaded plugins.
    pub hooks: Arc<Registry>,
    /// Policy for tool calls.
    pub policy: Arc<dyn Policy>,
    /// Approver for calls that the policy asks about.
    pub approver: Arc<dyn Approver>,
    /// Session that the agent writes to.
    pub session: Arc<Session>,
    /// Destination of events.
    pub events: Events,
    /// Keeps what hooks put into their plugin's store.
    pub keep_in_store: KeepInStore,
    /// Limits of a turn.
    pub config: AgentConfig,
    /// Folder the agent works in.
    pub workspace: PathBuf,
    /// Further parts of the system prompt: skills, what a subagent is to do.
    pub parts: Vec<PromptPart>,
    /// Skills of the session.
    pub skills: Arc<Skills>,
    /// Names of the plugins that run.
    pub plugins: Arc<[String]>,
    /// Folders of the host's own: a skill whose folder holds one of them opens nothing.
    pub own_folders: Arc<[PathBuf]>,
    /// `main`, or the id of a subagent.
    pub name: Arc<str>,
    /// 0 for the main agent, one more for each level of subagent.
    pub depth: u32,
    /// Plugins whose code made this agent run; their hooks do not fire on it.
    pub call_chain: Vec<Arc<str>>,
    /// Files that its model knows. Each agent has its own.
    pub known: Arc<KnownFiles>,
    /// Warnings that are told once.
    pub told: Arc<Mutex<BTreeSet<String>>>,
}

impl AgentSpec {
    /// The agent as a caller of hooks and tools, outside of a turn. `session` is the id of the main agent's.
    fn call_context(&self, session: Arc<str>) -> CallContext {
        CallContext {
            session,
            agent: self.name.clone(),
            depth: self.depth,
            workspace: self.workspace.to_string_lossy().into(),
            model: self.model.as_str().into(),
            ..CallContext::default()
        }
    }
}

/// Outcome of a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnOutcome {
    /// Number within the session.
    pub turn: u32,
    /// Output for the user, whatever the reason for the end.
    pub output: String,
    /// Reason for the end, and usage.
    pub summary: TurnSummary,
}

pub(crate) struct Agent {
    spec: Arc<AgentSpec>,
    dispatcher: Arc<Dispatcher>,
    sink: Arc<AgentSink>,
    steering: SteerHandle,
    replacements: Replacements,
    approvals: Arc<SessionApprovals>,
    /// Active skills, of the turn that runs and those that stay.
    skills: Arc<ActiveSkills>,
    /// The skill that the next turn begins with.
    invoked: Option<Invoked>,
    family: Family,
    /// Scope of the running turn, or of the last one: background hooks may outlive their turn.
    scope: Option<Arc<TurnScope>>,
    compaction: compact::Compaction,
    /// The stable parts of the system prompt as the first turn made them.
    frozen: Option<Vec<PromptPart>>,
    /// The last entry of the prompt ledger.
    ledger: Option<Body>,
    is_announced: bool,
    /// Events to emit once the session is open.
    opening: Vec<Event>,
    is_started: bool,
    /// Earlier turns that are being archived.
    archiving: Option<archive::Archiving>,
    /// One that is being moved to its holder.
    moving: Option<archive::Moving>,
}

impl Agent {
    /// An agent that has not done anything yet.
    #[must_use]
    pub(crate) fn new(mut spec: AgentSpec) -> Self {
        let family = Family {
            session: spec.session.id().clone(),
            active_turns: ActiveTurns::default(),
            halt: Arc::default(),
            root: spec.session.clone(),
            parent: None,
            skills: Arc::new(SkillMemory::of_session(&spec)),
        };
        archive::add_tools(&mut spec, &family.active_turns);
        let notice = skill::add_to(&mut spec, &family.active_turns);
        let mut agent = Self::of_family(spec, family);
        let lasting = agent.skills.all();
        agent.tell_at_opening(lasting.iter().map(|skill| skill.event()).chain(notice));
        agent
    }

    /// An agent that shares with others what its family says.
    fn of_family(spec: AgentSpec, family: Family) -> Self {
        let outlet = Outlet {
            session: spec.session.clone(),
            events: spec.events.clone(),
            keep: spec.keep_in_store.clone(),
        };
        let sink = AgentSink::new(outlet, spec.name.clone(), &family);
        let sink = Arc::new(sink);
        Self {
            dispatcher: Arc::new(match &family.parent {
                None => Dispatcher::new(spec.hooks.clone(), sink.clone()),
                Some(parent) => parent.dispatcher.for_subagent(sink.clone()),
            }),
            sink,
            steering: SteerHandle::default(),
            replacements: Replacements::default(),
            approvals: Arc::default(),
            skills: Arc::new(ActiveSkills::of_session(&spec.session, &spec.skills)),
            invoked: None,
            family,
            scope: None,
            compaction: compact::Compaction::default(),
            frozen: None,
            ledger: None,
            is_announced: false,
            opening: Vec::new(),
            is_started: false,
            archiving: None,
            moving: None,
            spec: Arc::new(spec),
        }
    }

    #[must_use]
    pub(crate) fn spec(&self) -> &AgentSpec {
        &self.spec
    }

    /// Returns the parts of the agent, to change them between turns: the model, the policy, the tools.
    pub(crate) fn spec_mut(&mut self) -> &mut AgentSpec {
        Arc::make_mut(&mut self.spec)
    }

    /// Tells those who watch of something that is no part of a turn.
    pub(crate) fn tell(&mut self, event: Event) {
        self.announce();
        self.spec.events.emit(event);
    }

    /// The way to say something while a turn runs.
    #[must_use]
    pub(crate) fn steering(&self) -> SteerHandle {
        self.steering.clone()
    }

    /// The answers of the person that hold for the session.
    #[cfg(feature = "cli")]
    #[must_use]
    pub(crate) fn approvals(&self) -> Arc<SessionApprovals> {
        self.approvals.clone()
    }

    /// Tells those who watch of this as soon as they know that the session is open.
    pub(crate) fn tell_at_opening(&mut self, events: impl IntoIterator<Item = Event>) {
        self.opening.extend(events);
    }

    /// Runs one turn: from `input` to the final output.
    ///
    /// However the turn ends, every tool call in the session has a result and `turn-end` has fired. A set `cancel` ends it
    /// at the next await with [`StopReason::Cancelled`](crate::point::payload::StopReason::Cancelled). When this future is
    /// dropped instead, the next turn closes what was left open.
    ///
    /// # Errors
    /// Only when the host itself fails, which means: the session cannot be written.
    pub(crate) async fn run_turn(
        &mut self,
        input: &str,
        source: Source,
        command: Option<String>,
        attached: Vec<Attachment>,
        cancel: &CancellationToken,
    ) -> Result<TurnOutcome, Error> {
        self.announce();
        self.take_replacements(None);
        let input = TurnInput {
            text: input.to_owned(),
            source,
        };
        let work = Work::Answer { command };
        let mut turn = Turn::new(self, input, work, cancel.clone());
        turn.attached = attached.into();
        turn.run().await
    }

    /// Replaces all but the newest messages with a summary, as compaction does when a conversation grows too long. It is a turn
    /// that answers nothing: hooks of compaction may use all of a turn, and what they use is counted.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn compact(
        &mut self,
        cancel: &CancellationToken,
    ) -> Result<TurnOutcome, Error> {
        self.announce();
        let input = TurnInput {
            text: "/compact".to_owned(),
            source: Source::Terminal,
        };
        Turn::new(self, input, Work::Compact, cancel.clone())
            .run()
            .await
    }

    /// Takes the last turn out of the conversation. Its lines stay in the file of the session. `None` when there is none.
    ///
    /// # Errors
    /// The turn cannot be taken out, or the session cannot be written.
    pub(crate) async fn undo(
        &mut self,
        entries: &[Entry],
    ) -> Result<Option<Undone>, session::Error> {
        // What is being prepared may be about that turn.
        self.stop_archival().await;
        let undone = self.spec.session.undo(entries)?;
        self.compaction.try_again();
        self.spec.session.synced().await?;
        Ok(undone)
    }

    /// Begins the shared part of a turn.
    fn enter_turn(&mut self, cancel: CancellationToken) -> Arc<TurnScope> {
        let scope = TurnScope::new(
            self.spec.clone(),
            self.dispatcher.clone(),
            self.sink.clone(),
            self.approvals.clone(),
            self.skills.clone(),
            self.family.clone(),
            cancel,
        );
        self.scope = Some(scope.clone());
        scope
    }

    /// Whether it is the agent whose session the user knows. Only that one's session starts and ends: a subagent has
    /// `subagent-start` and `subagent-end`.
    fn is_main(&self) -> bool {
        self.family.parent.is_none()
    }

    /// Ends the session: `session-end` fires, background hooks end, everything is on the disk.
    ///
    /// # Errors
    /// The session cannot be written, or a hook that blocks when it fails has failed since the last turn.
    pub(crate) async fn close(mut self) -> Result<(), Error> {
        self.close_archival().await;
        if self.is_started {
            let info = self.session_info();
            let caller = self.caller();
            self.dispatcher.dispatch::<SessionEnd>(&caller, info).await;
        }
        let have_ended = self.settle().await;
        // What failed since the last turn, also in the background. Hooks of `error` may themselves run there.
        self.report_failures().await;
        if have_ended {
            self.settle().await;
        }
        self.spec.session.synced().await?;
        match self.family.halt.take() {
            Some(why) if self.is_main() => Err(Error::Guard(why)),
            _ => Ok(()),
        }
    }

    /// Waits for hooks that run in the background as long as the longest deadline among them says, and tells of those that have
    /// not ended even so. Whether all have.
    async fn settle(&self) -> bool {
        let longest = self.dispatcher.longest_in_background().unwrap_or_default();
        let limit = longest.clamp(MIN_SETTLE, MAX_SETTLE);
        let running = self.dispatcher.settle(limit).await;
        if !running.is_empty() {
            self.spec.events.emit(Event::notice(Level::Warn, format!(
                "hooks in the background have not ended after {} s, and end with the program: {}",
                limit.as_secs(),
                running.join(", ")
            )));
        }
        running.is_empty()
    }

    /// Tells those who watch that the session is open: once, before the first turn.
    pub(crate) fn announce(&mut self) {
        if !self.is_main() || std::mem::replace(&mut self.is_announced, true) {
            return;
        }
        let info = self.session_info();
        self.spec.events.emit(Event::SessionOpened {
            version: event::VERSION,
            id: info.id,
            resumed: info.resumed,
            messages: info.messages,
            provider: info.provider,
            model: info.model,
        });
        for event in std::mem::take(&mut self.opening) {
            self.spec.events.emit(event);
        }
        for notice in self.spec.session.notices() {
            self.notice(Level::Warn, notice.clone());
        }
        self.warn_archival();
    }

    /// `session-start`, once. It is part of the first turn, so that the user can interrupt it.
    async fn start(&mut self) {
        if !self.is_main() || std::mem::replace(&mut self.is_started, true) {
            return;
        }
        let info = self.session_info();
        let caller = self.caller();
        self.dispatcher
            .dispatch::<SessionStart>(&caller, info)
            .await;
        self.report_failures().await;
    }

    /// Tells the `error` point of hooks that failed outside of a turn.
    async fn report_failures(&self) {
        let caller = self.caller();
        for report in self.sink.take_failures(0) {
            self.dispatcher
                .dispatch::<ErrorPoint>(&caller, report)
                .await;
        }
    }

    fn session_info(&self) -> SessionInfo {
        SessionInfo {
            id: self.spec.session.id().to_string(),
            resumed: self.spec.session.is_resumed(),
            messages: u32::try_from(self.spec.session.n_messages()).unwrap_or(u32::MAX),
            provider: self.spec.provider.name().to_owned(),
            model: self.spec.model.clone(),
        }
    }

    /// Returns the caller of hooks outside a turn.
    fn caller(&self) -> Caller {
        Caller {
            context: CallContext {
                skill: self.skills.last(),
                ..self.spec.call_context(self.spec.session.id().clone())
            },
            call_chain: self.spec.call_chain.clone(),
            ..Caller::default()
        }
    }

    fn notice(&self, level: Level, text: impl Into<String>) {
        self.spec.events.emit(Event::notice(level, text));
    }
}

debug_some!(
    Agent,
    self,
    name = self.spec.name,
    session = self.spec.session
);
