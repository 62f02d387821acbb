//! Checks the skills that a session in this folder would have.

use super::super::environment::operator_environment;
use super::super::render;
use super::DoctorCheck;
use super::plugins::DoctorPlugins;
use rind_lib::skill::{Skills, discover};
use rind_operator::machine::OperatorMachine;
use rind_operator::skills;

/// Maximum number of faulty skills that are listed.
const MAX_NAMED: usize = 20;

/// Finds the skills that a session in this folder would have.
pub(super) fn find_skills(found: &DoctorPlugins) -> Skills {
    let roots = skills::skill_roots(found.setup(), &found.plugins, found.project_files());
    discover(
        &roots,
        &super::super::command::reserved_names(),
        &OperatorMachine::new(&operator_environment()),
    )
}

/// Checks that no skill is unusable or hidden from the model because of a fault, or shadowed by
/// another skill. Returns `None` if there are no skills.
pub(super) fn check_skills(skills: &Skills) -> Option<DoctorCheck> {
    let left_out = skills.omitted_skills();
    if skills.is_empty() && left_out.is_empty() {
        return None;
    }
    let count = render::format_count(skills.iter().len() as u64, "skill");
    if left_out.is_empty() {
        return Some(DoctorCheck::ok_check(format!("{count} found here")));
    }
    let mut lines: Vec<String> = left_out
        .iter()
        .take(MAX_NAMED)
        .map(render::skills::left_out_skill_line)
        .collect();
    if let Some(n_more @ 1..) = left_out.len().checked_sub(MAX_NAMED) {
        lines.push(format!("{n_more} more"));
    }
    Some(
        DoctorCheck::weaker_protection_check(format!("{count} found here; {}", lines.join("; ")))
            .with_meaning("the model does not know these skills, or another skill has their names")
            .with_advice("correct the named line; `rind skill check` shows every fault"),
    )
}
