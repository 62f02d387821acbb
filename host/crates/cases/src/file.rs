//! Format of case files: `[[case]]` tables with `given` and `expect`.
//!
//! The types here define the format. [`CaseFileFormat::find_validation_error`] checks a case for
//! contradictions, for example a case without expectations, which could never fail. The module
//! `read` reads the files, and `steps` has the format of a case's further turns.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::event::{GivenEvent, deserialize_events};
use super::payload::deserialize_messages;
pub use super::read::CaseFileError;
use super::skill::CannedTool;
use super::steps::{CaseStep, find_first_step_fault};
use super::words::{find_unknown_expectation_term, unknown_extension_point_message};
use rind_lib::message::Message;
use rind_lib::plugin::fixed::FixedClockAndRandomSeed;
use rind_lib::point::catalog;
use rind_lib::provider::scripted::Reply;

/// JSON Schema of a case file, for editors.
pub const CASE_FILE_JSON_SCHEMA: &str = include_str!("cases.schema.json");

/// Error message for a test case without expectations.
pub(super) const CASE_WITHOUT_EXPECTATIONS_ERROR: &str =
    "it has no expectations and would always pass; add `expect`";

/// File with test cases of a plugin or of a skill.
#[derive(Debug)]
pub struct CaseFile<C = PluginCase> {
    /// Path of the case file.
    pub path: PathBuf,
    /// Test cases, in the order of the file.
    pub cases: Vec<C>,
}

/// Format of the test cases in a file. Plugins and skills have different formats.
pub trait CaseFileFormat: DeserializeOwned {
    /// Whether the directory of the cases may be a symlink. Plugins in several languages can then
    /// share their cases. No file is written through such a symlink.
    const ALLOWS_SYMLINKED_FOLDER: bool;

    /// Returns the name of the case.
    fn name(&self) -> &str;
    /// Whether the behavior in the case is compared with a snapshot.
    fn is_case_snapshot_checked(&self) -> bool;
    /// Returns the reason why the case is invalid, for example because its parts contradict each
    /// other; `None` if it is valid.
    fn find_validation_error(&self) -> Option<String>;
    /// Stores the number of the line at which the case begins.
    fn set_start_line_number(&mut self, line: usize);
}

/// Case of a plugin: a situation and the expected behavior.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PluginCase {
    /// Name of the case, unique in its file.
    pub name: String,
    /// Situation in which the first turn runs.
    #[serde(default)]
    pub given: CaseGiven,
    /// Expected behavior in the first turn.
    #[serde(default)]
    pub expect: CaseExpectation,
    /// Further steps in order: turns, commands, runs of the loop, or calls of hooks.
    #[serde(default)]
    pub then: Vec<CaseStep>,
    /// Number of the line in the file at which the case begins.
    #[serde(skip)]
    pub line: usize,
}

/// Input of a turn and its environment, or the hooks to call. All fields are optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaseGiven {
    /// User's input for the turn.
    pub input: Option<String>,
    /// Tool call that the model makes before it sends the responses in `reply`.
    pub tool: Option<GivenToolCall>,
    /// Hooks that are called instead of a turn, in order.
    #[serde(deserialize_with = "deserialize_events")]
    pub event: Vec<GivenEvent>,
    /// Slash command of the plugin that is called instead of a turn. If the command returns an
    /// input for a turn, the input is compared with `expect.prompt`, and no turn starts.
    pub command: Option<GivenCommand>,
    /// Whether to run the plugin's loop once instead of a turn.
    #[serde(rename = "loop")]
    pub runs_loop: bool,
    /// Responses of the scripted model, which follow the call in `tool`.
    pub reply: Vec<Reply>,
    /// Earlier messages of the session: `role`, `text`, `tool_calls`, `tool_results`.
    #[serde(deserialize_with = "deserialize_messages")]
    pub conversation: Vec<Message>,
    /// Settings of the plugin, as in its section of `config.toml`.
    pub config: toml::Table,
    /// Values that the plugin's store contains before the turn, by key.
    pub store: BTreeMap<String, String>,
    /// Values that the plugin's session state contains before the turn, by key.
    pub state: BTreeMap<String, String>,
    /// Text files in the workspace before the turn: content by path.
    pub files: BTreeMap<String, String>,
    /// Files that are copied into the workspace and may have any content: the path in the
    /// workspace, and the path in `tests`.
    pub fixtures: BTreeMap<String, String>,
    /// Test doubles of tools that other plugins or the program offer, such as `bash`; the key is
    /// the tool's name.
    pub tools: BTreeMap<String, CannedTool>,
    /// Responses that requests of the plugin over HTTP get.
    pub http: Vec<CannedResponse>,
    /// Messages that the plugin receives over WebSocket connections.
    pub websockets: Vec<CannedWebSocket>,
    /// Time that the plugin's clock always shows, in RFC 3339; the beginning of 2026 if absent.
    pub clock: Option<String>,
    /// Seed of the random numbers that the plugin gets; 0 if absent.
    pub seed: Option<u64>,
    /// Secrets that the plugin's requests can use as credentials, by name.
    pub secrets: BTreeMap<String, String>,
    /// Scripted answers to approval questions: `yes`, `always`, or `no REASON`. If absent, every
    /// call is approved.
    pub answers: Option<Vec<String>>,
    /// Scripted replies to the plugin's own questions, in order: `yes` or `no`, an option, or a
    /// text. If absent, there is no person, and the plugin's defaults apply.
    pub replies: Option<Vec<String>>,
}

