//! State that a turn shares with code that acts for plugins in it.
//!
//! While a hook or a tool runs, the turn itself is borrowed by whoever waits for it. What a host function needs then (the
//! agent's parts, the turn's numbers, its token) stands here, behind an `Arc`. Owns the numbers and the budgets of plugins.
//!
//! [`ActiveTurns`] leads from a plugin's handle to the running turn. Hooks hold the handle and a scope holds the hooks, so the way
//! there is weak: a strong one would keep all of them for ever.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::halt::Halt;
use super::host_calls::{HostCall, HostCallCounts};
use super::sink::AgentSink;
use super::skill::{ActiveSkills, SkillMemory, SkillParts};
use super::spec::AgentSpec;
use super::watchers::JudgedCall;
use crate::event::Event;
use crate::lock::lock;
use crate::message::{Message, Usage};
use crate::point::Point;
use crate::point::caller::{CallContext, Caller};
use crate::point::catalog as at;
use crate::point::dispatch::{Dispatched, Dispatcher};
use crate::point::handle::HandleError;
use crate::point::merge::injected_message;
use crate::point::outcome::{Injection, Level};
use crate::price::Cost;
use crate::session::{self, Body, Session};
use crate::tool::approval::SessionApprovals;
use crate::tool::registry::ToolRegistry;

/// Time that subagents have to end cleanly once they were told to stop: a little longer than their tools have.
const AGENT_GRACE: Duration = Duration::from_secs(7);

/// The turns that run in a session, by the agent's name. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ActiveTurns(Arc<Mutex<HashMap<Arc<str>, Weak<TurnScope>>>>);

impl ActiveTurns {
    /// The turn of an agent: the one that runs, or the last one as long as no other has begun.
    pub(super) fn turn_of(&self, agent: &str) -> Option<Arc<TurnScope>> {
        lock(&self.0).get(agent)?.upgrade()
    }

    pub(super) fn enter(&self, scope: &Arc<TurnScope>) {
        lock(&self.0).insert(scope.spec.name.clone(), Arc::downgrade(scope));
    }

    pub(super) fn leave(&self, agent: &str) {
        lock(&self.0).remove(agent);
    }
}

/// Family of an agent: whose it is, and what it therefore shares with others.
#[derive(Clone)]
pub(super) struct Family {
    /// Id of the session that plugins know, that of the main agent.
    pub(super) session: Arc<str>,
    pub(super) active_turns: ActiveTurns,
    /// Token that ends the turn of the main agent and those of all others.
    pub(super) halt: Arc<Halt>,
    /// The session of the main agent.
    pub(super) root: Arc<Session>,
    /// The turn that runs this agent, when it is a subagent.
    pub(super) parent: Option<Arc<TurnScope>>,
    /// Skills that were used in the session.
    pub(super) skills: Arc<SkillMemory>,
}

/// The shared part of one turn.
pub(super) struct TurnScope {
    pub(super) spec: Arc<AgentSpec>,
    pub(super) dispatcher: Arc<Dispatcher>,
    pub(super) sink: Arc<AgentSink>,
    pub(super) approvals: Arc<SessionApprovals>,
    pub(super) skills: Arc<ActiveSkills>,
    /// Parts of skills in results that are not messages yet.
    pub(super) skill_parts: SkillParts,
    pub(super) family: Family,
    pub(super) number: u32,
    /// Token that is set when the turn is interrupted.
    pub(super) cancel: CancellationToken,
    /// Whether the turn has ended. Hooks that run later, in the background or as the session ends, still find its scope.
    is_over: AtomicBool,
    /// Tools of the agent; those of the spec are those that the turn began with.
    tools: RwLock<Arc<ToolRegistry>>,
    tally: Mutex<Tally>,
    /// Calls that were judged for those who watch; the latest first.
    judged_calls: Mutex<VecDeque<JudgedCall>>,
    /// Subagents whose caller went away before they had ended; they were told to stop.
    leftover: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Default)]
struct Tally {
    usage: Usage,
    cost: Cost,
    n_calls: u32,
    n_requests: u32,
    /// Tools of the present step; `None` before the first.
    active: Option<Arc<[String]>>,
    spent: Spent,
}

