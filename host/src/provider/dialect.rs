//! The dialect of a server: how it wants the body of a request to differ from its wire's usual
//! form.
//!
//! Owns the names of fields that differ between servers of one wire, the fields that a server
//! refuses, and the fields that the operator adds. It must not know how a body is written, nor who
//! sends it. Start from [`Dialect::apply`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Error;
use crate::model::ModelProfile;

/// Field that limits the tokens of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenLimit {
    /// `max_tokens`, which most servers know.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`, without which OpenAI's own newer models refuse a limit.
    MaxCompletionTokens,
}

impl TokenLimit {
    fn name(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// Role of the system prompt where it is a message of the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SystemRole {
    /// `system`, the usual one.
    #[default]
    System,
    /// `developer`, as OpenAI calls it for models that reason.
    Developer,
    /// `user`, for templates that have no system role, such as those of early Gemma models.
    User,
}

impl SystemRole {
    fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Developer => "developer",
            Self::User => "user",
        }
    }
}

/// Differences between a server and the usual form of its wire. The default changes nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dialect {
    /// Field that limits the tokens of an answer.
    pub token_limit: TokenLimit,
    /// Role of the system prompt.
    pub system_role: SystemRole,
    /// Fields of the body that the server refuses, such as `stream_options`, `temperature` or
    /// `tools`.
    pub leave_out: Vec<String>,
    /// Fields that are merged into the body at the end: objects by key, everything else as a whole.
    pub extra: Map<String, Value>,
    /// Whether the wire wants a limit for the tokens of an answer in every request.
    pub needs_limit: bool,
}

/// Fields without which a request means the same. A server that refuses one is asked again without
/// it.
const OPTIONAL: [&str; 5] = [
    "stream_options",
    "parallel_tool_calls",
    "temperature",
    "store",
    "prompt_cache_key",
];

impl Dialect {
    /// Changes a finished body to the form that the server takes, for a model of this profile.
    ///
    /// This comes last in `Provider::body`, before hooks see the body. Fields of
    /// [`extra`](Self::extra) win over everything.
    pub fn apply(&self, body: &mut Value, profile: &ModelProfile) {
        let Value::Object(body) = body else {
            return;
        };
        if self.token_limit != TokenLimit::MaxTokens {
            rename(body, TokenLimit::MaxTokens.name(), self.token_limit.name());
        }
        if self.system_role != SystemRole::System {
            set_system_role(body, self.system_role.name());
        }
        if profile.temperature == Some(false) {
            body.shift_remove("temperature");
        }
        if profile.tools == Some(false) {
            leave_out(body, "tools");
        }
        for field in &self.leave_out {
            leave_out(body, field);
        }
        merge(body, &self.extra);
    }

    /// Returns the field that the server refused, if the error says so and the request can do
    /// without it.
    pub(super) fn refused(body: &Value, error: &Error) -> Option<&'static str> {
        let Error::BadRequest {
            status: 400 | 422,
            said,
            ..
        } = error
        else {
            return None;
        };
        let body = body.as_object()?;
        let limits = [TokenLimit::MaxTokens, TokenLimit::MaxCompletionTokens].map(TokenLimit::name);
        let is_refused = |field: &&str| body.contains_key(*field) && names(said.as_str(), field);
        if let Some(field) = OPTIONAL.iter().find(|field| is_refused(field)) {
            return Some(field);
        }
        // "max_tokens is too large: 99" is about the value: a rename would not help.
        let limit = limits.iter().find(|field| is_refused(field));
        limit.filter(|_| is_about_the_name(said.as_str())).copied()
    }

    /// Takes a refused field out of a body. One of the two limits of an answer becomes the other
    /// one.
    pub(super) fn mend(body: &mut Value, field: &str) {
        let Value::Object(body) = body else {
            return;
        };
        let [old, new] =
            [TokenLimit::MaxTokens, TokenLimit::MaxCompletionTokens].map(TokenLimit::name);
        match field {
            _ if field == old => rename(body, old, new),
            _ if field == new => rename(body, new, old),
            _ => drop(body.shift_remove(field)),
        }
    }
}

/// Whether the words of a server name a field, as a word of its own.
fn names(said: &str, field: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    said.match_indices(field).any(|(at, _)| {
        let before = said.get(..at).and_then(|text| text.chars().next_back());
        let rest = said.get(at + field.len()..);
        let after = rest.and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Whether the words of a server say that it does not know a field.
fn is_about_the_name(said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    [
        "unsupported",
        "not supported",
        "unknown",
        "unrecognized",
        "extra",
        "not permitted",
        "unexpected",
    ]
    .iter()
    .any(|word| said.contains(word))
}

fn rename(body: &mut Map<String, Value>, from: &str, to: &str) {
    if let Some(value) = body.shift_remove(from) {
        body.insert(to.to_owned(), value);
    }
}

/// Takes out a field with the fields that mean nothing without it.
fn leave_out(body: &mut Map<String, Value>, field: &str) {
    body.shift_remove(field);
    if field == "tools" {
        body.shift_remove("tool_choice");
        body.shift_remove("parallel_tool_calls");
    }
}

fn set_system_role(body: &mut Map<String, Value>, role: &str) {
    let messages = body.get_mut("messages").and_then(Value::as_array_mut);
    for message in messages.into_iter().flatten() {
        if message.get("role").and_then(Value::as_str) == Some("system") {
            message["role"] = Value::from(role);
        }
    }
}

fn merge(base: &mut Map<String, Value>, over: &Map<String, Value>) {
    for (key, value) in over {
        match (base.get_mut(key), value) {
            (Some(Value::Object(base)), Value::Object(over)) => merge(base, over),
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
    use crate::provider::server_text::ServerText;

    fn applied(dialect: &Dialect, mut body: Value, profile: &ModelProfile) -> Value {
        dialect.apply(&mut body, profile);
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
        let same = applied(&Dialect::default(), body(), &ModelProfile::default());
        assert_eq!(same, body());
    }

    #[test]
    fn a_body_takes_the_form_of_the_dialect_and_extra_fields_come_last() {
        let extra =
            json!({"provider": {"order": ["a"]}, "stream_options": {"x": 1}, "temperature": 1});
        let dialect = Dialect {
            token_limit: TokenLimit::MaxCompletionTokens,
            system_role: SystemRole::Developer,
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
        let sent = applied(&Dialect::default(), body(), &profile);
        for field in ["temperature", "tools", "tool_choice"] {
            assert_eq!(sent.get(field), None, "{field}");
        }
    }

    fn mended(status: u16, said: &str) -> Option<Value> {
        let error = Error::BadRequest {
            provider: "p".to_owned(),
            status,
            said: ServerText::new(said),
        };
        let field = Dialect::refused(&body(), &error)?;
        let mut mended = body();
        Dialect::mend(&mut mended, field);
        Some(mended)
    }

    #[test]
    fn a_refused_field_is_left_out_or_renamed_once() {
        let strict = r#"{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"Extra inputs are not permitted"}"#;
        assert_eq!(mended(422, strict).unwrap().get("stream_options"), None);
        let renamed = mended(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        )
        .unwrap();
        assert_eq!(renamed["max_completion_tokens"], 9);
        assert_eq!(renamed.get("max_tokens"), None);
        for (status, said) in [
            (400, "max_tokens is too large: 9"),
            (400, "my_stream_options is wrong"),
            (400, "messages: unknown role"),
            (429, strict),
            (400, "prompt_cache_key is not permitted"),
        ] {
            assert_eq!(mended(status, said), None, "{said}");
        }
    }
}
