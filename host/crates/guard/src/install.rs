//! Plans the changes to an agent's settings files that `rind guard install` and `remove` make, and
//! finds installed hooks.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Value, json};

use super::agent::{AgentHookPoint, GuardedAgent};
use super::bridge::{INSTALLED_MODULE_FIRST_LINE_PREFIX, agent_module_source};
use super::codex_terminal::{
    disable_terminals_in_codex_config, has_terminals_disabled, remove_added_terminal_setting,
};
use super::codex_trust::{HooksBeforeAndAfterChange, are_hooks_trusted, update_codex_hook_trust};
use super::error::GuardFileOrDaemonError;
use super::files::{AgentSettingsRootFolders, FileChange, read_settings_file};
use super::jsonc::{HookInSettingsFile, find_hooks as find_in, parse_jsonc, replace_rind_hooks};

/// Timeout in the hook's settings entry, after which the agent stops waiting, in seconds. It is
/// longer than the hook program's own timeout.
const AGENT_HOOK_TIMEOUT_SECONDS: u32 = 60;

/// Name of the small hook program, `rind-guard-hook`, which does only what `rind guard hook` does.
const DEDICATED_HOOK_PROGRAM_NAME: &str = "rind-guard-hook";

/// Program that an installed hook starts, and its environment.
#[derive(Clone, Debug)]
pub struct GuardHookProgram {
    /// Path of the hook program.
    pub program: PathBuf,
    /// Whether the program is `rind-guard-hook`, which has no subcommands.
    pub is_small: bool,
    /// Value of the environment variable `RIND_HOME`; `None` if it is not set.
    pub home: Option<PathBuf>,
}

/// State of a guard's installation in the settings of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardInstallState {
    /// No part of the guard is installed.
    Absent,
    /// The guard is installed exactly as `install` would write it.
    Installed,
    /// Installed, but different from what `install` would write; contains the reason.
    Differs(String),
}

/// Hook that is installed in the settings of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct InstalledHook {
    /// Rind's name for the point at which the hook runs.
    pub point: AgentHookPoint,
    /// Name of the agent's event at which the hook runs.
    pub event: String,
    /// Command line that the agent passes to a shell, or that the agent's module runs.
    pub command: String,
}

impl GuardHookProgram {
    /// Returns the line that a shell runs at a hook. With `|| exit 2`, any other failure, such as a
    /// missing program or a crash, is a refusal too.
    fn shell_line(&self, agent: GuardedAgent, point: AgentHookPoint) -> String {
        format!("{} || exit 2", self.hook_command_line(agent, point))
    }

    /// Replaces the value of `RIND_HOME` in the command line of a hook; `None` if the line does not
    /// contain this value.
    #[must_use]
    pub fn replace_home_in_hook_line(&self, line: &str, home: &Path) -> Option<String> {
        let flag = rind_home_argument(self.home.as_deref()?);
        let is_named = line.contains(&flag);
        is_named.then(|| line.replacen(&flag, &rind_home_argument(home), 1))
    }

    fn hook_command_line(&self, agent: GuardedAgent, point: AgentHookPoint) -> String {
        let home = self
            .home
            .as_deref()
            .map(rind_home_argument)
            .unwrap_or_default();
        let (agent, point) = (agent.name(), point.name());
        let command = if self.is_small { "" } else { " guard hook" };
        format!(
            "{}{command} {agent} {point}{home}",
            shell_quote(&self.program)
        )
    }
}

fn rind_home_argument(home: &Path) -> String {
    format!(" --home {}", shell_quote(home))
}

/// Quotes a path so that a POSIX shell reads it as one word.
fn shell_quote(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', r"'\''"))
}

fn is_guard_hook_command(agent: GuardedAgent, command: &str) -> bool {
    let name = agent.name();
    let forms = [
        format!(" guard hook {name} "),
        format!("/{DEDICATED_HOOK_PROGRAM_NAME}' {name} "),
    ];
    forms.iter().any(|form| command.contains(form))
}

