//! Lists the capabilities of a plugin to have the host do something for it during a turn, such as
//! asking the model. These capabilities have no parameters.

/// Calls `$m!` with one row per call: `Variant, key, "words";`.
///
/// The key is the name in policy and flags, and in `plugin.toml` as `key = true` under
/// `[external]`. The words complete a sentence that begins with "the plugin may".
macro_rules! for_each_external_call {
    ($m:ident) => {
        $m! {
            /// Asking the model.
            Model, model, "ask the model, which costs tokens";
            /// Running subagents.
            Agents, agents, "run subagents with tools of the agent, which costs tokens";
            /// Running turns from the plugin's loop.
            Turns, turns, "run turns of the agent from its loop, with all tools and without a person, which costs tokens";
            /// Controlling the agent's own turns.
            AgentLoop, agent_loop, "order the turns of the agent where the settings name it: it reads inputs and answers, chooses among the models that the settings let it ask, and decides what is asked and run next, which costs tokens";
        }
    };
}
pub(crate) use for_each_external_call;

macro_rules! table {
    ($($(#[$doc:meta])* $call:ident, $key:ident, $words:literal;)*) => {
        /// A call that the host makes for a plugin in the turn.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ExternalCall {
            $($(#[$doc])* $call,)*
        }

        impl ExternalCall {
            /// All kinds of calls that the host can make for a plugin.
            pub const ALL: &'static [Self] = &[$(Self::$call),*];

            /// Returns the name of the call in policies, flags and `plugin.toml`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$call => stringify!($key),)*
                }
            }

            /// Returns the description, which completes a sentence that begins with "the plugin
            /// may".
            #[must_use]
            pub fn words(self) -> &'static str {
                match self {
                    $(Self::$call => $words,)*
                }
            }
        }
    };
}
for_each_external_call!(table);

impl ExternalCall {
    /// Returns the name of the import that this capability makes available.
    #[must_use]
    pub fn imported_interface_name(self) -> &'static str {
        match self {
            Self::AgentLoop => "agent-turn",
            other => other.name(),
        }
    }

    /// Returns the kind of call with this name, if there is one.
    pub(super) fn find_by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|call| call.name() == name)
    }
}
