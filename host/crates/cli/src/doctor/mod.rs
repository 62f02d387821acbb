//! `rind doctor`: tests which protections this machine actually enforces.
//!
//! Each file checks one part and does not know how findings are shown. Start from [`run_doctor`].

#[cfg(feature = "nats")]
mod cluster;
mod commands;
mod folders;
mod model;
mod overlooked;
mod plugins;
mod scripts;
mod skills;

use clap::Args as ClapArgs;
use serde::Serialize;

use super::args::JsonOutputArgs;
use super::environment::{find_rind_paths, process_environment, read_settings_without_project};
use super::exit_code::ExitStatus;
use super::render;
use rind_lib::config::Config;
use rind_operator::setup::OperatorWorkspaceSetup;

#[derive(Debug, ClapArgs)]
pub(super) struct DoctorArgs {
    #[command(flatten)]
    pub(super) json: JsonOutputArgs,
    #[cfg(feature = "nats")]
    #[command(flatten)]
    pub(super) nats: super::cluster::ServerCheckArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DoctorCheckState {
    /// The checked part works as it should.
    Ok,
    /// The checked part works, but with less protection than possible.
    Weaker,
    /// The checked part is missing or does not work.
    Missing,
}

#[derive(Debug, Serialize)]
pub(super) struct DoctorCheck {
    pub(super) name: &'static str,
    pub(super) state: DoctorCheckState,
    /// Whether Rind cannot work while this check is [`DoctorCheckState::Missing`].
    pub(super) required: bool,
    pub(super) found: String,
    pub(super) means: String,
    /// Advice to the user; empty if there is nothing to do.
    pub(super) todo: String,
}

impl DoctorCheck {
    fn new(state: DoctorCheckState, found: impl Into<String>) -> Self {
        Self {
            name: "",
            state,
            required: false,
            found: found.into(),
            means: String::new(),
            todo: String::new(),
        }
    }

    fn new_passed(found: impl Into<String>) -> Self {
        Self::new(DoctorCheckState::Ok, found)
    }

    fn new_for_weaker_protection(found: impl Into<String>) -> Self {
        Self::new(DoctorCheckState::Weaker, found)
    }

    fn new_for_missing_part(found: impl Into<String>) -> Self {
        Self::new(DoctorCheckState::Missing, found)
    }

    /// Returns a failed check of a part without which Rind cannot work.
    fn new_missing_required_part(found: impl Into<String>) -> Self {
        Self {
            required: true,
            ..Self::new_for_missing_part(found)
        }
    }

    fn with_name(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    fn with_consequence_text(mut self, means: impl Into<String>) -> Self {
        self.means = means.into();
        self
    }

    fn with_advice(mut self, todo: impl Into<String>) -> Self {
        self.todo = todo.into();
        self
    }
}

#[derive(Debug, Serialize)]
pub(super) struct DoctorReport {
    pub(super) ok: bool,
    pub(super) checks: Vec<DoctorCheck>,
}

pub(super) async fn run_doctor(args: DoctorArgs) -> anyhow::Result<ExitStatus> {
    let paths = find_rind_paths(None)?;
    let mut checks = Vec::new();
    // Read the user's settings only: a project's settings do not affect these checks. A broken
    // settings file is a finding, and the other checks run without it.
    let setup = read_settings_without_project().unwrap_or_else(|error| {
        checks.push(broken_settings_check(&error));
        OperatorWorkspaceSetup::new(process_environment(), paths.clone(), Config::default())
    });
    let (commands, plugins) = tokio::join!(
        commands::bash_confinement_checks(&setup),
        plugins::run_plugin_checks(&setup)
    );
    checks.extend(commands);
    checks.extend(plugins);
    if !checks.iter().any(|check| check.name == "settings") {
        match plugins::load_session_plugins().await {
            Ok(found) => {
                checks.push(plugins::check_session_plugins_loaded(&found).with_name("plugins"));
                let check = plugins::check_agent_loop_plugin(&found);
                checks.extend(check.map(|check| check.with_name("order of turns")));
                let found_skills = skills::find_skills(&found);
                let check = skills::check_session_skills(&found_skills);
                checks.extend(check.map(|check| check.with_name("skills")));
                checks.extend(overlooked::ineffective_settings_checks(&found, &found_skills).await);
            }
            Err(check) => checks.push(check.with_name("plugins")),
        }
    }
    checks.extend(scripts::check_hook_scripts(&setup).map(|check| check.with_name("scripts")));
    checks.extend(folders::check_rind_folders(&paths));
    #[cfg(feature = "nats")]
    checks.extend(cluster::run_cluster_checks(args.nats).await);
    checks.push(model::check_selected_model(&setup).await.with_name("model"));
    checks.push(
        plugins::check_rust_wasm_target(&paths)
            .await
            .with_name("target for authors"),
    );
    let is_in_the_way =
        |check: &DoctorCheck| check.required && check.state == DoctorCheckState::Missing;
    let report = DoctorReport {
        ok: !checks.iter().any(is_in_the_way),
        checks,
    };
    if args.json.json {
        render::print_json(&report)?;
    } else {
        render::doctor::print_report(&report);
    }
    Ok(ExitStatus::from_success_flag(report.ok))
}

fn broken_settings_check(error: &anyhow::Error) -> DoctorCheck {
    DoctorCheck::new_missing_required_part(format!("{error:#}"))
        .with_name("settings")
        .with_consequence_text("commands do not run until the settings can be read")
        .with_advice("correct the named line")
}
