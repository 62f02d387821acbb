//! One step: a request to the model, its answer, and the tool calls that the answer makes.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::calls::leave_out;
use super::request::{ModelGate, NoAnswer, apply};
use super::stop::{Stop, blocked, held_back, refusal, refused};
use super::stream::{Live, tell_retry};
use super::turn::Turn;
use crate::event::Event;
use crate::message::{Content, Message, Origin, Role, ToolCall};
use crate::point::catalog as at;
use crate::point::outcome::{Injection, Level};
use crate::point::payload::Purpose;
use crate::prompt;
use crate::provider::{Finish, Request, Response, StreamEvent};
use crate::session::Body;

pub(super) struct Step {
    /// The text that the model wrote.
    pub(super) draft: String,
    /// Whether the model is asked again: it called tools, or a plugin injected a message about its
    /// answer.
    pub(super) goes_on: bool,
    /// Kind of incompleteness; `None` for a complete answer.
    pub(super) shortfall: Option<Shortfall>,
}

/// Kinds of incomplete answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shortfall {
    /// Text cut by a token limit; the next step continues it.
    CutText,
    /// Answer cut by a token limit within its tool calls.
    CutCalls,
    /// Answer with neither text nor a tool call.
    Empty,
}

/// Outcome of a request.
enum Asked {
    Answered(Box<Response>),
    /// Refused because it exceeds the model's window; holds the message of the server.
    TooLong(String),
    /// Refused, but a correction was found: sending it again may succeed. Holds the message of the
    /// server.
    Mended(String),
}

/// An answer that hooks have seen and that is in the session.
struct Reply {
    draft: String,
    calls: Vec<ToolCall>,
    /// Message for the model about calls over the limit.
    left_out: Option<String>,
    /// Result of every call of a cut answer, none of which runs.
    cut: Option<String>,
    shortfall: Option<Shortfall>,
    inject: Vec<(Arc<str>, Injection)>,
}

