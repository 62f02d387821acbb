//! Checks the skills that a session in this folder would have.

use super::super::environment::process_environment;
use super::super::render;
use super::DoctorCheck;
use super::plugins::SessionPluginsWithLoadPlan;
use rind_lib::skill::{SessionSkills, discover_skills};
use rind_operator::machine::SkillRequirementLookup;
use rind_operator::skills;

/// Maximum number of faulty skills that are listed.
const MAX_LISTED_FAULTY_SKILLS: usize = 20;

/// Finds the skills that a session in this folder would have.
pub(super) fn find_skills(found: &SessionPluginsWithLoadPlan) -> SessionSkills {
    let roots = skills::skill_roots(
        found.operator_setup(),
        &found.plugins,
        found.trusted_project_folder(),
    );
    discover_skills(
        &roots,
        &super::super::command::reserved_skill_names(),
        &SkillRequirementLookup::new(&process_environment()),
    )
}

/// Checks that no skill is unusable or hidden from the model because of a fault, or shadowed by
/// another skill. Returns `None` if there are no skills.
pub(super) fn check_session_skills(skills: &SessionSkills) -> Option<DoctorCheck> {
    let left_out = skills.omitted_skills();
    if skills.is_empty() && left_out.is_empty() {
        return None;
    }
    let count = render::format_count_with_noun(skills.iter().len() as u64, "skill");
    if left_out.is_empty() {
        return Some(DoctorCheck::new_passed(format!("{count} found here")));
    }
    let mut lines: Vec<String> = left_out
        .iter()
        .take(MAX_LISTED_FAULTY_SKILLS)
        .map(render::skills::omitted_skill_line)
        .collect();
    if let Some(n_more @ 1..) = left_out.len().checked_sub(MAX_LISTED_FAULTY_SKILLS) {
        lines.push(format!("{n_more} more"));
    }
    Some(
        DoctorCheck::new_for_weaker_protection(format!("{count} found here; {}", lines.join("; ")))
            .with_consequence_text(
                "the model does not know these skills, or another skill has their names",
            )
            .with_advice("correct the named line; `rind skill check` shows every fault"),
    )
}
