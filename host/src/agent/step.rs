//! Runs one step: a request to the model, its answer, and the tool calls of the answer.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::deferred::extract_deferred_tool_call;
use super::reply::{
    IncompleteReplyKind, ReplyStepResult, StoredModelReply, find_incomplete_reply_kind,
    normalize_model_message, remove_excess_calls, skipped_call_result_text,
};
use super::request::{ModelRequestSender, NoModelAnswerReason, apply_hook_request_changes};
use super::stop::{
    EarlyTurnEndReason, blocked_answer_placeholder, fail_if_hook_blocked, hook_block_reason,
    hook_refusal_error,
};
use super::stream::{StreamingAnswer, emit_retry};
use super::subagent::preset::SubagentPreset;
use super::turn::RunningTurn;
use crate::event::Event;
use crate::message::{Content, Message, Origin, Role, ToolCall, Usage};
use crate::point::catalog as at;
use crate::point::outcome::{Injection, Level};
use crate::point::payload::Purpose;
use crate::prompt;
use crate::provider::{Finish, JsonAnswerFormat, Request, Response, StreamEvent};
use crate::session::Body;

/// Outcome of a model request in a step.
enum ModelRequestOutcome {
    Answered(Box<Response>),
    /// The request exceeds the model's context window; contains the server's message.
    TooLong(String),
    /// The server rejected the request, but its error showed how to correct it, so sending it again
    /// may succeed; contains the server's message.
    Mended(String),
}

/// Options of one request; the built-in order or a plugin's loop sets them.
#[derive(Default)]
pub(super) struct StepModelRequestOptions {
    /// Model for the request; `None` selects the model of the turn.
    pub(super) model: Option<String>,
    /// Preset that selects the tools of this and the following requests until another one is set.
    pub(super) preset: Option<Arc<SubagentPreset>>,
    /// Plugin and text of a message that only this request contains.
    pub(super) note: Option<(Arc<str>, String)>,
    /// Plugin that requests an answer outside the conversation; `None` for a request in the
    /// conversation.
    pub(super) aside: Option<Arc<str>>,
}

/// An answer of the model after the hooks of `post-reason` have checked and changed it.
pub(super) struct HookReviewedReply {
    reply: StoredModelReply,
    message: Message,
    /// Text as the model wrote it, before the hooks changed it.
    written: String,
    finish: Finish,
    /// Names of the tools that the request offered, and the preset that selected them, for an
    /// answer outside the conversation; `None` for an answer in the conversation.
    offered: Option<(Vec<String>, Option<Arc<SubagentPreset>>)>,
}

impl HookReviewedReply {
    /// Returns the answer in the form in which it would be added to the conversation.
    pub(super) fn reply(&self) -> &StoredModelReply {
        &self.reply
    }
}

/// Model that answered a request and the tokens that the request used.
pub(super) struct StepModelUsage {
    pub(super) model: String,
    pub(super) usage: Usage,
}

