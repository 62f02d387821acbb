//! Prepares text of the model for those who watch a turn: the screen, and programs that read the
//! events.
//!
//! Owns the rule that no event contains text of the model, including arguments of calls, that the
//! responsible hooks have not passed. The module must not know who watches. The approval question
//! before a call and the entries of the session contain the original text.

use serde_json::{Map, Value, json};

use super::emitter::TurnEventEmitter;
use super::stop::hook_block_reason;
use crate::message::{Content, Message, Origin, Role, ToolCall};
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::PluginAttributedText;
use crate::point::payload::TextDelta;
use crate::point::streaming::StreamedTextDisplayMode;

/// Key in the arguments of a hidden call; its value is the reason.
const HIDDEN_ARGUMENTS_REASON_JSON_KEY: &str = "not_shown";

/// Reason that replaces the arguments of a hidden call: hooks change the arguments when they check
/// them together but not one by one, or there are too many to check them one by one.
const HIDDEN_ARGUMENTS_REASON: &str = "plugins change what stands in these arguments";

/// Placeholder for the name of a tool that is hidden.
const HIDDEN_TOOL_NAME_PLACEHOLDER: &str = "[not shown]";

/// Maximum number of values in a call that are checked one by one; each value costs one call of
/// each hook.
const MAX_HOOK_CHECKED_ARGUMENT_VALUES: usize = 64;

impl TurnEventEmitter {
    /// Returns how the model's text is streamed, depending on the hooks that are called for
    /// `caller`.
    pub(super) fn choose_text_display_mode(&self, caller: &Caller) -> StreamedTextDisplayMode {
        self.dispatcher
            .registry()
            .streamed_text_display_mode(caller)
    }

    /// Passes a complete text through the hooks of `output-delta`, and returns the result.
    ///
    /// # Errors
    /// A hook blocked the text.
    pub(super) async fn run_output_delta_hooks_on_text(
        &self,
        caller: &Caller,
        text: String,
    ) -> Result<String, PluginAttributedText> {
        if text.is_empty() {
            return Ok(text);
        }
        let delta = TextDelta {
            text,
            is_last: true,
            ..TextDelta::default()
        };
        let judged = self.dispatch_hooks::<at::OutputDelta>(caller, delta).await;
        match hook_block_reason(&judged) {
            Some(said) => Err(said.clone()),
            None => Ok(judged.value.text),
        }
    }

    /// Returns what observers see of a text that may quote the model but is not output: the text
    /// after the hooks, or the reason why the text is hidden.
    pub(super) async fn text_for_observers(&self, caller: &Caller, text: String) -> String {
        match self.choose_text_display_mode(caller) {
            StreamedTextDisplayMode::Free => text,
            StreamedTextDisplayMode::Judged => {
                match self.run_output_delta_hooks_on_text(caller, text).await {
                    Ok(text) => text,
                    Err(said) => format!("[not shown: {}]", format_hook_stop_note(&said)),
                }
            }
            held @ StreamedTextDisplayMode::Held(_) if !text.trim().is_empty() => format!(
                "[not shown: {} checks it only as part of a complete answer]",
                held.text_delaying_plugin_names().join(", ")
            ),
            StreamedTextDisplayMode::Held(_) => text,
        }
    }

    /// Returns a message for observers. `judged` is its text if hooks already checked it. Messages
    /// of the user and results of tools are shown unchanged; reasoning is shown only if no hook
    /// checks text of the model.
    pub(super) async fn message_for_observers(
        &self,
        caller: &Caller,
        message: &Message,
        judged: Option<String>,
    ) -> Message {
        let mut shown = message.clone();
        shown.remove_provider_opaque_data();
        let is_judged = message.role != Role::Tool && !message.is_written_by_user();
        if !is_judged || self.choose_text_display_mode(caller) == StreamedTextDisplayMode::Free {
            return shown;
        }
        shown
            .content
            .retain(|part| !matches!(part, Content::Thinking { .. }));
        for part in &mut shown.content {
            if let Content::ToolCall(call) = part {
                *call = self.build_call_for_observers(caller, call).await;
            }
        }
        let text = message.joined_text();
        if !text.is_empty() {
            shown.set_text(match judged {
                Some(text) => text,
                // The text is the task of a subagent, which the parent agent's model wrote as
                // arguments of a call.
                None if message.origin == Some(Origin::Agent) => {
                    self.argument_text_for_observers(caller, text).await
                }
                None => self.text_for_observers(caller, text).await,
            });
        }
        shown
    }

