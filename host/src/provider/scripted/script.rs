//! File format of the scripted provider.
//!
//! Owns the format and its checks: unknown fields are rejected, and an error names the line of the
//! reply if it is known. It must not know when a reply is used (see `pick`). Start from [`Script`].

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::message::Usage;
use crate::provider::error::Error;
use crate::text::line_number_at;

/// List of scripted replies of a model, from a TOML or JSON file or built in code.
#[derive(Clone, Debug, PartialEq)]
pub struct Script {
    /// Path of the file, or another name of the source, for errors.
    pub name: String,
    /// Replies, in the order of the file.
    pub replies: Vec<Reply>,
}

/// Reply of the simulated model to one request.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reply {
    /// Conditions for using the reply. Replies without conditions are used in order.
    pub when: Option<ReplyCondition>,
    /// Maximum number of uses; 0 means unlimited, and the default is 1.
    pub times: Option<u32>,
    /// Reasoning that precedes the text.
    pub thinking: Option<String>,
    /// Text of the answer. `{input}` is replaced by the last user text, and `{tool_result}` by the
    /// start of the last tool result.
    pub text: Option<String>,
    /// Tool calls, which follow the text.
    pub tool_calls: Vec<ScriptedToolCall>,
    /// Failure to simulate instead of an answer.
    pub error: Option<ReplyError>,
    /// Finish reason of the answer; the default is `Done`.
    pub finish: Option<ReplyFinish>,
    /// Delay before the answer begins, in milliseconds.
    pub delay_ms: u64,
    /// Delay after each word, in milliseconds.
    pub word_ms: u64,
    /// Tokens used; by default they are estimated at four characters per token.
    pub usage: Option<ReplyUsage>,
}

/// Conditions for using a reply. All given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReplyCondition {
    /// Text that the last user text must contain, ignoring case.
    pub contains: Option<String>,
    /// Name of a tool: the conversation must end with tool results, one of which is from this tool.
    pub after_tool: Option<String>,
    /// Number of the request since the last user message, from 1.
    pub step: Option<u32>,
}

/// Tool call in a reply of the simulated model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedToolCall {
    /// Id of the call; by default `call_N`, where N counts the calls of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Name of the tool.
    pub name: String,
    /// Arguments of the call; `{}` by default. A string is sent unparsed, to simulate a model that
    /// writes invalid arguments.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

/// Failure of a request that the scripted provider simulates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplyError {
    /// HTTP status of the simulated answer.
    pub status: u16,
    /// Error message in the simulated answer.
    pub message: String,
}

/// Finish reason of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplyFinish {
    /// The token limit was reached.
    MaxTokens,
    /// The provider withheld the answer.
    Refused,
}

/// Tokens of a reply. The fields are those of [`Usage`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "documented once, in Usage")]
pub struct ReplyUsage {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub cache_read_tokens: u64,
    pub cache_write_tokens: u64,
}

impl From<ReplyUsage> for Usage {
    fn from(usage: ReplyUsage) -> Self {
        Self {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            cache_read_tokens: usage.cache_read_tokens,
            cache_write_tokens: usage.cache_write_tokens,
            estimated: false,
        }
    }
}

fn no_arguments() -> Value {
    Value::Object(Map::new())
}

impl Reply {
    /// Creates a reply with a text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// Creates a reply with a single tool call.
    #[must_use]
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        Self::default().with_tool_call(name, arguments)
    }

    /// Adds a tool call to the reply.
    #[must_use]
    pub fn with_tool_call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.tool_calls.push(ScriptedToolCall {
            id: None,
            name: name.into(),
            arguments,
        });
        self
    }

    fn find_reply_fault(&self) -> Option<&'static str> {
        let answers = self.text.is_some() || self.thinking.is_some() || !self.tool_calls.is_empty();
        match (&self.error, answers) {
            (None, false) => Some("a reply needs `text`, `thinking`, `tool_calls` or `error`"),
            (Some(_), true) => Some("a reply with `error` cannot answer as well"),
            _ if self.when.as_ref() == Some(&ReplyCondition::default()) => {
                Some("`when` needs `contains`, `after_tool` or `step`")
            }
            _ => None,
        }
    }
}

/// Contents of a script file. `R` is the type of a reply: for TOML it also has the position of the
/// reply in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelScriptFile<R> {
    #[serde(default = "Vec::new")]
    reply: Vec<R>,
}

impl Script {
    /// Creates a script from replies that are built in code.
    #[must_use]
    pub fn new(replies: Vec<Reply>) -> Self {
        Self {
            name: "(made in code)".to_owned(),
            replies,
        }
    }