/// Uses that count against the limits of a turn.
#[derive(Clone, Default)]
pub(crate) struct Spent {
    host_calls: HostCallCounts,
    /// Subagents that models ran.
    n_spawned: u32,
    /// Questions that models asked about what subagents hold.
    n_questions: u32,
    /// Time in which they are counted, for messages: a turn, when it is empty.
    within: &'static str,
}

impl Spent {
    /// Begins to count in a time, such as `minute`.
    pub(crate) fn within(time: &'static str) -> Self {
        Self {
            within: time,
            ..Self::default()
        }
    }

    fn spend(&mut self, plugin: &Arc<str>, host_call: HostCall) -> Result<(), HandleError> {
        let within = match self.within {
            "" => "turn",
            time => time,
        };
        self.host_calls.spend(plugin, host_call, within)
    }
}

impl TurnScope {
    /// The calls that were judged for those who watch.
    pub(super) fn judged_calls(&self) -> MutexGuard<'_, VecDeque<JudgedCall>> {
        lock(&self.judged_calls)
    }

    pub(super) fn new(
        spec: Arc<AgentSpec>,
        dispatcher: Arc<Dispatcher>,
        sink: Arc<AgentSink>,
        approvals: Arc<SessionApprovals>,
        skills: Arc<ActiveSkills>,
        family: Family,
        cancel: CancellationToken,
    ) -> Arc<Self> {
        let scope = Arc::new(Self {
            number: spec.session.turn() + 1,
            tools: RwLock::new(Arc::new(spec.tools.clone())),
            spec,
            dispatcher,
            sink,
            approvals,
            skills,
            skill_parts: SkillParts::default(),
            family,
            cancel,
            is_over: AtomicBool::new(false),
            tally: Mutex::default(),
            judged_calls: Mutex::default(),
            leftover: Mutex::default(),
        });
        scope.family.active_turns.enter(&scope);
        scope
    }

    /// Notes that the turn has ended: nobody looks at the terminal for it any more.
    pub(super) fn ends(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Returns the caller of hooks and tools in this turn when no plugin caused the call.
    pub(super) fn caller(&self, step: u32) -> Caller {
        let mut caller = Caller {
            context: CallContext {
                turn: self.number,
                step,
                ..self.spec.call_context(self.family.session.clone())
            },
            call_chain: self.spec.call_chain.clone(),
            ..Caller::default()
        };
        self.update(&mut caller);
        caller
    }

    pub(super) fn tools(&self) -> Arc<ToolRegistry> {
        let tools = self.tools.read();
        tools.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the tools of the agent, between two steps.
    pub(super) fn set_tools(&self, tools: ToolRegistry) {
        let mut own = self.tools.write().unwrap_or_else(PoisonError::into_inner);
        *own = Arc::new(tools);
    }

    pub(super) fn update(&self, caller: &mut Caller) {
        let tally = lock(&self.tally);
        caller.context.usage = tally.usage;
        caller.context.cost_usd = tally.cost.usd;
        caller.context.unpriced_tokens = tally.cost.unpriced_tokens;
        caller.context.tool_calls = tally.n_calls;
        drop(tally);
        caller.context.skill = self.skill();
    }

    /// Calls the hooks of a point, then tells the `error` point of those that failed.
    pub(super) async fn dispatch<P: Point>(
        &self,
        caller: &Caller,
        payload: impl Into<P::Payload>,
    ) -> Dispatched<P::Payload> {
        // What failed before a plugin caused this is for whoever waits for that plugin to report.
        let is_caused = caller.call_chain.len() > self.spec.call_chain.len();
        let n_before = if is_caused { self.sink.n_failures() } else { 0 };
        let out = self.dispatcher.dispatch::<P>(caller, payload).await;
        for report in self.sink.take_failures(n_before) {
            self.dispatcher.dispatch::<at::Error>(caller, report).await;
        }
        out
    }

    /// Makes the message of what a plugin wants to say, and notes that it did.
    pub(super) async fn injected(
        &self,
        caller: &Caller,
        plugin: &str,
        Injection { text, keep }: Injection,
    ) -> Result<Message, session::Error> {
        let message = injected_message(plugin, &text);
        let plugin = plugin.to_owned();
        self.spec.session.append(Body::Injected {
            plugin: plugin.clone(),
            text: text.clone(),
            keep,
        })?;
        // It may quote the model.
        let text = self.for_watchers(caller, text).await;
        self.spec
            .events
            .emit(Event::Injected { plugin, text, keep });
        Ok(message)
    }

    /// Tokens used in this turn, by the loop, by plugins and by subagents.
    pub(super) fn usage(&self) -> Usage {
        lock(&self.tally).usage
    }

    pub(super) fn cost(&self) -> Cost {
        lock(&self.tally).cost
    }

    /// Counts tokens and their cost, also for the turns that this one is part of.
    pub(super) fn add_used(&self, usage: Usage, cost: Cost) {
        let mut tally = lock(&self.tally);
        tally.usage += usage;
        tally.cost += cost;
        drop(tally);
        if let Some(parent) = &self.family.parent {
            parent.add_used(usage, cost);
        }
    }

    /// Tool calls made in this turn, by the model and by plugins.
    pub(super) fn n_calls(&self) -> u32 {
        lock(&self.tally).n_calls
    }

    /// Counts a request to the model; its number, from 1.
    pub(super) fn count_request(&self) -> u32 {
        let mut tally = lock(&self.tally);
        tally.n_requests += 1;
        tally.n_requests
    }

    pub(super) fn count_call(&self) {
        lock(&self.tally).n_calls += 1;
    }

    /// Names of the tools that may be called now: those of the present step, or all before the first, as far as the active skills
    /// leave them.
    pub(super) fn active(&self) -> Arc<[String]> {
        let active = lock(&self.tally).active.clone();
        let Some(active) = active else {
            return self.tool_names().into();
        };
        let left = self.tool_names();
        let active = active.iter().filter(|name| left.contains(name));
        active.cloned().collect()
    }

    pub(super) fn set_active(&self, names: Vec<String>) {
        lock(&self.tally).active = Some(names.into());
    }

    /// Names of the tools that the active skills leave, in the order of the registry.
    pub(super) fn tool_names(&self) -> Vec<String> {
        let specs = self.tools().specs().into_iter();
        let left = specs.filter(|spec| self.permits_tool(spec));
        left.map(|spec| spec.name.clone()).collect()
    }

    /// Takes one from what a plugin may do in one turn. Subagents spend what is their parent's: otherwise every one of them
    /// would bring a budget of its own.
    pub(super) fn spend(&self, plugin: &Arc<str>, host_call: HostCall) -> Result<(), HandleError> {
        match &self.family.parent {
            Some(parent) => parent.spend(plugin, host_call),
            None => lock(&self.tally).spent.spend(plugin, host_call),
        }
    }

    /// Counts a subagent that the model runs, in the turn of the main agent. Whether there was one left of `most`.
    pub(super) fn count_spawned(&self, most: u32) -> bool {
        self.count(|spent| &mut spent.n_spawned, most)
    }

    /// Counts a question of the model about what a subagent holds, in the turn of the main agent. Whether there was one left of
    /// `most`.
    pub(super) fn count_question(&self, most: u32) -> bool {
        self.count(|spent| &mut spent.n_questions, most)
    }

    /// Sets what was used before: those who call a plugin often let several calls share one turn's limits.
    pub(super) fn set_spent(&self, spent: Spent) {
        lock(&self.tally).spent = spent;
    }

    /// Takes what was used.
    pub(super) fn take_spent(&self) -> Spent {
        std::mem::take(&mut lock(&self.tally).spent)
    }

    fn count(&self, counter: fn(&mut Spent) -> &mut u32, most: u32) -> bool {
        if let Some(parent) = &self.family.parent {
            return parent.count(counter, most);
        }
        let mut tally = lock(&self.tally);
        let n = counter(&mut tally.spent);
        *n = n.saturating_add(1);
        *n <= most
    }

    /// Leaves a subagent to end on its own.
    pub(super) fn leave_over(&self, agent: JoinHandle<()>) {
        lock(&self.leftover).push(agent);
    }

    /// Waits for subagents that were told to stop: their usage counts in this turn, and their sessions must be complete.
    pub(super) async fn end_agents(&self) {
        let leftover = std::mem::take(&mut *lock(&self.leftover));
        let ended = futures_util::future::join_all(leftover);
        if tokio::time::timeout(AGENT_GRACE, ended).await.is_err() {
            let text = "a subagent did not stop and was abandoned";
            self.spec.events.emit(Event::notice(Level::Warn, text));
        }
    }
}
