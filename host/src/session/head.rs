//! Builds the head of a session, the summary that lists show, in one pass over the lines of its
//! file.
//!
//! Owns which entries determine the title, the cost and the state. Most lines are not parsed: their
//! entry type, near the beginning of the line, shows that they do not matter. A head is for lists
//! only; nothing that changes a session may depend on one. Start from [`SessionSummary`].

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::entry::{Body, Entry};
use super::guarded::LimitedFileLine;
use crate::message::Role;

/// Maximum length of the title and of the first input in a session's head, in bytes.
const MAX_TITLE_OR_FIRST_INPUT_BYTES: usize = 1 << 10;

/// Number of bytes at the beginning of a line in which the type of the line's entry is searched.
const ENTRY_TYPE_SEARCH_BYTES: usize = 512;

/// Maximum total length, in bytes, of the lines about tool calls that are kept after an answer of
/// the model, to decide whether the turn waits for the user. If the lines are longer, the state of
/// an unfinished turn is [`SessionState::Open`].
const MAX_KEPT_TOOL_CALL_LINES_BYTES: usize = 64 << 20;

/// State of the last turn of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SessionState {
    /// No turn has begun.
    #[default]
    Empty,
    /// The last turn ended.
    Finished,
    /// The last turn has not ended: it runs, or was interrupted.
    Open,
    /// The last turn has not ended, none of its tool calls runs, and its next call has not started:
    /// the turn waits for an answer of the user.
    Waiting,
}

display_as_in_json!(SessionState);

/// Summary of a session for a list.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionSummary {
    /// Id of the session.
    pub id: String,
    /// Title that the user or else a plugin gave the session; without one, the first line of the
    /// first input.
    pub title: String,
    /// Time of creation, in milliseconds since 1970.
    pub created: i64,
    /// Time of the last write, in milliseconds since 1970.
    pub updated: i64,
    /// Folder the agent worked in.
    pub workspace: String,
    /// Name of the model that the session started with.
    pub model: String,
    /// First input of the session, truncated to 1 KiB; `None` before the first turn.
    pub first_input: Option<String>,
    /// Name of the program's command that opened the session for its own purpose; `None` for an
    /// ordinary session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aside: Option<String>,
    /// Length of the session file, in bytes.
    pub bytes: u64,
    /// Number of turns of the session.
    pub turns: u64,
    /// Cost in US dollars of the requests with a known price.
    pub cost_usd: f64,
    /// Tokens of models without a known price.
    pub unpriced_tokens: u64,
    /// State of the last turn.
    pub state: SessionState,
    /// Number of lines of the session file that cannot be read.
    #[serde(default)]
    pub damaged: u64,
}

/// Returns the value of the first `"type"` near the beginning of a line; empty if there is none.
/// The type of an entry is written before its content, so a `"type"` in the content is never the
/// first.
pub(super) fn find_entry_type(line: &[u8]) -> &[u8] {
    const TYPE_FIELD_JSON_PREFIX: &[u8] = b"\"type\":\"";
    let start = line
        .get(..line.len().min(ENTRY_TYPE_SEARCH_BYTES))
        .unwrap_or_default();
    let Some(at) = memchr::memmem::find(start, TYPE_FIELD_JSON_PREFIX) else {
        return &[];
    };
    let rest = start
        .get(at + TYPE_FIELD_JSON_PREFIX.len()..)
        .unwrap_or_default();
    let end = memchr::memchr(b'"', rest).unwrap_or_default();
    rest.get(..end).unwrap_or_default()
}

/// Whether entries of this type never change the summary (head) of a session, so that their lines
/// need not be parsed.
fn is_entry_type_ignored_in_summary(kind: &[u8]) -> bool {
    const ENTRY_TYPES_IGNORED_IN_SUMMARY: &[&[u8]] = &[
        b"trace",
        b"access",
        b"state",
        b"prompt",
        b"injected",
        b"corrected",
        b"replaced",
        b"archival",
        b"resumed",
        b"subagent-start",
        b"subagent-end",
        b"skill-activated",
        b"skill-ended",
        b"skill-remembered",
        b"audit-gap",
    ];
    ENTRY_TYPES_IGNORED_IN_SUMMARY.contains(&kind)
}

