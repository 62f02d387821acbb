//! Simulates the caller of a hook in tests.

use std::cell::RefCell;

use crate::types::Usage;

/// Caller that [`crate::caller`] reports in a test. The default is the main agent in the first step
/// of its first turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Caller {
    /// Session id.
    pub session: String,
    /// Number of the turn.
    pub turn: u32,
    /// Number of the step.
    pub step: u32,
    /// Name of the agent.
    pub agent: String,
    /// Depth of the subagent; 0 for the main agent.
    pub depth: u32,
    /// Folder that the agent works in.
    pub workspace: String,
    /// Name of the model.
    pub model: String,
    /// Name of the active skill.
    pub skill: Option<String>,
    /// Tokens used in the turn.
    pub usage: Usage,
    /// Cost of the turn in US dollars.
    pub cost_usd: f64,
    /// Tokens without a known price.
    pub unpriced_tokens: u64,
    /// Tool calls made in the turn.
    pub tool_calls: u32,
}

impl Default for Caller {
    fn default() -> Self {
        Self {
            session: "test".to_owned(),
            turn: 1,
            step: 1,
            agent: "main".to_owned(),
            depth: 0,
            workspace: "/workspace".to_owned(),
            model: "scripted".to_owned(),
            skill: None,
            usage: Usage::default(),
            cost_usd: 0.0,
            unpriced_tokens: 0,
            tool_calls: 0,
        }
    }
}

thread_local! {
    static CALLER: RefCell<Option<Caller>> = const { RefCell::new(None) };
}

/// Sets the caller on this thread until the next call of this function or of
/// [`reset`](super::reset).
pub fn set_caller(caller: Caller) {
    CALLER.replace(Some(caller));
}

pub(super) fn reset() {
    CALLER.replace(None);
}

fn read_caller<T>(question: impl FnOnce(&Caller) -> T) -> T {
    CALLER.with_borrow_mut(|caller| question(caller.get_or_insert_default()))
}

pub(crate) mod host {
    use super::{Usage, read_caller};

    pub(crate) fn session() -> String {
        read_caller(|caller| caller.session.clone())
    }

    pub(crate) fn turn() -> u32 {
        read_caller(|caller| caller.turn)
    }

    pub(crate) fn step() -> u32 {
        read_caller(|caller| caller.step)
    }

    pub(crate) fn agent() -> String {
        read_caller(|caller| caller.agent.clone())
    }

    pub(crate) fn depth() -> u32 {
        read_caller(|caller| caller.depth)
    }

    pub(crate) fn workspace() -> String {
        read_caller(|caller| caller.workspace.clone())
    }

    pub(crate) fn model() -> String {
        read_caller(|caller| caller.model.clone())
    }

    pub(crate) fn skill() -> Option<String> {
        read_caller(|caller| caller.skill.clone())
    }

    pub(crate) fn usage() -> Usage {
        read_caller(|caller| caller.usage)
    }

    pub(crate) fn tokens_used() -> u64 {
        read_caller(|caller| caller.usage.total())
    }

    pub(crate) fn cost_usd() -> f64 {
        read_caller(|caller| caller.cost_usd)
    }

    pub(crate) fn unpriced_tokens() -> u64 {
        read_caller(|caller| caller.unpriced_tokens)
    }

    pub(crate) fn tool_calls() -> u32 {
        read_caller(|caller| caller.tool_calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller;

    #[test]
    fn the_caller_is_the_main_agent_until_the_test_says_otherwise() {
        crate::testing::reset();
        assert_eq!((caller::agent().as_str(), caller::turn()), ("main", 1));
        set_caller(Caller {
            agent: "sub-1".to_owned(),
            usage: Usage {
                input_tokens: 40,
                output_tokens: 2,
                ..Usage::default()
            },
            ..Caller::default()
        });
        assert_eq!(
            (caller::agent().as_str(), caller::tokens_used()),
            ("sub-1", 42)
        );
        crate::testing::reset();
        assert_eq!(caller::usage(), Usage::default());
    }
}
