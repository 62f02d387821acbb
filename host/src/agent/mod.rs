//! The agent loop: from a user's input to the final output.
//!
//! Owns the order of everything: the points of a turn, the steps, the tool calls, and the order of
//! writes to the session. It must not know wire formats, WebAssembly, or the front end that shows
//! its events; `tool` decides on the permissions of a call, `point` on the changes of hooks.
//!
//! Start from `LiveAgent::run_turn`, in `run`, which has the built-in order of a turn. The loop of a
//! plugin has another order of the same primitives, in `plugin_order`. The primitives are in `turn`
//! (the answer and the output), `step` (a request, its answer, and its tool calls), `input` and
//! `system`; `end` is the end of every turn. `compact`, `calls`, `reflect` and `archive` hold their
//! own state and act through `ctx`. `subagent` runs agents below an agent.
//!
//! `scope` is the state of a turn in which plugins act. Its parts are `budget` (usage and limits),
//! `emitter` (hooks and events), and `skill::scope` (active skills and tools). Every request passes
//! the gate in `request`, every tool call the one in `call`, and every call of a plugin the one in
//! `host_calls`.
//!
//! No file here imports a file that imports it, directly or through others. A test in
//! `tests/it/tidy` holds that.

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
    ArchivalConfig, ListConfig, SummaryConfig, SummaryStyle, TriggerConfig, check as check_archival,
};
pub(crate) use between::EndedCall;
pub(crate) use budget::SpentUses;
#[doc(hidden)]
pub use call::NO_TOOL;
pub use compact::CompactConfig;
pub use config::AgentConfig;
#[doc(hidden)]
pub use direct::DirectTurn;
#[doc(hidden)]
pub use end::{partial_answer, unkept_answer, unshown_rest};
pub use foreign::{ForeignAct, ForeignChange, ForeignRequest, ForeignVerdict};
pub use handle::SessionHandle;
pub(crate) use lifecycle::LiveAgent;
pub use outcome::{Error, TurnOutcome};
pub use outside::{OutsideCall, OutsideCalls, OutsideClient, OutsideResult, OutsideTools};
pub use reflect::ReflectConfig;
pub(crate) use replace::{PluginReplacement, PluginReplacements, WeakReplacements};
pub use sink::KeepInStore;
pub(crate) use spec::{AgentSpec, TurnSpec};
pub use steering::{SteerHandle, Waiting};
pub use subagent::SubagentsConfig;
pub(crate) use subagent::preset::SubagentPresets;
