//! Checks a tool call before it runs, and decides whether it may run. Calls of the model and of
//! plugins are checked in the same way.
//!
//! Every refusal is a result that the caller sees, with who refused the call and why. Running a
//! call and reporting its end are in `call_run`. Start from
//! [`ToolCallChecker::authorize_tool_call`].

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::scope::SharedTurnState;
use super::unasked::{
    format_external_agent_call_refusal, format_refusal_for_client_without_elicitation,
};
use crate::event::Event;
use crate::message::ToolCall;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::dispatch::{CombinedHookVerdict, PluginAttributedText};
use crate::point::payload::{FailureReport, FinishedCall, ProposedCall};
use crate::session::{AllowedPart, Body};
use crate::tool::ToolCtx;
use crate::tool::approval::{ApprovalAnswer, Approver, Question, SessionWideToolApproval};
use crate::tool::policy::{self, PolicyCall};
use crate::tool::registry::RegisteredTool;
use crate::tool::schema;
use crate::tool::subject::Subject;

/// Prefix of the refusal of a call whose tool does not exist or is not active in this step.
pub const UNKNOWN_TOOL_REFUSAL_PREFIX: &str = "there is no tool `";

/// Result of a call that was skipped because the user sent text before the call began.
const SKIPPED_CALL_RESULT: &str = "not run: the user said something before this call began. Read that first; make the call again if it is still \
                       wanted";

/// Reason for the refusal of a subagent's call that needs approval.
pub(super) const SUBAGENT_APPROVAL_REFUSAL_REASON: &str = "a subagent cannot ask for approval";

/// Tool call that passed the checks by hooks and policy and may run.
pub(super) struct AllowedToolCall {
    pub(super) call: ToolCall,
    pub(super) entry: RegisteredTool,
    pub(super) subject: Subject,
    pub(super) notes: Vec<PluginAttributedText>,
    /// Whether hooks changed the arguments that the model wrote.
    pub(super) is_changed: bool,
}

/// Call that ran or was refused, and that the hooks of `post-tool` have not seen yet.
pub(super) struct UnreviewedToolCall {
    /// The call and its result, in an `Arc`, so that hooks can read both without a copy.
    pub(super) finished: Arc<FinishedCall>,
    /// Author of the refusal: `host`, `policy`, `user`, `plugin NAME` or `skill NAME`; `None` if
    /// the call ran.
    pub(super) refused_by: Option<String>,
    pub(super) notes: Vec<PluginAttributedText>,
    /// Path of the file that the tool call read or changed.
    pub(super) file: Option<String>,
    /// Whether hooks changed the arguments that the model wrote.
    pub(super) is_changed: bool,
    /// Report that is passed to the hooks at the point `error`; `None` unless the tool itself
    /// failed.
    pub(super) fault: Option<FailureReport>,
}

impl UnreviewedToolCall {
    /// Returns the id of the tool call.
    pub(super) fn id(&self) -> &str {
        &self.finished.call.id
    }
}

/// Refusal of a call: the name of who refused it, and the text of the call's result.
pub(super) struct ToolCallRefusal {
    by: String,
    text: String,
    is_error: bool,
}

impl ToolCallRefusal {
    pub(super) fn new(by: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            by: by.into(),
            text: text.into(),
            is_error: true,
        }
    }

    /// Converts the refusal to a finished call with the refusal as its result.
    pub(super) fn into_refused_call(
        self,
        call: ToolCall,
        notes: Vec<PluginAttributedText>,
    ) -> UnreviewedToolCall {
        UnreviewedToolCall {
            finished: Arc::new(FinishedCall {
                plugin: None,
                result: call.create_result(self.text, self.is_error),
                call,
                is_refused: true,
                duration_ms: 0,
            }),
            refused_by: Some(self.by),
            notes,
            file: None,
            is_changed: false,
            fault: None,
        }
    }
}

impl AllowedToolCall {
    /// Converts the call to a skipped call, because the user sent text before the call began.
    pub(super) fn into_skipped_call(self) -> UnreviewedToolCall {
        ToolCallRefusal::new("user", SKIPPED_CALL_RESULT).into_refused_call(self.call, self.notes)
    }
}