impl Turn<'_> {
    pub(super) async fn take_step(&mut self) -> Result<Step, Stop> {
        self.step += 1;
        self.emit(Event::StepStart { step: self.step });
        self.take_steering().await?;
        let scope = self.scope.clone();
        self.agent.take_replacements(Some(&scope));
        self.agent.join_archived(&scope).await;
        let request = self.build_request().await?;
        let response = match self.ask(&request).await? {
            Asked::Answered(response) => *response,
            Asked::TooLong(why) | Asked::Mended(why) => self.ask_shorter(&request, why).await?,
        };
        let reply = self.take_reply(response).await?;
        let mut inject = reply.inject;
        let n_calls = u32::try_from(reply.calls.len()).unwrap_or(u32::MAX);
        let has_calls = n_calls > 0;
        if has_calls {
            inject.extend(self.run_calls(reply.calls, reply.cut.as_deref()).await?);
        }
        if let Some(text) = reply.left_out {
            self.agent.notice(Level::Warn, text.clone());
            let message = Message::text(Role::User, text);
            self.push(message.from(Origin::Reflection)).await?;
        }
        let goes_on =
            has_calls || !inject.is_empty() || reply.shortfall == Some(Shortfall::CutText);
        // After the results: nothing may stand between a call and its result.
        self.inject(inject).await?;
        self.emit(Event::StepEnd {
            step: self.step,
            tool_calls: n_calls,
            goes_on,
        });
        Ok(Step {
            draft: reply.draft,
            goes_on,
            shortfall: reply.shortfall,
        })
    }

    /// Compaction when it is due, `context`, then `pre-reason`.
    async fn build_request(&mut self) -> Result<Request, Stop> {
        let mut messages = self.compacted().await?;
        messages.append(&mut self.passing);
        let messages = self.pass::<at::Context>("conversation", messages).await?;
        let mut request = Request {
            model: self.scope.skills.model(),
            system: self.system.clone(),
            messages: Arc::unwrap_or_clone(messages),
            tools: Vec::new(),
            temperature: self.agent.spec.temperature,
            max_tokens: self.agent.spec.max_tokens,
        };
        let tools = self.scope.skills.tool_names();
        let proposed = ModelGate::new(&self.scope).proposed(Purpose::Step, &request, tools);
        let reasoned = self.dispatch::<at::PreReason>(proposed).await;
        refused("request", blocked(&reasoned))?;
        let wanted = reasoned.value;
        for (plugin, injection) in reasoned.inject {
            let message = self.inject_one(&plugin, injection).await?;
            request.messages.push(message);
        }
        let specs = self.agent.spec.tools.specs();
        let left = self.scope.skills.tool_names();
        let is_wanted = |name: &String| wanted.tools.contains(name) && left.contains(name);
        let tools = specs.into_iter().filter(|spec| is_wanted(&spec.name));
        request.tools = tools.map(|spec| (*spec).clone()).collect();
        let names = request.tools.iter().map(|spec| spec.name.clone());
        self.scope.skills.set_active(names.collect());
        apply(&mut request, wanted);
        self.fit(&mut request);
        Ok(request)
    }

    /// Compacts the conversation after a server refused a request that exceeds the model's window,
    /// and sends it once more.
    async fn ask_shorter(&mut self, refused: &Request, why: String) -> Result<Response, Stop> {
        self.agent.compaction.refuse(refused);
        self.agent.notice(
            Level::Warn,
            "the request is longer than the model's window: the conversation is made shorter and sent again",
        );
        let request = self.build_request().await?;
        match self.ask(&request).await? {
            Asked::Answered(response) => Ok(*response),
            Asked::TooLong(_) | Asked::Mended(_) => Err(Stop::Provider(why)),
        }
    }

    /// Sends the request and shows the answer while it streams. If the server refuses it and a
    /// correction is found, sends it once more.
    async fn ask(&mut self, request: &Request) -> Result<Asked, Stop> {
        match self.ask_once(request).await? {
            Asked::Mended(why) => {
                tell_retry(&self.scope.spec.events, StreamEvent::mended(why));
                match self.ask_once(request).await? {
                    Asked::Mended(why) => Err(Stop::Provider(why)),
                    asked => Ok(asked),
                }
            }
            asked => Ok(asked),
        }
    }

    async fn ask_once(&mut self, request: &Request) -> Result<Asked, Stop> {
        let caller = self.caller();
        let (scope, number, step) = (self.scope.clone(), self.number, self.step);
        let mut live = Live::new(&scope.emitter, &scope.cancel, &caller, &mut self.progress);
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
        let answer = gate.request(
            None,
            &caller,
            request,
            |body, heard| {
                Box::pin(async move { writing.follow(body, heard).await }) as BoxFuture<'_, _>
            },
            kept,
        );
        let answer = answer.await;
        if let Some(said) = live.stopped() {
            return Err(Stop::Blocked(held_back(&said)));
        }
        let response = match answer {
            Ok(response) => response,
            Err(NoAnswer::TooLong(why)) => return Ok(Asked::TooLong(why)),
            Err(NoAnswer::Mended(why)) => return Ok(Asked::Mended(why)),
            Err(NoAnswer::Blocked(said)) => return Err(refusal("request", &said)),
            Err(NoAnswer::Cancelled) => return Err(Stop::Cancelled),
            Err(NoAnswer::Provider(why)) => return Err(Stop::Provider(why)),
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
        self.agent.compaction.learn(request, reported, config);
        Ok(Asked::Answered(Box::new(response)))
    }

    /// `post-reason`, then the answer becomes a message.
    async fn take_reply(&mut self, mut response: Response) -> Result<Reply, Stop> {
        let most = self.agent.spec.config.max_calls;
        let left_out = leave_out(&mut response.message, most);
        let written = response.message.joined_text();
        let shortfall = shortfall(&response, &written);
        let reviewed = self.dispatch::<at::PostReason>(response.message).await;
        let refusal = refused("answer", blocked(&reviewed));
        let mut message = reviewed.value;
        if let Err(Stop::Blocked(text)) = &refusal {
            // The calls go as well: a refused answer does nothing.
            message.content = vec![Content::text(text.clone())];
            message.extra = None;
        }
        if message.joined_text() != written {
            // The server put it beside other words, and may have repeated them in it.
            message.extra = None;
        }
        mend(&mut message, &self.agent.spec.session.messages());
        let reply = Reply {
            draft: message.joined_text(),
            calls: message
                .tool_calls()
                .map(|call| ToolCall::new(&call.id, &call.name, call.arguments.clone()))
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
            self.keep(&message)?;
            self.emit_message_as(message, shown).await;
        }
        refusal?;
        match response.finish {
            Finish::Refused => {
                let text = "[the provider held the answer back]".to_owned();
                return Err(Stop::Blocked(text));
            }
            Finish::MaxTokens => self.agent.notice(
                Level::Warn,
                "the answer reached the token limit of the model and is cut",
            ),
            Finish::Done | Finish::ToolCalls | Finish::Paused => {}
        }
        Ok(reply)
    }
}