/// Call of a slash command that a case makes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenCommand {
    /// Name of the command, without the slash.
    pub name: String,
    /// Arguments: a table if the command has a schema, otherwise the text after the command's name.
    #[serde(default)]
    pub arguments: Option<Value>,
}

/// Tool call that the model makes in a case.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GivenToolCall {
    /// Name of the tool that the model calls.
    pub name: String,
    /// Arguments of the tool call.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

/// Canned response to an HTTP request that the plugin sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CannedResponse {
    /// Method of the request that gets this response; any method if absent.
    pub method: Option<String>,
    /// Complete URL of the request that gets this response.
    pub url: String,
    /// Headers that the request must have to get this response, including credentials; names in
    /// lower case.
    #[serde(default)]
    pub with: BTreeMap<String, String>,
    /// HTTP status code of the response; 200 if absent.
    #[serde(default = "ok_status")]
    pub status: u16,
    /// Headers of the response.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// Body of the response.
    #[serde(default)]
    pub body: String,
}

/// Canned messages that arrive on a WebSocket once it is open.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CannedWebSocket {
    /// Complete URL of the WebSocket connection, including a path.
    pub url: String,
    /// Text messages that the server sends, in order.
    #[serde(default)]
    pub messages: Vec<String>,
}

fn ok_status() -> u16 {
    200
}

/// Expected behavior. Absent fields are not compared, except that a failed turn is an error unless
/// `stop` expects the failure.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaseExpectation {
    /// Output of the turn, the text that the command printed, or the reason why the command or the
    /// loop failed.
    pub output: Option<String>,
    /// Expected request of the loop for its next run.
    pub again: Option<ExpectedNextLoopRun>,
    /// Whether the loop must report that it is done.
    pub done: Option<bool>,
    /// Input for a turn that the slash command must return.
    pub prompt: Option<String>,
    /// Questions that the plugin asked, in order, each with its answer, for example `Commit on
    /// main? no`.
    pub asked: Option<Vec<String>>,
    /// Expected status line of the plugin after the turn.
    pub status: Option<String>,
    /// Expected stop reason of the turn: `done`, `blocked`, `max-steps`, `failed`.
    pub stop: Option<String>,
    /// Texts of all tool results, in order, as the model sees them.
    pub results: Option<Vec<String>>,
    /// Outcomes of the plugin's hooks, by point. If a hook is called several times, one of the
    /// calls must match.
    pub hooks: BTreeMap<String, HookExpectation>,
    /// All accesses of the plugin, in order, for example `network GET https://example.com/ done`.
    pub accesses: Option<Vec<String>>,
    /// All denied accesses of the plugin, in order, in the form of `accesses` but without the
    /// outcome at the end.
    pub denials: Option<Vec<String>>,
    /// Texts that occur in the plugin's notices, in order; an empty list expects no notices.
    pub notices: Option<Vec<String>>,
    /// Texts that occur in the system prompt of the last request, in order.
    pub system: Option<Vec<String>>,
    /// Texts that occur in the messages that the plugin added, in order.
    pub injected: Option<Vec<String>>,
    /// Texts that occur in the hooks' warnings for the model, in order. Allowed only in cases with
    /// `given.event`.
    pub notes: Option<Vec<String>>,
    /// Payload of the last event, as changed by the hooks. Of an object, only the fields in the
    /// case are compared; of a list, all items.
    pub payload: Option<Value>,
    /// Whether to compare all observed behavior with the snapshot in `tests/snapshots`.
    pub snapshot: bool,
    /// Texts that occur in the plugin's log lines, in order.
    pub log: Option<Vec<String>>,
    /// Expected values of the plugin's metrics, by name.
    pub metrics: BTreeMap<String, f64>,
    /// Content of text files in the workspace after the turn, by path.
    pub files: BTreeMap<String, String>,
}

/// Expected next run of a loop. Absent fields are not compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExpectedNextLoopRun {
    /// Expected delay before the next run, in milliseconds.
    pub after_ms: Option<u64>,
    /// Text that occurs in the reason for the next run.
    pub reason: Option<String>,
}

