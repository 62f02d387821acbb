//! Tool calls of clients outside the session, such as those of a protocol server.
//!
//! Each call passes the same stages as a call of the model: schema, hooks, policy, approval, run,
//! `post-tool`, session file. It is not a message of the conversation; the session records it like
//! a call by a plugin, with the client as the caller. Calls that arrive while others run join the
//! same turn, up to `MAX_CLIENT_CALLS_PER_TURN`, because the limits of plugins are counted per
//! turn. While a client's user has an open question, more calls may join, up to
//! `MAX_CLIENT_CALLS_DURING_QUESTION`.
//!
//! The module must not know the protocol of the clients. Start from [`ClientToolCallReceiver`].

mod queue;

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
pub use queue::{
    ClientOfferedToolsReceiver, ClientToolCall, ClientToolCallReceiver, ClientToolCallResult,
    ClientToolCallSender,
};
use queue::{ClientToolFilter, PendingClientRequest, QueuedClientRequest};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::call::{ToolCallChecker, UNKNOWN_TOOL_REFUSAL_PREFIX, UnreviewedToolCall};
use super::foreign::{VerdictForExternalAgent, judge_external_agent_request};
use super::lifecycle::LiveAgent;
use super::outcome::Error;
use super::scope::SharedTurnState;
use crate::event::Event;
use crate::message::{EffectClass, Parts, ToolCall, ToolResult};
use crate::point::payload::{Source, StopReason, TurnSummary};
use crate::session::Body;
use crate::text::format_error_chain;
use crate::tool::FileChangeTrackingMethod;
use crate::tool::registry::RegisteredTool;

/// Maximum number of calls of clients in one turn, and maximum age of a turn to which further calls
/// of clients are added.
const MAX_CLIENT_CALLS_PER_TURN: u32 = 100;
const MAX_TURN_AGE_FOR_NEW_CLIENT_CALLS: Duration = Duration::from_secs(60);

/// Maximum number of calls in a turn while it waits for a user's answer. Further calls wait until
/// the user has answered, or until the time for the answer is over.
const MAX_CLIENT_CALLS_DURING_QUESTION: u32 = 1_000;

/// Maximum number of concurrent calls, including those that wait for the policy or for an approval.
const MAX_CONCURRENT_CLIENT_CALLS: usize = 32;

/// Result of a call that was cancelled before it ran.
const CLIENT_CANCELLED_CALL_RESULT: &str = "cancelled by the client before it ran";

impl ClientToolCallReceiver {
    /// Serves calls in the session of an agent until all clients are dropped or `cancel` is set.
    ///
    /// # Errors
    /// The session cannot be written.
    pub(crate) async fn serve_calls(
        mut self,
        agent: &mut LiveAgent,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        agent.emit_session_opened();
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
            self.run_client_call_turn(agent, first, cancel).await?;
        }
    }

    /// Runs one turn: a call, and the calls that arrive while others run.
    async fn run_client_call_turn(
        &mut self,
        agent: &mut LiveAgent,
        first: PendingClientRequest,
        cancel: &CancellationToken,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let scope = begin_client_turn(agent, first.request.client(), cancel)?;
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
        let halted = agent.family.halt.take_reason().or(halted);
        scope.end_skills(&scope.caller_info_for_step(0)).await;
        scope.mark_turn_ended();
        let stop = match (&halted, cancel.is_cancelled()) {
            (Some(_), _) => StopReason::Blocked,
            (None, true) => StopReason::Cancelled,
            (None, false) => StopReason::Done,
        };
        end_client_turn(agent, &scope, started, stop, halted.unwrap_or_default()).await
    }

    /// Runs calls concurrently. If an observing hook with `on_failure = "block"` fails, the calls
    /// end and the reason is returned.
    async fn run_calls(
        &mut self,
        scope: &SharedTurnState,
        first: PendingClientRequest,
        started: Instant,
    ) -> Option<String> {
        let (changing, offered) = (Mutex::new(()), self.is_offered.clone());
        let one = |step, waiting| run_client_request(scope, &changing, &offered, step, waiting);
        let mut running = FuturesUnordered::new();
        let (mut n_calls, mut is_closed, mut halted) = (1, false, None);
        running.push(one(n_calls, first));
        while !running.is_empty() {
            let can_open =
                !is_closed && halted.is_none() && running.len() < MAX_CONCURRENT_CLIENT_CALLS;
            // An open question keeps the turn open, and calls of other clients may join it.
            // `MAX_CLIENT_CALLS_DURING_QUESTION` limits their number, because the limits of
            // plugins are counted per turn.
            let has_open_question =
                scope.clients.has_open_question() && n_calls < MAX_CLIENT_CALLS_DURING_QUESTION;
            let has_room = n_calls < MAX_CLIENT_CALLS_PER_TURN
                && started.elapsed() < MAX_TURN_AGE_FOR_NEW_CLIENT_CALLS;
            let is_open = can_open && (has_room || has_open_question);
            tokio::select! {
                biased;
                why = scope.family.halt.wait_for_reason(), if halted.is_none() => {
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
                () = scope.clients.wait_until_question_pending(), if can_open && !is_open && n_calls < MAX_CLIENT_CALLS_DURING_QUESTION => {}
                _ = running.next() => {}
            }
        }
        halted
    }
}

