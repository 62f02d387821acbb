//! `rind doctor`: checks by trial which protections this machine enforces.
//!
//! Each file checks one part and knows nothing of rendering. Start from [`doctor`].

mod commands;
mod folders;
mod model;
mod overlooked;
mod plugins;
mod scripts;
mod skills;

use serde::Serialize;

use super::args::JsonArgs;
use super::environment::{environment, paths, user_setup};
use super::exit_code::ExitStatus;
use super::render;
use rind_lib::config::Config;
use rind_operator::setup::OperatorSetup;

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

#[derive(Debug, Serialize)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) state: State,
    /// Whether Rind cannot do its work without it.
    pub(super) required: bool,
    pub(super) found: String,
    pub(super) means: String,
    /// Advice; empty when there is nothing to do.
    pub(super) todo: String,
}

impl Check {
    fn new(state: State, found: impl Into<String>) -> Self {
        Self {
            name: "",
            state,
            required: false,
            found: found.into(),
            means: String::new(),
            todo: String::new(),
        }
    }

    fn ok(found: impl Into<String>) -> Self {
        Self::new(State::Ok, found)
    }

    fn weaker(found: impl Into<String>) -> Self {
        Self::new(State::Weaker, found)
    }

    fn missing(found: impl Into<String>) -> Self {
        Self::new(State::Missing, found)
    }

    /// Failure of a requirement without which Rind cannot work.
    fn required(found: impl Into<String>) -> Self {
        Self {
            required: true,
            ..Self::missing(found)
        }
    }

    fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    fn means(mut self, means: impl Into<String>) -> Self {
        self.means = means.into();
        self
    }

    fn todo(mut self, todo: impl Into<String>) -> Self {
        self.todo = todo.into();
        self
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) ok: bool,
    pub(super) checks: Vec<Check>,
}

pub(super) async fn doctor(args: JsonArgs) -> anyhow::Result<ExitStatus> {
    let paths = paths(None)?;
    let mut checks = Vec::new();
    // Read the user's settings only: a project's settings do not affect these checks. A broken
    // settings file is a finding, and the other checks run without it.
    let setup = user_setup().unwrap_or_else(|error| {
        checks.push(wrong_settings(&error));
        OperatorSetup::new(environment(), paths.clone(), Config::default())
    });
    let (commands, plugins) = tokio::join!(commands::checks(&setup), plugins::checks(&setup));
    checks.extend(commands);
    checks.extend(plugins);
    if !checks.iter().any(|check| check.name == "settings") {
        match plugins::find().await {
            Ok(found) => {
                checks.push(plugins::loaded(&found).named("plugins"));
                let found_skills = skills::find(&found);
                let check = skills::check(&found_skills);
                checks.extend(check.map(|check| check.named("skills")));
                checks.extend(overlooked::checks(&found, &found_skills).await);
            }
            Err(check) => checks.push(check.named("plugins")),
        }
    }
    checks.extend(scripts::check(&setup).map(|check| check.named("scripts")));
    checks.extend(folders::checks(&paths));
    checks.push(model::check(&setup).named("model"));
    checks.push(plugins::target(&paths).await.named("target for authors"));
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
    Ok(ExitStatus::of(report.ok))
}

fn wrong_settings(error: &anyhow::Error) -> Check {
    Check::required(format!("{error:#}"))
        .named("settings")
        .means("no command runs until the settings can be read")
        .todo("correct the named line")
}
