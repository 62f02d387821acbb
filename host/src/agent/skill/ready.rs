//! An invocation of a skill that was let through: its maker, and the text for the model.

use std::sync::Arc;

use crate::skill::Skill;

/// Maker of an invocation.
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

/// A skill that may be used, with its text for this call.
#[derive(Clone)]
pub(in crate::agent) struct ReadySkill {
    pub(in crate::agent) skill: Arc<Skill>,
    pub(in crate::agent) by: SkillInvoker,
    /// Wrapped text of the skill, with its arguments filled in.
    pub(in crate::agent) text: Arc<str>,
    /// Whether its text is already in the conversation. Text that is put into an input, such as a
    /// file that is piped in, can repeat it: then it spares no question.
    pub(in crate::agent) is_repeated: bool,
}

/// A skill whose work a subagent does, as the next turn.
pub(in crate::agent) struct InvokedSkill {
    pub(in crate::agent) ready: ReadySkill,
    /// Prefix of the input of that turn.
    pub(in crate::agent) input: Arc<str>,
}
