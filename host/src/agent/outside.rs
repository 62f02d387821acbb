//! Tool calls of clients outside the session, such as those of a protocol server.
//!
//! Each call passes the same stages as a call of the model: schema, hooks, policy, approval, run,
//! `post-tool`, session file. It is not a message of the conversation; the session records it like
//! a call by a plugin, with the client as the caller. Calls that arrive while others run join the
//! same turn, up to `MAX_CALLS`, because the limits of plugins are counted per turn. While a
//! client's user has an open question, more calls may join, up to `MAX_CALLS_ASKING`.
//!
//! The module must not know the protocol of the clients. Start from [`ClientCallReceiver`].

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::call::{NO_TOOL, ToolCallGate, UnreviewedCall};
use super::foreign::{ExternalAgentVerdict, ForeignRequest, judge_request};
use super::lifecycle::LiveAgent;
use super::outcome::Error;
use super::scope::TurnScope;
use crate::event::Event;
use crate::message::{EffectClass, Parts, ToolCall, ToolResult, ToolSpec};
use crate::point::payload::{Source, StopReason, TurnSummary};
use crate::session::Body;
use crate::text::format_error_chain;
use crate::tool::FileTrackingMethod;
use crate::tool::approval::Approver;
use crate::tool::registry::ToolEntry;

/// Maximum number of calls of clients in one turn, and maximum age of a turn to which further calls
/// of clients are added.
const MAX_CALLS: u32 = 100;
const MAX_TURN: Duration = Duration::from_secs(60);

/// Maximum number of calls in a turn while it waits for a user's answer. Further calls wait until
/// the user has answered, or until the time for the answer is over.
const MAX_CALLS_ASKING: u32 = 1_000;

/// Maximum number of concurrent calls, including those that wait for the policy or for an approval.
const MAX_RUNNING: usize = 32;

/// Maximum number of queued calls.
const MAX_WAITING: usize = 256;

/// Maximum total size of the arguments of waiting and running calls, in KiB of JSON.
const MAX_HELD_KIB: u32 = 64 << 10;

/// Result of a call that was cancelled before it ran.
const CANCELLED: &str = "cancelled by the client before it ran";

/// A call of a client.
pub struct ClientToolCall {
    /// Name of the tool.
    pub tool: String,
    /// Arguments of the call.
    pub arguments: Value,
    /// Name of the client, such as `client:editor`; the session and the events record it as the
    /// caller. Names of plugins cannot contain a `:`.
    pub client: Arc<str>,
    /// Object that asks the user of the client about this call; `None` if the client cannot ask its
    /// user.
    pub approver: Option<Arc<dyn Approver>>,
    /// Token that cancels the call.
    pub cancel: CancellationToken,
}

/// Result of a call of a client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientCallResult {
    /// Content of the tool's result, after the hooks have checked and changed it.
    pub content: Parts,
    /// Bytes of the blobs in the content, in order; `None` for an unreadable blob.
    pub bytes: Vec<Option<Vec<u8>>>,
    /// Whether the call failed or was refused.
    pub is_error: bool,
    /// Source of a refusal: `host`, `policy`, `user`, `plugin NAME` or `skill NAME`.
    pub refused_by: Option<String>,
}

/// Work that a client sends to the session.
enum QueuedClientWork {
    /// Call of a tool of this session, and the sender for its result.
    Call(ClientToolCall, oneshot::Sender<ClientCallResult>),
    /// Request of another agent for a verdict on something that the agent does itself.
    Foreign(ForeignRequest, oneshot::Sender<ExternalAgentVerdict>),
}

impl QueuedClientWork {
    fn client(&self) -> &Arc<str> {
        match self {
            Self::Call(call, _) => &call.client,
            Self::Foreign(request, _) => &request.client,
        }
    }
}

/// Request of a client that is queued or in progress.
struct PendingClientWork {
    work: QueuedClientWork,
    /// Permit that counts the size of the call's arguments toward the limit `MAX_HELD_KIB`.
    room: OwnedSemaphorePermit,
}

/// Filter for tools: returns true for those that are offered to clients.
type ClientToolFilter = Arc<dyn Fn(&ToolSpec) -> bool + Send + Sync>;