/// Determines whether an answer is incomplete. The text before the hooks counts, because hooks may
/// empty an answer on purpose.
fn shortfall(response: &Response, written: &str) -> Option<Shortfall> {
    let has_calls = response.message.tool_calls().next().is_some();
    match response.finish {
        Finish::MaxTokens | Finish::Paused if has_calls => Some(Shortfall::CutCalls),
        Finish::MaxTokens | Finish::Paused => Some(Shortfall::CutText),
        _ if !has_calls && written.trim().is_empty() => Some(Shortfall::Empty),
        _ => None,
    }
}

/// Returns the result for the calls of a cut answer; `None` when the answer is complete. No call of
/// a cut answer runs: even arguments that are valid JSON may be only a part of the arguments that
/// the model was writing.
fn cut_result(finish: Finish, n_tokens: u64) -> Option<String> {
    let why = match finish {
        Finish::MaxTokens => format!("cut at its limit of {n_tokens} tokens"),
        Finish::Paused => "interrupted by the provider".to_owned(),
        Finish::Refused => "held back by the provider".to_owned(),
        Finish::Done | Finish::ToolCalls => return None,
    };
    Some(format!(
        "not run: your answer was {why} before this call was written whole. Make the call again with shorter arguments: write \
         a long file in parts, the first with write_file and the others with edit_file or in further files"
    ))
}

/// Makes a message one that every provider takes back. Empty texts go. Calls without an id, or with that of another call of
/// the conversation, get one of their own: results are matched by id, small model servers leave ids out, and others count
/// them anew in each answer.
fn mend(message: &mut Message, earlier: &[Message]) {
    let is_empty = |part: &Content| matches!(part, Content::Text { text } if text.is_empty());
    message.content.retain(|part| !is_empty(part));
    if message.tool_calls().next().is_none() {
        return;
    }
    let earlier = earlier.iter().flat_map(Message::tool_calls);
    let mut seen: HashSet<String> = earlier.map(|call| call.id.clone()).collect();
    for part in &mut message.content {
        if let Content::ToolCall(call) = part
            && (call.id.is_empty() || !seen.insert(call.id.clone()))
        {
            call.id = format!("call_{}", crate::clock::new_id());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_get_ids_of_their_own_and_empty_texts_go() {
        let call = |id: &str| Content::ToolCall(ToolCall::new(id, "bash", serde_json::json!({})));
        let empty = Content::text("");
        let content = vec![empty, call("a"), call(""), call("a"), call("b")];
        let mut message = Message::new(Role::Assistant, content);
        let earlier = Message::new(Role::Assistant, vec![call("b")]);
        mend(&mut message, &[earlier]);
        assert_eq!(message.content.len(), 4);
        let ids: std::collections::HashSet<&str> =
            message.tool_calls().map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), 4);
        assert!(ids.contains("a") && !ids.contains("b") && !ids.contains(""));
    }
}
