//! The tool calls of a step: in which order they are judged and run, and what the model is told of them.
//!
//! Neighboring calls that only read run side by side, a few at a time; their results keep the order of the calls. Calls that have
//! not begun when the person says something are skipped, each with a result that says so. An answer makes only so many calls: a
//! model that repeats itself could otherwise keep the machine busy long after it was stopped.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt;

use super::call::{Allowed, RanCall, ToolGate};
use super::skill::active::TOOL;
use super::stop::Stop;
use super::turn::Turn;
use crate::message::{Content, EffectClass, Message, Role, ToolCall};
use crate::point::dispatch::Dispatched;
use crate::point::outcome::Injection;
use crate::point::payload::{FinishedCall, UsedTool};

/// Takes the calls out of an answer that are more than `most`. What the model is told of them, if there are any.
pub(super) fn leave_out(message: &mut Message, most: usize) -> Option<String> {
    let n_calls = message.tool_calls().count();
    if n_calls <= most {
        return None;
    }
    let mut n_seen = 0;
    message.content.retain(|part| {
        n_seen += usize::from(matches!(part, Content::ToolCall(_)));
        n_seen <= most || !matches!(part, Content::ToolCall(_))
    });
    let n_more = n_calls - most;
    Some(format!(
        "[{n_more} of the {n_calls} tool calls of your answer were left out and not run: an answer makes at most {most} \
         (agent.max_calls)]"
    ))
}

impl Turn<'_> {
    /// Runs the calls of one answer. Returns what plugins want to say after the results. With `cut`, the answer was cut: no
    /// call runs, and each has that text for a result.
    pub(super) async fn run_calls(
        &mut self,
        calls: Vec<ToolCall>,
        cut: Option<&str>,
    ) -> Result<Vec<(Arc<str>, Injection)>, Stop> {
        let mut inject = Vec::new();
        for group in self.groups(calls) {
            let mut allowed = Vec::new();
            for call in &group {
                allowed.extend(self.judge(call.clone(), cut).await);
                self.scope.budget.count_call();
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
                let finished_call = Arc::unwrap_or_clone(finished.value);
                let result = Content::ToolResult(finished_call.result);
                let message = Message::new(Role::Tool, vec![result]);
                let message = self.scope.skills.parts.put_into(message, &call.id);
                self.keep(&message)?;
                // It is in the session now. There was no await since, so an interrupted turn neither loses the result nor
                // has it twice.
                self.lock_ran().retain(|r| r.call.id != call.id);
                self.emit_message(message).await;
                inject.extend(finished.inject);
            }
        }
        Ok(inject)
    }

    /// Neighboring calls that only read, together; every other call alone.
    fn groups(&self, calls: Vec<ToolCall>) -> Vec<Vec<ToolCall>> {
        let is_read = |call: &ToolCall| {
            let entry = self.agent.spec.tools.get(&call.name);
            // What stands beside the invocation of a skill is judged when that is active.
            entry.is_some_and(|entry| entry.spec.effect_class == EffectClass::Read)
                && call.name != TOOL
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

    /// Judges a call; one that is refused or skipped is put with those that ran.
    async fn judge(&self, call: ToolCall, cut: Option<&str>) -> Option<Allowed> {
        let caller = self.caller();
        let gate = ToolGate::for_model(&self.scope, &caller);
        if let Some(why) = cut {
            let refused = gate.refuse(call, why).await;
            self.lock_ran().push(refused);
            return None;
        }
        if self.agent.steering.has_steering() {
            let skipped = gate.skip(call).await;
            self.lock_ran().push(skipped);
            return None;
        }
        match gate.judge(call).await {
            Ok(allowed) => Some(allowed),
            Err(refused) => {
                self.lock_ran().push(*refused);
                None
            }
        }
    }

    /// Runs calls side by side. What comes of them is put with the calls that ran, as soon as it is there.
    async fn run_allowed(&mut self, allowed: Vec<Allowed>) -> Result<(), Stop> {
        if allowed.is_empty() {
            return Ok(());
        }
        let caller = self.caller();
        let gate = ToolGate::for_model(&self.scope, &caller);
        gate.keep_starts(&allowed).await?;
        self.is_running_tools.store(true, Ordering::Release);
        let this = &*self;
        let runs = allowed.into_iter().map(|allowed| async move {
            // It waited for its turn, or for the answer to a question about a call beside it.
            let ran = if this.agent.steering.has_steering() {
                allowed.skipped()
            } else {
                gate.run(allowed).await
            };
            this.lock_ran().push(ran);
        });
        let at_once = this.agent.spec.config.max_parallel_calls.max(1);
        let runs = futures_util::stream::iter(runs);
        runs.buffer_unordered(at_once).collect::<Vec<()>>().await;
        self.is_running_tools.store(false, Ordering::Release);
        if self.cancel.is_cancelled() {
            return Err(Stop::Cancelled);
        }
        Ok(())
    }

    /// `post-tool`, and what reflection is to know.
    pub(super) async fn finish_call(&mut self, ran: RanCall) -> Dispatched<Arc<FinishedCall>> {
        let caller = self.caller();
        let gate = ToolGate::for_model(&self.scope, &caller);
        let finished = gate.finish(ran).await;
        let result = &finished.value.result;
        self.used.push(UsedTool {
            name: result.name.clone(),
            is_error: result.is_error,
        });
        if self.agent.spec.config.reflect.enabled {
            self.reflected.show(&finished.value);
        }
        finished
    }
}
