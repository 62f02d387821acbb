//! Defines the entries of a session file.
//!
//! Owns the entry types and their JSON. An entry is one line, an object whose `type` selects the
//! variant of [`Body`]. An entry of an unknown type is kept as [`Body::Unknown`], so that an older
//! host can open a file that a newer host wrote; an entry of a known type that does not parse is an
//! error, and the reader skips its line with a notice.
//!
//! The module must not know how entries are stored or how they combine into a conversation: see
//! `log` and `transcript`. Start from [`Body`].

mod report;
mod value;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::{CommandResult, LoopResult, SubagentState};
use crate::message::{Blob, EffectClass, Message, ToolResult, Usage};
use crate::point::payload::{Source, Tier, TurnSummary};

pub use report::PluginActionReport;
pub(super) use report::PluginActionReportLine;
pub use value::{
    ActivatedSkill, AllowedPart, Holder, PromptRow, TurnDueForArchiving, UsedOrApprovedSkill,
};

/// Version of the format. A file with a higher version is refused, because entries of known types
/// may have changed their meaning.
pub const SESSION_FORMAT_VERSION: u32 = 1;

/// Returns the JSON Schema of a line of a session file. A reader must ignore fields and types that
/// it does not know.
#[must_use]
pub fn entry_json_schema() -> Schema {
    SchemaSettings::draft2020_12()
        .for_deserialize()
        .into_generator()
        .into_root_schema_for::<Entry>()
}

/// Entry of a session: one line of its file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Id of the entry, unique within the session.
    pub id: String,
    /// Id of the entry before it; `None` for the first.
    pub parent: Option<String>,
    /// Time of the entry, in milliseconds since 1970.
    pub time: i64,
    /// Content of the entry.
    #[serde(flatten)]
    pub body: Body,
}

/// Reason of a [`Body::SkillEnded`] entry: the user ended the skill with `/done`.
pub(crate) const USER_ENDED_SKILL_REASON: &str = "done";

