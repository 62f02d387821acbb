//! `rind config show` and `rind init`: show each setting with its origin, and write an initial
//! settings file.

mod starter;

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use anyhow::Context;
use serde::Serialize;

use super::args::{ConfigInitArgs, ConfigShowArgs};
use super::environment::{find_rind_paths, read_operator_workspace_setup};
use super::exit_code::{ExitStatus, bail_usage};
use super::render;
use rind_lib::config::EffectiveSetting;
use rind_operator::{model, project, setup};

/// Setting in the form in which `rind config show --json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct DisplayedSetting {
    /// Keys of the setting joined with dots, as in `--set`.
    pub(super) key: String,
    pub(super) value: toml::Value,
    /// Origin of the value, such as a file; `default` if no settings set it.
    pub(super) source: String,
    /// Origins of the other values of the same setting, which this value overrides.
    pub(super) over: Vec<String>,
}

impl From<EffectiveSetting> for DisplayedSetting {
    fn from(setting: EffectiveSetting) -> Self {
        let keys = setting.keys.iter().map(|key| quote_toml_key(key));
        let mut places = setting.places.into_iter();
        Self {
            key: keys.collect::<Vec<_>>().join("."),
            value: setting.value,
            source: places.next().unwrap_or_else(|| "default".to_owned()),
            over: places.collect(),
        }
    }
}

/// Quotes a key as TOML requires.
fn quote_toml_key(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !key.is_empty() && key.chars().all(is_bare) {
        return key.to_owned();
    }
    toml::Value::String(key.to_owned()).to_string()
}

/// Shows every setting with its origin, and the selected model.
pub(super) async fn show_config(args: ConfigShowArgs) -> anyhow::Result<ExitStatus> {
    let model = args.model.to_model_selection();
    let setup =
        read_operator_workspace_setup(args.workspace.as_deref(), &model, args.trust_project)
            .await?;
    let values = setup
        .config
        .effective_settings(&starter::default_settings()?);
    let shown: Vec<DisplayedSetting> = values.into_iter().map(DisplayedSetting::from).collect();
    if args.json {
        render::print_json(&shown)?;
        return Ok(ExitStatus::Done);
    }
    render::config::show_settings(&shown);
    match model::select_model(&setup, &model, None) {
        Ok(selected) => render::config::show_model(&selected),
        Err(error) => render::print_warning(&format!("{error:#}")),
    }
    Ok(ExitStatus::Done)
}

/// Writes a settings file in which every setting is commented out. Never overwrites an existing
/// file.
pub(super) fn write_initial_config(args: &ConfigInitArgs) -> anyhow::Result<ExitStatus> {
    let paths = find_rind_paths(None)?;
    let (path, sections) = if args.user {
        (paths.user_config(), setup::ALLOWED_USER_SETTINGS_SECTIONS)
    } else {
        (
            paths.project_config_path(),
            project::ALLOWED_PROJECT_SETTINGS_SECTIONS,
        )
    };
    let shown = path.display().to_string();
    let folder = path.parent().unwrap_or(&path);
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = match file {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail_usage!("{shown} already exists; nothing was changed");
        }
        file => file.with_context(|| format!("cannot make {shown}"))?,
    };
    let written = file.write_all(starter::build_commented_default_settings(sections).as_bytes());
    written.with_context(|| format!("cannot write {shown}"))?;
    render::print_stderr_line(format_args!(
        "wrote {shown}; every setting in it is commented out: remove the # before a key to set it"
    ));
    if !args.user {
        render::print_note(
            "settings of a project apply to users who trust the project; set model, tools and confinement with `rind init --user`",
        );
    }
    Ok(ExitStatus::Done)
}
