//! Checks the operator's files and variables for content that has no effect.

use std::sync::Arc;

use super::super::{command, tools};
use super::DoctorCheck;
use super::plugins::DoctorPlugins;
use rind_lib::skill::Skills;
use rind_lib::tool::policy::ToolPolicy;
use rind_operator::misplaced::ToolNames;
use rind_operator::{overlooked, scripts};

/// Finds settings, variables and templates without effect; nothing where there are none.
pub(super) async fn checks(found: &DoctorPlugins, skills: &Skills) -> Vec<DoctorCheck> {
    let setup = found.setup();
    let mut settings = overlooked::of_variables(&setup.environment);
    settings.extend(overlooked::of_settings(&setup.config));
    // A session that cannot be opened is the finding of another check.
    settings.extend(without_tools(found, skills).await.unwrap_or_default());
    let templates = match &setup.environment.program {
        Some(program) => {
            let project = setup.project.as_deref();
            let program = program.clone();
            command::template_faults(&setup.paths, &found.plugins, project, program).await
        }
        None => Vec::new(),
    };
    let settings = check(&settings).map(|check| {
        let check = check.with_meaning("a rule or hook that does not apply protects nothing");
        check
            .with_todo("correct the named lines")
            .with_name("rules and names")
    });
    let templates = check(&templates).map(|check| {
        let check = check.with_meaning("their slash commands do nothing");
        check
            .with_todo("correct the named lines")
            .with_name("prompts")
    });
    settings.into_iter().chain(templates).collect()
}

fn check(lines: &[String]) -> Option<DoctorCheck> {
    (!lines.is_empty()).then(|| DoctorCheck::weaker_check(lines.join("; ")))
}

/// Returns warnings about settings that name tools which do not exist.
async fn without_tools(found: &DoctorPlugins, skills: &Skills) -> anyhow::Result<Vec<String>> {
    // The confinement and the scripts have checks of their own that report their faults.
    let setup = found.setup().clone().with_warnings(Arc::new(|_| {}));
    let tools = tools::specs(&setup, found.plugins.clone()).await?;
    let policy: ToolPolicy = setup.config.section()?;
    let scripts = scripts::read(&setup)?;
    let names = ToolNames {
        config: &setup.config,
        policy: &policy,
        scripts: &scripts,
        skills,
    };
    Ok(names.without(&tools))
}