/// Content of an entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Body {
    /// Header of the session, on the first line of its file.
    Session {
        /// Version of the session format.
        version: u32,
        /// Folder in which the agent works.
        workspace: String,
        /// Name of the provider with which the session begins.
        provider: String,
        /// Name of the model with which the session begins.
        model: String,
        /// Id of the parent session, if this is the session of a subagent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_session: Option<String>,
    },
    /// The session was reopened, or its model was changed.
    Resumed {
        /// Name of the provider for the following entries.
        provider: String,
        /// Name of the model for the following entries.
        model: String,
        /// Whether another model was chosen for the open session.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_switch: bool,
    },
    /// The session was forked: the file begins with copies of the entries of another session.
    Forked {
        /// Id of the session from which this one was forked.
        from: String,
    },
    /// The user gave the session a title. The last entry counts.
    Title {
        /// New title of the session, one line.
        title: String,
    },
    /// A command of Rind created the session for itself. `last` never selects such a session.
    Aside {
        /// Name of the command that created the session.
        by: String,
    },
    /// A finished turn is due to be archived, or no longer is. The last entry for a turn wins.
    Archival {
        /// Number of the turn in the session, from 1.
        turn: u32,
        /// Reason why the turn is due: `max-steps`, `tool-calls` or `token-threshold`.
        reason: String,
        /// Number of attempts to archive the turn so far.
        tries: u32,
        /// Whether archival of the turn has ended, successfully or not.
        is_over: bool,
    },
    /// Complete message of the conversation.
    Message {
        /// Message as the conversation contains it.
        message: Message,
    },
    /// A turn starts.
    TurnStart {
        /// Number of the turn in the session, from 1.
        turn: u32,
        /// Input text as it arrived, before any hook ran.
        input: String,
        /// Source of the input.
        source: Source,
        /// Slash command that produced the input, with its source.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        command: Option<String>,
        /// Id that the caller gave the input, unique in the session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input_id: Option<String>,
        /// Number of the interrupted turn that this one continues, without a new input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        continues: Option<u32>,
        /// Images of the input. The message of the input refers to them if hooks accept it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attached: Vec<Blob>,
        /// Digest of the set of plugins with which the turn runs, if the operator gave it a set.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plugins: Option<String>,
    },
    /// A slash command of a plugin was run, between two turns.
    Command {
        /// Name of the plugin that provides the command.
        plugin: String,
        /// Name of the slash command.
        command: String,
        /// Result of the command.
        outcome: CommandResult,
        /// Reason of the failure, if the command failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Duration of the run, in milliseconds.
        duration_ms: u64,
        /// Tokens that the requests of the command used.
        usage: Usage,
        /// Cost in US dollars of the requests with a known price.
        cost_usd: f64,
        /// Tokens of models without a known price.
        unpriced_tokens: u64,
    },
    /// The loop of a plugin ran outside of any turn.
    LoopRun {
        /// Name of the plugin whose loop ran.
        plugin: String,
        /// Result of the run.
        outcome: LoopResult,
        /// Delay in milliseconds after which the loop wants to run again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_ms: Option<u64>,
        /// Reason why the loop wants to run again or why it failed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Duration of the run, in milliseconds.
        duration_ms: u64,
        /// Tokens that the requests of the run used.
        usage: Usage,
        /// Cost in US dollars of the requests with a known price.
        cost_usd: f64,
        /// Tokens of models without a known price.
        unpriced_tokens: u64,
    },
    /// A turn ended.
    TurnEnd {
        /// Number of the turn in the session, from 1.
        turn: u32,
        /// Reason why the turn ended, and its steps, tool calls, usage and cost.
        summary: TurnSummary,
        /// Output of the turn for the user.
        output: String,
    },
    /// Request to the provider, with its usage and cost.
    Step {
        /// Number of the turn in which the request was sent.
        turn: u32,
        /// Number of the step within the turn, from 1.
        step: u32,
        /// Name of the requested model.
        model: String,
        /// Tokens used, including prompt cache reads and writes.
        usage: Usage,
        /// Cost in US dollars; `None` if no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Milliseconds from the request to the end of the answer.
        latency_ms: u64,
        /// First 16 hex digits of the BLAKE3 hash of the tool definitions, which precede the system
        /// prompt in the request; empty without tools.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        tools: String,
        /// Names of the tools in the request.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_names: Vec<String>,
        /// Plugin whose agent loop sent the request outside of the conversation; `None` for a
        /// request of the conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        aside: Option<String>,
    },
    /// A plugin sent a request to a model.
    Asked {
        /// Name of the plugin that sent the request.
        plugin: String,
        /// Number of the turn in which the request was sent.
        turn: u32,
        /// Number of the step; 0 before the first.
        step: u32,
        /// Name of the requested model.
        model: String,
        /// Tokens that the request and its answer used.
        usage: Usage,
        /// Cost in US dollars; `None` if no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Milliseconds from the request to the end of the answer.
        latency_ms: u64,
    },
    /// The host sent a request of its own: to reflect, to summarize for archival, or to query.
    HostAsked {
        /// Purpose of the request: `reflect`, `archive` or `query`.
        about: String,
        /// Id of the subagent whose transcript was read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent: Option<String>,
        /// Number of the turn in which the request was sent.
        turn: u32,
        /// Number of the step in which the request was sent.
        step: u32,
        /// Name of the requested model.
        model: String,
        /// Tokens that the request and its answer used.
        usage: Usage,
        /// Cost in US dollars; `None` if no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Milliseconds from the request to the end of the answer.
        latency_ms: u64,
        /// Text of the question, truncated if it is long. No message contains the question.
        #[serde(default)]
        text: String,
    },
    /// A request had no usable answer. Its cost is estimated, as the provider may still bill it.
    Unanswered {
        /// Number of the turn in which the request was sent.
        turn: u32,
        /// Number of the step; 0 before the first.
        step: u32,
        /// Name of the requested model.
        model: String,
        /// Tokens that the request used, as estimated.
        usage: Usage,
        /// Cost in US dollars; `None` if no price is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost_usd: Option<f64>,
        /// Reason why there is no answer.
        reason: String,
    },
    /// A subagent starts. Its session is `agents/ID/session.jsonl` in the folder of this session.
    SubagentStart {
        /// Id of the subagent.
        agent: String,
        /// Plugin that runs the subagent; `None` if the model started it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        plugin: Option<String>,
        /// Task of the subagent; a further message if it is continued.
        task: String,
        /// Names of the tools that the subagent may use.
        tools: Vec<String>,
        /// Name of the subagent's preset; absent if it has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preset: Option<String>,
        /// Whether the subagent worked before and continues now.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_continued: bool,
    },
    /// A subagent ended.
    SubagentEnd {
        /// Id of the subagent.
        agent: String,
        /// Answer of the subagent, or the reason why it has none.
        answer: String,
        /// Whether the subagent failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
        /// Tokens that the subagent used. The usage of the turn includes them.
        usage: Usage,
        /// State that the subagent ended in; absent in files of earlier versions.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<SubagentState>,
        /// Number of steps that the subagent made.
        #[serde(default)]
        steps: u32,
        /// Cost in US dollars of the tokens with a known price.
        #[serde(default)]
        cost_usd: f64,
    },
    /// A tool is about to run.
    ToolStart {
        /// Id of the tool call.
        call: String,
        /// Name of the tool.
        name: String,
        /// Class of the tool's effects: read, write, execute or external.
        effect_class: EffectClass,
        /// Final arguments, if no earlier message contains them: a hook changed the arguments, or a
        /// plugin makes the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
        /// Plugin that makes the call; `None` if the model does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A tool call ended or was refused. If the model made it, its result is the next message.
    ToolEnd {
        /// Id of the tool call.
        call: String,
        /// Time that the tool ran, in milliseconds.
        duration_ms: u64,
        /// Plugin or policy that refused the call, if it was refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused_by: Option<String>,
        /// Result of a plugin's call, truncated if it is long. Results of plugins' calls are not in
        /// any message.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<ToolResult>,
    },
    /// Call of a hook, with its outcome.
    Trace {
        /// Record of the hook call, as JSON: point, plugin, outcome and time.
        record: Value,
    },
    /// Access by the code of a plugin to something outside its sandbox.
    Access {
        /// Record of the access, as JSON: plugin, target and outcome.
        record: Value,
    },
    /// A hook of the plugin that keeps the audit log failed or did not complete, so an event is
    /// missing from the log.
    AuditGap {
        /// Agent of the missed event: `main`, or the id of a subagent.
        agent: String,
        /// Number of the turn; 0 outside a turn.
        turn: u32,
        /// Number of the step; 0 outside a step.
        step: u32,
        /// Extension point of the hook.
        point: String,
        /// Reason why the hook did not complete.
        reason: String,
    },
    /// The session state of a plugin changed. Exactly one of `value`, `blob` and `removed` is set.
    State {
        /// Name of the plugin whose state changed.
        plugin: String,
        /// Key within the plugin's namespace.
        key: String,
        /// New value of the key, if it is stored in this entry.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        value: Option<String>,
        /// Name of the blob that contains the value, if it is large.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        blob: Option<String>,
        /// Length of the value in that blob, in bytes; entries of older versions lack it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        len: Option<u64>,
        /// Whether the key was removed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        removed: bool,
    },
    /// A custom entry that a plugin keeps for itself.
    Custom {
        /// Name of the plugin that keeps the entry.
        plugin: String,
        /// Name that the plugin gave the entry.
        name: String,
        /// Value that the plugin stored.
        value: Value,
    },
    /// A plugin changed its status line. The last entry of each plugin counts.
    Status {
        /// Name of the plugin that shows the status line.
        plugin: String,
        /// Text of the line; empty if the plugin removed it.
        text: String,
    },
    /// A person allowed calls for the rest of the session; without `parts`, until the program ends.
    Allowed {
        /// Name of the tool whose calls are allowed.
        tool: String,
        /// Calls that the person allowed, in the words of the question.
        covers: String,
        /// Parts of the person's answer that stay valid after this process ends, in any process
        /// that continues this session.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        parts: Vec<AllowedPart>,
    },
    /// Streamed text that the user had already seen was withdrawn.
    Corrected {
        /// Text that the user had seen and that was withdrawn.
        shown: String,
        /// Replacement text; empty if the replacement was still to be streamed.
        text: String,
    },
    /// A plugin injected a message. If the message is kept, it follows as [`Body::Message`].
    Injected {
        /// Name of the plugin that injected the message.
        plugin: String,
        /// Text of the message.
        text: String,
        /// Whether the message stays in the conversation.
        keep: bool,
    },
    /// A skill became active.
    SkillActivated {
        /// Id of the skill.
        skill: String,
        /// Trust in the skill: `managed`, `package`, `user`, `project` or `local`.
        trust: String,
        /// Digest of the content of the skill.
        hash: String,
        /// Author of the activation: `user`, `model`, or `plugin NAME`.
        by: String,
        /// Whether the skill stays active until `/done`, also after the session is resumed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_conversational: bool,
        /// Tools on the skill's allow list; `None` if it has no allow list.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        allow: Option<Vec<String>>,
        /// Tools on the skill's deny list.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        deny: Vec<String>,
    },
    /// A fact about a skill that stays true for the session, also after it is resumed.
    SkillRemembered {
        /// Id of the skill.
        skill: String,
        /// Trust in the skill: `managed`, `package`, `user`, `project` or `local`.
        trust: String,
        /// Digest of the content of the skill.
        hash: String,
        /// Whether a person approved the use of the skill; if `false`, the entry records that this
        /// agent or a subagent used the skill.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_confirmed: bool,
    },
    /// A skill ended.
    SkillEnded {
        /// Id of the skill.
        skill: String,
        /// Reason why the skill ended: `turn`, `done`, or `dropped`.
        reason: String,
    },
    /// The system prompt changed, or is recorded for the first time.
    Prompt {
        /// Parts of the system prompt, in order.
        parts: Vec<PromptRow>,
        /// Tiers that no longer end at a cache breakpoint of the request, because hooks changed the
        /// text before that point.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        lost: Vec<Tier>,
        /// Names of the files in `content` that contain the prompt as it was sent, in order. Empty
        /// if they could not be stored.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sent: Vec<String>,
        /// Lengths of these files in bytes, in the same order; entries of older versions lack them.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sent_bytes: Vec<u64>,
    },
    /// A turn was cut short. Results for its open calls follow.
    Cut {
        /// Number of the turn that was cut short.
        turn: u32,
        /// Reason why the turn was cut short.
        reason: String,
        /// Ids of the calls that had no result.
        calls: Vec<String>,
    },
    /// Archival, compaction or undo removed messages from the conversation and inserted others in
    /// their place. The entries of the removed messages stay in the file.
    Replaced {
        /// Reason for the replacement, such as `undone`.
        reason: String,
        /// Ids of the removed messages.
        removed: Vec<String>,
        /// Messages inserted at the position of the first removed message.
        messages: Vec<Message>,
        /// Holder that keeps the removed messages, if they were an archived turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<Holder>,
    },
    /// An entry of a type that this version does not know, kept unchanged.
    #[serde(untagged)]
    #[schemars(skip)]
    Unknown {
        /// Fields of the entry.
        #[serde(flatten)]
        fields: Map<String, Value>,
    },
}