    /// Returns a call for observers, with its arguments after the hooks of `output-delta`. If hooks
    /// check only complete answers, the arguments are unchanged, because these hooks have already
    /// checked the answer with the call.
    pub(super) async fn build_call_for_observers(
        &self,
        caller: &Caller,
        call: &ToolCall,
    ) -> ToolCall {
        let mut shown = ToolCall {
            extra: None,
            ..call.clone()
        };
        if self.choose_text_display_mode(caller) != StreamedTextDisplayMode::Judged {
            return shown;
        }
        let text = format!("{} {}", call.name, value_as_plain_text(&call.arguments));
        let known = self
            .judged_calls
            .find_cached_observer_call(&text, &caller.call_chain);
        let (name, arguments) = match known {
            Some(shown) => shown,
            None => {
                let judged = self.filter_call_for_observers(caller, call, &text).await;
                let chain = &caller.call_chain;
                self.judged_calls.insert_call(text, chain, &judged);
                judged
            }
        };
        (shown.name, shown.arguments) = (name, arguments);
        shown
    }

    /// Checks a call. `text` contains its name and all texts of its arguments. Returns the name and
    /// the arguments for observers.
    async fn filter_call_for_observers(
        &self,
        caller: &Caller,
        call: &ToolCall,
        text: &str,
    ) -> (String, Value) {
        // First check all texts together. If the hooks leave them unchanged, as nearly always, the
        // call needs no further check.
        match self
            .run_output_delta_hooks_on_text(caller, text.to_owned())
            .await
        {
            Ok(judged) if judged == text => return (call.name.clone(), call.arguments.clone()),
            Ok(_) => {}
            Err(said) => {
                return (
                    HIDDEN_TOOL_NAME_PLACEHOLDER.to_owned(),
                    json!({ HIDDEN_ARGUMENTS_REASON_JSON_KEY: format_hook_stop_note(&said) }),
                );
            }
        }
        if count_nested_values(&call.arguments) > MAX_HOOK_CHECKED_ARGUMENT_VALUES {
            return (
                HIDDEN_TOOL_NAME_PLACEHOLDER.to_owned(),
                json!({ HIDDEN_ARGUMENTS_REASON_JSON_KEY: HIDDEN_ARGUMENTS_REASON }),
            );
        }
        let name = self.text_for_observers(caller, call.name.clone()).await;
        let arguments = self.json_value_for_observers(caller, &call.arguments).await;
        if name == call.name && arguments == call.arguments {
            // Hooks would change these texts if they checked them together, but changed none of
            // them alone, so hide the complete call.
            return (
                HIDDEN_TOOL_NAME_PLACEHOLDER.to_owned(),
                json!({ HIDDEN_ARGUMENTS_REASON_JSON_KEY: HIDDEN_ARGUMENTS_REASON }),
            );
        }
        (name, arguments)
    }

    /// Returns a text from the arguments of a call as observers may see it: if hooks judge the
    /// streamed text, they judge this text too.
    pub(super) async fn argument_text_for_observers(
        &self,
        caller: &Caller,
        text: String,
    ) -> String {
        match self.choose_text_display_mode(caller) {
            StreamedTextDisplayMode::Judged => self.text_for_observers(caller, text).await,
            StreamedTextDisplayMode::Free | StreamedTextDisplayMode::Held(_) => text,
        }
    }

    /// Returns a JSON value as observers may see it: each key, text and number is passed separately
    /// to the hooks that judge streamed text.
    async fn json_value_for_observers(&self, caller: &Caller, value: &Value) -> Value {
        match value {
            Value::String(text) => self.text_for_observers(caller, text.clone()).await.into(),
            Value::Number(number) => {
                let text = number.to_string();
                match self.text_for_observers(caller, text.clone()).await {
                    judged if judged == text => value.clone(),
                    judged => judged.into(),
                }
            }
            Value::Array(items) => {
                let mut judged = Vec::with_capacity(items.len());
                for item in items {
                    judged.push(Box::pin(self.json_value_for_observers(caller, item)).await);
                }
                judged.into()
            }
            Value::Object(fields) => {
                let mut judged = Map::new();
                for (name, field) in fields {
                    let name = self.text_for_observers(caller, name.clone()).await;
                    let field = Box::pin(self.json_value_for_observers(caller, field)).await;
                    judged.insert(name, field);
                }
                judged.into()
            }
            Value::Null | Value::Bool(_) => value.clone(),
        }
    }
}

fn count_nested_values(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.iter().map(count_nested_values).sum(),
        Value::Object(fields) => fields
            .values()
            .map(|field| 1 + count_nested_values(field))
            .sum(),
        _ => 1,
    }
}

/// Returns the keys, texts and numbers of a value as plain text, without JSON escapes.
fn value_as_plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items
            .iter()
            .map(value_as_plain_text)
            .collect::<Vec<_>>()
            .join("\n"),
        Value::Object(fields) => {
            let each = fields.iter();
            let each = each.map(|(name, field)| format!("{name}: {}", value_as_plain_text(field)));
            each.collect::<Vec<_>>().join("\n")
        }
        other => other.to_string(),
    }
}

fn format_hook_stop_note(said: &PluginAttributedText) -> String {
    format!("plugin {} stopped it: {}", said.plugin, said.text)
}
