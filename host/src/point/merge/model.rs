//! Merges outcomes on the request to the model, on its body in the wire format, and on the model's
//! answer.

use std::sync::Arc;

use serde_json::Value;

use super::{MergeEnv, MergeIntoPayload, MergedOutcome, check_optional_text, check_text_limit};
use crate::message::Message;
use crate::point::outcome as o;
use crate::point::payload as p;

impl MergeIntoPayload<p::ModelRequest> for o::RequestOutcome {
    const RIGHTS: &'static [&'static str] = &[
        "model",
        "temperature",
        "max-tokens",
        "tools",
        "inject",
        "block",
    ];

    fn merge(
        self,
        payload: &mut p::ModelRequest,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        if let o::FloatChange::Set(t) = self.temperature
            && !(0.0..=2.0).contains(&t)
        {
            return Err(format!("a temperature of {t} is not between 0 and 2"));
        }
        if self.max_tokens == o::CountChange::Set(0) {
            return Err("max-tokens is 0".to_owned());
        }
        if self.model.as_ref().is_some_and(String::is_empty) {
            return Err("the model's name is empty".to_owned());
        }
        if let o::NamesChange::Set(names) = &self.tools
            && let Some(name) = names.iter().find(|name| !payload.tools.contains(name))
        {
            return Err(format!(
                "the tool `{name}` is not active, and a hook can only remove tools"
            ));
        }
        merged.add_effects(self.effects)?;
        merged.add_injections(self.inject)?;
        merged.set_block_objection(self.block);
        merged.set_if_changed("model", &mut payload.model, self.model);
        let temperature = self.temperature.into_new_value();
        merged.set_if_changed("temperature", &mut payload.temperature, temperature);
        let max_tokens = self.max_tokens.into_new_value();
        merged.set_if_changed("max-tokens", &mut payload.max_tokens, max_tokens);
        let tools = self.tools.into_new_value().map(Option::unwrap_or_default);
        merged.set_if_changed("tools", &mut payload.tools, tools);
        Ok(())
    }
}

/// Keys that a hook may add to a request's body: sampling parameters, and data that only identifies
/// the request. Other keys that providers accept could give the model access to more, for example
/// to a server.
const HOOK_ADDABLE_REQUEST_BODY_KEYS: &[&str] = &[
    "temperature",
    "top_p",
    "top_k",
    "stop",
    "stop_sequences",
    "seed",
    "max_tokens",
    "max_completion_tokens",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "metadata",
    "user",
    "reasoning_effort",
    "thinking",
    "response_format",
    "service_tier",
    "tool_choice",
    "parallel_tool_calls",
];

/// Checks the body of a request as a hook has changed it. The hook may change and remove values,
/// but must not add tools or unknown keys: some providers run tools and connect to servers that the
/// body names.
fn check_hook_change_of_request_body(old: &str, new: &str) -> Result<(), String> {
    let object = |text: &str| match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Some(map),
        _ => None,
    };
    let new = object(new).ok_or("the new body is not a JSON object")?;
    let old = object(old).unwrap_or_default();
    if let Some(key) = new.keys().find(|key| {
        !old.contains_key(*key) && !HOOK_ADDABLE_REQUEST_BODY_KEYS.contains(&key.as_str())
    }) {
        return Err(format!(
            "the new body of the request has a key `{}` that the previous body did not have",
            key.escape_debug()
        ));
    }
    let tools = |map: &serde_json::Map<String, Value>| match map.get("tools") {
        Some(Value::Array(tools)) => tools.clone(),
        _ => Vec::new(),
    };
    let old = tools(&old);
    if tools(&new).iter().any(|tool| !old.contains(tool)) {
        return Err("the new body has a tool that the request did not have".to_owned());
    }
    Ok(())
}

impl MergeIntoPayload<Arc<p::WireRequest>> for o::WireOutcome {
    const RIGHTS: &'static [&'static str] = &["body"];

    fn merge(
        self,
        payload: &mut Arc<p::WireRequest>,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        merged.add_effects(self.effects)?;
        if let Some(body) = self.body.filter(|body| *body != payload.body) {
            check_text_limit("the new body", &body)?;
            check_hook_change_of_request_body(&payload.body, &body)?;
            Arc::make_mut(payload).body = body;
            merged.changed.push("body");
        }
        Ok(())
    }
}

impl MergeIntoPayload<Message> for o::ReplyOutcome {
    const RIGHTS: &'static [&'static str] = &["text", "inject", "block"];

    fn merge(
        self,
        payload: &mut Message,
        merged: &mut MergedOutcome,
        _env: &MergeEnv<'_>,
    ) -> Result<(), String> {
        check_optional_text("the new text", self.text.as_ref())?;
        merged.add_effects(self.effects)?;
        merged.add_injections(self.inject)?;
        merged.set_block_objection(self.block);
        if let Some(text) = self.text
            && payload.joined_text() != text
        {
            payload.set_text(text);
            merged.changed.push("text");
        }
        Ok(())
    }
}
