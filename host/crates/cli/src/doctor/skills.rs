//! Checks the skills that a session in this folder would have.

use super::super::environment::environment;
use super::super::render;
use super::Check;
use super::plugins::Found;
use rind_lib::skill::{Skills, discover};
use rind_operator::machine::OperatorMachine;
use rind_operator::skills;

/// Most skills that are named.
const MAX_NAMED: usize = 20;

/// Finds the skills of such a session.
pub(super) fn find(found: &Found) -> Skills {
    let roots = skills::roots(found.setup(), &found.plugins, found.held());
    discover(
        &roots,
        &super::super::command::reserved(),
        &OperatorMachine::new(&environment()),
    )
}

/// Whether every skill that is found is used as its author meant it; nothing where there are no
/// skills.
pub(super) fn check(skills: &Skills) -> Option<Check> {
    let left_out = skills.left_out();
    if skills.is_empty() && left_out.is_empty() {
        return None;
    }
    let count = render::count(skills.iter().len() as u64, "skill");
    if left_out.is_empty() {
        return Some(Check::ok(format!("{count} found here")));
    }
    let mut lines: Vec<String> = left_out
        .iter()
        .take(MAX_NAMED)
        .map(render::skills::left_out)
        .collect();
    if let Some(n_more @ 1..) = left_out.len().checked_sub(MAX_NAMED) {
        lines.push(format!("{n_more} more"));
    }
    Some(
        Check::weaker(format!("{count} found here; {}", lines.join("; ")))
            .means("the model is not told of them, or another skill answers to their names")
            .todo("correct the named line; `rind skill check` shows every fault"),
    )
}