    /// Reads a file: JSON if its extension is `json`, otherwise TOML.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::ReadScript {
            path: path.to_owned(),
            source,
        })?;
        let name = path.display().to_string();
        let end = path.extension();
        if end.is_some_and(|end| end.eq_ignore_ascii_case("json")) {
            return Self::from_json(name, &text);
        }
        Self::from_toml(name, &text)
    }

    /// Parses `[[reply]]` tables in TOML. `name` is the name of the script in errors.
    pub fn from_toml(name: impl Into<String>, text: &str) -> Result<Self, Error> {
        let name = name.into();
        let file: ModelScriptFile<toml::Spanned<Reply>> =
            toml::from_str(text).map_err(|error| {
                let line = error.span().map(|span| line_number_at(text, span.start));
                script_error_at_line(name.clone(), line, error.message())
            })?;
        let line = |reply: &toml::Spanned<Reply>| line_number_at(text, reply.span().start);
        let lines: Vec<usize> = file.reply.iter().map(line).collect();
        let replies = file.reply.into_iter().map(toml::Spanned::into_inner);
        Self::check_script(name, replies.collect(), |n| lines.get(n).copied())
    }

    /// Parses a JSON object with the list `reply`. `name` is the name of the script in errors.
    pub fn from_json(name: impl Into<String>, text: &str) -> Result<Self, Error> {
        let name = name.into();
        let file: ModelScriptFile<Reply> = serde_json::from_str(text).map_err(|error| {
            script_error_at_line(name.clone(), Some(error.line()), &error.to_string())
        })?;
        Self::check_script(name, file.reply, |_| None)
    }

    fn check_script(
        name: String,
        replies: Vec<Reply>,
        line: impl Fn(usize) -> Option<usize>,
    ) -> Result<Self, Error> {
        for (n, reply) in replies.iter().enumerate() {
            if let Some(complaint) = reply.find_reply_fault() {
                let what = format!("reply {}: {complaint}", n + 1);
                return Err(script_error_at_line(name, line(n), &what));
            }
        }
        Ok(Self { name, replies })
    }
}

/// Returns the error for a fault of a script. The error names the line of the fault if it is known.
fn script_error_at_line(script: String, line: Option<usize>, what: &str) -> Error {
    let line = line.map(|line| format!(", line {line}"));
    let what = format!("{}: {what}", line.unwrap_or_default());
    Error::Script { script, what }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::parse_table_rows;

    #[test]
    fn toml_and_json_say_the_same() {
        let toml = r#"
            [[reply]]
            when = { contains = "weather", step = 1 }
            times = 0
            thinking = "hm"
            text = "Looking."
            delay_ms = 5
            usage = { input_tokens = 3, output_tokens = 4 }
            [[reply.tool_calls]]
            name = "look"
            arguments = { at = ["sky", 1, true] }
            [[reply.tool_calls]]
            name = "wait"

            [[reply]]
            error = { status = 529, message = "busy" }
        "#;
        let json = json!({"reply": [
            {
                "when": {"contains": "weather", "step": 1}, "times": 0, "thinking": "hm", "text": "Looking.",
                "delay_ms": 5, "usage": {"input_tokens": 3, "output_tokens": 4},
                "tool_calls": [{"name": "look", "arguments": {"at": ["sky", 1, true]}}, {"name": "wait"}],
            },
            {"error": {"status": 529, "message": "busy"}},
        ]});
        let from_toml = Script::from_toml("s", toml).unwrap();
        let from_json = Script::from_json("s", &json.to_string()).unwrap();
        assert_eq!(from_toml, from_json);
        let first = &from_toml.replies[0];
        assert_eq!(first.tool_calls[1].arguments, json!({}));
        assert_eq!(first.times, Some(0));
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        let fields = "expected one of `when`, `times`, `thinking`, `text`, `tool_calls`, `error`, `finish`, `delay_ms`, `word_ms`, `usage`";
        let table = r#"
[[reply]]⏎text = "a"⏎txt = 1 => 3: unknown field `txt`, FIELDS
[[reply]]⏎text = "a"⏎[reply.when]⏎until = 1 => 4: unknown field `until`, expected one of `contains`, `after_tool`, `step`
[[replies]] => 1: unknown field `replies`, expected `reply`
[[reply]]⏎text = "a"⏎⏎[[reply]]⏎times = 2 => 4: reply 2: a reply needs `text`, `thinking`, `tool_calls` or `error`
[[reply]]⏎text = "a"⏎error = { status = 500, message = "b" } => 1: reply 1: a reply with `error` cannot answer as well
[[reply]]⏎text = "a"⏎when = {} => 1: reply 1: `when` needs `contains`, `after_tool` or `step`
[[reply⏎ => 1:
"#;
        for [toml, expected] in parse_table_rows(table) {
            let error = Script::from_toml("s", &toml).unwrap_err().to_string();
            let expected = format!("script s, line {}", expected.replace("FIELDS", fields));
            assert!(error.starts_with(&expected), "{error}");
        }
        let error = Script::from_json("s", "{\"reply\": [\n{\"txt\": 1}]}").unwrap_err();
        let expected = "script s, line 2: unknown field `txt`";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