/// Types of entries that this version knows. An entry of a known type that does not parse is an
/// error; an entry of any other type was written by another version and is kept unchanged.
const KNOWN_ENTRY_TYPES: &[&str] = &[
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
    "status",
    "allowed",
    "corrected",
    "injected",
    "skill-activated",
    "skill-ended",
    "skill-remembered",
    "prompt",
    "cut",
    "replaced",
    "aside",
    "title",
];

impl Entry {
    /// Parses one line of a session file. The error is the reason, as a phrase for a notice.
    pub(super) fn parse_line(line: &[u8]) -> Result<Self, String> {
        let entry: Self = serde_json::from_slice(line).map_err(|e| e.to_string())?;
        match &entry.body {
            Body::Unknown { fields } => match fields.get("type").and_then(Value::as_str) {
                None => Err("the entry has no type".to_owned()),
                Some(name) if KNOWN_ENTRY_TYPES.contains(&name) => Err(format!(
                    "the entry has the type `{name}`, but not the fields of this type"
                )),
                Some(_) => Ok(entry),
            },
            _ => Ok(entry),
        }
    }

    /// Encodes the entry as a line, including the line feed.
    pub(super) fn to_json_line(&self) -> Result<Vec<u8>, serde_json::Error> {
        encode_entry_line(self)
    }
}

/// Encodes an entry as a line, including the line feed.
pub(super) fn encode_entry_line(entry: &impl Serialize) -> Result<Vec<u8>, serde_json::Error> {
    // Capacity that suffices for most entries, so that the buffer does not grow.
    let mut line = Vec::with_capacity(512);
    serde_json::to_writer(&mut line, entry)?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests;