/// User who is asked whether a tool call that needs approval may run.
#[derive(Clone, Copy)]
pub(super) enum UserToAskForApproval<'a> {
    /// The user of the session, who is asked through the session's approver.
    Session,
    /// The user of the client that makes the call; `None` if the client cannot ask its user.
    Client(Option<&'a dyn Approver>),
    /// No user. Contains the reason why no user can be asked.
    Nobody(&'a str),
}

/// Checks that every tool call must pass: schema, hooks, policy and approval. The fields describe
/// who makes the call and in which turn.
#[derive(Clone, Copy)]
pub(super) struct ToolCallChecker<'a> {
    pub(super) scope: &'a SharedTurnState,
    pub(super) caller: &'a Caller,
    /// Plugin, client or other agent that makes the call; `None` for the model.
    pub(super) maker: Option<&'a Arc<str>>,
    /// Token whose cancellation interrupts the call.
    cancel: &'a CancellationToken,
    asked: UserToAskForApproval<'a>,
}

impl<'a> ToolCallChecker<'a> {
    /// Creates the checker for calls of the model, in a step of its turn.
    pub(super) fn for_model_calls(scope: &'a SharedTurnState, caller: &'a Caller) -> Self {
        Self {
            scope,
            caller,
            maker: None,
            cancel: &scope.cancel,
            asked: UserToAskForApproval::Session,
        }
    }

    pub(super) fn for_plugin(
        scope: &'a SharedTurnState,
        caller: &'a Caller,
        plugin: &'a Arc<str>,
    ) -> Self {
        Self {
            maker: Some(plugin),
            ..Self::for_model_calls(scope, caller)
        }
    }

    /// Creates the checker for calls of a client outside of the session. `cancel` interrupts such a
    /// call. `approver` asks the user of the client, if the client can ask its user.
    pub(super) fn for_client(
        scope: &'a SharedTurnState,
        caller: &'a Caller,
        client: &'a Arc<str>,
        approver: Option<&'a dyn Approver>,
        cancel: &'a CancellationToken,
    ) -> Self {
        Self {
            maker: Some(client),
            cancel,
            asked: UserToAskForApproval::Client(approver),
            ..Self::for_model_calls(scope, caller)
        }
    }

    /// Creates the checker for calls of another agent, which runs the calls itself after they are
    /// checked.
    pub(super) fn for_external_agent(
        scope: &'a SharedTurnState,
        caller: &'a Caller,
        agent: &'a Arc<str>,
        asked: UserToAskForApproval<'a>,
    ) -> Self {
        Self {
            maker: Some(agent),
            asked,
            ..Self::for_model_calls(scope, caller)
        }
    }

    /// Returns the name of the plugin, client or other agent that makes the call; `None` for the
    /// model.
    pub(super) fn calling_party_name(self) -> Option<String> {
        self.maker.map(ToString::to_string)
    }

    /// Skips a call that has not been checked yet, because the user sent text.
    pub(super) async fn skip_call_after_user_text(&self, call: ToolCall) -> UnreviewedToolCall {
        self.emit_tool_call_event(&call).await;
        ToolCallRefusal::new("user", SKIPPED_CALL_RESULT).into_refused_call(call, Vec::new())
    }

    /// Refuses a call before it is checked by hooks and the policy. `why` is the text of the
    /// refusal.
    pub(super) async fn refuse_call(&self, call: ToolCall, why: &str) -> UnreviewedToolCall {
        self.emit_tool_call_event(&call).await;
        ToolCallRefusal::new("host", why).into_refused_call(call, Vec::new())
    }

    pub(super) fn plugin_of_tool(&self, call: &ToolCall) -> Option<String> {
        let tools = self.scope.skills.tools();
        let known = tools.get(&call.name);
        known.and_then(|entry| entry.spec.plugin.clone())
    }

    pub(super) async fn emit_tool_call_event(&self, call: &ToolCall) {
        self.scope.spec.events.emit(Event::ToolCall {
            call: self
                .scope
                .emitter
                .build_call_for_observers(self.caller, call)
                .await,
            plugin: self.plugin_of_tool(call),
            by: self.calling_party_name(),
            parent_id: self.caller.call.as_deref().map(str::to_owned),
        });
    }