/// Returns the title that an entry gives the session, if it is a plugin's custom entry named
/// `title`.
pub(super) fn title_from_plugin_entry(body: &Body) -> Option<&str> {
    match body {
        Body::Custom { name, value, .. } if name == "title" => {
            value.as_str().filter(|title| !title.trim().is_empty())
        }
        _ => None,
    }
}

/// Whether a plugin's custom entry may set the title, judged by the first bytes of its line.
fn may_set_session_title(line: &[u8]) -> bool {
    let start = line
        .get(..line.len().min(ENTRY_TYPE_SEARCH_BYTES))
        .unwrap_or_default();
    memchr::memmem::find(start, b"\"name\":\"title\"").is_some()
}

/// Builds a head from the lines of a session file.
#[derive(Default)]
pub(super) struct SessionSummaryBuilder {
    head: SessionSummary,
    given: Option<String>,
    /// Title that a plugin gave the session.
    by_plugin: Option<String>,
    is_open: bool,
    /// Cost in US dollars and unpriced tokens of the open turn so far. The entry at the end of the
    /// turn replaces them with its totals.
    running: (f64, u64),
    /// Line in the session file with the model's last message. `since` has the lines about tool
    /// calls that follow it.
    last: Vec<u8>,
    since: Vec<Vec<u8>>,
    /// Total length, in bytes, of the lines about tool calls after the line in `last`. It includes
    /// lines that are no longer stored in `since`.
    since_bytes: usize,
}

impl SessionSummaryBuilder {
    /// Updates the summary of the session with the next line of its file.
    pub(super) fn apply_line(&mut self, line: &LimitedFileLine<'_>) {
        let line = match line {
            LimitedFileLine::Whole(line) | LimitedFileLine::Torn(line) => *line,
            LimitedFileLine::TooLong(_) => {
                self.head.damaged += 1;
                return;
            }
        };
        match find_entry_type(line) {
            kind if is_entry_type_ignored_in_summary(kind) => return,
            b"custom" if !may_set_session_title(line) => return,
            b"message" => {
                let is_answer = memchr::memmem::find(line, b"\"role\":\"assistant\"").is_some();
                if is_answer {
                    self.last = line.to_vec();
                    self.discard_tool_call_lines();
                } else {
                    self.keep_tool_call_line(line);
                }
                return;
            }
            b"tool-start" | b"tool-end" => {
                self.keep_tool_call_line(line);
                return;
            }
            _ => {}
        }
        match Entry::parse_line(line) {
            Ok(entry) => self.apply_entry(&entry),
            Err(_) => self.head.damaged += 1,
        }
    }

    /// Stores a line about tool calls in `since`, unless the limit
    /// [`MAX_KEPT_TOOL_CALL_LINES_BYTES`] is exceeded.
    fn keep_tool_call_line(&mut self, line: &[u8]) {
        self.since_bytes = self.since_bytes.saturating_add(line.len());
        if self.since_bytes <= MAX_KEPT_TOOL_CALL_LINES_BYTES {
            self.since.push(line.to_vec());
        }
    }

    fn discard_tool_call_lines(&mut self) {
        self.since.clear();
        self.since_bytes = 0;
    }

