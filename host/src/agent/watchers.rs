//! Prepares text of the model for those who watch a turn: the screen, and programs that read the
//! events.
//!
//! Owns the rule that no event contains text of the model, including arguments of calls, that the
//! responsible hooks have not passed. The module must not know who watches. The approval question
//! before a call and the entries of the session contain the original text.

use serde_json::{Map, Value, json};

use super::emitter::EventEmitter;
use super::stop::blocked_by;
use crate::message::{Content, Message, Origin, Role, ToolCall};
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::AttributedText;
use crate::point::payload::TextDelta;
use crate::point::streaming::StreamPath;

/// Key in the arguments of a hidden call; its value is the reason.
const NOT_SHOWN: &str = "not_shown";

/// Reason why arguments are hidden: hooks judge them differently together than one by one, or there
/// are too many to judge them one by one.
const CHANGED: &str = "plugins change what stands in these arguments";

/// Placeholder for the name of a tool that is hidden.
const UNSHOWN_TOOL: &str = "[not shown]";

/// Maximum number of values in a call that are judged one by one; each value costs one call of each
/// hook.
const MAX_VALUES: usize = 64;

impl EventEmitter {
    /// Returns how the model's text is streamed, depending on the hooks that are called for
    /// `caller`.
    pub(super) fn choose_streaming(&self, caller: &Caller) -> StreamPath {
        self.dispatcher.registry().streaming(caller)
    }

    /// Returns a complete text after the hooks of `output-delta`.
    ///
    /// # Errors
    /// A hook blocked the text.
    pub(super) async fn look_at(
        &self,
        caller: &Caller,
        text: String,
    ) -> Result<String, AttributedText> {
        if text.is_empty() {
            return Ok(text);
        }
        let delta = TextDelta {
            text,
            is_last: true,
            ..TextDelta::default()
        };
        let judged = self.dispatch_hooks::<at::OutputDelta>(caller, delta).await;
        match blocked_by(&judged) {
            Some(said) => Err(said.clone()),
            None => Ok(judged.value.text),
        }
    }

    /// Returns a text for observers that may contain text of the model but is not output: the text
    /// that the hooks pass, or the reason why it is hidden.
    pub(super) async fn for_watchers(&self, caller: &Caller, text: String) -> String {
        match self.choose_streaming(caller) {
            StreamPath::Free => text,
            StreamPath::Judged => match self.look_at(caller, text).await {
                Ok(text) => text,
                Err(said) => format!("[not shown: {}]", stopped_by(&said)),
            },
            held @ StreamPath::Held(_) if !text.trim().is_empty() => format!(
                "[not shown: it is judged by {} only as part of a whole answer]",
                held.holders().join(", ")
            ),
            StreamPath::Held(_) => text,
        }
    }

    /// Returns a message for observers. `judged` is its text if hooks already checked it. Messages
    /// of the user and results of tools are shown unchanged; reasoning is shown only if no hook
    /// checks text of the model.
    pub(super) async fn message_for_watchers(
        &self,
        caller: &Caller,
        message: &Message,
        judged: Option<String>,
    ) -> Message {
        let mut shown = message.clone();
        shown.drop_extra();
        let is_judged = message.role != Role::Tool && !message.is_users();
        if !is_judged || self.choose_streaming(caller) == StreamPath::Free {
            return shown;
        }
        shown
            .content
            .retain(|part| !matches!(part, Content::Thinking { .. }));
        for part in &mut shown.content {
            if let Content::ToolCall(call) = part {
                *call = self.call_for_watchers(caller, call).await;
            }
        }
        let text = message.joined_text();
        if !text.is_empty() {
            shown.set_text(match judged {
                Some(text) => text,
                // The text is the task of a subagent, which the parent agent's model wrote as
                // arguments of a call.
                None if message.origin == Some(Origin::Agent) => {
                    self.call_text_for_watchers(caller, text).await
                }
                None => self.for_watchers(caller, text).await,
            });
        }
        shown
    }

