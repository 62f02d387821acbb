//! Judges tool calls, results and prompts of another agent, which sends them from its own hooks.
//!
//! The other agent asks about a call twice: before it runs, the call passes `pre-tool`, policy and
//! approval; afterwards its result passes `post-tool`. Both are recorded in the session file like a
//! call of a client. No tool runs in this host. This file must not know the formats of the agents.
//! Start from [`ExternalAgentRequest`].

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::call::{AllowedToolCall, ToolCallChecker, UnreviewedToolCall, UserToAskForApproval};
use super::scope::SharedTurnState;
use super::stop::hook_block_reason;
use crate::lock::lock_ignoring_poison;
use crate::message::{EffectClass, Parts, ToolCall, ToolResult, ToolSpec};
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::PluginAttributedText;
use crate::point::payload::{FinishedCall, Source, TurnInput};
use crate::session::Body;
use crate::text::format_error_chain;
use crate::tool::approval::{ApprovalAnswer, Approver, Question};
use crate::tool::registry::RegisteredTool;
use crate::tool::subject::Subject;
use crate::tool::{FileChangeTrackingMethod, SharedTool, Tool, ToolCtx, ToolOutput};

/// Refusal of a request of another agent on which no guard decided, because the session is closing.
const SESSION_CLOSING_REFUSAL: &str = "the guard ends";

/// Request of another agent to judge a call, a result or a prompt.
pub struct ExternalAgentRequest {
    /// Name of the agent, as in `guard:codex`. The session and the events show it as the author of
    /// the call. The names of plugins cannot contain a `:`.
    pub client: Arc<str>,
    /// Call, result or prompt that the other agent asks about.
    pub about: ExternalAgentRequestContent,
}

/// Call, result or prompt that another agent asks about.
pub enum ExternalAgentRequestContent {
    /// A tool call that is about to run. If this host has an equivalent tool, the call has the name
    /// and the arguments of that tool.
    Call {
        /// Call as the other agent is about to run it.
        call: ToolCall,
        /// Effect class of the called tool: read, write, execute or external.
        effect_class: EffectClass,
        /// Reason why the agent cannot ask its user for approval; `None` if it can.
        cannot_ask: Option<String>,
    },
    /// Tool call that the other agent has already run.
    Result {
        /// Call as the other agent ran it.
        call: ToolCall,
        /// Result of the call, which hooks may change.
        content: Parts,
        /// Whether the call failed in the other agent.
        is_error: bool,
    },
    /// Prompt that the user gave to the other agent.
    Prompt {
        /// Text of the user's prompt.
        text: String,
    },
}

/// Verdict on a request of another agent: refused, to be asked about, changed or unchanged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VerdictForExternalAgent {
    /// Reason for the refusal, with the name of the plugin or other part that refused; `None` if
    /// the request is allowed.
    pub refused: Option<String>,
    /// Question that the agent must ask its user before the call runs; `None` if none is required.
    pub asked: Option<String>,
    /// New value of what hooks changed; `None` if they changed nothing.
    pub changed: Option<HookChangedValue>,
    /// Texts of hooks for the model, each with the name of its plugin.
    pub notes: Vec<String>,
}

/// Replacement for the part of another agent's request that hooks changed.
#[derive(Clone, Debug, PartialEq)]
pub enum HookChangedValue {
    /// Changed arguments of a tool call that is about to run.
    Arguments(Value),
    /// Changed result of a tool call that has run.
    Content(Parts),
    /// Changed text of the user's prompt.
    Prompt(String),
}

impl VerdictForExternalAgent {
    /// Creates a verdict that refuses the request.
    #[must_use]
    pub fn refused(why: impl Into<String>) -> Self {
        Self {
            refused: Some(why.into()),
            ..Self::default()
        }
    }
}

impl ExternalAgentRequest {
    /// Returns the approximate size of the request in memory, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        match &self.about {
            ExternalAgentRequestContent::Call { call, .. } => call.arguments.to_string().len(),
            ExternalAgentRequestContent::Result { call, content, .. } => {
                call.arguments.to_string().len() + content.text().len()
            }
            ExternalAgentRequestContent::Prompt { text } => text.len(),
        }
    }
}

