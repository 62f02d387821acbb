//! Judges tool calls, results and prompts of another agent, which sends them from its own hooks.
//!
//! The other agent asks about a call twice: before it runs, the call passes `pre-tool`, policy and
//! approval; afterwards its result passes `post-tool`. Both are recorded in the session file like a
//! call of a client. No tool runs in this host. This file must not know the formats of the agents.
//! Start from [`ForeignRequest`].

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::call::{AllowedCall, PersonToAsk, ToolCallGate, UnreviewedCall};
use super::scope::TurnScope;
use super::stop::blocking_hook_text;
use crate::lock::lock;
use crate::message::{EffectClass, Parts, ToolCall, ToolResult, ToolSpec};
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::AttributedText;
use crate::point::payload::{FinishedCall, Source, TurnInput};
use crate::session::Body;
use crate::text::format_error_chain;
use crate::tool::approval::{ApprovalAnswer, Approver, Question};
use crate::tool::registry::ToolEntry;
use crate::tool::subject::Subject;
use crate::tool::{FileTrackingMethod, SharedTool, Tool, ToolCtx, ToolOutput};

/// Refusal of a request of another agent on which no guard decided, because the session is closing.
const ENDED: &str = "the guard ends";

/// Request of another agent to judge a call, a result or a prompt.
pub struct ForeignRequest {
    /// Name of the agent, as in `guard:codex`. The session and the events show it as the author of
    /// the call. The names of plugins cannot contain a `:`.
    pub client: Arc<str>,
    /// Call, result or prompt that the agent asks about.
    pub about: ExternalAgentAction,
}

/// Call, result or prompt that another agent asks about.
pub enum ExternalAgentAction {
    /// A tool call that is about to run. If this host has an equivalent tool, the call has the name
    /// and the arguments of that tool.
    Call {
        /// Call as the other agent is about to run it.
        call: ToolCall,
        /// Effect class of the tool.
        effect_class: EffectClass,
        /// Reason why the agent cannot ask its user for approval; `None` if it can.
        cannot_ask: Option<String>,
    },
    /// A tool call that has run.
    Result {
        /// Call that has run.
        call: ToolCall,
        /// Result of the call.
        content: Parts,
        /// Whether the call failed.
        is_error: bool,
    },
    /// A prompt of the user.
    Prompt {
        /// Text of the prompt.
        text: String,
    },
}

/// Verdict on a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExternalAgentVerdict {
    /// Reason for the refusal, with the name of the plugin or other part that refused; `None` if
    /// the request is allowed.
    pub refused: Option<String>,
    /// Question that the agent must ask its user before the call runs; `None` if none is required.
    pub asked: Option<String>,
    /// New value of what hooks changed; `None` if they changed nothing.
    pub changed: Option<ExternalAgentChange>,
    /// Texts of hooks for the model, each with the name of its plugin.
    pub notes: Vec<String>,
}

/// New value after a change by hooks.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternalAgentChange {
    /// Arguments of a call.
    Arguments(Value),
    /// Result of a call.
    Content(Parts),
    /// Text of a prompt.
    Prompt(String),
}

impl ExternalAgentVerdict {
    /// Creates a verdict that refuses the request.
    #[must_use]
    pub fn refused(why: impl Into<String>) -> Self {
        Self {
            refused: Some(why.into()),
            ..Self::default()
        }
    }
}

impl ForeignRequest {
    /// Returns the approximate size of the request in memory, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        match &self.about {
            ExternalAgentAction::Call { call, .. } => call.arguments.to_string().len(),
            ExternalAgentAction::Result { call, content, .. } => {
                call.arguments.to_string().len() + content.text().len()
            }
            ExternalAgentAction::Prompt { text } => text.len(),
        }
    }
}

/// Judges a request within a turn.
pub(super) async fn judge_request(
    scope: &TurnScope,
    step: u32,
    request: ForeignRequest,
) -> ExternalAgentVerdict {
    let ForeignRequest { client, about } = request;
    let caller = scope.turn_caller(step);
    let judged = async {
        match about {
            ExternalAgentAction::Call {
                call,
                effect_class,
                cannot_ask,
            } => {
                let asker = QuestionRecordingApprover::default();
                let asked = match &cannot_ask {
                    Some(why) => PersonToAsk::Nobody(why),
                    None => PersonToAsk::Client(Some(&asker)),
                };
                let gate = ToolCallGate::for_agent(scope, &caller, &client, asked);
                let mut verdict = judge_call(gate, call, effect_class).await;
                verdict.asked = asker.take_question().filter(|_| verdict.refused.is_none());
                verdict
            }
            ExternalAgentAction::Result {
                call,
                content,
                is_error,
            } => {
                let nobody = PersonToAsk::Client(None);
                let gate = ToolCallGate::for_agent(scope, &caller, &client, nobody);
                judge_result(gate, call, content, is_error).await
            }
            ExternalAgentAction::Prompt { text } => judge_prompt(scope, &caller, text).await,
        }
    };
    tokio::select! {
        biased;
        () = scope.cancel.cancelled() => ExternalAgentVerdict::refused(ENDED),
        verdict = judged => verdict,
    }
}

