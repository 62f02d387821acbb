//! Checks for settings, variables and templates of the operator that have no effect.

use std::sync::Arc;

use super::super::{command, tools};
use super::DoctorCheck;
use super::plugins::SessionPluginsWithLoadPlan;
use rind_lib::skill::SessionSkills;
use rind_lib::tool::policy::ToolPolicy;
use rind_operator::misplaced::ToolReferenceChecker;
use rind_operator::{overlooked, scripts};

/// Returns findings about settings, variables and templates without effect; none if all have an
/// effect.
pub(super) async fn ineffective_settings_checks(
    found: &SessionPluginsWithLoadPlan,
    skills: &SessionSkills,
) -> Vec<DoctorCheck> {
    let setup = found.operator_setup();
    let mut settings = overlooked::find_misspelled_variables(&setup.environment);
    settings.extend(overlooked::describe_overridden_list_settings(&setup.config));
    // Ignore an error: another check reports why a session cannot be opened.
    settings.extend(
        warnings_about_unknown_tools(found, skills)
            .await
            .unwrap_or_default(),
    );
    let templates = match &setup.environment.program {
        Some(program) => {
            let project = setup.project.as_deref();
            let program = program.clone();
            command::find_all_template_faults(&setup.paths, &found.plugins, project, program).await
        }
        None => Vec::new(),
    };
    let settings = build_ineffective_settings_check(&settings).map(|check| {
        let check =
            check.with_consequence_text("a rule or hook that does not apply protects nothing");
        check
            .with_advice("correct the named lines")
            .with_name("rules and names")
    });
    let templates = build_ineffective_settings_check(&templates).map(|check| {
        let check = check.with_consequence_text("their slash commands do nothing");
        check
            .with_advice("correct the named lines")
            .with_name("prompts")
    });
    settings.into_iter().chain(templates).collect()
}

fn build_ineffective_settings_check(lines: &[String]) -> Option<DoctorCheck> {
    (!lines.is_empty()).then(|| DoctorCheck::new_for_weaker_protection(lines.join("; ")))
}

/// Returns warnings about settings that name unknown tools.
async fn warnings_about_unknown_tools(
    found: &SessionPluginsWithLoadPlan,
    skills: &SessionSkills,
) -> anyhow::Result<Vec<String>> {
    // Suppress warnings here: the checks of confinement and scripts report them.
    let setup = found
        .operator_setup()
        .clone()
        .with_warning_callback(Arc::new(|_| {}));
    let tools = tools::list_session_tool_specs(&setup, found.plugins.clone()).await?;
    let policy: ToolPolicy = setup.config.section()?;
    let scripts = scripts::read_scripts(&setup)?;
    let names = ToolReferenceChecker {
        config: &setup.config,
        policy: &policy,
        scripts: &scripts,
        skills,
    };
    Ok(names.find_settings_matching_no_tool(&tools))
}
