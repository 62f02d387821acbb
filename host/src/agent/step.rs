//! One step: a request to the model, its answer, and the tool calls that the answer makes.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::deferred::named_call;
use super::reply::{
    ReplyShortfall, ReplyStep, SeenReply, cut_result, find_shortfall, leave_out, mend_message,
};
use super::request::{ModelGate, NoAnswer, apply_wanted};
use super::stop::{EarlyStop, blocked_by, held_back, refusal_stop, refuse_turn};
use super::stream::{LiveAnswer, tell_retry};
use super::turn::TurnRun;
use crate::event::Event;
use crate::message::{Content, Message, Origin, Role, ToolCall};
use crate::point::catalog as at;
use crate::point::outcome::Level;
use crate::point::payload::Purpose;
use crate::prompt;
use crate::provider::{Finish, OutputFormat, Request, Response, StreamEvent};
use crate::session::Body;

/// Outcome of a request.
enum AskOutcome {
    Answered(Box<Response>),
    /// Refused because it exceeds the model's window; holds the message of the server.
    TooLong(String),
    /// Refused, but a correction was found: sending it again may succeed. Holds the message of the
    /// server.
    Mended(String),
}

impl TurnRun<'_> {
    pub(super) async fn take_step(&mut self) -> Result<ReplyStep, EarlyStop> {
        self.ctx.step += 1;
        self.ctx.scope.progress.note_step(self.ctx.step);
        self.ctx.emit_event(Event::StepStart {
            step: self.ctx.step,
        });
        self.take_steering().await?;
        let scope = self.ctx.scope.clone();
        self.agent.take_replacements(Some(&scope));
        self.agent.join_archived(&scope).await;
        let request = self.build_request().await?;
        let response = match self.ask_model(&request).await? {
            AskOutcome::Answered(response) => *response,
            AskOutcome::TooLong(why) | AskOutcome::Mended(why) => {
                self.ask_shorter(&request, why).await?
            }
        };
        let reply = self.take_reply(response).await?;
        let mut inject = reply.inject;
        let n_calls = u32::try_from(reply.calls.len()).unwrap_or(u32::MAX);
        let has_calls = n_calls > 0;
        if has_calls {
            let cut = reply.cut.as_deref();
            let (steering, reflected) = (&self.agent.steering, &mut self.reflected);
            let ran = self
                .calls
                .run_calls(&self.ctx, steering, reflected, reply.calls, cut);
            inject.extend(ran.await?);
        }
        if let Some(text) = reply.left_out {
            self.ctx.emit_notice(Level::Warn, text.clone());
            let message = Message::text(Role::User, text);
            self.ctx.push(message.from(Origin::Reflection)).await?;
        }
        let goes_on =
            has_calls || !inject.is_empty() || reply.shortfall == Some(ReplyShortfall::CutText);
        // After the results: nothing may stand between a call and its result.
        self.ctx.inject_texts(inject).await?;
        self.ctx.emit_event(Event::StepEnd {
            step: self.ctx.step,
            tool_calls: n_calls,
            goes_on,
        });
        Ok(ReplyStep {
            draft: reply.draft,
            goes_on,
            shortfall: reply.shortfall,
        })
    }

    /// Compaction when it is due, `context`, then `pre-reason`.
    async fn build_request(&mut self) -> Result<Request, EarlyStop> {
        let mut messages = self
            .agent
            .compaction
            .compact_messages(&self.ctx, &self.system)
            .await?;
        messages.append(&mut self.ctx.passing);
        let messages = self
            .ctx
            .pass_point::<at::Context>("conversation", messages)
            .await?;
        let mut request = Request {
            model: self.ctx.scope.skills.model(),
            system: self.system.clone(),
            messages: Arc::unwrap_or_clone(messages),
            tools: Vec::new(),
            temperature: self.agent.spec.temperature,
            max_tokens: self.agent.spec.max_tokens,
            output: self.answers.schema().map(|schema| OutputFormat {
                schema: schema.schema().clone(),
                is_repeating: self.answers.is_repeating(),
            }),
        };
        let tools = self.ctx.scope.skills.tool_names();
        let proposed =
            ModelGate::new(&self.ctx.scope).propose_request(Purpose::Step, &request, tools);
        let reasoned = self.ctx.dispatch_point::<at::PreReason>(proposed).await;
        refuse_turn("request", blocked_by(&reasoned))?;
        let wanted = reasoned.value;
        for (plugin, injection) in reasoned.inject {
            let message = self.ctx.inject_one(&plugin, injection).await?;
            request.messages.push(message);
        }
        let specs = self.agent.spec.tools.specs();
        let left = self.ctx.scope.skills.tool_names();
        let is_wanted = |name: &String| wanted.tools.contains(name) && left.contains(name);
        let (mut names, mut deferred) = (Vec::new(), Vec::new());
        for spec in specs.into_iter().filter(|spec| is_wanted(&spec.name)) {
            if self.agent.spec.is_deferred(&spec) {
                deferred.push(spec.name.clone());
            } else {
                names.push(spec.name.clone());
                request.tools.push((*spec).clone());
            }
        }
        // The model may call every tool that it can find.
        names.append(&mut deferred);
        self.ctx.scope.skills.set_active(names);
        apply_wanted(&mut request, wanted);
        self.agent.compaction.fit_request(&self.ctx, &mut request);
        Ok(request)
    }

    /// Compacts the conversation after a server refused a request that exceeds the model's window,
    /// and sends it once more.
    async fn ask_shorter(&mut self, refused: &Request, why: String) -> Result<Response, EarlyStop> {
        self.agent.compaction.refuse_size(refused);
        self.ctx.emit_notice(
            Level::Warn,
            "the request is longer than the model's window: the conversation is made shorter and sent again",
        );
        let request = self.build_request().await?;
        match self.ask_model(&request).await? {
            AskOutcome::Answered(response) => Ok(*response),
            AskOutcome::TooLong(_) | AskOutcome::Mended(_) => Err(EarlyStop::Provider(why)),
        }
    }

    /// Sends the request and shows the answer while it streams. If the server refuses it and a
    /// correction is found, sends it once more.
    async fn ask_model(&mut self, request: &Request) -> Result<AskOutcome, EarlyStop> {
        match self.ask_once(request).await? {
            AskOutcome::Mended(why) => {
                tell_retry(&self.ctx.scope.spec.events, StreamEvent::mended(why));
                match self.ask_once(request).await? {
                    AskOutcome::Mended(why) => Err(EarlyStop::Provider(why)),
                    asked => Ok(asked),
                }
            }
            asked => Ok(asked),
        }
    }

    async fn ask_once(&mut self, request: &Request) -> Result<AskOutcome, EarlyStop> {
        let caller = self.ctx.caller();
        let (scope, number, step) = (self.ctx.scope.clone(), self.ctx.scope.number, self.ctx.step);
        let mut live = LiveAnswer::new(&scope.emitter, &scope.cancel, &caller, &mut self.progress);
        let tools = prompt::tools_hash(&request.tools);
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
        };
        let writing = &mut live;
        let gate = ModelGate::new(&scope);
        let answer = gate.send_request(
            None,
            &caller,
            request,
            |body, heard| {
                Box::pin(async move { writing.follow_answer(body, heard).await })
                    as BoxFuture<'_, _>
            },
            kept,
        );
        let answer = answer.await;
        if let Some(said) = live.stop_text() {
            return Err(EarlyStop::Blocked(held_back(&said)));
        }
        let response = match answer {
            Ok(response) => response,
            Err(NoAnswer::TooLong(why)) => return Ok(AskOutcome::TooLong(why)),
            Err(NoAnswer::Mended(why)) => return Ok(AskOutcome::Mended(why)),
            Err(NoAnswer::Blocked(said)) => return Err(refusal_stop("request", &said)),
            Err(NoAnswer::Spent(why)) => {
                return Err(EarlyStop::Blocked(format!("[stopped: {why}]")));
            }
            Err(NoAnswer::Cancelled) => return Err(EarlyStop::Cancelled),
            Err(NoAnswer::Provider(why)) => return Err(EarlyStop::Provider(why)),
            Err(NoAnswer::Session(error)) => return Err(error.into()),
        };
        // An estimate teaches nothing about how far estimates are off.
        let usage = response.usage;
        let reported = if usage.estimated {
            0
        } else {
            usage.input_tokens
        };
        let config = &scope.spec.config.compact;
        self.agent.compaction.learn_usage(request, reported, config);
        Ok(AskOutcome::Answered(Box::new(response)))
    }

    /// `post-reason`, then the answer becomes a message.
    async fn take_reply(&mut self, mut response: Response) -> Result<SeenReply, EarlyStop> {
        let most = self.agent.spec.config.max_calls;
        let left_out = leave_out(&mut response.message, most);
        let written = response.message.joined_text();
        let shortfall = find_shortfall(&response, &written);
        let reviewed = self
            .ctx
            .dispatch_point::<at::PostReason>(response.message)
            .await;
        let refusal = refuse_turn("answer", blocked_by(&reviewed));
        let mut message = reviewed.value;
        if let Err(EarlyStop::Blocked(text)) = &refusal {
            // The calls go as well: a refused answer does nothing.
            message.content = vec![Content::text(text.clone())];
            message.extra = None;
        }
        if message.joined_text() != written {
            // The server sent `extra` together with other words, and may have repeated those words
            // in it.
            message.extra = None;
        }
        mend_message(&mut message, &self.agent.spec.session.messages());
        let reply = SeenReply {
            draft: message.joined_text(),
            calls: message
                .tool_calls()
                .map(|call| ToolCall::new(&call.id, &call.name, call.arguments.clone()))
                .map(named_call)
                .collect(),
            left_out,
            cut: cut_result(response.finish, response.usage.output_tokens),
            shortfall,
            inject: reviewed.inject,
        };
        self.progress.partial.clear();
        // Providers refuse messages without content.
        if !message.content.is_empty() {
            let fresh = self.progress.fresh();
            let is_shown = !fresh.is_empty() && reply.draft == written;
            let shown = is_shown.then(|| fresh.to_owned());
            self.ctx.keep_message(&message)?;
            self.ctx.emit_message_as(message, shown).await;
        }
        refusal?;
        match response.finish {
            Finish::Refused => {
                let text = "[the provider held the answer back]".to_owned();
                return Err(EarlyStop::Blocked(text));
            }
            Finish::MaxTokens => self.ctx.emit_notice(
                Level::Warn,
                "the answer reached the token limit of the model and is cut",
            ),
            Finish::Done | Finish::ToolCalls | Finish::Paused => {}
        }
        Ok(reply)
    }
}