/// Judges a call before it runs.
async fn judge_call(
    gate: ToolCallGate<'_>,
    call: ToolCall,
    effect_class: EffectClass,
) -> ExternalAgentVerdict {
    let tools = gate.scope.skills.tools();
    let own = tools.get(&call.name);
    let own = own.filter(|own| own.spec.plugin.is_none());
    let entry =
        build_external_tool_entry(&call.name, effect_class, own.map(|own| own.tool.clone()));
    gate.emit_call(&call).await;
    let (mut proposed, mut notes) = (call.clone(), Vec::new());
    let subject = match gate
        .check_known_tool_call(&mut proposed, &entry, &mut notes)
        .await
    {
        Ok(subject) => subject,
        Err(refusal) => {
            let mut ran = refusal.into_refused_call(proposed, notes);
            // The refusal may quote the call, so it passes the hooks that mask secrets in results.
            let finished = gate.finish_call(&mut ran).await;
            return ExternalAgentVerdict::refused(finished.value.result.content.to_string());
        }
    };
    let changed = (proposed.arguments != call.arguments)
        .then(|| ExternalAgentChange::Arguments(proposed.arguments.clone()));
    let told = notes.iter().map(hook_note_text).collect();
    let allowed = AllowedCall {
        is_changed: changed.is_some(),
        call: proposed,
        entry,
        subject,
        notes,
    };
    if let Err(error) = gate.record_call_start(&allowed) {
        let why = format!(
            "the call cannot be recorded in the session of the guard: {}",
            format_error_chain(&error)
        );
        return ExternalAgentVerdict::refused(why);
    }
    ExternalAgentVerdict {
        changed,
        notes: told,
        ..ExternalAgentVerdict::default()
    }
}

impl ToolCallGate<'_> {
    /// Records that another agent is about to run a call. Does not wait for the disk: after a power
    /// failure, the other agent's own log is the record of its calls.
    fn record_call_start(&self, allowed: &AllowedCall) -> Result<(), crate::session::Error> {
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
async fn judge_result(
    gate: ToolCallGate<'_>,
    call: ToolCall,
    content: Parts,
    is_error: bool,
) -> ExternalAgentVerdict {
    let before = content.clone();
    let mut ran = UnreviewedCall {
        finished: Arc::new(FinishedCall {
            plugin: None,
            result: ToolResult {
                content,
                ..call.result(String::new(), is_error)
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
    let finished = gate.finish_call(&mut ran).await;
    let content = &finished.value.result.content;
    let changed = (*content != before).then(|| ExternalAgentChange::Content(content.clone()));
    let notes = finished.inject.iter();
    ExternalAgentVerdict {
        changed,
        notes: notes
            .map(|(plugin, injection)| format_injected_text(plugin, &injection.text))
            .collect(),
        ..ExternalAgentVerdict::default()
    }
}

/// Judges a prompt with the hooks of `turn-start`, then of `pre-assess`, as for a turn of this
/// host.
async fn judge_prompt(scope: &TurnScope, caller: &Caller, text: String) -> ExternalAgentVerdict {
    let input = TurnInput {
        text: text.clone(),
        source: Source::Agent,
    };
    let emitter = &scope.emitter;
    let started = emitter.dispatch_hooks::<at::TurnStart>(caller, input).await;
    if let Some(said) = blocking_hook_text(&started) {
        return ExternalAgentVerdict::refused(refusal_text(said));
    }
    let taken = emitter
        .dispatch_hooks::<at::PreAssess>(caller, started.value)
        .await;
    if let Some(said) = blocking_hook_text(&taken) {
        return ExternalAgentVerdict::refused(refusal_text(said));
    }
    let changed =
        (taken.value.text != text).then(|| ExternalAgentChange::Prompt(taken.value.text.clone()));
    let notes = started.inject.iter().chain(&taken.inject);
    ExternalAgentVerdict {
        changed,
        notes: notes
            .map(|(plugin, injection)| format_injected_text(plugin, &injection.text))
            .collect(),
        ..ExternalAgentVerdict::default()
    }
}

fn refusal_text(AttributedText { plugin, text }: &AttributedText) -> String {
    format!("refused by plugin {plugin}: {text}")
}

fn hook_note_text(AttributedText { plugin, text }: &AttributedText) -> String {
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
        lock(&self.0).take()
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
        *lock(&self.0) = Some(text);
        Box::pin(std::future::ready(ApprovalAnswer::Yes))
    }
}

/// A tool of another agent. The equivalent tool of this host, if there is one, determines the
/// subject (such as the path or the command) that the policy checks.
struct ExternalAgentTool {
    spec: ToolSpec,
    own: Option<SharedTool>,
}

impl Tool for ExternalAgentTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn file_tracking(&self) -> FileTrackingMethod {
        FileTrackingMethod::Unneeded
    }

    fn subject<'a>(&'a self, arguments: &'a Value) -> BoxFuture<'a, Subject> {
        match &self.own {
            Some(own) => own.subject(arguments),
            None => Box::pin(std::future::ready(Subject::Any)),
        }
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        let refused = ToolOutput::error("another agent runs this tool");
        Box::pin(std::future::ready(refused))
    }
}

fn build_external_tool_entry(
    name: &str,
    effect_class: EffectClass,
    own: Option<SharedTool>,
) -> ToolEntry {
    let spec = ToolSpec::bare_spec(name, effect_class);
    ToolEntry {
        spec: Arc::new(spec.clone()),
        tool: Arc::new(ExternalAgentTool { spec, own }),
        check: Arc::new(|arguments: &Value| match arguments.is_object() {
            true => Ok(()),
            false => Err("the arguments are no object".to_owned()),
        }),
        may: Arc::default(),
    }
}