/// Tools that are offered to clients; `None` until the session begins to serve calls.
type OfferedTools = Option<Arc<[Arc<ToolSpec>]>>;

/// Receiving end of the channel, which the session has: receives calls and publishes the tools that
/// are offered to clients.
pub struct ClientCallReceiver {
    calls: mpsc::Receiver<PendingClientWork>,
    is_offered: ClientToolFilter,
    tools: watch::Sender<OfferedTools>,
}

/// Sending end of the channel through which clients call tools; each client has a clone. Cheap to
/// clone; the session stops serving when the last clone is dropped.
#[derive(Clone)]
pub struct ClientCallSender {
    calls: mpsc::Sender<PendingClientWork>,
    tools: ToolsOfferedToClients,
    /// Permits for the total size of the arguments of all unfinished calls, one permit per KiB.
    room: Arc<Semaphore>,
}

/// Receiver of the list of tools that a session offers to clients, updated when the list changes.
/// Cheap to clone. A session stops serving calls even if this receiver still exists.
#[derive(Clone)]
pub struct ToolsOfferedToClients(watch::Receiver<OfferedTools>);

impl ClientCallReceiver {
    /// Creates both ends of the channel. Only tools for which `is_offered` returns true are listed
    /// and can be called.
    #[must_use]
    pub fn new(
        is_offered: impl Fn(&ToolSpec) -> bool + Send + Sync + 'static,
    ) -> (Self, ClientCallSender) {
        let (sender, calls) = mpsc::channel(MAX_WAITING);
        let (tools, told) = watch::channel(None);
        let session = Self {
            calls,
            is_offered: Arc::new(is_offered),
            tools,
        };
        let client = ClientCallSender {
            calls: sender,
            tools: ToolsOfferedToClients(told),
            room: Arc::new(Semaphore::new(MAX_HELD_KIB as usize)),
        };
        (session, client)
    }

    /// Publishes the list of tools that clients may call; receivers wake up only if it has changed.
    fn publish_tools(&self, all: Vec<Arc<ToolSpec>>) {
        let offered = all.into_iter().filter(|spec| (self.is_offered)(spec));
        let offered: Arc<[Arc<ToolSpec>]> = offered.collect();
        self.tools.send_if_modified(|told| {
            let is_other = told.as_ref() != Some(&offered);
            *told = Some(offered);
            is_other
        });
    }
}

impl ClientCallSender {
    /// Returns a receiver for the list of tools that clients may call, which may change.
    #[must_use]
    pub fn tools(&self) -> ToolsOfferedToClients {
        self.tools.clone()
    }

    /// Queues a call, and returns the receiver of its result. The receiver fails if the session
    /// ends before the call does.
    ///
    /// # Errors
    /// Reason, as a sentence: too many calls or arguments are queued, or the session has ended.
    pub fn begin_call(
        &self,
        call: ClientToolCall,
    ) -> Result<oneshot::Receiver<ClientCallResult>, String> {
        let n_bytes = call.arguments.to_string().len();
        let (reply, result) = oneshot::channel();
        self.queue_client_work(n_bytes, QueuedClientWork::Call(call, reply))?;
        Ok(result)
    }

    /// Queues a request for permission for something that the client does itself, and returns the
    /// receiver of the verdict. The receiver fails if the session ends before the verdict.
    ///
    /// # Errors
    /// As for [`Self::begin_call`].
    pub fn begin_request(
        &self,
        request: ForeignRequest,
    ) -> Result<oneshot::Receiver<ExternalAgentVerdict>, String> {
        let (reply, verdict) = oneshot::channel();
        self.queue_client_work(request.n_bytes(), QueuedClientWork::Foreign(request, reply))?;
        Ok(verdict)
    }