/// Returns the command hooks to install for an agent, each with its event.
fn list_hooks_to_install(
    agent: GuardedAgent,
    command: &GuardHookProgram,
) -> Vec<(&'static str, Value)> {
    let rows = agent.hook_table().points.iter();
    let rows = rows.flat_map(|row| row.events.iter().map(|event| (row.point, *event)));
    let hook = |(point, event): (AgentHookPoint, &'static str)| {
        let mut hook = json!({
            "type": "command",
            "command": command.shell_line(agent, point),
            "timeout": AGENT_HOOK_TIMEOUT_SECONDS,
        });
        let switch = match agent {
            GuardedAgent::ClaudeCode => Some("onFailure"),
            GuardedAgent::Goose => Some("on_failure"),
            _ => None,
        };
        if let (Some(switch), AgentHookPoint::PreTool, Some(fields)) =
            (switch, point, hook.as_object_mut())
        {
            fields.insert(switch.to_owned(), "block".into());
        }
        (event, hook)
    };
    rows.map(hook).collect()
}

/// Plans the installation. Returns the files to change; empty if the guard is already installed.
///
/// # Errors
/// A file of the agent cannot be read, or is not in its format.
pub fn plan_guard_install(
    agent: GuardedAgent,
    places: &AgentSettingsRootFolders,
    command: &GuardHookProgram,
) -> Result<Vec<FileChange>, GuardFileOrDaemonError> {
    if read_guard_install_state(agent, places, command)? == GuardInstallState::Installed {
        return Ok(Vec::new());
    }
    let file = places.hook_file_path(agent);
    if let Some(text) = agent_module_source(agent, command) {
        check_module_is_written_by_rind(&file)?;
        return Ok(FileChange::from_new_text(file, Some(text))?
            .into_iter()
            .collect());
    }
    let before = read_settings_file(&file)?.unwrap_or_default();
    let groups: Vec<(&str, Value)> = list_hooks_to_install(agent, command)
        .into_iter()
        .map(|(event, hook)| (event, json!({ "hooks": [hook] })))
        .collect();
    let own = |command: &str| is_guard_hook_command(agent, command);
    let mut text = replace_rind_hooks(&before, &own, &groups)
        .map_err(|why| GuardFileOrDaemonError::file_error(&file, why))?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let mut changes: Vec<FileChange> = FileChange::from_new_text(file.clone(), Some(text.clone()))?
        .into_iter()
        .collect();
    changes.extend(match agent {
        GuardedAgent::Codex => plan_codex_config_change(places, &file, &before, Some(&text))?,
        GuardedAgent::Goose => plan_goose_manifest_change(&file, true)?,
        _ => None,
    });
    Ok(changes)
}

/// Plans the removal of the guard.
///
/// # Errors
/// As for [`plan_guard_install`].
pub fn plan_guard_removal(
    agent: GuardedAgent,
    places: &AgentSettingsRootFolders,
) -> Result<Vec<FileChange>, GuardFileOrDaemonError> {
    let file = places.hook_file_path(agent);
    let Some(before) = read_settings_file(&file)? else {
        return Ok(Vec::new());
    };
    if matches!(agent, GuardedAgent::OpenCode | GuardedAgent::Pi) {
        check_module_is_written_by_rind(&file)?;
        return Ok(FileChange::from_new_text(file, None)?.into_iter().collect());
    }
    let own = |command: &str| is_guard_hook_command(agent, command);
    if find_rind_hooks(agent, &file, &before)?.is_empty() {
        return Ok(Vec::new());
    }
    let text = replace_rind_hooks(&before, &own, &[])
        .map_err(|why| GuardFileOrDaemonError::file_error(&file, why))?;
    let is_empty = parse_jsonc(&text).is_ok_and(|value| value == json!({}));
    // A file without other content was created by `install`, so it is deleted; the settings file of
    // Claude Code is kept even if it is empty.
    let is_ours = is_empty && agent != GuardedAgent::ClaudeCode;
    let after = (!is_ours).then_some(text);
    let mut changes: Vec<FileChange> = FileChange::from_new_text(file.clone(), after)?
        .into_iter()
        .collect();
    changes.extend(match agent {
        GuardedAgent::Codex => plan_codex_config_change(places, &file, &before, None)?,
        GuardedAgent::Goose => plan_goose_manifest_change(&file, false)?,
        _ => None,
    });
    Ok(changes)
}