    fn apply_entry(&mut self, entry: &Entry) {
        let head = &mut self.head;
        match &entry.body {
            Body::Session {
                workspace, model, ..
            } => {
                head.created = entry.time;
                head.workspace.clone_from(workspace);
                head.model.clone_from(model);
            }
            Body::Aside { by } => head.aside = Some(by.clone()),
            Body::Title { title } => self.given = Some(truncate_text(title)),
            Body::Custom { .. } => {
                let title = title_from_plugin_entry(&entry.body).map(truncate_text);
                self.by_plugin = title.or_else(|| self.by_plugin.take());
            }
            Body::TurnStart { input, .. } => {
                head.turns += 1;
                if head.first_input.is_none() {
                    head.first_input = Some(truncate_text(input));
                }
                self.is_open = true;
                self.add_turn_cost();
                self.last.clear();
                self.discard_tool_call_lines();
            }
            Body::TurnEnd { summary, .. } => {
                self.running = (summary.cost_usd, summary.unpriced_tokens);
                self.is_open = false;
                self.add_turn_cost();
            }
            Body::Cut { .. } => self.is_open = false,
            Body::Command {
                cost_usd,
                unpriced_tokens,
                ..
            }
            | Body::LoopRun {
                cost_usd,
                unpriced_tokens,
                ..
            } => self.add_cost(*cost_usd, *unpriced_tokens),
            Body::Step {
                cost_usd, usage, ..
            }
            | Body::Asked {
                cost_usd, usage, ..
            }
            | Body::HostAsked {
                cost_usd, usage, ..
            }
            | Body::Unanswered {
                cost_usd, usage, ..
            } => match cost_usd {
                Some(usd) => self.running.0 += usd,
                None => self.running.1 = self.running.1.saturating_add(usage.total()),
            },
            _ => {}
        }
    }

    /// Adds the cost of the turn to the cost of the session.
    fn add_turn_cost(&mut self) {
        let (usd, tokens) = std::mem::take(&mut self.running);
        self.add_cost(usd, tokens);
    }

    fn add_cost(&mut self, usd: f64, tokens: u64) {
        self.head.cost_usd += usd;
        self.head.unpriced_tokens = self.head.unpriced_tokens.saturating_add(tokens);
    }

    pub(super) fn finish(mut self) -> SessionSummary {
        self.add_turn_cost();
        self.head.state = match (self.head.turns, self.is_open) {
            (0, _) => SessionState::Empty,
            (_, false) => SessionState::Finished,
            (_, true) if self.is_waiting_for_user() => SessionState::Waiting,
            (_, true) => SessionState::Open,
        };
        let first = self.head.first_input.as_deref().unwrap_or_default();
        let line = first.lines().find(|line| !line.trim().is_empty());
        let title = self
            .given
            .or(self.by_plugin)
            .unwrap_or_else(|| line.unwrap_or_default().trim().to_owned());
        self.head.title = title;
        self.head
    }

    /// Whether the last message of the model contains a tool call that has not started, while none
    /// of its calls is running.
    fn is_waiting_for_user(&self) -> bool {
        if self.since_bytes > MAX_KEPT_TOOL_CALL_LINES_BYTES {
            return false;
        }
        let Ok(Entry {
            body: Body::Message { message },
            ..
        }) = Entry::parse_line(&self.last)
        else {
            return false;
        };
        let (mut begun, mut ended) = (HashSet::new(), HashSet::new());
        for line in &self.since {
            match Entry::parse_line(line).map(|entry| entry.body) {
                Ok(Body::ToolStart { call, .. }) => begun.extend([call]),
                Ok(Body::ToolEnd { call, .. }) => ended.extend([call]),
                Ok(Body::Message { message }) if message.role == Role::Tool => {
                    ended.extend(message.tool_results().map(|result| result.call_id.clone()));
                }
                _ => {}
            }
        }
        let runs = begun.iter().any(|call| !ended.contains(call));
        let is_ahead = |id: &str| !begun.contains(id) && !ended.contains(id);
        !runs && message.tool_calls().any(|call| is_ahead(&call.id))
    }
}