fn begin_client_turn(
    agent: &mut LiveAgent,
    client: &str,
    cancel: &CancellationToken,
) -> Result<Arc<SharedTurnState>, Error> {
    agent.dispatcher.reset_quarantine_at_turn_start();
    let session = agent.spec.session.clone();
    session.close_interrupted_turn()?;
    let scope = agent.create_shared_turn_state(cancel.child_token());
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

async fn end_client_turn(
    agent: &LiveAgent,
    scope: &SharedTurnState,
    started: Instant,
    stop: StopReason,
    output: String,
) -> Result<(), Error> {
    let cost = scope.budget.cost_so_far();
    let summary = TurnSummary {
        stop,
        steps: 0,
        tool_calls: scope.budget.n_tool_calls_made(),
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
    session.sync_on_blocking_thread().await?;
    agent.spec.events.emit(Event::TurnEnd {
        turn: scope.number,
        summary,
        output,
    });
    Ok(())
}

/// Runs one call or request, and sends the result to the client however the call ends.
async fn run_client_request(
    scope: &SharedTurnState,
    changing: &Mutex<()>,
    is_offered: &ClientToolFilter,
    step: u32,
    waiting: PendingClientRequest,
) {
    let PendingClientRequest { request, room } = waiting;
    let (call, reply) = match request {
        QueuedClientRequest::Call(call, reply) => (call, reply),
        QueuedClientRequest::Foreign(request, reply) => {
            scope.budget.count_tool_call();
            let mut verdict = judge_external_agent_request(scope, step, request).await;
            if let Some(why) = scope.family.halt.current_reason_text() {
                verdict = VerdictForExternalAgent::refused(format!("stopped: {why}"));
            }
            drop(room);
            let _ = reply.send(verdict);
            return;
        }
    };
    let token = scope.cancel.child_token();
    let caller = scope.caller_info_for_step(step);
    let approver = call.approver.as_deref();
    let checker = ToolCallChecker::for_client(scope, &caller, &call.client, approver, &token);
    let id = format!("client_{}", crate::clock::new_uuid_v7());
    let _entered = scope.clients.register_approver(&id, call.approver.clone());
    let wanted = ToolCall::new(id, call.tool, call.arguments);
    scope.budget.count_tool_call();
    let stopped = async {
        call.cancel.cancelled().await;
        token.cancel();
        std::future::pending::<ClientToolCallResult>().await
    };
    let mut result = tokio::select! {
        biased;
        result = check_and_run_call(checker, &token, changing, is_offered, wanted) => result,
        result = stopped => result,
    };
    // An observing hook with `on_failure = "block"` has failed, so no result leaves the host.
    if let Some(why) = scope.family.halt.current_reason_text() {
        result = ClientToolCallResult {
            content: format!("[stopped: {why}]").into(),
            is_error: true,
            ..ClientToolCallResult::default()
        };
    }
    drop(room);
    // Ignore a failed `send`: the client may no longer wait for the reply.
    let _ = reply.send(result);
}

/// Passes a call through policy, approval, run and `post-tool` hooks.
async fn check_and_run_call(
    checker: ToolCallChecker<'_>,
    token: &CancellationToken,
    changing: &Mutex<()>,
    is_offered: &ClientToolFilter,
    call: ToolCall,
) -> ClientToolCallResult {
    let scope = checker.scope;
    let tools = scope.skills.tools();
    let entry = tools.get(&call.name);
    let Some(entry) = entry.filter(|entry| is_offered(&entry.spec)).cloned() else {
        let why = format!("{UNKNOWN_TOOL_REFUSAL_PREFIX}{}`", call.name);
        let ran = checker.refuse_call(call, &why).await;
        return finish_client_requested_call(checker, ran).await;
    };
    let cancelled = call.create_result(CLIENT_CANCELLED_CALL_RESULT, true);
    let judged = tokio::select! {
        biased;
        () = token.cancelled() => return report_dropped_call(checker, &cancelled),
        judged = checker.authorize_tool_call(call) => judged,
    };
    let ran = match judged {
        Err(refused) => *refused,
        Ok(allowed) => {
            let alone = async {
                match can_tool_change_files(&entry) {
                    true => Some(changing.lock().await),
                    false => None,
                }
            };
            let alone = tokio::select! {
                biased;
                () = token.cancelled() => return report_dropped_call(checker, &cancelled),
                alone = alone => alone,
            };
            if let Err(error) = checker
                .record_call_starts(std::slice::from_ref(&allowed))
                .await
            {
                let why = format!(
                    "not run: the session cannot record the call: {}",
                    format_error_chain(&error)
                );
                return report_dropped_call(checker, &allowed.call.create_result(why, true));
            }
            let ran = checker.run_call(allowed).await;
            drop(alone);
            ran
        }
    };
    finish_client_requested_call(checker, ran).await
}

/// Whether a call may change files of the workspace. Such calls run one after another, so that each
/// change can be attributed to one call.
fn can_tool_change_files(entry: &RegisteredTool) -> bool {
    match entry.spec.effect_class {
        EffectClass::Read => false,
        EffectClass::Write => true,
        EffectClass::Execute | EffectClass::External => {
            entry.tool.file_change_tracking_method() != FileChangeTrackingMethod::Unneeded
        }
    }
}

/// Reports the end of a call that did not run. Calls no hooks, because there is no result that
/// could leak data.
fn report_dropped_call(checker: ToolCallChecker<'_>, result: &ToolResult) -> ClientToolCallResult {
    checker.report_call_end(result, 0, Some("client".to_owned()));
    ClientToolCallResult {
        content: result.content.clone(),
        is_error: true,
        ..ClientToolCallResult::default()
    }
}

/// Runs the `post-tool` hooks of a tool call, and returns the result for the client that made the
/// call.
async fn finish_client_requested_call(
    checker: ToolCallChecker<'_>,
    mut ran: UnreviewedToolCall,
) -> ClientToolCallResult {
    let finished = checker.finish_call_with_post_tool_hooks(&mut ran).await;
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
    ClientToolCallResult {
        bytes: read_blobs(checker.scope, &content).await,
        content,
        is_error,
        refused_by,
    }
}

/// Reads the bytes of the blobs in a result, in order; `None` for a blob that cannot be read.
async fn read_blobs(scope: &SharedTurnState, content: &Parts) -> Vec<Option<Vec<u8>>> {
    let ids: Vec<String> = content.blobs().map(|blob| blob.id.clone()).collect();
    if ids.is_empty() {
        return Vec::new();
    }
    let blobs = scope.family.root.blobs().clone();
    let read = move || ids.iter().map(|id| blobs.get(id).ok()).collect();
    tokio::task::spawn_blocking(read).await.unwrap_or_default()
}