    /// Checks a call and decides whether it may run. A refused call is returned as an error, in the
    /// form of a finished call with the refusal as its result.
    pub(super) async fn authorize_tool_call(
        &self,
        call: ToolCall,
    ) -> Result<AllowedToolCall, Box<UnreviewedToolCall>> {
        self.emit_tool_call_event(&call).await;
        let mut proposed = call.clone();
        let mut notes = Vec::new();
        match self
            .find_tool_and_check_call(&mut proposed, &mut notes)
            .await
        {
            Ok((entry, subject)) => {
                // The host removes null arguments, so remove them before the comparison: this is
                // not a change by a hook.
                let mut written = call.arguments;
                schema::remove_optional_nulls(&entry.spec.parameters, &mut written);
                Ok(AllowedToolCall {
                    is_changed: proposed.arguments != written,
                    call: proposed,
                    entry,
                    subject,
                    notes,
                })
            }
            Err(refusal) => Err(Box::new(refusal.into_refused_call(proposed, notes))),
        }
    }

    /// Checks a call in this order: known tool → schema → `pre-tool` → policy → approval. Hooks may
    /// change the arguments; the checks after the hooks use the changed arguments.
    async fn find_tool_and_check_call(
        &self,
        call: &mut ToolCall,
        notes: &mut Vec<PluginAttributedText>,
    ) -> Result<(RegisteredTool, Subject), ToolCallRefusal> {
        let active = self.scope.skills.callable_tool_names();
        let tools = self.scope.skills.tools();
        let known = tools.get(&call.name);
        if let Some(refusal) = known.and_then(|entry| self.refusal_because_of_skills(entry)) {
            return Err(refusal);
        }
        let entry = match known {
            Some(entry) if active.contains(&call.name) => entry.clone(),
            _ => {
                let text = format!(
                    "{UNKNOWN_TOOL_REFUSAL_PREFIX}{}` in this step; the tools are: {}",
                    call.name,
                    self.fully_described_tool_names(&active).join(", ")
                );
                return Err(ToolCallRefusal::new("host", text));
            }
        };
        let subject = self.check_registered_tool_call(call, &entry, notes).await?;
        Ok((entry, subject))
    }

    /// Checks a call of an existing tool. The first check is that of the schema.
    pub(super) async fn check_registered_tool_call(
        &self,
        call: &mut ToolCall,
        entry: &RegisteredTool,
        notes: &mut Vec<PluginAttributedText>,
    ) -> Result<Subject, ToolCallRefusal> {
        (entry.check)(&call.arguments).map_err(|why| ToolCallRefusal::new("host", why))?;
        let proposed = ProposedCall {
            call: call.clone(),
            effect_class: entry.spec.effect_class,
            plugin: entry.spec.plugin.clone(),
            check: entry.check.clone(),
        };
        let caller = self.caller.for_tool_call(&call.id);
        let judged = self
            .scope
            .emitter
            .dispatch_hooks::<at::PreTool>(&caller, proposed)
            .await;
        *call = judged.value.call;
        schema::remove_optional_nulls(&entry.spec.parameters, &mut call.arguments);
        *notes = judged.notes;
        let asked = match judged.verdict {
            CombinedHookVerdict::Pass => Vec::new(),
            CombinedHookVerdict::Ask(said) => said,
            CombinedHookVerdict::Block(PluginAttributedText { plugin, text }) => {
                return Err(ToolCallRefusal::new(
                    format!("plugin {plugin}"),
                    format!(
                        "refused by plugin {plugin}: {text}\nThe call was not run. Do not repeat it as it is."
                    ),
                ));
            }
        };
        let subject = entry.tool.resolve_call_subject(&call.arguments).await;
        self.apply_policy_and_ask_approval(call, entry, &subject, asked)
            .await?;
        Ok(subject)
    }

