//! Further steps of a case: what happens after its first turn, in the same session or in a new one.

use serde::Deserialize;

use super::event::{GivenEvent, deserialize_events};
use super::file::{
    CASE_WITHOUT_EXPECTATIONS_ERROR, CaseExpectation, CaseGiven, GivenCommand, GivenToolCall,
    PluginCase,
};
use super::words::find_unknown_expectation_term;
use rind_lib::point::catalog;
use rind_lib::provider::scripted::Reply;

/// Step of a case after its first turn: a further turn, slash command, run of the plugin's loop or
/// list of hooks, with its expectations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseStep {
    /// Input, command, loop or hooks of the step, and the responses of the model.
    #[serde(default)]
    pub given: CaseStepScenario,
    /// Expected behavior of this step alone.
    #[serde(default)]
    pub expect: CaseExpectation,
}

/// Input and environment of a step. All fields are optional and have the same meaning as in a case.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CaseStepScenario {
    /// Whether the step begins a new session, which keeps the workspace files and the plugin's
    /// store but not the session state.
    pub new_session: bool,
    /// User's input for the turn of this step.
    pub input: Option<String>,
    /// Tool call that the model makes before it sends the responses in `reply`.
    pub tool: Option<GivenToolCall>,
    /// Hooks that are called instead of a turn, in order.
    #[serde(deserialize_with = "deserialize_events")]
    pub event: Vec<GivenEvent>,
    /// Slash command that the person calls, instead of a turn.
    pub command: Option<GivenCommand>,
    /// Whether the plugin's loop runs once, instead of a turn.
    #[serde(rename = "loop")]
    pub runs_loop: bool,
    /// Responses of the model in this step.
    pub reply: Vec<Reply>,
}

/// Turn of a test case: its first turn, or the turn of a further step.
pub(super) struct CaseTurnInput {
    /// Input of the test case (its table `given`), with the input, calls and replies of this turn
    /// instead of those of the first turn.
    pub(super) given: CaseGiven,
    /// Whether the turn begins a new session instead of continuing the last one.
    pub(super) new_session: bool,
}

impl PluginCase {
    /// Returns the turns of one run of the case. A case without further steps runs the same turn
    /// twice, so that the second turn calls an instance that was used before.
    pub(super) fn turns(&self) -> Vec<CaseTurnInput> {
        let first = || CaseTurnInput {
            given: self.given.clone(),
            new_session: false,
        };
        if self.then.is_empty() {
            return vec![first(), first()];
        }
        let steps = self.then.iter().map(|step| {
            let CaseStepScenario {
                new_session,
                input,
                tool,
                event,
                command,
                runs_loop,
                reply,
            } = step.given.clone();
            CaseTurnInput {
                given: CaseGiven {
                    input,
                    tool,
                    event,
                    command,
                    runs_loop,
                    reply,
                    ..self.given.clone()
                },
                new_session,
            }
        });
        std::iter::once(first()).chain(steps).collect()
    }

    /// Returns the expectations of all steps of the case, including the first.
    pub(super) fn expectations(&self) -> impl Iterator<Item = &CaseExpectation> {
        let steps = self.then.iter().map(|step| &step.expect);
        std::iter::once(&self.expect).chain(steps)
    }
}

/// Describes the first mistake in the steps of a case: an unknown term, a step that expects
/// nothing, or a step with several kinds of input.
pub(super) fn find_first_step_fault(steps: &[CaseStep]) -> Option<String> {
    steps.iter().enumerate().find_map(|(n, step)| {
        let fault =
            find_unknown_expectation_term(&step.expect).or_else(|| find_fault_in_step(step))?;
        // The first turn of the case is step 1, and `n` counts the further steps from 0.
        Some(format!("step {}: {fault}", n + 2))
    })
}

fn find_fault_in_step(step: &CaseStep) -> Option<String> {
    let given = &step.given;
    if step.expect == CaseExpectation::default() {
        return Some(CASE_WITHOUT_EXPECTATIONS_ERROR.to_owned());
    }
    if step.expect.snapshot {
        return Some("`expect.snapshot` is allowed in the first step only".to_owned());
    }
    let is_known = |event: &GivenEvent| {
        event.is_plugin_defined() || catalog::find_builtin_extension_point(&event.point).is_some()
    };
    if let Some(event) = given.event.iter().find(|event| !is_known(event)) {
        return Some(super::words::unknown_extension_point_message(&event.point));
    }
    let kinds = [
        ("input", given.input.is_some() || given.tool.is_some()),
        ("event", !given.event.is_empty()),
        ("command", given.command.is_some()),
        ("loop", given.runs_loop),
    ];
    let named: Vec<&str> = kinds
        .iter()
        .filter(|(_, is_there)| *is_there)
        .map(|(name, _)| *name)
        .collect();
    (named.len() > 1).then(|| {
        format!(
            "one step cannot have `{}` together; write one step for each",
            named.join("` and `")
        )
    })
}
