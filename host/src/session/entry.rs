//! Entries of a session file.
//!
//! Owns the entry types and their JSON. A type that this version does not know is kept as it is, so that an old host can
//! open what a newer one wrote. Start from [`Body`].

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::{CommandResult, LoopResult};
use crate::message::{EffectClass, Message, ToolResult, Usage};
use crate::point::payload::{Source, Tier, TurnSummary};
use crate::point::trace::{AccessRecord, TraceRecord};

/// Version of the format. A file with a higher one is refused: its known entries may mean something else.
pub const VERSION: u32 = 1;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Unique within the session.
    pub id: String,
    /// Id of the entry before it; `None` for the first.
    pub parent: Option<String>,
    /// Time of the entry, in milliseconds since 1970.
    pub time: i64,
    /// Content of the entry.
    #[serde(flatten)]
    pub body: Body,
}

/// One part of a system prompt, as the ledger keeps it: enough to see who changed the prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptRow {
    /// Tier of the part.
    pub tier: Tier,
    /// Key of the part.
    pub key: String,
    /// Author of the part.
    pub source: String,
    /// Length of the text.
    pub bytes: usize,
    /// Tokens of the part, estimated.
    pub tokens: u64,
    /// First 16 hex digits of the text's BLAKE3 hash.
    pub hash: String,
}

/// A subagent without tools that keeps an archived turn. Its session is the file `agents/ID/session.jsonl` beside this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Id of the subagent.
    pub agent: String,
    /// Subject of the turn, one line.
    pub task: String,
}

/// A finished turn that is to be archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueTurn {
    /// Number of the turn.
    pub turn: u32,
    /// Reason: `max-steps`, `tool-calls` or `token-threshold`.
    pub reason: String,
    /// Number of attempts.
    pub tries: u32,
}

/// Reason of the end of a skill: the user said so.
pub(crate) const DONE: &str = "done";

/// A skill that stays active from turn to turn, as [`Body::SkillActivated`] keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastingSkill {
    /// Id of the skill.
    pub skill: String,
    /// Trust of its source.
    pub trust: String,
    /// Digest of the skill.
    pub hash: String,
    /// Maker of the call.
    pub by: String,
    /// Tools that its allow list names; `None` without one.
    pub allow: Option<Vec<String>>,
    /// Tools that it denies.
    pub deny: Vec<String>,
}

/// A skill of which a session remembers something, as [`Body::SkillRemembered`] keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedSkill {
    /// Id of the skill.
    pub skill: String,
    /// Trust of its source.
    pub trust: String,
    /// Digest of the skill.
    pub hash: String,
    /// Whether a person let it be used when they were asked; otherwise it was used.
    pub is_confirmed: bool,
}

