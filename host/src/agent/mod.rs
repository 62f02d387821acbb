//! The agent loop: from a user's input to the final output.
//!
//! Owns the order of everything: the points of a turn, the steps, the tool calls, and the writes to
//! the session. It must not know wire formats, WebAssembly, or the front end that shows its events.
//! `tool` decides whether a call is permitted, and `point` applies the changes of hooks.
//!
//! Start from `LiveAgent::run_turn` in `run`, which has the built-in order of a turn. A plugin's
//! loop can run the same primitives in another order; see `plugin_order`. The primitives are in
//! `turn` (the answer and the output), `step` (a request, its answer, and its tool calls), `input`
//! and `system`; every turn ends in `end`. `compact`, `calls`, `reflect` and `archive` have their
//! own state and act through `ctx`. `subagent` runs the agents that an agent starts.
//!
//! `scope` is the state of a turn that plugins can reach. Its parts are `budget` (usage and
//! limits), `emitter` (hooks and events), and `skill::scope` (active skills and tools). Every
//! request passes the checks in `request`, every tool call those in `call`, and every call by a
//! plugin those in `host_calls`.
//!
//! Imports between these files have no cycles, direct or indirect; a test in `tests/it/tidy`
//! enforces this.

mod answer;
mod answer_schema;
mod archive;
mod ask;
mod assess;
mod background;
mod between;
mod blobs;
mod budget;
mod call;
mod call_run;
mod calls;
mod clients;
mod compact;
mod config;
mod context;
mod ctx;
mod deferred;
mod direct;
mod emitter;
mod end;
mod foreign;
mod halt;
mod handle;
mod host_calls;
mod input;
mod judged;
mod known_input;
mod lifecycle;
mod opening;
mod outcome;
mod outside;
mod pending;
mod plugin_order;
mod progress;
mod reflect;
mod repeated;
mod replace;
mod reply;
mod request;
mod run;
mod scope;
mod sink;
mod skill;
mod spec;
mod steering;
mod step;
mod stop;
mod stream;
mod subagent;
mod system;
mod tracked;
mod turn;
mod turn_tools;
mod unasked;
mod watchers;

pub use answer_schema::AnswerSchema;
pub use archive::{
    ArchivalConfig, ArchivalSubagentListConfig, ArchiveSummaryConfig, ArchiveTriggerConfig,
    SummaryStyle, check_archival_config as check_archival,
};
pub(crate) use between::PluginCallBetweenTurnsOutcome;
pub(crate) use budget::LimitedCallCounts;
#[doc(hidden)]
pub use call::UNKNOWN_TOOL_REFUSAL_PREFIX;
pub use compact::CompactConfig;
pub use config::AgentConfig;
#[doc(hidden)]
pub use direct::HookOnlyTurn;
#[doc(hidden)]
pub use end::{extract_unfinished_answer, extract_unsaved_answer, find_unshown_output};
pub use foreign::{
    ExternalAgentRequest, ExternalAgentRequestContent, HookChangedValue, VerdictForExternalAgent,
};
pub use handle::PluginSessionHandle;
pub(crate) use lifecycle::LiveAgent;
pub use outcome::{Error, TurnOutcome};
pub use outside::{
    ClientOfferedToolsReceiver, ClientToolCall, ClientToolCallReceiver, ClientToolCallResult,
    ClientToolCallSender,
};
pub use reflect::ReflectConfig;
pub(crate) use replace::{
    PluginReplacement, SharedPluginReplacementQueue, WeakPluginReplacementQueue,
};
pub use sink::PluginKeyValueWriter;
pub(crate) use spec::{AgentSpec, TurnSpec};
pub use steering::{AgentSteeringHandle, QueuedSteeringTextSnapshot};
pub use subagent::SubagentsConfig;
pub(crate) use subagent::preset::SubagentPresets;
