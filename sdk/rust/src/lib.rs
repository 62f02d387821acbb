//! The library for writing Rind plugins.
//!
//! A plugin is a module under [`macro@plugin`] with one function for each hook, tool or command. The compiled component
//! exports the interfaces of these functions and imports the host functions that it really calls, nothing else, so that
//! its imports say what it can do.
//!
//! ```
//! //! Greets people.
//! #[rind_sdk::plugin]
//! mod hello {
//!     use rind_sdk::prelude::*;
//!
//!     /// Arguments of `greet`.
//!     #[args]
//!     struct Greet {
//!         /// The person's name.
//!         name: String,
//!     }
//!
//!     /// Greets somebody by name.
//!     #[tool(effect = "read")]
//!     fn greet(args: Greet) -> String {
//!         format!("Hello, {}!", args.name)
//!     }
//!
//!     #[hook]
//!     fn pre_tool(call: ProposedCall) -> CallOutcome {
//!         CallOutcome::pass().log(Level::Info, format!("{} is about to run", call.call.name))
//!     }
//! }
//! ```
//!
//! The contract is `wit/`; the types here are generated from it and keep its names. [`testing`] stands in for the host
//! when the plugin's own tests run natively.

mod bindings;
mod error;
mod outcome;
mod payload;
mod returns;

pub mod agents;
pub mod caller;
pub mod config;
pub mod files;
pub mod handles;
pub mod http;
pub mod log;
pub mod model;
pub mod points;
pub mod session;
pub mod state;
pub mod store;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
pub mod tools;

#[doc(hidden)]
pub mod macros;

pub use bindings::rind::plugin::{outcomes, payloads, types};
pub use returns::{
    AsOutcome, AsValue, CommandOutcome, IntoOutcome, IntoPointOutcome, LoopOutcome, PointOutcome,
    PointVerdict,
};
pub use rind_sdk_macros::{args, command, data, hook, implements, plugin, run_loop, tool};
pub use {schemars, serde, serde_json};

/// Items that a plugin usually needs: `use rind_sdk::prelude::*;`.
pub mod prelude {
    pub use crate::handles::{Conversation, FinishedCall, Slice, WireRequest, WireResponse};
    pub use crate::outcomes::{
        AssessmentOutcome, CallOutcome, CallVerdict, ContextOutcome, CountChange, DeltaOutcome,
        FloatChange, InputOutcome, MessageEdit, NamesChange, Observed, OutputOutcome, PartsOutcome,
        PromptOutcome, ReflectionOutcome, Replacement, ReplyOutcome, RequestOutcome, ResultOutcome,
        SliceOutcome, SliceVerdict, SteeringAction, SteeringOutcome, TextOutcome, VerdictChange,
        VerdictOutcome, WireOutcome,
    };
    pub use crate::payloads::{
        Assessment, Decision, Failure, ModelRequest, PromptContext, PromptPart, ProposedCall,
        Purpose, ReflectVerdict, Reflection, SessionInfo, Source, StopReason, SubagentInfo,
        TextDelta, Tier, TurnInput, TurnSummary, UsedTool,
    };
    pub use crate::returns::{CommandOutcome, LoopOutcome, PointOutcome, PointVerdict};
    pub use crate::types::{
        Content, Effect, EffectClass, Error, Injection, Level, LogLine, Message, Metric, Origin,
        Role, Stored, ToolCall, ToolResult, Usage,
    };
    pub use crate::{caller, config, log, session, state, store};
    pub use rind_sdk_macros::{args, command, data, hook, implements, run_loop, tool};
}