/// Outcome that a hook must have, alone or with its reason and changes.
#[derive(Clone, Debug, PartialEq)]
pub enum HookExpectation {
    /// Only the name of the outcome: `pass`, `changed`, `asked`, `blocked`, `failed`,
    /// `failed-blocking`.
    Outcome(String),
    /// Outcome of the hook, together with the hook's reason and the parts that the hook changed.
    Whole {
        /// Name of the outcome, such as `pass` or `blocked`.
        outcome: String,
        /// Text that must occur in the hook's reason.
        reason: Option<String>,
        /// Names of all parts that the hook must change, in order.
        changed: Option<Vec<String>>,
    },
}

/// Fields of [`HookExpectation::Whole`], as in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DetailedHookExpect {
    outcome: String,
    reason: Option<String>,
    changed: Option<Vec<String>>,
}

impl<'de> Deserialize<'de> for HookExpectation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HookExpectationVisitor)
    }
}

/// Deserializes either form of [`HookExpectation`], so that an error message refers to the form in
/// the file. An untagged enum would report only that neither form matches.
struct HookExpectationVisitor;

impl<'de> Visitor<'de> for HookExpectationVisitor {
    type Value = HookExpectation;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(
            "an outcome such as \"blocked\", or a table of `outcome`, `reason` and `changed`",
        )
    }

    fn visit_str<E>(self, outcome: &str) -> Result<HookExpectation, E> {
        Ok(HookExpectation::Outcome(outcome.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HookExpectation, A::Error> {
        let whole = DetailedHookExpect::deserialize(MapAccessDeserializer::new(map))?;
        Ok(HookExpectation::Whole {
            outcome: whole.outcome,
            reason: whole.reason,
            changed: whole.changed,
        })
    }
}

impl CaseFileFormat for PluginCase {
    const ALLOWS_SYMLINKED_FOLDER: bool = true;

    fn name(&self) -> &str {
        &self.name
    }

    fn is_case_snapshot_checked(&self) -> bool {
        self.expect.snapshot
    }

    fn set_start_line_number(&mut self, line: usize) {
        self.line = line;
    }

    fn find_validation_error(&self) -> Option<String> {
        let (given, expect) = (&self.given, &self.expect);
        if let Err(why) =
            FixedClockAndRandomSeed::with_clock_and_seed(given.clock.as_deref(), given.seed)
        {
            return Some(format!("`given.clock`: {why}"));
        }
        if let Some(fault) =
            find_unknown_expectation_term(expect).or_else(|| find_first_step_fault(&self.then))
        {
            return Some(fault);
        }
        if let Some(event) = given.event.iter().find(|event| {
            !event.is_plugin_defined()
                && catalog::find_builtin_extension_point(&event.point).is_none()
        }) {
            return Some(format!(
                "{}; the README of the plugin contract lists all points",
                unknown_extension_point_message(&event.point)
            ));
        }
        let is_of_command = ("expect.prompt", expect.prompt.is_some());
        let is_of_loop = [
            ("expect.again", expect.again.is_some()),
            ("expect.done", expect.done.is_some()),
        ];
        let named = |list: &[(&'static str, bool)]| {
            list.iter()
                .find(|(_, is_there)| *is_there)
                .map(|(name, _)| *name)
        };
        let in_place_of_turn = match (&given.command, given.runs_loop) {
            (Some(_), _) => Some(("given.command", &is_of_loop[..])),
            (None, true) => Some(("given.loop", std::slice::from_ref(&is_of_command))),
            (None, false) => None,
        };
        if let Some((what, of_others)) = in_place_of_turn {
            let others = [
                ("given.input", given.input.is_some()),
                ("given.tool", given.tool.is_some()),
                ("given.event", !given.event.is_empty()),
                ("given.loop", given.runs_loop && given.command.is_some()),
                ("expect.stop", expect.stop.is_some()),
            ];
            let name = named(&others).or_else(|| named(of_others))?;
            return Some(format!("`{name}` does not apply to a case of `{what}`"));
        }
        if expect.prompt.is_some() {
            return Some("`expect.prompt` needs `given.command`".to_owned());
        }
        if let Some(name) = named(&is_of_loop) {
            return Some(format!("`{name}` needs `given.loop`"));
        }
        let is_turn = given.event.is_empty();
        let of_turn = [
            ("given.input", given.input.is_some()),
            ("given.tool", given.tool.is_some()),
            ("expect.output", expect.output.is_some()),
            ("expect.stop", expect.stop.is_some()),
        ];
        let of_event = [
            ("expect.payload", expect.payload.is_some()),
            ("expect.notes", expect.notes.is_some()),
        ];
        if is_turn {
            let name = named(&of_event)?;
            Some(format!("`{name}` needs `given.event`"))
        } else {
            let name = named(&of_turn)?;
            Some(format!(
                "`{name}` needs a turn, but `given.event` calls hooks without a turn"
            ))
        }
    }
}