/// Returns whether the guard is installed, and whether it matches what `install` would write.
///
/// # Errors
/// As for [`plan_guard_install`].
pub fn read_guard_install_state(
    agent: GuardedAgent,
    places: &AgentSettingsRootFolders,
    command: &GuardHookProgram,
) -> Result<GuardInstallState, GuardFileOrDaemonError> {
    let file = places.hook_file_path(agent);
    let differs = |why: &str| GuardInstallState::Differs(why.to_owned());
    let Some(text) = read_settings_file(&file)? else {
        return Ok(GuardInstallState::Absent);
    };
    if let Some(own) = agent_module_source(agent, command) {
        return Ok(
            match (
                text == own,
                text.starts_with(INSTALLED_MODULE_FIRST_LINE_PREFIX),
            ) {
                (true, _) => GuardInstallState::Installed,
                (false, true) => {
                    differs("its module was written for another program, or was changed")
                }
                (false, false) => GuardInstallState::Absent,
            },
        );
    }
    let found = find_rind_hooks(agent, &file, &text)?;
    if found.is_empty() {
        return Ok(GuardInstallState::Absent);
    }
    let rows = list_hooks_to_install(agent, command);
    let has = |(event, hook): &(&str, Value)| {
        let mut own = found.iter();
        own.any(|own| own.is_for_all && own.event == *event && own.hook == *hook)
    };
    if found.len() != rows.len() || !rows.iter().all(has) {
        return Ok(differs(
            "its hooks were written for another program, or were changed",
        ));
    }
    if agent == GuardedAgent::Codex {
        let config = read_settings_file(&codex_config_path(places))?.unwrap_or_default();
        if !are_hooks_trusted(&config, &file, &found) {
            return Ok(differs(
                "Codex does not trust its hooks, and skips them silently",
            ));
        }
        if !has_terminals_disabled(&config) {
            return Ok(differs(
                "commands of Codex may have a terminal, and what is typed into it is not judged",
            ));
        }
    }
    if agent == GuardedAgent::Goose && plan_goose_manifest_change(&file, true)?.is_some() {
        return Ok(differs(
            "the manifest beside its hooks is missing, or was changed",
        ));
    }
    Ok(GuardInstallState::Installed)
}

/// Returns the installed hooks with the commands that the agent runs.
///
/// # Errors
/// As for [`plan_guard_install`].
pub fn find_hooks(
    agent: GuardedAgent,
    places: &AgentSettingsRootFolders,
    command: &GuardHookProgram,
) -> Result<Vec<InstalledHook>, GuardFileOrDaemonError> {
    let file = places.hook_file_path(agent);
    let Some(text) = read_settings_file(&file)? else {
        return Ok(Vec::new());
    };
    let rows = agent.hook_table().points.iter();
    let of_event = |event: &str| {
        let row = rows.clone().find(|row| row.events.contains(&event));
        row.map(|row| row.point)
    };
    if agent_module_source(agent, command).is_some() {
        if !text.starts_with(INSTALLED_MODULE_FIRST_LINE_PREFIX) {
            return Ok(Vec::new());
        }
        let hook = |row: &super::table::HookPointRow| InstalledHook {
            point: row.point,
            event: row.events.first().copied().unwrap_or_default().to_owned(),
            command: command.hook_command_line(agent, row.point),
        };
        return Ok(rows.map(hook).collect());
    }
    let found = find_rind_hooks(agent, &file, &text)?.into_iter();
    let hooks = found.filter_map(|own| {
        Some(InstalledHook {
            point: of_event(&own.event)?,
            command: own.hook.get("command")?.as_str()?.to_owned(),
            event: own.event,
        })
    });
    Ok(hooks.collect())
}