    /// Whether the session has ended and accepts no further calls.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.calls.is_closed()
    }

    fn queue_client_work(&self, n_bytes: usize, work: QueuedClientWork) -> Result<(), String> {
        let n_kib = (n_bytes >> 10).saturating_add(1);
        let n_kib = u32::try_from(n_kib).unwrap_or(u32::MAX);
        if n_kib > MAX_HELD_KIB {
            return Err(format!(
                "the arguments have {n_kib} KiB, at most {MAX_HELD_KIB} are accepted"
            ));
        }
        let room = self
            .room
            .clone()
            .try_acquire_many_owned(n_kib)
            .map_err(|_| {
                format!(
                    "the waiting calls already hold {} MiB of arguments; call again when some of them have ended",
                    MAX_HELD_KIB >> 10
                )
            })?;
        match self.calls.try_send(PendingClientWork { work, room }) {
            Ok(()) => Ok(()),
            Err(mpsc::error::TrySendError::Full(_)) => Err(format!(
                "{MAX_WAITING} calls are already waiting; call again when some of them have ended"
            )),
            Err(mpsc::error::TrySendError::Closed(_)) => {
                Err("the session that serves the calls has ended".to_owned())
            }
        }
    }
}

impl ToolsOfferedToClients {
    /// Returns the tools that the session published last; `None` if it has not published any yet.
    #[must_use]
    pub fn last_published_tools(&self) -> Option<Arc<[Arc<ToolSpec>]>> {
        self.0.borrow().clone()
    }

    /// Waits until the session accepts tool calls from outside, and returns the tools that it
    /// offers; `None` if the session has ended.
    pub async fn wait_for_list(&mut self) -> Option<Arc<[Arc<ToolSpec>]>> {
        let told = self.0.wait_for(Option::is_some).await.ok()?;
        told.clone()
    }

    /// Waits until the offered tools change. Returns false if the session has stopped serving.
    pub async fn wait_until_tools_change(&mut self) -> bool {
        self.0.changed().await.is_ok()
    }
}

impl ClientCallReceiver {
    /// Serves calls in the session of an agent until all clients are dropped or `cancel` is set.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn serve_calls(
        mut self,
        agent: &mut LiveAgent,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        agent.announce_session();
        loop {
            agent.apply_plugin_replacements(None);
            self.publish_tools(agent.spec.tools.specs());
            let first = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                call = self.calls.recv() => call,
                () = agent.replacements.wait_for_replacement() => continue,
            };
            let Some(first) = first else {
                return Ok(());
            };
            self.run_turn(agent, first, cancel).await?;
        }
    }

    /// Runs one turn: a call, and the calls that arrive while others run.
    async fn run_turn(
        &mut self,
        agent: &mut LiveAgent,
        first: PendingClientWork,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let scope = begin_turn(agent, first.work.client(), cancel)?;
        // If this future is dropped, the guard stops the subagents that the calls started.
        let guard = scope.agents.clone().drop_guard();
        tokio::select! {
            biased;
            () = scope.cancel.cancelled() => {}
            () = agent.run_session_start_hooks() => {}
        }
        let halted = self.run_calls(&scope, first, started).await;
        scope.stop_running_subagents().await;
        guard.disarm();
        agent.report_hook_failures().await;
        let halted = agent.family.halt.take().or(halted);
        scope.end_skills(&scope.turn_caller(0)).await;
        scope.mark_turn_ended();
        let stop = match (&halted, cancel.is_cancelled()) {
            (Some(_), _) => StopReason::Blocked,
            (None, true) => StopReason::Cancelled,
            (None, false) => StopReason::Done,
        };
        end_turn(agent, &scope, started, stop, halted.unwrap_or_default()).await
    }

    /// Runs calls concurrently. If an observing hook with `on_failure = "block"` fails, the calls
    /// end and the reason is returned.
    async fn run_calls(
        &mut self,
        scope: &TurnScope,
        first: PendingClientWork,
        started: Instant,
    ) -> Option<String> {
        let (changing, offered) = (Mutex::new(()), self.is_offered.clone());
        let one = |step, waiting| run_call(scope, &changing, &offered, step, waiting);
        let mut running = FuturesUnordered::new();
        let (mut n_calls, mut is_closed, mut halted) = (1, false, None);
        running.push(one(n_calls, first));
        while !running.is_empty() {
            let can_open = !is_closed && halted.is_none() && running.len() < MAX_RUNNING;
            // An open question keeps the turn open, and calls of other clients may join it.
            // `MAX_CALLS_ASKING` limits their number, because the limits of plugins are counted per
            // turn.
            let has_open_question = scope.clients.has_open_question() && n_calls < MAX_CALLS_ASKING;
            let has_room = n_calls < MAX_CALLS && started.elapsed() < MAX_TURN;
            let is_open = can_open && (has_room || has_open_question);
            tokio::select! {
                biased;
                why = scope.family.halt.wait(), if halted.is_none() => {
                    scope.cancel.cancel();
                    halted = Some(why);
                }
                // Take queued calls before results of running ones: queued calls then share the
                // turn and its write to disk, even if each call takes almost no time.
                call = self.calls.recv(), if is_open => match call {
                    Some(call) => {
                        n_calls += 1;
                        running.push(one(n_calls, call));
                    }
                    None => is_closed = true,
                },
                () = scope.clients.wait_for_question(), if can_open && !is_open && n_calls < MAX_CALLS_ASKING => {}
                _ = running.next() => {}
            }
        }
        halted
    }
}