/// Judges a request of another agent within a turn of this host's session.
pub(super) async fn judge_external_agent_request(
    scope: &SharedTurnState,
    step: u32,
    request: ExternalAgentRequest,
) -> VerdictForExternalAgent {
    let ExternalAgentRequest { client, about } = request;
    let caller = scope.caller_info_for_step(step);
    let judged = async {
        match about {
            ExternalAgentRequestContent::Call {
                call,
                effect_class,
                cannot_ask,
            } => {
                let asker = QuestionRecordingApprover::default();
                let asked = match &cannot_ask {
                    Some(why) => UserToAskForApproval::Nobody(why),
                    None => UserToAskForApproval::Client(Some(&asker)),
                };
                let checker = ToolCallChecker::for_external_agent(scope, &caller, &client, asked);
                let mut verdict = judge_external_tool_call(checker, call, effect_class).await;
                verdict.asked = asker.take_question().filter(|_| verdict.refused.is_none());
                verdict
            }
            ExternalAgentRequestContent::Result {
                call,
                content,
                is_error,
            } => {
                let nobody = UserToAskForApproval::Client(None);
                let checker = ToolCallChecker::for_external_agent(scope, &caller, &client, nobody);
                run_post_tool_hooks_on_external_result(checker, call, content, is_error).await
            }
            ExternalAgentRequestContent::Prompt { text } => {
                judge_external_agent_prompt(scope, &caller, text).await
            }
        }
    };
    tokio::select! {
        biased;
        () = scope.cancel.cancelled() => VerdictForExternalAgent::refused(SESSION_CLOSING_REFUSAL),
        verdict = judged => verdict,
    }
}

/// Judges a tool call of another agent before that agent runs it.
async fn judge_external_tool_call(
    checker: ToolCallChecker<'_>,
    call: ToolCall,
    effect_class: EffectClass,
) -> VerdictForExternalAgent {
    let tools = checker.scope.skills.tools();
    let own = tools.get(&call.name);
    let own = own.filter(|own| own.spec.plugin.is_none());
    let entry =
        build_external_tool_entry(&call.name, effect_class, own.map(|own| own.tool.clone()));
    checker.emit_tool_call_event(&call).await;
    let (mut proposed, mut notes) = (call.clone(), Vec::new());
    let subject = match checker
        .check_registered_tool_call(&mut proposed, &entry, &mut notes)
        .await
    {
        Ok(subject) => subject,
        Err(refusal) => {
            let mut ran = refusal.into_refused_call(proposed, notes);
            // The refusal may quote the call, so it passes the hooks that mask secrets in results.
            let finished = checker.finish_call_with_post_tool_hooks(&mut ran).await;
            return VerdictForExternalAgent::refused(finished.value.result.content.to_string());
        }
    };
    let changed = (proposed.arguments != call.arguments)
        .then(|| HookChangedValue::Arguments(proposed.arguments.clone()));
    let told = notes.iter().map(format_hook_note).collect();
    let allowed = AllowedToolCall {
        is_changed: changed.is_some(),
        call: proposed,
        entry,
        subject,
        notes,
    };
    if let Err(error) = checker.record_call_start(&allowed) {
        let why = format!(
            "the call cannot be recorded in the session of the guard: {}",
            format_error_chain(&error)
        );
        return VerdictForExternalAgent::refused(why);
    }
    VerdictForExternalAgent {
        changed,
        notes: told,
        ..VerdictForExternalAgent::default()
    }
}

impl ToolCallChecker<'_> {
    /// Records that another agent is about to run a call. Does not wait for the disk: after a power
    /// failure, the other agent's own log is the record of its calls.
    fn record_call_start(&self, allowed: &AllowedToolCall) -> Result<(), crate::session::Error> {
        self.scope.spec.session.append(Body::ToolStart {
            call: allowed.call.id.clone(),
            name: allowed.call.name.clone(),
            effect_class: allowed.entry.spec.effect_class,
            arguments: Some(allowed.call.arguments.clone()),
            by: self.calling_party_name(),
        })?;
        Ok(())
    }
}

/// Calls the hooks of `post-tool` with the result of another agent's call, and returns their
/// verdict.
async fn run_post_tool_hooks_on_external_result(
    checker: ToolCallChecker<'_>,
    call: ToolCall,
    content: Parts,
    is_error: bool,
) -> VerdictForExternalAgent {
    let before = content.clone();
    let mut ran = UnreviewedToolCall {
        finished: Arc::new(FinishedCall {
            plugin: None,
            result: ToolResult {
                content,
                ..call.create_result(String::new(), is_error)
            },
            call,
            is_refused: false,
            duration_ms: 0,
        }),
        refused_by: None,
        notes: Vec::new(),
        file: None,
        is_changed: false,
        fault: None,
    };
    let finished = checker.finish_call_with_post_tool_hooks(&mut ran).await;
    let content = &finished.value.result.content;
    let changed = (*content != before).then(|| HookChangedValue::Content(content.clone()));
    let notes = finished.inject.iter();
    VerdictForExternalAgent {
        changed,
        notes: notes
            .map(|(plugin, injection)| format_injected_text(plugin, &injection.text))
            .collect(),
        ..VerdictForExternalAgent::default()
    }
}