/// Content of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Body {
    /// The header, in the first line.
    Session {
        /// Version of the format.
        version: u32,
        /// Folder the agent works in.
        workspace: String,
        /// Name of the provider.
        provider: String,
        /// Name of the model.
        model: String,
        /// Id of the session whose agent ran this one's, a subagent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_session: Option<String>,
    },
    /// The session was opened again.
    Resumed {
        /// Name of the provider from here on.
        provider: String,
        /// Name of the model from here on.
        model: String,
    },
    /// The lines before this one are those of another session, from which this one was forked.
    Forked {
        /// Id of that session.
        from: String,
    },
    /// A command of the program opened the session for a request of its own: `last` means the one before it.
    Aside {
        /// Name of the command.
        by: String,
    },
    /// A finished turn is to be archived, or no longer is; the last entry of a turn counts.
    Archival {
        /// Number of the turn.
        turn: u32,
        /// Reason: `max-steps`, `tool-calls` or `token-threshold`.
        reason: String,
        /// Number of attempts.
        tries: u32,
        /// Whether nothing more is to be done.
        is_over: bool,
    },
    /// A finished message.
    Message {
        /// Message as it stands in the conversation.
        message: Message,
    },
    /// A turn starts.
    TurnStart {
        /// Number of the turn.
        turn: u32,
        /// The text that came in, before any hook.
        input: String,
        /// Source of the input.
        source: Source,
        /// The slash command that made the input, and its source.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
    },
    /// A slash command of a plugin was run, between two turns.
    Command {
        /// Name of the plugin.
        plugin: String,
        /// Name of the command.
        command: String,
        /// Result of the command.
        outcome: CommandResult,
        /// Reason why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Milliseconds that it took.
        duration_ms: u64,
        /// Tokens that it used.
        usage: Usage,
        /// Cost in US dollars, as far as prices are known.
        cost_usd: f64,
        /// Tokens whose model has no known price.
        unpriced_tokens: u64,
    },
    /// The loop of a plugin was run, outside of turns.
    LoopRun {
        /// Name of the plugin.
        plugin: String,
        /// Result of the run.
        outcome: LoopResult,
        /// Milliseconds after which it wants to run again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
        /// Reason for another run, or for the failure.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Milliseconds that it took.
        duration_ms: u64,
        /// Tokens that it used.
        usage: Usage,
        /// Cost in US dollars, as far as prices are known.
        cost_usd: f64,
        /// Tokens whose model has no known price.
        unpriced_tokens: u64,
    },
    /// A turn ended.
    TurnEnd {
        /// Number of the turn.
        turn: u32,
        /// Summary of the turn.
        summary: TurnSummary,
        /// Output for the user.
        output: String,
    },
    /// One call of the provider.
    Step {
        /// Number of the turn.
        turn: u32,
        /// Number of the step.
        step: u32,
        /// Name of the model that was asked.
        model: String,
        /// Tokens used, with those that the provider read from its cache and wrote to it.
        usage: Usage,
        /// Cost in US dollars; `None` when no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Milliseconds until the end of the answer.
        latency_ms: u64,
        /// First 16 hex digits of the BLAKE3 hash of the tool definitions, which come before the system prompt; empty
        /// without tools.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tools: String,
        /// Names of the tools.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_names: Vec<String>,
    },
    /// A plugin asked a model.
    Asked {
        /// Name of the plugin.
        plugin: String,
        /// Number of the turn.
        turn: u32,
        /// Number of the step; 0 before the first.
        step: u32,
        /// Name of the model that was asked.
        model: String,
        /// Tokens used.
        usage: Usage,
        /// Cost in US dollars; `None` when no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Milliseconds until the end of the answer.
        latency_ms: u64,
    },
    /// The host asked a model for itself: for a second look at an answer, for the summary of a turn, or what a transcript says.
    HostAsked {
        /// Purpose: `reflect`, `archive` or `query`.
        about: String,
        /// Id of the subagent whose transcript was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// Number of the turn.
        turn: u32,
        /// Number of the step.
        step: u32,
        /// Name of the model that was asked.
        model: String,
        /// Tokens used.
        usage: Usage,
        /// Cost in US dollars; `None` when no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Milliseconds until the end of the answer.
        latency_ms: u64,
        /// Text of the question, cut when it is long; it is in no message.
        #[serde(default)]
        text: String,
    },
    /// A request had no answer that could be used, and was paid for as far as can be known.
    Unanswered {
        /// Number of the turn.
        turn: u32,
        /// Number of the step; 0 before the first.
        step: u32,
        /// Name of the model that was asked.
        model: String,
        /// Estimated usage.
        usage: Usage,
        /// Cost in US dollars; `None` when no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Reason why there is no answer.
        reason: String,
    },
    /// A subagent starts. Its own session is the file `agents/ID/session.jsonl` beside this one.
    SubagentStart {
        /// Id of the subagent.
        agent: String,
        /// The plugin that runs it; `None` is the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plugin: Option<String>,
        /// Task of the subagent.
        task: String,
        /// Names of its tools.
        tools: Vec<String>,
    },
    /// A subagent ended.
    SubagentEnd {
        /// Id of the subagent.
        agent: String,
        /// Answer, or the reason why there is none.
        answer: String,
        /// Whether it failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        /// Tokens used; counted in the turn as well.
        usage: Usage,
    },
    /// A tool is about to run.
    ToolStart {
        /// Id of the call.
        call: String,
        /// Name of the tool.
        name: String,
        /// Class of the tool's effects.
        effect_class: EffectClass,
        /// Final arguments, where no message before states them: a hook changed them, or a plugin makes the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
        /// The plugin that makes the call; `None` is the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A tool call ended or was refused; the result of a call of the model is the message that follows.
    ToolEnd {
        /// Id of the call.
        call: String,
        /// Milliseconds that it ran.
        duration_ms: u64,
        /// Plugin or policy that refused the call, if it was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused_by: Option<String>,
        /// The result of a call that a plugin made, cut when it is long; it is in no message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<ToolResult>,
    },
    /// Outcome of a hook call.
    Trace {
        /// Trace record, as JSON.
        record: Value,
    },
    /// Access of a plugin's code from its sandbox.
    Access {
        /// Access record, as JSON.
        record: Value,
    },
    /// A hook of the plugin that keeps the audit log failed or was not called: the log has no line of what it should have seen.
    AuditGap {
        /// Agent in which it happened: `main`, or the id of a subagent.
        agent: String,
        /// Number of the turn, 0 outside one.
        turn: u32,
        /// Number of the step, 0 outside one.
        step: u32,
        /// Point of the hook.
        point: String,
        /// Reason.
        reason: String,
    },
    /// A plugin's session state changed. Exactly one of the three last fields is there.
    State {
        /// Name of the plugin.
        plugin: String,
        /// Key within the plugin's own.
        key: String,
        /// Value, when the entry holds it itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// Name of the blob that holds the value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<String>,
        /// Whether the key was removed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        removed: bool,
    },
    /// An entry of a plugin's own.
    Custom {
        /// Name of the plugin.
        plugin: String,
        /// The plugin's name for it.
        name: String,
        /// Value.
        value: Value,
    },
    /// Shown text of an answer became void.
    Corrected {
        /// Shown text.
        shown: String,
        /// Replacement; empty when that was still to come.
        text: String,
    },
    /// A plugin added a message; a kept one follows as a message.
    Injected {
        /// Name of the plugin.
        plugin: String,
        /// Text.
        text: String,
        /// Whether it was kept.
        keep: bool,
    },
    /// A skill became active.
    SkillActivated {
        /// Id of the skill.
        skill: String,
        /// Trust: `managed`, `package`, `user`, `project` or `local`.
        trust: String,
        /// Digest of the skill.
        hash: String,
        /// Maker of the call: `user`, `model`, or `plugin NAME`.
        by: String,
        /// Whether it stays until `/done`: it is active again when the session is resumed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_conversational: bool,
        /// Tools that its allow list names; `None` without one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<Vec<String>>,
        /// Tools that it denies.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deny: Vec<String>,
    },
    /// A fact about a skill that holds for the rest of the session, also after it is resumed.
    SkillRemembered {
        /// Id of the skill.
        skill: String,
        /// Trust: `managed`, `package`, `user`, `project` or `local`.
        trust: String,
        /// Digest of the skill.
        hash: String,
        /// Whether a person let it be used when they were asked; otherwise it was used, in this agent or one below.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_confirmed: bool,
    },
    /// A skill ended.
    SkillEnded {
        /// Id of the skill.
        skill: String,
        /// Reason: `turn`, `done`, or `dropped`.
        reason: String,
    },
    /// System prompt, written when it changed.
    Prompt {
        /// The parts in order.
        parts: Vec<PromptRow>,
        /// Tiers at whose end the request has no cache border any more, because hooks changed the text before it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lost: Vec<Tier>,
    },
    /// A turn was cut short; results for the calls it left open follow.
    Cut {
        /// Number of the turn.
        turn: u32,
        /// Reason.
        reason: String,
        /// Ids of the calls that had no result.
        calls: Vec<String>,
    },
    /// Messages were taken out of the conversation and others put in their place, by archival or compaction. The lines
    /// that hold them stay.
    Replaced {
        /// Reason.
        reason: String,
        /// Ids of the messages taken out.
        removed: Vec<String>,
        /// Messages that replace the first of them.
        messages: Vec<Message>,
        /// Holder of the messages, when they are an archived turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<Holder>,
    },
    /// An entry of a type that this version does not know.
    #[serde(untagged)]
    Unknown {
        /// All fields of the entry.
        #[serde(flatten)]
        fields: Map<String, Value>,
    },
}

