//! A provider that answers from a script: the default on a machine without a configured model, and
//! the model of every test.
//!
//! Owns the streaming of a reply. The script format is in `script`, the selection of a reply in
//! `pick`, and the wire body in `conversation`. It must not know the network. It reads only the
//! wire body, so that a hook that changes the body changes the answer, as with a real model. Start
//! from [`Scripted`].
//!
//! A script is a TOML file (or the same structure as JSON, `{"reply": [...]}`):
//!
//! ```toml
//! [[reply]]                              # without `when`: used in order, once each
//! text = "You said: {input}"
//!
//! [[reply]]                              # takes precedence whenever it matches
//! when = { contains = "weather", step = 1 }
//! times = 0                              # unlimited; the default is 1
//! thinking = "I should look."
//! text = "I will look."
//! [[reply.tool_calls]]
//! name = "get_weather"
//! arguments = { city = "Oslo" }
//!
//! [[reply]]
//! when = { after_tool = "get_weather" }
//! text = "It is so: {tool_result}"
//! delay_ms = 200                         # before the answer begins
//! word_ms = 20                           # after each word of it
//! usage = { input_tokens = 120, output_tokens = 8 }
//!
//! [[reply]]
//! error = { status = 529, message = "overloaded" }
//! ```

mod conversation;
mod pick;
mod script;

use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use script::{
    Reply, ReplyCondition, ReplyError, ReplyFinish, ReplyUsage, Script, ScriptedToolCall,
};

use self::conversation::ScriptedConversation;
use self::pick::{ScriptedReplySelector, fill_template};
use super::assemble::AssistantMessageAssembler;
use super::server_text::SanitizedServerText;
use super::{Error, Finish, Provider, Request, RequestImagesByBlobId, Response, StreamEvent};
use crate::lock::lock_ignoring_poison;
use crate::message::Usage;

/// Name of the scripted provider, as in `--provider`.
pub const SCRIPTED_PROVIDER_NAME: &str = super::select::SCRIPTED_PROVIDER_NAME;

/// Script that is used if nothing is configured.
const DEFAULT_SCRIPT_TOML: &str = include_str!("default.toml");

/// Assumed number of characters per token, to estimate the usage of a reply without `usage`.
const CHARS_PER_TOKEN: usize = 4;

/// Provider that answers requests with the replies of a script.
pub struct Scripted {
    script: Script,
    pick: Mutex<ScriptedReplySelector>,
    bodies: Option<Mutex<Vec<Value>>>,
    models: Vec<String>,
}

impl Scripted {
    /// Creates a provider that plays `script` from its beginning.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self {
            script,
            pick: Mutex::default(),
            bodies: None,
            models: Vec::new(),
        }
    }

    /// Creates a provider that plays a TOML or JSON file.
    pub fn from_file(path: &Path) -> Result<Self, Error> {
        Script::read(path).map(Self::new)
    }

    /// Creates a provider that plays a script in TOML, for tests.
    pub fn from_toml(text: &str) -> Result<Self, Error> {
        Script::from_toml("(TOML in code)", text).map(Self::new)
    }

    /// Creates a provider that plays the script built into Rind.
    pub fn built_in() -> Result<Self, Error> {
        Script::from_toml("(built in)", DEFAULT_SCRIPT_TOML).map(Self::new)
    }

    /// Records every body that is sent, for [`Self::bodies`]. Off by default, because bodies grow
    /// with the conversation.
    #[must_use]
    pub fn with_request_recording(mut self) -> Self {
        self.bodies = Some(Mutex::default());
        self
    }

    /// Sets the models that the provider lists.
    #[must_use]
    pub fn with_model_names(mut self, models: Vec<String>) -> Self {
        self.models = models;
        self
    }

    /// Whether any reply of the script pauses after each word.
    #[must_use]
    pub fn has_pauses_between_words(&self) -> bool {
        self.script.replies.iter().any(|reply| reply.word_ms > 0)
    }

    /// Returns the bodies of the requests that were sent so far; empty unless the provider is
    /// [recording](Self::with_request_recording) them.
    #[must_use]
    pub fn recorded_request_bodies(&self) -> Vec<Value> {
        let bodies = self.bodies.as_ref();
        bodies.map_or_else(Vec::new, |bodies| lock_ignoring_poison(bodies).clone())
    }

    /// Returns the indices of the replies that were never used. Replies without a limit, with
    /// `times = 0`, are not reported.
    #[must_use]
    pub fn unused_reply_indices(&self) -> Vec<usize> {
        lock_ignoring_poison(&self.pick)
            .unused_replies(&self.script)
            .collect()
    }

    async fn answer_request_from_script(
        &self,
        body: Value,
        on: &mut (dyn FnMut(StreamEvent) + Send),
        cancel: &CancellationToken,
    ) -> Result<Response, Error> {
        let started = Instant::now();
        let n_input_chars = body.to_string().chars().count();
        if let Some(bodies) = &self.bodies {
            lock_ignoring_poison(bodies).push(body.clone());
        }
        let model = body["model"].clone();
        let conversation: ScriptedConversation =
            serde_json::from_value(body).map_err(|error| Error::Script {
                script: self.script.name.clone(),
                what: format!(
                    ": the request is not one of the scripted provider ({error}): correct the hook that \
                     changed it"
                ),
            })?;
        if cancel.is_cancelled() {
            return Err(Error::Cancelled);
        }
        let (n, reply) = lock_ignoring_poison(&self.pick).next(&self.script, &conversation)?;
        sleep_unless_cancelled(reply.delay_ms, cancel).await?;
        if let Some(error) = &reply.error {
            let (reply, status) = (n + 1, error.status);
            let said = SanitizedServerText::new(&error.message);
            return Err(Error::Script {
                script: self.script.name.clone(),
                what: format!(", reply {reply} simulates a failure, with status {status}: {said}"),
            });
        }
        let raw = scripted_reply_to_raw_answer(&model, reply, &conversation);
        let usage = reply.usage.map_or_else(
            || Usage {
                input_tokens: estimate_tokens(n_input_chars),
                output_tokens: estimate_tokens(raw.chars().count()),
                ..Usage::default()
            },
            Usage::from,
        );
        let assembler = stream_reply(reply, &conversation, on, cancel).await?;
        let finish = match reply.finish {
            None => Finish::Done,
            Some(ReplyFinish::MaxTokens) => Finish::MaxTokens,
            Some(ReplyFinish::Refused) => Finish::Refused,
        };
        let answer = assembler.finish_message(finish, usage);
        Ok(Response {
            message: answer.message,
            model: None,
            finish: answer.finish,
            usage: answer.usage,
            cost_usd: None,
            status: 0,
            latency_ms: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            raw,
        })
    }
}