fn begin_turn(
    agent: &mut LiveAgent,
    client: &str,
    cancel: &CancellationToken,
) -> Result<Arc<TurnScope>, Error> {
    agent.dispatcher.begin_turn();
    let session = agent.spec.session.clone();
    session.cut_turn()?;
    let scope = agent.create_turn_scope(cancel.child_token());
    let input = format!("[tool calls of {client}]");
    session.append(Body::TurnStart {
        turn: scope.number,
        input: input.clone(),
        source: Source::Mcp,
        command: None,
        input_id: None,
        continues: None,
        attached: Vec::new(),
        plugins: agent.spec.config.plugin_set.clone(),
    })?;
    agent.spec.events.emit(Event::TurnStart {
        turn: scope.number,
        input,
        source: Source::Mcp,
        command: None,
        input_id: None,
    });
    Ok(scope)
}

async fn end_turn(
    agent: &LiveAgent,
    scope: &TurnScope,
    started: Instant,
    stop: StopReason,
    output: String,
) -> Result<(), Error> {
    let cost = scope.budget.cost();
    let summary = TurnSummary {
        stop,
        steps: 0,
        tool_calls: scope.budget.n_tool_calls(),
        usage: scope.budget.usage(),
        cost_usd: cost.usd,
        unpriced_tokens: cost.unpriced_tokens,
        duration_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        output: output.clone(),
    };
    let session = &agent.spec.session;
    session.append(Body::TurnEnd {
        turn: scope.number,
        summary: summary.clone(),
        output: output.clone(),
    })?;
    session.synced().await?;
    agent.spec.events.emit(Event::TurnEnd {
        turn: scope.number,
        summary,
        output,
    });
    Ok(())
}

/// Runs one call or request, and sends the result to the client however the call ends.
async fn run_call(
    scope: &TurnScope,
    changing: &Mutex<()>,
    is_offered: &ClientToolFilter,
    step: u32,
    waiting: PendingClientWork,
) {
    let PendingClientWork { work, room } = waiting;
    let (call, reply) = match work {
        QueuedClientWork::Call(call, reply) => (call, reply),
        QueuedClientWork::Foreign(request, reply) => {
            scope.budget.count_call();
            let mut verdict = judge_request(scope, step, request).await;
            if let Some(why) = scope.family.halt.reason() {
                verdict = ExternalAgentVerdict::refused(format!("stopped: {why}"));
            }
            drop(room);
            let _ = reply.send(verdict);
            return;
        }
    };
    let token = scope.cancel.child_token();
    let caller = scope.turn_caller(step);
    let approver = call.approver.as_deref();
    let gate = ToolCallGate::for_client(scope, &caller, &call.client, approver, &token);
    let id = format!("client_{}", crate::clock::new_id());
    let _entered = scope
        .clients
        .register_client_call_user(&id, call.approver.clone());
    let wanted = ToolCall::new(id, call.tool, call.arguments);
    scope.budget.count_call();
    let stopped = async {
        call.cancel.cancelled().await;
        token.cancel();
        std::future::pending::<ClientCallResult>().await
    };
    let mut result = tokio::select! {
        biased;
        result = run_through_gate(gate, &token, changing, is_offered, wanted) => result,
        result = stopped => result,
    };
    // An observing hook with `on_failure = "block"` has failed, so no result leaves the host.
    if let Some(why) = scope.family.halt.reason() {
        result = ClientCallResult {
            content: format!("[stopped: {why}]").into(),
            is_error: true,
            ..ClientCallResult::default()
        };
    }
    drop(room);
    // Ignore a failed `send`: the client may be gone.
    let _ = reply.send(result);
}