impl RunningTurn<'_> {
    /// Requests an answer of the model and adds it to the conversation. The tool calls in the
    /// answer have no results until [`run_pending_tool_calls`](Self::run_pending_tool_calls).
    pub(super) async fn request_answer(
        &mut self,
        order: &StepModelRequestOptions,
    ) -> Result<StepModelUsage, EarlyTurnEndReason> {
        if let Some(note) = self.reached_limit_note() {
            return Err(self.end_turn_with_note(&note).await);
        }
        if let Some(draft) = self.ready_answer.take() {
            self.record_step(ReplyStepResult::final_answer_step(draft));
            return Ok(StepModelUsage {
                model: self.ctx.scope.skills.turn_model(),
                usage: Usage::default(),
            });
        }
        self.begin_step();
        self.take_queued_steering_texts().await?;
        let scope = self.ctx.scope.clone();
        self.agent.apply_plugin_replacements(Some(&scope));
        self.agent.archive_summarized_turns(&scope).await;
        let (model, response) = self.build_and_send_request(order).await?;
        let usage = response.usage;
        let reviewed = self.run_post_reason_hooks(response, order).await?;
        self.add_reply_to_conversation(reviewed).await?;
        Ok(StepModelUsage { model, usage })
    }

    /// Requests an answer outside the conversation: it is not shown and its calls do not run,
    /// unless [`add_reply_to_conversation`](Self::add_reply_to_conversation) adds it to the
    /// conversation.
    pub(super) async fn request_answer_candidate(
        &mut self,
        order: &StepModelRequestOptions,
    ) -> Result<(StepModelUsage, HookReviewedReply), EarlyTurnEndReason> {
        if let Some(note) = self.reached_limit_note() {
            return Err(self.end_turn_with_note(&note).await);
        }
        self.begin_step();
        let answered = match self.build_and_send_request(order).await {
            Ok((model, response)) => {
                let usage = response.usage;
                let reviewed = self.run_post_reason_hooks(response, order).await;
                reviewed.map(|reviewed| (StepModelUsage { model, usage }, reviewed))
            }
            Err(stop) => Err(stop),
        };
        self.report_step_end(0, true);
        answered
    }

    fn begin_step(&mut self) {
        self.ctx.step += 1;
        self.is_in_step = true;
        self.ctx.scope.progress.record_step(self.ctx.step);
        self.ctx.emit_event(Event::StepStart {
            step: self.ctx.step,
        });
    }

    fn report_step_end(&mut self, tool_calls: u32, goes_on: bool) {
        if std::mem::take(&mut self.is_in_step) {
            self.ctx.emit_event(Event::StepEnd {
                step: self.ctx.step,
                tool_calls,
                goes_on,
            });
        }
    }

    /// Builds and sends the request of a step. Returns the name of the model that was requested,
    /// and the answer of that model.
    async fn build_and_send_request(
        &mut self,
        order: &StepModelRequestOptions,
    ) -> Result<(String, Response), EarlyTurnEndReason> {
        // Create the note here, so that its event is emitted only once, even if the request is sent
        // again.
        let note = match &order.note {
            Some((plugin, text)) => {
                let note = Injection {
                    text: text.clone(),
                    keep: false,
                };
                Some(self.ctx.add_injected_message(plugin, note).await?)
            }
            None => None,
        };
        let request = self.build_request(order, note.as_ref()).await?;
        let response = match self.send_model_request(&request, order).await? {
            ModelRequestOutcome::Answered(response) => *response,
            ModelRequestOutcome::TooLong(why) | ModelRequestOutcome::Mended(why) => {
                let planned = self.choose_step_model(order);
                self.agent
                    .compaction
                    .record_refused_size(&planned, &request);
                if self.is_side_request_to_other_model(order) {
                    return Err(EarlyTurnEndReason::Provider(why));
                }
                self.resend_after_compaction(why, order, note.as_ref())
                    .await?
            }
        };
        Ok((request.model, response))
    }

    /// Returns the model for which a request is built. Hooks may still choose another one.
    fn choose_step_model(&self, order: &StepModelRequestOptions) -> String {
        let named = order.model.clone();
        named.unwrap_or_else(|| self.ctx.scope.skills.turn_model())
    }

    /// Whether a request is outside the conversation and for a model other than the turn's. The
    /// conversation is not compacted for such a request, whose model may have a smaller context
    /// window.
    fn is_side_request_to_other_model(&self, order: &StepModelRequestOptions) -> bool {
        order.aside.is_some() && self.choose_step_model(order) != self.ctx.scope.skills.turn_model()
    }

    /// Runs those tool calls of the last answer that did not run yet, and ends the step of that
    /// answer.
    pub(super) async fn run_pending_tool_calls(&mut self) -> Result<(), EarlyTurnEndReason> {
        let Some(mut reply) = self.open.take() else {
            return Ok(());
        };
        let calls = std::mem::take(&mut reply.calls);
        let n_calls = u32::try_from(calls.len()).unwrap_or(u32::MAX);
        let (steering, reflected) = (&self.agent.steering, &mut self.reflected);
        let cut = reply.cut.as_deref();
        let ran = self
            .calls
            .run_calls(&self.ctx, steering, reflected, calls, cut);
        let injected = ran.await?;
        reply.inject.extend(injected);
        self.end_step(reply, n_calls).await
    }

    /// Ends the step in which the model gave this answer, after its tool calls have got their
    /// results.
    async fn end_step(
        &mut self,
        reply: StoredModelReply,
        n_calls: u32,
    ) -> Result<(), EarlyTurnEndReason> {
        if let Some(text) = reply.left_out {
            self.ctx.emit_notice(Level::Warn, text.clone());
            let message = Message::text(Role::User, text);
            self.ctx
                .append_and_emit_message(message.from(Origin::Reflection))
                .await?;
        }
        let goes_on = n_calls > 0
            || !reply.inject.is_empty()
            || reply.shortfall == Some(IncompleteReplyKind::CutText);
        // Inject texts after the results: no message may come between a call and its result.
        self.ctx.inject_texts(reply.inject).await?;
        self.report_step_end(n_calls, goes_on);
        self.record_step(ReplyStepResult {
            draft: reply.draft,
            goes_on,
            shortfall: reply.shortfall,
        });
        Ok(())
    }

    fn record_step(&mut self, step: ReplyStepResult) {
        let is_continued = self.answer.record_step_result(step);
        self.progress.end_answer(is_continued);
    }

    /// Returns the messages of a request. Compacts the conversation first if that is due.
    async fn build_request_messages(
        &mut self,
        order: &StepModelRequestOptions,
        note: Option<&Message>,
    ) -> Result<Vec<Message>, EarlyTurnEndReason> {
        let model = self.choose_step_model(order);
        let is_for_another = self.is_side_request_to_other_model(order);
        let compaction = &mut self.agent.compaction;
        let mut messages = match is_for_another {
            true => compaction.uncompacted_messages(&self.ctx, &model).await,
            false => {
                let compacted =
                    compaction.compact_conversation_if_needed(&self.ctx, &model, &self.system);
                compacted.await?
            }
        };
        match order.aside {
            Some(_) => messages.extend(self.ctx.passing.iter().cloned()),
            None => messages.append(&mut self.ctx.passing),
        }
        messages.extend(note.cloned());
        Ok(messages)
    }

    /// Builds a request: compacts the conversation if that is due, then calls the hooks of
    /// `context` and `pre-reason`.
    async fn build_request(
        &mut self,
        order: &StepModelRequestOptions,
        note: Option<&Message>,
    ) -> Result<Request, EarlyTurnEndReason> {
        let presets = &self.ctx.scope.skills.presets;
        presets.set_step_preset(order.preset.clone());
        let messages = self.build_request_messages(order, note).await?;
        let messages = self
            .ctx
            .dispatch_hooks_or_end_turn::<at::Context>("conversation", messages)
            .await?;
        let planned = self.choose_step_model(order);
        let mut request = Request {
            model: planned.clone(),
            system: self.system.clone(),
            messages: Arc::unwrap_or_clone(messages),
            tools: Vec::new(),
            temperature: self.agent.spec.temperature,
            max_tokens: self.agent.spec.max_tokens,
            output: self.answers.schema().map(|schema| JsonAnswerFormat {
                schema: schema.schema().clone(),
                is_repeating: self.answers.should_model_repeat_answer(),
            }),
        };
        let tools = self.ctx.scope.skills.permitted_tool_names();
        let proposed = ModelRequestSender::new(&self.ctx.scope).model_request_for_hooks(
            Purpose::Step,
            &request,
            tools,
        );
        let reasoned = self
            .ctx
            .dispatch_hooks_of_point::<at::PreReason>(proposed)
            .await;
        fail_if_hook_blocked("request", hook_block_reason(&reasoned))?;
        let wanted = reasoned.value;
        for (plugin, mut injection) in reasoned.inject {
            // A message that is injected into a request outside the conversation must not enter the
            // conversation.
            injection.keep &= order.aside.is_none();
            let message = self.ctx.add_injected_message(&plugin, injection).await?;
            request.messages.push(message);
        }
        let specs = self.agent.spec.tools.specs();
        let left = self.ctx.scope.skills.permitted_tool_names();
        let is_wanted = |name: &String| wanted.tools.contains(name) && left.contains(name);
        let (mut names, mut deferred) = (Vec::new(), Vec::new());
        for spec in specs.into_iter().filter(|spec| is_wanted(&spec.name)) {
            if self.agent.spec.is_tool_deferred(&spec) {
                deferred.push(spec.name.clone());
            } else {
                names.push(spec.name.clone());
                request.tools.push((*spec).clone());
            }
        }
        // Deferred tools count as offered: the model can find them by search and call them.
        names.append(&mut deferred);
        self.ctx.scope.skills.set_step_tool_names(names);
        apply_hook_request_changes(&mut request, wanted);
        let compaction = &self.agent.compaction;
        compaction.fit_request_to_window(&self.ctx, &planned, &mut request);
        Ok(request)
    }

    /// Compacts the conversation after the server rejected a request as too long, and then sends a
    /// shorter request once.
    async fn resend_after_compaction(
        &mut self,
        why: String,
        order: &StepModelRequestOptions,
        note: Option<&Message>,
    ) -> Result<Response, EarlyTurnEndReason> {
        self.ctx.emit_notice(
            Level::Warn,
            "the request is longer than the model's context window: the conversation is made shorter and sent again",
        );
        let request = self.build_request(order, note).await?;
        match self.send_model_request(&request, order).await? {
            ModelRequestOutcome::Answered(response) => Ok(*response),
            ModelRequestOutcome::TooLong(_) | ModelRequestOutcome::Mended(_) => {
                Err(EarlyTurnEndReason::Provider(why))
            }
        }
    }

    /// Sends the request and shows the answer while it streams. If the server rejects the request
    /// with an error that shows how to correct it, sends it once more.
    async fn send_model_request(
        &mut self,
        request: &Request,
        order: &StepModelRequestOptions,
    ) -> Result<ModelRequestOutcome, EarlyTurnEndReason> {
        match self.send_model_request_once(request, order).await? {
            ModelRequestOutcome::Mended(why) => {
                emit_retry(
                    &self.ctx.scope.spec.events,
                    StreamEvent::new_correction_retry(why),
                );
                match self.send_model_request_once(request, order).await? {
                    ModelRequestOutcome::Mended(why) => Err(EarlyTurnEndReason::Provider(why)),
                    asked => Ok(asked),
                }
            }
            asked => Ok(asked),
        }
    }

    async fn send_model_request_once(
        &mut self,
        request: &Request,
        order: &StepModelRequestOptions,
    ) -> Result<ModelRequestOutcome, EarlyTurnEndReason> {
        let caller = self.ctx.caller();
        let (scope, number, step) = (self.ctx.scope.clone(), self.ctx.scope.number, self.ctx.step);
        let tools = prompt::hash_tool_specs(&request.tools);
        let tool_names = request.tools.iter().map(|tool| tool.name.clone()).collect();
        let kept = |request: &Request, response: &Response| Body::Step {
            turn: number,
            step,
            model: request.model.clone(),
            usage: response.usage,
            cost_usd: response.cost_usd,
            latency_ms: response.latency_ms,
            tools,
            tool_names,
            aside: order.aside.as_deref().map(str::to_owned),
        };
        let gate = ModelRequestSender::new(&scope);
        let answer = match &order.aside {
            Some(plugin) => {
                let answer = gate.send_request(
                    &Purpose::Step,
                    Some(plugin),
                    &caller,
                    request,
                    |body, heard| gate.send_request_without_showing(body, heard),
                    kept,
                );
                answer.await
            }
            None => {
                let mut live = StreamingAnswer::new(
                    &scope.emitter,
                    &scope.cancel,
                    &caller,
                    &mut self.progress,
                );
                let writing = &mut live;
                let answer = gate.send_request(
                    &Purpose::Step,
                    None,
                    &caller,
                    request,
                    |body, heard| {
                        Box::pin(async move { writing.stream_answer(body, heard).await })
                            as BoxFuture<'_, _>
                    },
                    kept,
                );
                let answer = answer.await;
                if let Some(said) = live.into_hook_block_reason() {
                    return Err(EarlyTurnEndReason::Blocked(blocked_answer_placeholder(
                        &said,
                    )));
                }
                answer
            }
        };
        let response = match answer {
            Ok(response) => response,
            Err(NoModelAnswerReason::TooLong(why)) => return Ok(ModelRequestOutcome::TooLong(why)),
            Err(NoModelAnswerReason::Mended(why)) => return Ok(ModelRequestOutcome::Mended(why)),
            Err(NoModelAnswerReason::Blocked(said)) => {
                return Err(hook_refusal_error("request", &said));
            }
            Err(NoModelAnswerReason::Spent(why)) => {
                return Err(EarlyTurnEndReason::Blocked(format!("[stopped: {why}]")));
            }
            Err(NoModelAnswerReason::Cancelled) => return Err(EarlyTurnEndReason::Cancelled),
            Err(NoModelAnswerReason::Provider(why)) => {
                return Err(EarlyTurnEndReason::Provider(why));
            }
            Err(NoModelAnswerReason::Session(error)) => return Err(error.into()),
        };
        // Correct the estimate of tokens only by usage that the provider reported, not by another
        // estimate.
        let usage = response.usage;
        let reported = if usage.estimated {
            0
        } else {
            usage.input_tokens
        };
        let planned = self.choose_step_model(order);
        let compaction = &mut self.agent.compaction;
        compaction.record_reported_usage(&planned, request, reported);
        Ok(ModelRequestOutcome::Answered(Box::new(response)))
    }

    /// Calls the hooks of `post-reason` with the model's answer. Ends the turn if a hook blocks the
    /// answer.
    async fn run_post_reason_hooks(
        &mut self,
        mut response: Response,
        order: &StepModelRequestOptions,
    ) -> Result<HookReviewedReply, EarlyTurnEndReason> {
        let most = self.agent.spec.config.max_calls;
        let left_out = remove_excess_calls(&mut response.message, most);
        let written = response.message.joined_text();
        let shortfall = find_incomplete_reply_kind(&response, &written);
        let reviewed = self
            .ctx
            .dispatch_hooks_of_point::<at::PostReason>(response.message)
            .await;
        let refusal = fail_if_hook_blocked("answer", hook_block_reason(&reviewed));
        let mut message = reviewed.value;
        if let Err(EarlyTurnEndReason::Blocked(text)) = &refusal {
            // Remove the tool calls of a blocked answer too, because none of them may run.
            message.content = vec![Content::from_text(text.clone())];
            message.extra = None;
        }
        if message.joined_text() != written {
            // Remove the opaque data in `extra`, which belongs to the original text and may repeat
            // it.
            message.extra = None;
        }
        let session = &self.agent.spec.session;
        session.inspect_all_messages(|earlier| normalize_model_message(&mut message, earlier));
        let reply = StoredModelReply {
            draft: message.joined_text(),
            calls: message
                .tool_calls()
                .map(|call| ToolCall::new(&call.id, &call.name, call.arguments.clone()))
                .map(extract_deferred_tool_call)
                .collect(),
            left_out,
            cut: skipped_call_result_text(response.finish, response.usage.output_tokens),
            shortfall,
            inject: reviewed.inject,
        };
        if let Err(stop) = refusal {
            if order.aside.is_none() {
                self.append_reply_to_session(&reply, message, &written)
                    .await?;
            }
            return Err(stop);
        }
        let offered = || {
            let names = self.ctx.scope.skills.callable_tool_names().to_vec();
            (names, order.preset.clone())
        };
        Ok(HookReviewedReply {
            reply,
            message,
            written,
            finish: response.finish,
            offered: order.aside.is_some().then(offered),
        })
    }

    /// Adds an answer of the model to the conversation. If the answer has no tool calls, also ends
    /// the step.
    pub(super) async fn add_reply_to_conversation(
        &mut self,
        reviewed: HookReviewedReply,
    ) -> Result<(), EarlyTurnEndReason> {
        let HookReviewedReply {
            reply,
            message,
            written,
            finish,
            offered,
        } = reviewed;
        if let Some((tools, preset)) = offered {
            // The loop accepts an answer that it requested earlier: restore the tools that were
            // offered for that answer, and show its text, which was not shown yet.
            self.ctx.scope.skills.presets.set_step_preset(preset);
            self.ctx.scope.skills.set_step_tool_names(tools);
            self.progress.begin_answer();
        }
        self.append_reply_to_session(&reply, message, &written)
            .await?;
        match finish {
            Finish::Refused => {
                let text = "[the provider held the answer back]".to_owned();
                return Err(EarlyTurnEndReason::Blocked(text));
            }
            Finish::MaxTokens => self.ctx.emit_notice(
                Level::Warn,
                "the answer reached the token limit of the model and is cut",
            ),
            Finish::Done | Finish::ToolCalls | Finish::Paused => {}
        }
        if reply.calls.is_empty() {
            return self.end_step(reply, 0).await;
        }
        self.open = Some(reply);
        Ok(())
    }

    async fn append_reply_to_session(
        &mut self,
        reply: &StoredModelReply,
        message: Message,
        written: &str,
    ) -> Result<(), EarlyTurnEndReason> {
        self.progress.partial.clear();
        // Store no message without content, because providers reject such messages.
        if !message.content.is_empty() {
            let fresh = self.progress.text_of_current_step();
            let is_shown = !fresh.is_empty() && reply.draft == written;
            let shown = is_shown.then(|| fresh.to_owned());
            if let Err(stop) = self.ctx.append_answer(&message) {
                self.unkept = Some(reply.draft.clone());
                return Err(stop);
            }
            self.ctx
                .emit_message_with_checked_text(message, shown)
                .await;
        }
        Ok(())
    }
}
