//! Returns the session, turn and agent of the running hook, tool, command or implementation, and
//! what the turn has used.
//!
//! Each function calls the host, which takes less than a microsecond; values that the plugin does
//! not read cost nothing. In native tests the functions return the values of
//! [`testing::set_caller`](crate::testing::set_caller).

use crate::types::Usage;

#[cfg(target_family = "wasm")]
use crate::bindings::rind::plugin::caller as host;
#[cfg(not(target_family = "wasm"))]
use crate::testing::caller_host as host;

macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident -> $answer:ty;)*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name() -> $answer {
            host::$name()
        }
    )*};
}

questions! {
    /// Session id.
    session -> String;
    /// Number of the turn within the session, from 1; 0 outside a turn.
    turn -> u32;
    /// Number of the step within the turn, from 1; 0 outside a step.
    step -> u32;
    /// Name of the agent: `main`, or the id of a subagent.
    agent -> String;
    /// 0 for the main agent, one more for each level of subagent.
    depth -> u32;
    /// Absolute path of the folder that the agent works in.
    workspace -> String;
    /// Name of the agent's model.
    model -> String;
    /// Name of the active skill, if there is one.
    skill -> Option<String>;
    /// Tokens that this turn has used so far.
    usage -> Usage;
    /// Sum of input and output tokens.
    tokens_used -> u64;
    /// Cost of this turn so far in US dollars, as far as prices are known.
    cost_usd -> f64;
    /// Tokens of this turn so far whose model has no known price.
    unpriced_tokens -> u64;
    /// Tool calls made so far in this turn.
    tool_calls -> u32;
}
