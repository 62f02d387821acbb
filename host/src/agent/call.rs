//! The tool calls of a step: judged one after another, run, and told to the model.
//!
//! Every refusal is a result that the model sees, with who refused and why. Neighboring calls that only read run side by
//! side; their results keep the order of the calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use super::tell::blocked;
use super::turn::{Stop, Turn};
use crate::event::Event;
use crate::message::{Content, EffectClass, Message, Role, ToolCall, ToolResult};
use crate::point::catalog as at;
use crate::point::dispatch::{Dispatched, Said, Verdict};
use crate::point::outcome::Injection;
use crate::point::payload::{FinishedCall, ProposedCall, UsedTool};
use crate::session::Body;
use crate::tool::ToolCtx;
use crate::tool::approval::{Answer, Question};
use crate::tool::policy;
use crate::tool::registry::ToolEntry;
use crate::tool::run::run_call;

/// A call that may run.
struct Allowed {
    call: ToolCall,
    entry: ToolEntry,
    notes: Vec<Said>,
}

/// A call that ran or was refused, before `post-tool`.
#[derive(Clone)]
pub(super) struct RanCall {
    call: ToolCall,
    result: ToolResult,
    duration_ms: u64,
    refused_by: Option<String>,
    notes: Vec<Said>,
}

/// Why a call does not run.
struct Refusal {
    by: String,
    text: String,
    is_error: bool,
}

impl Refusal {
    fn new(by: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            by: by.into(),
            text: text.into(),
            is_error: true,
        }
    }
}

