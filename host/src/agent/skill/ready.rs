//! An invocation of a skill that passed all checks before its use: the invoker, and the text for
//! the model.

use std::sync::Arc;

use crate::skill::Skill;

/// Party that invoked a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::agent) enum SkillInvoker {
    User,
    Model,
    Plugin(Arc<str>),
}

impl std::fmt::Display for SkillInvoker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::User => f.write_str("user"),
            Self::Model => f.write_str("model"),
            Self::Plugin(name) => write!(f, "plugin {name}"),
        }
    }
}

/// A skill that may be used now, with its text for this invocation.
#[derive(Clone)]
pub(in crate::agent) struct PreparedSkillInvocation {
    pub(in crate::agent) skill: Arc<Skill>,
    pub(in crate::agent) by: SkillInvoker,
    /// Text of the skill with its arguments filled in, between the tags that mark it as a skill for
    /// the model.
    pub(in crate::agent) text: Arc<str>,
    /// Whether the conversation already contains the same text, for example because a file that was
    /// piped into an input repeats it. The skill then exempts no call from approval.
    pub(in crate::agent) is_repeated: bool,
}

/// A skill that the next turn runs in a subagent.
pub(in crate::agent) struct SkillToRunInSubagent {
    pub(in crate::agent) ready: PreparedSkillInvocation,
    /// Text with which the input of the next turn must begin; otherwise the turn does not run the
    /// skill.
    pub(in crate::agent) input: Arc<str>,
}