fn find_rind_hooks(
    agent: GuardedAgent,
    file: &Path,
    text: &str,
) -> Result<Vec<HookInSettingsFile>, GuardFileOrDaemonError> {
    let value = parse_jsonc(text).map_err(|why| GuardFileOrDaemonError::file_error(file, why))?;
    Ok(find_in(&value, &|command| {
        is_guard_hook_command(agent, command)
    }))
}

/// Fails if the file exists but was not written by `rind guard install`.
fn check_module_is_written_by_rind(file: &Path) -> Result<(), GuardFileOrDaemonError> {
    match read_settings_file(file)? {
        Some(text) if !text.starts_with(INSTALLED_MODULE_FIRST_LINE_PREFIX) => {
            Err(GuardFileOrDaemonError::file_error(
                file,
                "`rind guard install` did not write it; move it away, nothing is written over",
            ))
        }
        _ => Ok(()),
    }
}

fn codex_config_path(places: &AgentSettingsRootFolders) -> PathBuf {
    places
        .user_settings_folder(GuardedAgent::Codex)
        .join("config.toml")
}

/// Plans the change of Codex's `config.toml`: updates the hashes of trusted hooks, and disables the
/// feature that runs commands in a terminal. If `after` is `None`, removes the line with which Rind
/// disabled the feature; a line that the user wrote stays.
fn plan_codex_config_change(
    places: &AgentSettingsRootFolders,
    file: &Path,
    before: &str,
    after: Option<&str>,
) -> Result<Option<FileChange>, GuardFileOrDaemonError> {
    let config = codex_config_path(places);
    let is_own = |command: &str| is_guard_hook_command(GuardedAgent::Codex, command);
    let all = |text: &str| {
        let value =
            parse_jsonc(text).map_err(|why| GuardFileOrDaemonError::file_error(file, why))?;
        Ok::<_, GuardFileOrDaemonError>(find_in(&value, &|_| true))
    };
    let is_of_rind = |hook: &HookInSettingsFile| {
        let command = hook.hook.get("command").and_then(Value::as_str);
        command.is_some_and(&is_own)
    };
    let (old, others_before) = all(before)?.into_iter().partition(is_of_rind);
    let (new, others_after) = all(after.unwrap_or_default())?
        .into_iter()
        .partition(is_of_rind);
    let hooks = HooksBeforeAndAfterChange {
        old,
        new,
        // The file keeps the order of other programs' hooks, so the old and new hooks form pairs.
        // Only the positions may differ.
        moved: others_before.into_iter().zip(others_after).collect(),
    };
    let Some(text) = read_settings_file(&config)?.or_else(|| after.map(|_| String::new())) else {
        return Ok(None);
    };
    let wrong = |why| GuardFileOrDaemonError::file_error(&config, why);
    let text = update_codex_hook_trust(&text, file, &hooks).map_err(wrong)?;
    let text = match after {
        Some(_) => disable_terminals_in_codex_config(&text).map_err(wrong)?,
        None => remove_added_terminal_setting(&text).map_err(wrong)?,
    };
    FileChange::from_new_text(config, Some(text))
}

/// Plans to write the plugin manifest through which goose finds the hooks, or to delete it if
/// `is_wanted` is `false`.
fn plan_goose_manifest_change(
    hooks: &Path,
    is_wanted: bool,
) -> Result<Option<FileChange>, GuardFileOrDaemonError> {
    let Some(folder) = hooks.parent().and_then(Path::parent) else {
        return Ok(None);
    };
    let text = "{\n  \"name\": \"rind-guard\",\n  \"version\": \"0.1.0\",\n  \"description\": \"Plugins of Rind judge tool calls\"\n}\n";
    FileChange::from_new_text(
        folder.join("plugin.json"),
        is_wanted.then(|| text.to_owned()),
    )
}
