//! `rind plugin new`: creates a folder with an initial plugin.

use std::path::Path;

use clap::{Args as ClapArgs, ValueEnum};

use super::super::exit_code::{ExitStatus, Usage};
use super::super::render;
use rind_author::new::{NewPluginError, NewPluginKind, NewPluginLanguage, create_plugin};

#[derive(Debug, ClapArgs)]
pub(in super::super) struct NewPluginArgs {
    /// Name of the plugin, and of its folder, which is created in the current one
    name: String,
    /// Language of the plugin's source
    #[arg(long, value_enum, default_value_t = TemplateLanguage::Rust)]
    lang: TemplateLanguage,
    /// Kind of the plugin
    #[arg(long, value_enum, default_value_t = PluginKind::Hook)]
    kind: PluginKind,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TemplateLanguage {
    /// Built with cargo
    Rust,
    /// Built with esbuild and componentize-qjs, from npm
    Js,
    /// Built with componentize-py, from pip
    Python,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PluginKind {
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

pub(in super::super) fn run_new_plugin_command(args: &NewPluginArgs) -> anyhow::Result<ExitStatus> {
    let language = match args.lang {
        TemplateLanguage::Rust => NewPluginLanguage::Rust,
        TemplateLanguage::Js => NewPluginLanguage::JavaScript,
        TemplateLanguage::Python => NewPluginLanguage::Python,
    };
    let kind = match args.kind {
        PluginKind::Hook => NewPluginKind::Hook,
        PluginKind::Tool => NewPluginKind::Tool,
        PluginKind::Prompt => NewPluginKind::Prompt,
        PluginKind::Command => NewPluginKind::Command,
        PluginKind::Loop => NewPluginKind::Loop,
    };
    let sdks = super::shared_build_folders()?.sdks;
    let created = create_plugin(Path::new(""), &args.name, language, kind, &sdks);
    let created = created.map_err(|error| match error {
        NewPluginError::Name { .. } | NewPluginError::Exists(_) => Usage(error.to_string()).into(),
        error => anyhow::Error::new(error),
    })?;
    let setup = match language {
        NewPluginLanguage::Rust => "",
        NewPluginLanguage::JavaScript => "npm install && ",
        NewPluginLanguage::Python => {
            "python3 -m venv .venv && .venv/bin/pip install componentize-py==0.25.1 && "
        }
    };
    if let Some(workspace) = &created.workspace {
        render::print_note(&format!(
            "the Cargo workspace {} includes the new plugin by its `members`, so the plugin is built with the settings and lock file of that workspace; to separate it, list it under `exclude` there and add `[workspace]` to its own Cargo.toml",
            workspace.display()
        ));
    }
    let name = created.folder.display();
    render::print_stderr_line(format!(
        "made {name}: start with {name}/README.md\nnext: cd {name} && {setup}rind plugin build ."
    ));
    Ok(ExitStatus::Done)
}