fn truncate_text(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TITLE_OR_FIRST_INPUT_BYTES);
    text.get(..end).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(lines: &[&str]) -> SessionSummary {
        let mut builder = SessionSummaryBuilder::default();
        for (at, line) in lines.iter().enumerate() {
            let line = format!(r#"{{"id":"{at}","parent":null,"time":{at},{line}}}"#);
            builder.apply_line(&LimitedFileLine::Whole(line.as_bytes()));
        }
        builder.finish()
    }

    const HEADER: &str =
        r#""type":"session","version":1,"workspace":"/w","provider":"p","model":"m""#;
    const START: &str =
        r#""type":"turn-start","turn":1,"input":"\n first words\nmore","source":"terminal""#;
    const CALLS: &str = r#""type":"message","message":{"id":"m","role":"assistant","content":[{"type":"tool_call","id":"1","name":"bash","arguments":{}}]}"#;
    const BEGIN: &str = r#""type":"tool-start","call":"1","name":"bash","effect_class":"execute""#;
    const END: &str = r#""type":"tool-end","call":"1","duration_ms":3"#;
    const STEP: &str = r#""type":"step","turn":1,"step":1,"model":"m","usage":{"input_tokens":1,"output_tokens":1},"cost_usd":0.25,"latency_ms":1"#;
    const CUT: &str = r#""type":"cut","turn":1,"reason":"r","calls":[]"#;
    const TITLE: &str = r#""type":"title","title":"Other words""#;
    const OF_PLUGIN: &str =
        r#""type":"custom","plugin":"titles","name":"title","value":"By a model""#;
    const NO_TITLE: &str = r#""type":"custom","plugin":"titles","name":"title","value":{"a":1}"#;
    const OTHER: &str = r#""type":"custom","plugin":"titles","name":"other","value":"No title""#;

    #[test]
    fn the_state_is_that_of_the_last_turn() {
        for (lines, state) in [
            (vec![HEADER], SessionState::Empty),
            (vec![HEADER, START], SessionState::Open),
            (vec![HEADER, START, STEP, CALLS], SessionState::Waiting),
            (vec![HEADER, START, CALLS, BEGIN], SessionState::Open),
            (vec![HEADER, START, CALLS, BEGIN, END], SessionState::Open),
            (vec![HEADER, START, CALLS, CUT], SessionState::Finished),
        ] {
            assert_eq!(head(&lines).state, state, "{lines:?}");
        }
    }

    #[test]
    fn lines_about_calls_are_kept_up_to_a_limit() {
        let mut builder = SessionSummaryBuilder {
            since_bytes: MAX_KEPT_TOOL_CALL_LINES_BYTES,
            ..SessionSummaryBuilder::default()
        };
        builder.apply_line(&LimitedFileLine::Whole(br#"{"type":"tool-start"}"#));
        assert!(builder.since.is_empty() && !builder.is_waiting_for_user());
        builder.apply_line(&LimitedFileLine::Whole(
            br#"{"type":"message","message":{"role":"assistant"}}"#,
        ));
        builder.apply_line(&LimitedFileLine::Whole(br#"{"type":"tool-start"}"#));
        assert_eq!(builder.since.len(), 1, "an answer begins anew");
    }

    #[test]
    fn the_title_is_the_one_given_or_else_the_first_line_said() {
        let found = head(&[HEADER, START, STEP, "\"type\":\"turn-start\"", "x"]);
        assert_eq!(found.title, "first words");
        assert_eq!((found.turns, found.damaged, found.cost_usd), (1, 2, 0.25));
        let found = head(&[HEADER, START, TITLE]);
        assert_eq!((&*found.title, &*found.workspace), ("Other words", "/w"));
        // A plugin's title counts more than the first input, and less than a person's.
        for lines in [
            &[HEADER, START, OF_PLUGIN, OTHER, NO_TITLE][..],
            &[HEADER, OF_PLUGIN, START],
        ] {
            assert_eq!(head(lines).title, "By a model");
        }
        assert_eq!(
            head(&[HEADER, START, TITLE, OF_PLUGIN]).title,
            "Other words"
        );
    }
}
