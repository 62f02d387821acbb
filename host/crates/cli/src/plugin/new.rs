//! `rind plugin new`: the folder of a plugin to start from.

use std::path::Path;

use clap::{Args as ClapArgs, ValueEnum};

use super::super::exit_code::{ExitStatus, Usage};
use super::super::render;
use rind_author::new::{NewError, NewKind, NewLanguage, create};

#[derive(Debug, ClapArgs)]
pub(in super::super) struct NewArgs {
    /// Name of the plugin, and of its folder in the current one
    name: String,
    /// Language to write it in
    #[arg(long, value_enum, default_value_t = Lang::Rust)]
    lang: Lang,
    /// Kind of the plugin
    #[arg(long, value_enum, default_value_t = Kind::Hook)]
    kind: Kind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Lang {
    /// Built with cargo
    Rust,
    /// Built with esbuild and componentize-qjs, from npm
    Js,
    /// Built with componentize-py, from pip
    Python,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Kind {
    /// Judges tool calls
    Hook,
    /// Offers the model a tool
    Tool,
    /// Offers the person a slash command
    Command,
    /// Runs by itself while `rind serve` runs
    Loop,
    /// Adds to the system prompt
    Prompt,
}

pub(in super::super) fn new(args: &NewArgs) -> anyhow::Result<ExitStatus> {
    let language = match args.lang {
        Lang::Rust => NewLanguage::Rust,
        Lang::Js => NewLanguage::JavaScript,
        Lang::Python => NewLanguage::Python,
    };
    let kind = match args.kind {
        Kind::Hook => NewKind::Hook,
        Kind::Tool => NewKind::Tool,
        Kind::Prompt => NewKind::Prompt,
        Kind::Command => NewKind::Command,
        Kind::Loop => NewKind::Loop,
    };
    let created =
        create(Path::new(""), &args.name, language, kind).map_err(|error| match error {
            NewError::Name { .. } | NewError::Exists(_) => Usage(error.to_string()).into(),
            error => anyhow::Error::new(error),
        })?;
    let setup = match language {
        NewLanguage::Rust => "",
        NewLanguage::JavaScript => "npm install && ",
        NewLanguage::Python => {
            "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1 && "
        }
    };
    if let Some(workspace) = &created.workspace {
        render::note(&format!(
            "{} takes it in by its `members`, so it is built with that workspace's settings and lock file; list it under `exclude` there, \
             and add `[workspace]` to its Cargo.toml, to keep it apart",
            workspace.display()
        ));
    }
    let name = created.folder.display();
    render::say(format!(
        "made {name}: start with {name}/README.md\nnext: cd {name} && {setup}rind plugin build ."
    ));
    Ok(ExitStatus::Done)
}