/// Passes a call through policy, approval, run and `post-tool` hooks.
async fn run_through_gate(
    gate: ToolCallGate<'_>,
    token: &CancellationToken,
    changing: &Mutex<()>,
    is_offered: &ClientToolFilter,
    call: ToolCall,
) -> ClientCallResult {
    let scope = gate.scope;
    let tools = scope.skills.tools();
    let entry = tools.get(&call.name);
    let Some(entry) = entry.filter(|entry| is_offered(&entry.spec)).cloned() else {
        let why = format!("{NO_TOOL}{}`", call.name);
        let ran = gate.refuse_call(call, &why).await;
        return finish_call(gate, ran).await;
    };
    let cancelled = call.result(CANCELLED, true);
    let judged = tokio::select! {
        biased;
        () = token.cancelled() => return report_dropped_call(gate, &cancelled),
        judged = gate.judge_call(call) => judged,
    };
    let ran = match judged {
        Err(refused) => *refused,
        Ok(allowed) => {
            let alone = async {
                match may_change_files(&entry) {
                    true => Some(changing.lock().await),
                    false => None,
                }
            };
            let alone = tokio::select! {
                biased;
                () = token.cancelled() => return report_dropped_call(gate, &cancelled),
                alone = alone => alone,
            };
            if let Err(error) = gate
                .record_call_starts(std::slice::from_ref(&allowed))
                .await
            {
                let why = format!(
                    "not run: the session cannot record the call: {}",
                    format_error_chain(&error)
                );
                return report_dropped_call(gate, &allowed.call.result(why, true));
            }
            let ran = gate.run_call(allowed).await;
            drop(alone);
            ran
        }
    };
    finish_call(gate, ran).await
}

/// Whether a call may change files of the workspace. Such calls run one after another, so that each
/// change can be attributed to one call.
fn may_change_files(entry: &ToolEntry) -> bool {
    match entry.spec.effect_class {
        EffectClass::Read => false,
        EffectClass::Write => true,
        EffectClass::Execute | EffectClass::External => {
            entry.tool.file_tracking() != FileTrackingMethod::Unneeded
        }
    }
}

/// Reports the end of a call that did not run. Calls no hooks, because there is no result that
/// could leak data.
fn report_dropped_call(gate: ToolCallGate<'_>, result: &ToolResult) -> ClientCallResult {
    gate.report_call_end(result, 0, Some("client".to_owned()));
    ClientCallResult {
        content: result.content.clone(),
        is_error: true,
        ..ClientCallResult::default()
    }
}

/// Runs the `post-tool` hooks of a tool call, and returns the result for the client that made the
/// call.
async fn finish_call(gate: ToolCallGate<'_>, mut ran: UnreviewedCall) -> ClientCallResult {
    let finished = gate.finish_call(&mut ran).await;
    let refused_by = ran.refused_by.take();
    drop(ran);
    let ToolResult {
        mut content,
        is_error,
        ..
    } = Arc::unwrap_or_clone(finished.value).result;
    // Append the notes of hooks to the result, because they are meant for the reader of the result.
    for (plugin, injection) in finished.inject {
        content.push_text(&format!("\n[note from {plugin}: {}]", injection.text));
    }
    ClientCallResult {
        bytes: read_blobs(gate.scope, &content).await,
        content,
        is_error,
        refused_by,
    }
}

/// Reads the bytes of the blobs in a result, in order; `None` for a blob that cannot be read.
async fn read_blobs(scope: &TurnScope, content: &Parts) -> Vec<Option<Vec<u8>>> {
    let ids: Vec<String> = content.blobs().map(|blob| blob.id.clone()).collect();
    if ids.is_empty() {
        return Vec::new();
    }
    let blobs = scope.family.root.blobs().clone();
    let read = move || ids.iter().map(|id| blobs.get(id).ok()).collect();
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}