/// Judges a prompt with the hooks of `turn-start`, then of `pre-assess`, as for a turn of this
/// host.
async fn judge_external_agent_prompt(
    scope: &SharedTurnState,
    caller: &Caller,
    text: String,
) -> VerdictForExternalAgent {
    let input = TurnInput {
        text: text.clone(),
        source: Source::Agent,
    };
    let emitter = &scope.emitter;
    let started = emitter.dispatch_hooks::<at::TurnStart>(caller, input).await;
    if let Some(said) = hook_block_reason(&started) {
        return VerdictForExternalAgent::refused(format_hook_refusal_text(said));
    }
    let taken = emitter
        .dispatch_hooks::<at::PreAssess>(caller, started.value)
        .await;
    if let Some(said) = hook_block_reason(&taken) {
        return VerdictForExternalAgent::refused(format_hook_refusal_text(said));
    }
    let changed =
        (taken.value.text != text).then(|| HookChangedValue::Prompt(taken.value.text.clone()));
    let notes = started.inject.iter().chain(&taken.inject);
    VerdictForExternalAgent {
        changed,
        notes: notes
            .map(|(plugin, injection)| format_injected_text(plugin, &injection.text))
            .collect(),
        ..VerdictForExternalAgent::default()
    }
}

fn format_hook_refusal_text(
    PluginAttributedText { plugin, text }: &PluginAttributedText,
) -> String {
    format!("refused by plugin {plugin}: {text}")
}

fn format_hook_note(PluginAttributedText { plugin, text }: &PluginAttributedText) -> String {
    format_injected_text(plugin, text)
}

fn format_injected_text(plugin: &str, text: &str) -> String {
    format!("[note from {plugin}: {text}]")
}

/// Approver that stores the question and approves the call, because the other agent then asks its
/// own user.
#[derive(Default)]
struct QuestionRecordingApprover(Mutex<Option<String>>);

impl QuestionRecordingApprover {
    fn take_question(&self) -> Option<String> {
        lock_ignoring_poison(&self.0).take()
    }
}

impl Approver for QuestionRecordingApprover {
    fn ask<'a>(&'a self, question: &'a Question) -> BoxFuture<'a, ApprovalAnswer> {
        let reasons = question.reasons.iter();
        let reasons: Vec<String> = reasons
            .map(|(plugin, reason)| format!("plugin {plugin} asks: {reason}"))
            .collect();
        let text = match reasons.is_empty() {
            true => "a rule of Rind asks about this call".to_owned(),
            false => reasons.join("; "),
        };
        *lock_ignoring_poison(&self.0) = Some(text);
        Box::pin(std::future::ready(ApprovalAnswer::Yes))
    }
}

/// A tool of another agent. The equivalent tool of this host, if there is one, determines the
/// subject (such as the path or the command) that the policy checks.
struct ExternallyRunTool {
    spec: ToolSpec,
    own: Option<SharedTool>,
}

impl Tool for ExternallyRunTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        FileChangeTrackingMethod::Unneeded
    }

    fn resolve_call_subject<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Subject> {
        match &self.own {
            Some(own) => own.resolve_call_subject(arguments),
            None => Box::pin(std::future::ready(Subject::Any)),
        }
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        let refused = ToolOutput::from_error_content("another agent runs this tool");
        Box::pin(std::future::ready(refused))
    }
}

fn build_external_tool_entry(
    name: &str,
    effect_class: EffectClass,
    own: Option<SharedTool>,
) -> RegisteredTool {
    let spec = ToolSpec::from_name_and_effect(name, effect_class);
    RegisteredTool {
        spec: Arc::new(spec.clone()),
        tool: Arc::new(ExternallyRunTool { spec, own }),
        check: Arc::new(|arguments: &Value| match arguments.is_object() {
            true => Ok(()),
            false => Err("the arguments are not a JSON object".to_owned()),
        }),
        may: Arc::default(),
    }
}