/// The types that this version knows: an entry of one of these that does not read as it should is a bad line, while an
/// entry of any other type is from another version.
const KNOWN: &[&str] = &[
    "session",
    "resumed",
    "forked",
    "archival",
    "message",
    "turn-start",
    "command",
    "loop-run",
    "turn-end",
    "step",
    "asked",
    "host-asked",
    "unanswered",
    "subagent-start",
    "subagent-end",
    "tool-start",
    "tool-end",
    "trace",
    "access",
    "audit-gap",
    "state",
    "custom",
    "corrected",
    "injected",
    "skill-activated",
    "skill-ended",
    "skill-remembered",
    "prompt",
    "cut",
    "replaced",
];

impl Entry {
    /// Reads one line. The error is a phrase for a notice.
    pub(super) fn parse(line: &[u8]) -> Result<Self, String> {
        let entry: Self = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        match &entry.body {
            Body::Unknown { fields } => match fields.get("type").and_then(Value::as_str) {
                None => Err("it has no type".to_owned()),
                Some(name) if KNOWN.contains(&name) => {
                    Err(format!("it is of type `{name}`, but has another format"))
                }
                Some(_) => Ok(entry),
            },
            _ => Ok(entry),
        }
    }

    /// The line for the file, with its line feed.
    pub(super) fn line(&self) -> Result<Vec<u8>, serde_json::Error> {
        line(self)
    }
}

/// Action of a plugin: reads as [`Body::Trace`] or [`Body::Access`]. Written as it is, because there are many of these in a
/// step and making a [`Value`] of each takes longer than writing it.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Report<'a> {
    /// Outcome of a hook call.
    Trace {
        /// The trace record.
        record: &'a TraceRecord,
    },
    /// Access of a plugin's code from its sandbox.
    Access {
        /// The access record.
        record: &'a AccessRecord,
    },
}

#[derive(Serialize)]
pub(super) struct ReportLine<'a> {
    pub(super) id: String,
    pub(super) parent: Option<&'a str>,
    pub(super) time: i64,
    #[serde(flatten)]
    pub(super) report: &'a Report<'a>,
}

/// A line for the file, with its line feed.
pub(super) fn line(entry: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(entry)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests;
