//! Modes of approval, which a person switches while the program runs.
//!
//! A mode decides calls that no rule matches and no hook asks about, or makes a decision stricter.
//! Only [`ApprovalMode::Full`] also allows calls about which a rule asks; no mode allows a call
//! that a rule denies. Start from [`ApprovalMode`].

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use super::super::subject::{Subject, WorkspacePath};
use super::PolicyCall;
use crate::message::EffectClass;

/// Names of folders whose files configure agents. [`ApprovalMode::AcceptEdits`] still asks about
/// changes in them.
const AGENT_SETTINGS_FOLDER_NAMES: [&str; 2] = [".rind", ".claude"];

/// Prompt of the turn that carries out a plan, once the user approved it.
pub const CARRY_OUT_PLAN_PROMPT: &str =
    "The plan is approved. Carry it out now, step by step, and check the result as the plan says.";

/// Mode that decides about calls that need approval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ApprovalMode {
    /// The user is asked.
    #[default]
    Ask,
    /// Built-in tools edit files of the workspace without an approval if only a default asks. All
    /// other calls that need an approval ask the user.
    AcceptEdits,
    /// Only calls of tools that only read may run. The turn ends with a plan that the user approves
    /// or rejects.
    Plan,
    /// Calls that would need an approval run without one, as with `--yes`. Denied calls stay
    /// denied.
    Full,
}

impl ApprovalMode {
    /// All modes, from the default to the one that never asks.
    pub const ALL: [Self; 4] = [Self::Ask, Self::AcceptEdits, Self::Plan, Self::Full];

    /// Returns the name, as it is written on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::AcceptEdits => "accept-edits",
            Self::Plan => "plan",
            Self::Full => "full",
        }
    }

    /// Returns a short description of the mode.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Self::Ask => "what no rule allows is asked about",
            Self::AcceptEdits => {
                "files of the workspace are edited without a question, everything else is asked about"
            }
            Self::Plan => "only reading runs, and the turn ends with a plan to approve",
            Self::Full => "nothing is asked, as with --yes; what is denied stays denied",
        }
    }

    /// Returns the mode after this one in a cycle, which contains [`Self::Full`] only if
    /// `with_full` is set.
    #[must_use]
    pub fn next_in_cycle(self, with_full: bool) -> Self {
        match self {
            Self::Ask => Self::AcceptEdits,
            Self::AcceptEdits => Self::Plan,
            Self::Plan if with_full => Self::Full,
            Self::Plan | Self::Full => Self::Ask,
        }
    }

    /// Whether a call is an edit that this mode allows without asking the user. The caller must
    /// check that no rule, but only a default, requires the question.
    pub(super) fn allows_edit(self, call: &PolicyCall<'_>) -> bool {
        let is_edit = call.spec.effect_class == EffectClass::Write && call.spec.plugin.is_none();
        let (Self::AcceptEdits, true, Subject::File(WorkspacePath::Known(path))) =
            (self, is_edit, call.subject)
        else {
            return false;
        };
        // Match at any depth, because a subfolder may be the workspace of a later session.
        let is_asked = |name: &str| {
            AGENT_SETTINGS_FOLDER_NAMES
                .iter()
                .any(|own| name.eq_ignore_ascii_case(own))
        };
        !path.is_empty() && !path.split('/').any(is_asked)
    }
}

impl fmt::Display for ApprovalMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for ApprovalMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|mode| mode.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!(
                "`{}` is not an approval mode; the approval modes are {names}",
                text.escape_debug()
            )
        })
    }
}

/// The current approval mode, shared by its clones: setting it in one clone sets it in all. The
/// policy and the user interface each have one.
#[derive(Clone, Debug, Default)]
pub struct SharedApprovalMode(Arc<AtomicU8>);

impl SharedApprovalMode {
    /// Creates a shared approval mode with this value.
    #[must_use]
    pub fn new(mode: ApprovalMode) -> Self {
        let switch = Self::default();
        switch.set_mode(mode);
        switch
    }

    /// Returns the mode in force.
    #[must_use]
    pub fn mode(&self) -> ApprovalMode {
        let number = usize::from(self.0.load(Ordering::Acquire));
        // The number is always the index of a mode. If it were not, the default mode, which asks,
        // would be the safe choice.
        ApprovalMode::ALL.get(number).copied().unwrap_or_default()
    }

    /// Switches to this mode. It applies from the next decision about a call on.
    pub fn set_mode(&self, mode: ApprovalMode) {
        let number = ApprovalMode::ALL.iter().position(|own| *own == mode);
        let number = number.and_then(|number| u8::try_from(number).ok());
        self.0.store(number.unwrap_or_default(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_names_and_an_order_in_which_full_is_only_where_it_was_chosen() {
        for mode in ApprovalMode::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
            let switch = SharedApprovalMode::new(mode);
            assert_eq!(switch.clone().mode(), mode);
        }
        assert!(
            "yolo\n"
                .parse::<ApprovalMode>()
                .unwrap_err()
                .contains("accept-edits")
        );
        let rounds = |with_full| {
            let mut mode = ApprovalMode::Ask;
            let mut seen = Vec::new();
            for _ in 0..4 {
                mode = mode.next_in_cycle(with_full);
                seen.push(mode.name());
            }
            seen
        };
        assert_eq!(
            rounds(false),
            ["accept-edits", "plan", "ask", "accept-edits"]
        );
        assert_eq!(rounds(true), ["accept-edits", "plan", "full", "ask"]);
    }
}