    /// Returns the names of the active tools that the request describes in full. Tools that the
    /// model must first search for (deferred tools) are left out, because a list of all tools would
    /// be long.
    fn fully_described_tool_names<'n>(&self, active: &'n [String]) -> Vec<&'n str> {
        let tools = self.scope.skills.tools();
        let is_deferred = |name: &String| {
            let entry = tools.get(name);
            entry.is_some_and(|entry| self.scope.spec.is_tool_deferred(&entry.spec))
        };
        let described = active.iter().filter(|name| !is_deferred(name));
        described.map(String::as_str).collect()
    }

    /// Returns the refusal of a tool that an active skill forbids, or that is reserved for skills
    /// that are not active.
    pub(super) fn refusal_because_of_skills(
        &self,
        entry: &RegisteredTool,
    ) -> Option<ToolCallRefusal> {
        if let Some((skill, why)) = self.scope.skills.find_forbidding_skill(&entry.spec) {
            return Some(ToolCallRefusal::new(format!("skill {skill}"), why));
        }
        let why = self
            .scope
            .skills
            .reason_tool_is_unavailable_without_skill(&entry.spec)?;
        Some(ToolCallRefusal::new(
            "host",
            format!("the tool {why}; invoke one of these skills first"),
        ))
    }

    /// Returns the text of a verdict for observers. The text may quote the arguments. If hooks of
    /// `output-delta` change the arguments for observers, they are called for the text as well.
    async fn call_verdict_text_for_observers(&self, call: &ToolCall, text: String) -> String {
        let emitter = &self.scope.emitter;
        let shown = emitter.build_call_for_observers(self.caller, call).await;
        if shown.arguments == call.arguments {
            return text;
        }
        emitter.text_for_observers(self.caller, text).await
    }

    /// Applies the policy to a call. Then asks for approval if the policy or a hook requires it.
    async fn apply_policy_and_ask_approval(
        &self,
        call: &ToolCall,
        entry: &RegisteredTool,
        subject: &Subject,
        asked: Vec<PluginAttributedText>,
    ) -> Result<(), ToolCallRefusal> {
        let judged = PolicyCall {
            spec: &entry.spec,
            arguments: &call.arguments,
            subject,
            may: &entry.may,
            is_asked: !asked.is_empty(),
        };
        let decision = self.scope.spec.policy.decide(&judged);
        // A skill can make approval unnecessary only if the model makes the call and neither a hook
        // nor a rule of the policy requires approval.
        let is_spared = || {
            asked.is_empty()
                && self.maker.is_none()
                && self
                    .scope
                    .skills
                    .exempts_from_approval(&entry.spec, subject)
                && self.scope.spec.policy.can_skill_approve_call(&judged)
        };
        match decision.verdict {
            policy::ToolVerdict::Allow => return Ok(()),
            policy::ToolVerdict::Ask | policy::ToolVerdict::Deny(_) if is_spared() => return Ok(()),
            policy::ToolVerdict::Deny(_)
                if self.scope.spec.depth > 0
                    && self
                        .scope
                        .spec
                        .policy
                        .is_needed_approval_unavailable(&judged) =>
            {
                return Err(self
                    .refuse_unapproved_call(call, entry, subject, SUBAGENT_APPROVAL_REFUSAL_REASON)
                    .await);
            }
            policy::ToolVerdict::Deny(why) => {
                let why = self.call_verdict_text_for_observers(call, why).await;
                return Err(ToolCallRefusal::new(
                    "policy",
                    format!("refused by policy: {why}"),
                ));
            }
            // The result of a dry run is not an error, because the caller shall continue as if the
            // call had run, and shall say what it would do next.
            policy::ToolVerdict::DryRun(text) => {
                return Err(ToolCallRefusal {
                    by: "policy".to_owned(),
                    text: self.call_verdict_text_for_observers(call, text).await,
                    is_error: false,
                });
            }
            policy::ToolVerdict::Ask => {}
        }
        self.ask_call_approval(call, entry, &judged, &asked, &decision.rule)
            .await
    }

    /// Asks the user whether a tool call that needs approval may run.
    async fn ask_call_approval(
        &self,
        call: &ToolCall,
        entry: &RegisteredTool,
        judged: &PolicyCall<'_>,
        asked: &[PluginAttributedText],
        rule: &str,
    ) -> Result<(), ToolCallRefusal> {
        let subject = judged.subject;
        let mut question = Question::new(&entry.spec, &call.arguments, subject, asked)
            .with_call_id(&call.id)
            .with_plugin_permissions(&entry.may);
        if let Some(maker) = self.maker {
            question = question.with_plugin_caller(maker);
        }
        if !self.scope.spec.policy.allows_session_approval(judged) {
            question = question.without_always_answer("asks every time: a rule may deny it");
        }
        // Do not ask the user about a call that the tool would refuse anyway.
        let ctx = self.create_tool_context(call);
        if let Some(why) = entry
            .tool
            .predict_refusal_reason(&call.arguments, &ctx)
            .await
        {
            return Err(ToolCallRefusal::new("host", why));
        }
        let is_covered = self.scope.approvals.is_call_approved(&question);
        if !is_covered {
            question = question
                .with_call_target_description(
                    entry.tool.describe_call_target(&call.arguments).await,
                )
                .with_file_change(entry.tool.preview_file_change(&call.arguments).await);
        }
        // Pause the deadline of a calling plugin while the user decides.
        let answer = match self.asked {
            UserToAskForApproval::Session => {
                let approver = &*self.scope.spec.approver;
                let answer = wait_with_paused_deadline(
                    self.scope
                        .approvals
                        .ask_unless_approved(approver, &question),
                )
                .await;
                if answer == ApprovalAnswer::Always
                    && !is_covered
                    && let Ok(covers) = &question.covers
                {
                    self.scope.family.root.append_or_defer_error(Body::Allowed {
                        tool: question.tool.clone(),
                        covers: covers.clone(),
                        parts: match self.scope.spec.config.keeps_approvals {
                            true => approvals_to_stored_form(
                                self.scope
                                    .approvals
                                    .keyed_approvals_if_answered_always(&question),
                            ),
                            false => Vec::new(),
                        },
                    });
                }
                answer
            }
            // Each client has its own user, so questions of several clients may be open at once.
            UserToAskForApproval::Client(Some(approver)) => {
                let _asking = self.scope.clients.register_open_client_question();
                wait_with_paused_deadline(approver.ask(&question)).await
            }
            UserToAskForApproval::Client(None) => {
                let text =
                    format_refusal_for_client_without_elicitation(entry, subject, asked, rule);
                let text = self.call_verdict_text_for_observers(call, text).await;
                return Err(ToolCallRefusal::new("policy", text));
            }
            UserToAskForApproval::Nobody(why) => {
                let text = format_external_agent_call_refusal(entry, asked, rule, why);
                let text = self.call_verdict_text_for_observers(call, text).await;
                return Err(ToolCallRefusal::new("policy", text));
            }
        };
        match answer {
            ApprovalAnswer::Yes | ApprovalAnswer::Always => Ok(()),
            // No user gave this answer: the approver of a subagent refuses every call.
            ApprovalAnswer::No(why) if self.scope.spec.depth > 0 => Err(self
                .refuse_unapproved_call(call, entry, subject, &why)
                .await),
            ApprovalAnswer::No(why) => {
                let why = if why.is_empty() { "no".to_owned() } else { why };
                let text = format!("refused by the user: {why}\nThe call was not run.");
                Err(ToolCallRefusal::new("user", text))
            }
        }
    }

    /// Refuses a call that needs approval, because the agent cannot ask a user. Records the
    /// refusal, so that the agent's parent learns of it.
    async fn refuse_unapproved_call(
        &self,
        call: &ToolCall,
        entry: &RegisteredTool,
        subject: &Subject,
        why: &str,
    ) -> ToolCallRefusal {
        let line = policy::suggest_allow_rule_line(&entry.spec, subject);
        let shown = format!("`{}` (the operator can allow it with {line})", call.name);
        let shown = self.call_verdict_text_for_observers(call, shown).await;
        self.scope.progress.record_blocked_call(&shown);
        let text = format!(
            "blocked: {why}, and this call needs one; the operator can allow it in the configuration with `{line}`. The call was \
             not run. Do not try it in another way; say in your answer that you are blocked by it"
        );
        ToolCallRefusal::new("policy", text)
    }

    /// Returns the context in which a tool runs. Only calls of the model get the list of results
    /// that the model already knows: a plugin always gets the full result instead of a reference to
    /// an earlier result.
    pub(super) fn create_tool_context(&self, call: &ToolCall) -> ToolCtx {
        let known = self.maker.is_none().then(|| self.scope.spec.known.clone());
        if let Some(known) = &known {
            known.forget_lines_outside_conversation(|call| {
                self.scope.spec.session.has_call_result(call)
            });
        }
        ToolCtx {
            caller: self.caller.for_tool_call(&call.id),
            cancel: self.cancel.clone(),
            readable: self.scope.skills.readable_folders(),
            known,
            recorder: None,
            live: Some(self.scope.spec.live.clone()),
            background: Some(self.scope.spec.background.clone()),
        }
    }
}

/// Converts the approvals that a user gave to the form of a session entry.
fn approvals_to_stored_form(allowed: Vec<(String, SessionWideToolApproval)>) -> Vec<AllowedPart> {
    let parts = allowed.into_iter().map(|(key, approved)| AllowedPart {
        key,
        covers: approved.covers,
        plugin: approved.plugin,
        by: approved.by,
    });
    parts.collect()
}
