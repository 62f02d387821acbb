//! Parts of a turn that `rind session show` is asked for: a step, or a call.

use rind_lib::session::{Item, ItemView, TurnView};

/// Returns the number of the last request of a turn.
pub(super) fn last_step(turn: &TurnView) -> u32 {
    let steps = turn.items.iter().filter_map(request_number);
    steps.max().unwrap_or(0)
}

/// Reduces a turn to one step: the request, with what hooks decided before it, the answer, its calls
/// and their results. `None` if the turn has no such step.
pub(super) fn of_step(mut turn: TurnView, step: u32) -> Option<TurnView> {
    if last_step(&turn) < step || step == 0 {
        return None;
    }
    let mut current = 0;
    turn.items.retain(|view| {
        current = request_number(view).unwrap_or(current);
        let own = match &view.item {
            // Hooks decide before the request of their step is recorded.
            Item::Decision(decision) if decision.step > 0 => decision.step,
            _ => current,
        };
        own == step
    });
    (!turn.items.is_empty()).then_some(turn)
}

/// Reduces a turn to the calls with an id. `None` if it has none: a provider may use an id again in
/// another turn.
pub(super) fn of_call(mut turn: TurnView, id: &str) -> Option<TurnView> {
    let is_wanted = |view: &ItemView| matches!(&view.item, Item::Call(call) if call.id == id);
    turn.items.retain(is_wanted);
    (!turn.items.is_empty()).then_some(turn)
}

/// Returns the number of the step that begins with this event: a request of the conversation.
fn request_number(view: &ItemView) -> Option<u32> {
    match view.item {
        Item::Step {
            step, aside: None, ..
        } => Some(step),
        _ => None,
    }
}
