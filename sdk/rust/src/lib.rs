//! The library for writing Rind plugins.
//!
//! A plugin is a module under [`macro@plugin`] with one function for each hook, tool or command.
//! The compiled component exports only the interfaces of these functions and imports only the host
//! functions that it calls, so that its imports show which capabilities it can use.
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
//! The contract is `wit/`; the types here are generated from it and keep its names. [`testing`]
//! stands in for the host when the plugin's own tests run natively.

mod bindings;
mod error;
mod outcome;
mod payload;
mod returns;

pub mod agent_turn;
pub mod agents;
pub mod ask;
pub mod blobs;
pub mod caller;
pub mod config;
pub mod files;
pub mod handles;
pub mod http;
pub mod log;
pub mod model;
pub mod points;
pub mod session;
pub mod shell;
pub mod state;
pub mod status;
pub mod store;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
pub mod tools;
pub mod turns;
pub mod waiting;
pub mod websocket;

#[doc(hidden)]
pub mod macros;

/// Host functions with the names and types of the contract. For common functions, this crate also
/// has a module that works in native tests.
#[cfg(target_family = "wasm")]
pub use bindings::rind::plugin as imports;
pub use bindings::rind::plugin::{outcomes, payloads, types};
pub use payload::text_of;
pub use returns::{
    AsOutcome, AsValue, CommandOutcome, IntoAnswer, IntoOutcome, IntoPointOutcome, LoopOutcome,
    PointOutcome, PointVerdict,
};
pub use rind_sdk_macros::{
    agent_loop, args, command, data, hook, implements, plugin, run_loop, tool,
};
pub use {schemars, serde, serde_json};

/// Items that a plugin usually needs: `use rind_sdk::prelude::*;`.
pub mod prelude {
    // Types of other interfaces to which `payloads` and `outcomes` refer.
    pub use crate::handles::{Conversation, FinishedCall, Slice, WireRequest, WireResponse};
    pub use crate::outcomes::*;
    pub use crate::payloads::*;
    pub use crate::payloads::{Assessment, PromptPart};
    pub use crate::returns::{CommandOutcome, LoopOutcome, PointOutcome, PointVerdict};
    pub use crate::types::*;
    pub use crate::types::{
        Effect, EffectClass, Injection, Message, Part, ToolCall, ToolResult, Usage,
    };
    pub use crate::{
        agent_turn, agents, ask, blobs, caller, config, files, http, log, model, points, session,
        shell, state, status, store, tools, turns, waiting, websocket,
    };
    pub use rind_sdk_macros::{agent_loop, args, command, data, hook, implements, run_loop, tool};
}