impl Provider for Scripted {
    fn name(&self) -> &str {
        SCRIPTED_PROVIDER_NAME
    }

    fn models<'a>(&'a self, _: &'a CancellationToken) -> BoxFuture<'a, Result<Vec<String>, Error>> {
        Box::pin(async { Ok(self.models.clone()) })
    }

    fn build_request_body(&self, request: &Request, _: &RequestImagesByBlobId) -> Value {
        conversation::build_scripted_request_body(request)
    }

    fn send<'a>(
        &'a self,
        body: Value,
        on: &'a mut (dyn FnMut(StreamEvent) + Send),
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Response, Error>> {
        Box::pin(self.answer_request_from_script(body, on, cancel))
    }
}

/// Streams a reply word by word, and yields to other tasks between words, so that they can cancel
/// it.
async fn stream_reply(
    reply: &Reply,
    conversation: &ScriptedConversation,
    on: &mut (dyn FnMut(StreamEvent) + Send),
    cancel: &CancellationToken,
) -> Result<AssistantMessageAssembler, Error> {
    let mut assembler = AssistantMessageAssembler::default();
    let thinking = reply.thinking.as_deref().unwrap_or_default();
    for word in thinking.split_inclusive(' ') {
        assembler.add_thinking(word, &mut |event| on(event));
        sleep_unless_cancelled(reply.word_ms, cancel).await?;
    }
    let text = reply.text.as_deref().unwrap_or_default();
    for word in fill_template(text, conversation).split_inclusive(' ') {
        assembler.add_text(word, &mut |event| on(event));
        sleep_unless_cancelled(reply.word_ms, cancel).await?;
    }
    for (n, call) in reply.tool_calls.iter().enumerate() {
        let id = call.id.clone();
        let id = id.unwrap_or_else(|| format!("call_{}", conversation.n_calls() + n + 1));
        let slot = assembler.begin_call(&id, &call.name, &mut |event| on(event));
        assembler.add_arguments(
            slot,
            &crate::json::format_value_for_display(&call.arguments),
        );
        sleep_unless_cancelled(0, cancel).await?;
    }
    Ok(assembler)
}

async fn sleep_unless_cancelled(delay_ms: u64, cancel: &CancellationToken) -> Result<(), Error> {
    let pause = async {
        if delay_ms > 0 {
            tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        } else {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = cancel.cancelled() => Err(Error::Cancelled),
        () = pause => Ok(()),
    }
}

/// Returns the raw answer that hooks receive, as if a server had sent the reply for the requested
/// model.
fn scripted_reply_to_raw_answer(
    model: &Value,
    reply: &Reply,
    conversation: &ScriptedConversation,
) -> String {
    let text = reply
        .text
        .as_ref()
        .map(|text| fill_template(text, conversation));
    let calls = &reply.tool_calls;
    let raw =
        json!({"model": model, "text": text, "thinking": reply.thinking, "tool_calls": calls});
    let mut raw = raw.to_string();
    raw.truncate(raw.floor_char_boundary(super::MAX_KEPT_RAW_ANSWER_BYTES));
    raw
}

fn estimate_tokens(n_chars: usize) -> u64 {
    n_chars.div_ceil(CHARS_PER_TOKEN) as u64
}
