//! Scripts of the settings: where they stand, whether their programs are there, and who else may change them.

use std::path::{Path, PathBuf};

use super::exit_code::bail_usage;
use super::render;
use crate::config::{Config, Section};
use crate::grant::policy::Policy;
use crate::paths::Paths;
use crate::script::{Base, ClaudeHooks, HooksConfig, Script, read_claude};

/// The scripts that a session calls.
///
/// # Errors
/// Settings do not fit, with their line; or the program of a script cannot be started.
pub(super) fn of(paths: &Paths, config: &Config) -> anyhow::Result<Vec<Script>> {
    let HooksConfig { scripts, claude } = config.section()?;
    let home = std::env::home_dir().unwrap_or_default();
    let base = Base {
        home: &home,
        settings: &paths.config,
    };
    let policy = super::grants::policy(paths)?;
    let mut found = Vec::new();
    for (name, settings) in scripts.iter().filter(|(_, settings)| settings.enabled) {
        let place = config.places(&[HooksConfig::NAME, "scripts", name]).pop();
        let place = place.unwrap_or_default();
        let script = settings.script(name, base, place.clone());
        let script = script.and_then(|script| match missing(&script) {
            Some(why) => Err(why),
            None => Ok(script),
        });
        match script {
            Ok(script) => match policy.disables_script(name) {
                None => found.push(script),
                Some(by) => render::warn(&format!(
                    "{place}: script `{name}` is not called: {by} disables it"
                )),
            },
            Err(why) => bail_usage!("{place}: [hooks.scripts.{name}]: {why}"),
        }
    }
    for file in &claude {
        let place = config.places(&[HooksConfig::NAME, "claude"]).pop();
        let place = place.unwrap_or_default();
        match read_claude(&base.path(file), &paths.workspace, base) {
            Ok(hooks) => {
                add_claude(&mut found, hooks, &policy);
            }
            Err(why) => bail_usage!("{place}: [hooks] claude: {why}"),
        }
    }
    Ok(found)
}

/// Adds hooks of Claude Code, and tells of those that are not supported.
fn add_claude(found: &mut Vec<Script>, hooks: ClaudeHooks, policy: &Policy) {
    for line in &hooks.unsupported {
        render::warn(line);
    }
    for mut script in hooks.scripts {
        // Several files count on.
        let taken = |name: &str| found.iter().any(|script| script.name == name);
        let own = script
            .name
            .trim_end_matches(|c: char| c.is_ascii_digit())
            .to_owned();
        let numbers = 1..;
        if let Some(free) = numbers
            .map(|n: u32| format!("{own}{n}"))
            .find(|name| !taken(name))
        {
            script.name = free;
        }
        match policy.disables_script(&script.name) {
            None => found.push(script),
            Some(by) => render::warn(&format!(
                "{}: script `{}` is not called: {by} disables it",
                script.place, script.name
            )),
        }
    }
}

/// Tells of scripts that the agent could change: what it wrote would then judge it.
pub(super) fn warn_writable(paths: &Paths, scripts: &[Script]) {
    for script in scripts {
        if let Some(file) = writable(paths, script) {
            render::warn(&format!(
                "{}: script `{}`: the agent can change {}, which is in the workspace; keep scripts that guard it elsewhere",
                script.place,
                script.name,
                file.display()
            ));
        }
    }
}

/// Returns a file of a script that lies in the workspace.
pub(super) fn writable<'a>(paths: &Paths, script: &'a Script) -> Option<&'a Path> {
    let workspace = paths.workspace.canonicalize();
    let workspace = workspace.unwrap_or_else(|_| paths.workspace.clone());
    let is_inside = |file: &&PathBuf| {
        let real = file.canonicalize().unwrap_or_else(|_| (*file).clone());
        real.starts_with(&workspace)
    };
    script.files.iter().find(is_inside).map(PathBuf::as_path)
}

/// Returns why the program of a script cannot be started, as far as that can be seen.
fn missing(script: &Script) -> Option<String> {
    let program = Path::new(script.command.first()?);
    let is_program = |path: &Path| {
        rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file()
    };
    let shown = program.display();
    if program.is_absolute() {
        if !program.exists() {
            return Some(format!("`{shown}` does not exist"));
        }
        return (!is_program(program))
            .then(|| format!("`{shown}` is not executable; try `chmod +x {shown}`"));
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_found = std::env::split_paths(&folders).any(|folder| is_program(&folder.join(program)));
    (!is_found).then(|| format!("there is no program `{shown}` in PATH"))
}