impl Turn<'_> {
    /// Runs the calls of one answer. Returns what plugins want to say after the results.
    pub(super) async fn run_calls(
        &mut self,
        calls: Vec<ToolCall>,
        active: &[String],
    ) -> Result<Vec<(Arc<str>, Injection)>, Stop> {
        let mut inject = Vec::new();
        for group in self.groups(calls) {
            let mut allowed = Vec::new();
            for call in &group {
                allowed.extend(self.judge(call.clone(), active).await);
                self.n_calls += 1;
            }
            self.run_allowed(allowed).await?;
            for call in &group {
                let ran = self
                    .lock_ran()
                    .iter()
                    .find(|r| r.call.id == call.id)
                    .cloned();
                let Some(ran) = ran else { continue };
                let finished = self.finish_call(ran).await;
                let result = Content::ToolResult(finished.value.result);
                let message = Message::new(Role::Tool, vec![result]);
                self.keep(&message)?;
                // It is in the session now. There was no await since, so an interrupted turn neither loses the result nor
                // has it twice.
                self.lock_ran().retain(|r| r.call.id != call.id);
                self.tell(message).await;
                inject.extend(finished.inject);
            }
        }
        Ok(inject)
    }

    /// Neighboring calls that only read, together; every other call alone.
    fn groups(&self, calls: Vec<ToolCall>) -> Vec<Vec<ToolCall>> {
        let is_read = |call: &ToolCall| {
            let entry = self.agent.spec.tools.get(&call.name);
            entry.is_some_and(|entry| entry.spec.effect_class == EffectClass::Read)
        };
        let mut groups: Vec<Vec<ToolCall>> = Vec::new();
        let mut is_open = false;
        for call in calls {
            let joins = is_read(&call);
            match groups.last_mut() {
                Some(group) if is_open && joins => group.push(call),
                _ => groups.push(vec![call]),
            }
            is_open = joins;
        }
        groups
    }

    /// Judges a call; one that is refused is put with those that ran.
    async fn judge(&self, call: ToolCall, active: &[String]) -> Option<Allowed> {
        let mut proposed = call;
        let mut notes = Vec::new();
        match self.check(&mut proposed, &mut notes, active).await {
            Ok(entry) => Some(Allowed {
                call: proposed,
                entry,
                notes,
            }),
            Err(refusal) => {
                let result = ToolResult {
                    call_id: proposed.id.clone(),
                    name: proposed.name.clone(),
                    content: refusal.text,
                    is_error: refusal.is_error,
                };
                self.lock_ran().push(RanCall {
                    call: proposed,
                    result,
                    duration_ms: 0,
                    refused_by: Some(refusal.by),
                    notes,
                });
                None
            }
        }
    }

    /// Known → schema → `pre-tool` → policy → approval. Hooks may change the arguments; everything after them sees the
    /// final ones.
    async fn check(
        &self,
        call: &mut ToolCall,
        notes: &mut Vec<Said>,
        active: &[String],
    ) -> Result<ToolEntry, Refusal> {
        let spec = &self.agent.spec;
        let entry = match spec.tools.get(&call.name) {
            Some(entry) if active.contains(&call.name) => entry.clone(),
            _ => {
                let text = format!(
                    "there is no tool `{}` in this step; the tools are: {}",
                    call.name,
                    active.join(", ")
                );
                return Err(Refusal::new("host", text));
            }
        };
        (entry.check)(&call.arguments).map_err(|why| Refusal::new("host", why))?;

        let judged = self
            .dispatch::<at::PreTool>(ProposedCall {
                call: call.clone(),
                effect_class: entry.spec.effect_class,
                plugin: entry.spec.plugin.clone(),
                check: entry.check.clone(),
            })
            .await;
        *call = judged.value.call;
        *notes = judged.notes;
        let asked = match judged.verdict {
            Verdict::Pass => Vec::new(),
            Verdict::Ask(said) => said,
            Verdict::Block(Said { plugin, text }) => {
                return Err(Refusal::new(
                    format!("plugin {plugin}"),
                    format!(
                        "refused by plugin {plugin}: {text}\nThe call was not run. Do not repeat it as it is."
                    ),
                ));
            }
        };
        self.approve(call, &entry, asked).await?;
        Ok(entry)
    }

    /// Policy, then approval where the policy or a hook asks for it.
    async fn approve(
        &self,
        call: &ToolCall,
        entry: &ToolEntry,
        asked: Vec<Said>,
    ) -> Result<(), Refusal> {
        let spec = &self.agent.spec;
        let is_asked = !asked.is_empty();
        let decision = spec.policy.decide(&entry.spec, &call.arguments, is_asked);
        match decision.verdict {
            policy::Verdict::Allow => return Ok(()),
            policy::Verdict::Deny(why) => {
                return Err(Refusal::new("policy", format!("refused by policy: {why}")));
            }
            // Not an error: the model is to go on as if, and say what it would do next.
            policy::Verdict::DryRun(text) => {
                return Err(Refusal {
                    by: "policy".to_owned(),
                    text,
                    is_error: false,
                });
            }
            policy::Verdict::Ask => {}
        }
        let question =
            Question::new(&entry.spec, &call.arguments, &asked).with_caution(entry.tool.caution());
        let approvals = &self.agent.approvals;
        match approvals.ask(&*spec.approver, &question).await {
            Answer::Yes | Answer::Always => Ok(()),
            Answer::No(why) => {
                let why = if why.is_empty() { "no".to_owned() } else { why };
                let text = format!("refused by the user: {why}\nThe call was not run.");
                Err(Refusal::new("user", text))
            }
        }
    }

    /// Runs calls side by side, each within its deadline. What comes of them is put with the calls that ran, as soon as
    /// it is there.
    async fn run_allowed(&mut self, allowed: Vec<Allowed>) -> Result<(), Stop> {
        if allowed.is_empty() {
            return Ok(());
        }
        let session = &self.agent.spec.session;
        for Allowed { call, entry, .. } in &allowed {
            session.append(Body::ToolStart {
                call: call.id.clone(),
                name: call.name.clone(),
                effect_class: entry.spec.effect_class,
            })?;
        }
        // A crash must not hide that a tool may have run.
        session.sync()?;
        self.is_running_tools.store(true, Ordering::Release);
        join_all(allowed.into_iter().map(|call| self.run_one(call))).await;
        self.is_running_tools.store(false, Ordering::Release);
        if self.cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        Ok(())
    }

    async fn run_one(&self, allowed: Allowed) {
        let Allowed { call, entry, notes } = allowed;
        self.emit(Event::ToolStart {
            call: call.clone(),
            effect_class: entry.spec.effect_class,
            plugin: entry.spec.plugin.clone(),
        });
        let ctx = ToolCtx {
            caller: self.caller(),
            cancel: self.cancel.clone(),
        };
        let config = &self.agent.spec.config;
        let (output, duration) = run_call(
            &*entry.tool,
            call.arguments.clone(),
            &ctx,
            config.tool_timeout(),
            config.tool_output_bytes,
        )
        .await;
        let result = ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            content: output.content,
            is_error: output.is_error,
        };
        self.lock_ran().push(RanCall {
            call,
            result,
            duration_ms: u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
            refused_by: None,
            notes,
        });
    }

    /// `post-tool`, the notes of `pre-tool` hooks beneath the result, and word to everybody.
    pub(super) async fn finish_call(&mut self, ran: RanCall) -> Dispatched<FinishedCall> {
        let mut finished = self
            .dispatch::<at::PostTool>(FinishedCall {
                call: ran.call,
                result: ran.result,
                duration_ms: ran.duration_ms,
            })
            .await;
        if let Some(Said { plugin, text }) = blocked(&finished).cloned() {
            // A hook that had to see the result could not: the model does not get it either.
            let result = &mut finished.value.result;
            result.content = format!("[the result was withheld by plugin {plugin}: {text}]");
            result.is_error = true;
        }
        let result = &mut finished.value.result;
        for Said { plugin, text } in ran.notes {
            result
                .content
                .push_str(&format!("\n[note from {plugin}: {text}]"));
        }
        self.used.push(UsedTool {
            name: result.name.clone(),
            is_error: result.is_error,
        });
        // The result itself must not wait for this to work.
        self.agent.spec.session.append_or_defer(Body::ToolEnd {
            call: result.call_id.clone(),
            duration_ms: ran.duration_ms,
            refused_by: ran.refused_by.clone(),
        });
        self.agent.spec.events.emit(Event::ToolEnd {
            result: result.clone(),
            duration_ms: ran.duration_ms,
            refused_by: ran.refused_by,
        });
        finished
    }
}
