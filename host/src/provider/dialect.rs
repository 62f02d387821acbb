//! The dialect of a server: differences between the request body that it accepts and the usual form
//! of its wire.
//!
//! Owns the field names that differ between servers of one wire, the fields that a server refuses,
//! and the fields that the operator adds. The module must not depend on the code that builds or
//! sends a body. Start from [`RequestBodyDialect::apply_to_body`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::ModelProfile;

/// Name of the field that limits the number of tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenLimitField {
    /// `max_tokens`, which most servers know.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, the only limit that newer models of OpenAI accept.
    MaxCompletionTokens,
}

impl TokenLimitField {
    fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// Role of the system prompt in APIs that send it as a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemPromptRole {
    /// `system`, which most servers expect.
    #[default]
    System,
    /// `developer`, as OpenAI calls it for models that reason.
    Developer,
    /// `user`, for models whose chat template has no system role, such as early Gemma models.
    User,
}

impl SystemPromptRole {
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
        }
    }
}

/// Differences between the request body that a server accepts and the usual form of its wire
/// format. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestBodyDialect {
    /// Field that limits the number of tokens of an answer.
    pub token_limit: TokenLimitField,
    /// Role of the message that carries the system prompt.
    pub system_role: SystemPromptRole,
    /// Fields of the body that the server refuses, such as `stream_options`, `temperature` or
    /// `tools`.
    pub leave_out: Vec<String>,
    /// Fields merged into the finished body: objects by key, any other value replaces the old one.
    pub extra: Map<String, Value>,
    /// Whether the server requires a token limit for the answer in every request.
    pub needs_limit: bool,
}

impl RequestBodyDialect {
    /// Converts a finished body to the form that the server accepts, for a model with this profile.
    ///
    /// Called last in `Provider::body`, before hooks see the body. Fields of [`extra`](Self::extra)
    /// override all others.
    pub fn apply_to_body(&self, body: &mut Value, profile: &ModelProfile) {
        let Value::Object(body) = body else {
            return;
        };
        if self.token_limit != TokenLimitField::MaxTokens {
            rename_field(
                body,
                TokenLimitField::MaxTokens.name(),
                self.token_limit.name(),
            );
        }
        if self.system_role != SystemPromptRole::System {
            rename_system_role(body, self.system_role.name());
        }
        if profile.temperature == Some(false) {
            body.shift_remove("temperature");
        }
        if profile.tools == Some(false) {
            remove_field(body, "tools");
        }
        for field in &self.leave_out {
            remove_field(body, field);
        }
        merge_extra_fields(body, &self.extra);
    }
}

fn rename_field(body: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = body.shift_remove(from) {
        body.insert(to.to_owned(), value);
    }
}

/// Removes a field from the body, and fields that have no meaning without it.
fn remove_field(body: &mut Map<String, Value>, field: &str) {
    body.shift_remove(field);
    if field == "tools" {
        body.shift_remove("tool_choice");
        body.shift_remove("parallel_tool_calls");
    }
}

fn rename_system_role(body: &mut Map<String, Value>, role: &str) {
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        if message.get("role").and_then(Value::as_str) == Some("system") {
            message["role"] = Value::from(role);
        }
    }
}

fn merge_extra_fields(base: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge_extra_fields(base, over),
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn applied(dialect: &RequestBodyDialect, mut body: Value, profile: &ModelProfile) -> Value {
        dialect.apply_to_body(&mut body, profile);
        body
    }

    fn body() -> Value {
        json!({
            "model": "m", "max_tokens": 9, "temperature": 0.5, "stream_options": {"include_usage": true},
            "tools": [1], "tool_choice": "auto",
            "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "system"}],
        })
    }

    #[test]
    fn the_default_changes_nothing() {
        let same = applied(
            &RequestBodyDialect::default(),
            body(),
            &ModelProfile::default(),
        );
        assert_eq!(same, body());
    }

    #[test]
    fn a_body_takes_the_form_of_the_dialect_and_extra_fields_come_last() {
        let extra =
            json!({"provider": {"order": ["a"]}, "stream_options": {"x": 1}, "temperature": 1});
        let dialect = RequestBodyDialect {
            token_limit: TokenLimitField::MaxCompletionTokens,
            system_role: SystemPromptRole::Developer,
            leave_out: vec!["tools".to_owned(), "absent".to_owned()],
            extra: extra.as_object().unwrap().clone(),
            needs_limit: false,
        };
        let expected = json!({
            "model": "m", "temperature": 1, "stream_options": {"include_usage": true, "x": 1},
            "messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": "system"}],
            "max_completion_tokens": 9, "provider": {"order": ["a"]},
        });
        assert_eq!(
            applied(&dialect, body(), &ModelProfile::default()),
            expected
        );
        assert_eq!(
            applied(&dialect, json!([1]), &ModelProfile::default()),
            json!([1])
        );
    }

    #[test]
    fn a_model_is_not_sent_what_its_profile_says_it_refuses() {
        let profile = ModelProfile {
            temperature: Some(false),
            tools: Some(false),
            ..ModelProfile::default()
        };
        let sent = applied(&RequestBodyDialect::default(), body(), &profile);
        for field in ["temperature", "tools", "tool_choice"] {
            assert_eq!(sent.get(field), None, "{field}");
        }
    }
}