    /// Returns a call for observers, with its arguments after the hooks of `output-delta`. Hooks
    /// that judge only complete answers have already seen the call in its answer.
    pub(super) async fn call_for_watchers(&self, caller: &Caller, call: &ToolCall) -> ToolCall {
        let mut shown = ToolCall {
            extra: None,
            ..call.clone()
        };
        if self.choose_streaming(caller) != StreamPath::Judged {
            return shown;
        }
        let text = format!("{} {}", call.name, readable_value(&call.arguments));
        let known = self.judged_calls.find_judged(&text, &caller.call_chain);
        let (name, arguments) = match known {
            Some(shown) => shown,
            None => {
                let judged = self.judge_call(caller, call, &text).await;
                let chain = &caller.call_chain;
                self.judged_calls.keep_judged(text, chain, &judged);
                judged
            }
        };
        (shown.name, shown.arguments) = (name, arguments);
        shown
    }

    /// Judges a call. `text` contains its name and all texts of its arguments.
    async fn judge_call(&self, caller: &Caller, call: &ToolCall, text: &str) -> (String, Value) {
        // Judge all texts together first, which decides nearly every call.
        match self.look_at(caller, text.to_owned()).await {
            Ok(judged) if judged == text => return (call.name.clone(), call.arguments.clone()),
            Ok(_) => {}
            Err(said) => {
                return (
                    UNSHOWN_TOOL.to_owned(),
                    json!({ NOT_SHOWN: stopped_by(&said) }),
                );
            }
        }
        if n_values(&call.arguments) > MAX_VALUES {
            return (UNSHOWN_TOOL.to_owned(), json!({ NOT_SHOWN: CHANGED }));
        }
        let name = self.for_watchers(caller, call.name.clone()).await;
        let arguments = self.value_for_watchers(caller, &call.arguments).await;
        if name == call.name && arguments == call.arguments {
            // The hooks only change the texts when they judge them together, so hide the complete
            // call.
            return (UNSHOWN_TOOL.to_owned(), json!({ NOT_SHOWN: CHANGED }));
        }
        (name, arguments)
    }

    /// Returns a text from the arguments of a call, for observers.
    pub(super) async fn call_text_for_watchers(&self, caller: &Caller, text: String) -> String {
        match self.choose_streaming(caller) {
            StreamPath::Judged => self.for_watchers(caller, text).await,
            StreamPath::Free | StreamPath::Held(_) => text,
        }
    }

    /// Judges each key, text and number of a value separately.
    async fn value_for_watchers(&self, caller: &Caller, value: &Value) -> Value {
        match value {
            Value::String(text) => self.for_watchers(caller, text.clone()).await.into(),
            Value::Number(number) => {
                let text = number.to_string();
                match self.for_watchers(caller, text.clone()).await {
                    judged if judged == text => value.clone(),
                    judged => judged.into(),
                }
            }
            Value::Array(items) => {
                let mut judged = Vec::with_capacity(items.len());
                for item in items {
                    judged.push(Box::pin(self.value_for_watchers(caller, item)).await);
                }
                judged.into()
            }
            Value::Object(fields) => {
                let mut judged = Map::new();
                for (name, field) in fields {
                    let name = self.for_watchers(caller, name.clone()).await;
                    let field = Box::pin(self.value_for_watchers(caller, field)).await;
                    judged.insert(name, field);
                }
                judged.into()
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }
}

fn n_values(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(n_values).sum(),
        Value::Object(fields) => fields.values().map(|field| 1 + n_values(field)).sum(),
        _ => 1,
    }
}

/// Returns the keys, texts and numbers of a value as plain text, without JSON escapes.
fn readable_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .map(readable_value)
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Object(fields) => {
            let each = fields.iter();
            let each = each.map(|(name, field)| format!("{name}: {}", readable_value(field)));
            each.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

fn stopped_by(said: &AttributedText) -> String {
    format!("plugin {} stopped it: {}", said.plugin, said.text)
}
