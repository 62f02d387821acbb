//! `rind doctor`: what really holds on this machine, found by trying it.
//!
//! Each file looks at one part and knows nothing of how it is shown. Start from [`doctor`].

mod commands;
mod folders;
mod model;
mod plugins;

use serde::Serialize;

use super::args::{DoctorArgs, ModelArgs};
use super::exit_code::ExitStatus;
use super::{render, setup};
use crate::config::Config;

/// State of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Works as it should.
    Ok,
    /// Works, with less protection against mistakes.
    Weaker,
    /// Does not work.
    Missing,
}

/// One check.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// Name of the check.
    pub(super) name: &'static str,
    pub(super) state: State,
    /// Whether Rind cannot do its work without it.
    pub(super) required: bool,
    /// Finding.
    pub(super) found: String,
    /// Meaning for the user.
    pub(super) means: String,
    /// Advice; empty when there is nothing to do.
    pub(super) todo: String,
}

impl Check {
    fn new(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Self {
            name,
            state,
            required: false,
            found: found.into(),
            means: String::new(),
            todo: String::new(),
        }
    }

    fn means(mut self, means: impl Into<String>) -> Self {
        self.means = means.into();
        self
    }

    fn todo(mut self, todo: impl Into<String>) -> Self {
        self.todo = todo.into();
        self
    }

    fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

/// The whole report.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    /// Whether all requirements are met.
    pub(super) ok: bool,
    pub(super) checks: Vec<Check>,
}

pub(super) async fn doctor(args: DoctorArgs) -> anyhow::Result<ExitStatus> {
    let paths = setup::paths(None)?;
    let mut checks = Vec::new();
    // The user's own: what a project may set does not bear on these checks. A settings file that is wrong is a finding, and the
    // rest is looked at without it.
    let config = setup::config(&paths, &ModelArgs::default(), None).unwrap_or_else(|error| {
        checks.push(wrong_settings(&error));
        Config::default()
    });
    let (commands, plugins) = tokio::join!(
        commands::checks(&paths, &config),
        plugins::checks(&paths, &config)
    );
    checks.extend(commands);
    checks.extend(plugins);
    if !checks.iter().any(|check| check.name == "settings") {
        checks.push(plugins::loaded(&paths).await);
    }
    checks.extend(folders::checks(&paths));
    checks.push(model::check(&config));
    checks.push(plugins::target(&paths).await);
    let is_in_the_way = |check: &Check| check.required && check.state == State::Missing;
    let report = Report {
        ok: !checks.iter().any(is_in_the_way),
        checks,
    };
    if args.json {
        render::json(&report)?;
    } else {
        render::doctor::report(&report);
    }
    Ok(if report.ok {
        ExitStatus::Done
    } else {
        ExitStatus::Failed
    })
}

fn wrong_settings(error: &anyhow::Error) -> Check {
    Check::new("settings", State::Missing, format!("{error:#}"))
        .required()
        .means("no command runs until the settings can be read")
        .todo("correct the named line")
}
