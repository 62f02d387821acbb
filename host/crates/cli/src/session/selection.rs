//! Reduces a turn to the part that `rind session show` was asked for: a step or a call.

use rind_lib::session::{TurnEventContent, TurnEventView, TurnView};

/// Returns the number of the last step of a turn; 0 if it has none.
pub(super) fn last_step_number(turn: &TurnView) -> u32 {
    let steps = turn.items.iter().filter_map(step_started_by_item);
    steps.max().unwrap_or(0)
}

/// Reduces a turn to one step: its request, the decisions of hooks on it, its answer, and its calls
/// with their results. `None` if the turn has no such step.
pub(super) fn retain_only_step(mut turn: TurnView, step: u32) -> Option<TurnView> {
    if last_step_number(&turn) < step || step == 0 {
        return None;
    }
    let mut current = 0;
    turn.items.retain(|view| {
        current = step_started_by_item(view).unwrap_or(current);
        let own = match &view.item {
            // Use the step number in a hook's decision, because hooks decide on a request before
            // the entry of that request is recorded.
            TurnEventContent::Decision(decision) if decision.step > 0 => decision.step,
            _ => current,
        };
        own == step
    });
    (!turn.items.is_empty()).then_some(turn)
}

/// Reduces a turn to the calls with this id; `None` if the turn has none. Another turn may have a
/// call of the same id, because providers reuse ids.
pub(super) fn retain_only_tool_call(mut turn: TurnView, id: &str) -> Option<TurnView> {
    let is_wanted =
        |view: &TurnEventView| matches!(&view.item, TurnEventContent::Call(call) if call.id == id);
    turn.items.retain(is_wanted);
    (!turn.items.is_empty()).then_some(turn)
}

/// Returns the number of the step that an item begins; `None` unless it is a request of the
/// conversation.
fn step_started_by_item(view: &TurnEventView) -> Option<u32> {
    match view.item {
        TurnEventContent::Step {
            step, aside: None, ..
        } => Some(step),
        _ => None,
    }
}
