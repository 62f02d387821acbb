//! Scripts that run as hooks in a session: reads them from the settings, checks that their programs
//! exist, and warns if the agent could change their files.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::confinement::writable_agent_folders;
use super::environment::{OperatorEnvironment, is_executable_file};
use super::grants;
use super::setup::OperatorWorkspaceSetup;
use super::usage::bail_usage;
use rind_lib::config::{Config, Section};
use rind_lib::grant::policy::CapabilityPolicy;
use rind_lib::script::{HookScript, HooksConfig, ScriptSettingsBaseFolders, read_claude};

/// Returns the scripts that a session runs as hooks.
///
/// # Errors
/// A setting is wrong, or the program of a script cannot be started. The message names the location
/// of the setting.
pub fn read_scripts(setup: &OperatorWorkspaceSetup) -> anyhow::Result<Vec<HookScript>> {
    let (environment, paths, config) = (&setup.environment, &setup.paths, &setup.config);
    let HooksConfig { scripts, claude } = config.section()?;
    let home = environment.home_folder_or_empty();
    let base = ScriptSettingsBaseFolders {
        home: &home,
        settings: &paths.config,
    };
    let policy = grants::read_grant_policy(paths)?;
    // Count disabled scripts too, so that enabling or disabling a script does not rename others.
    let mut names: BTreeSet<String> = scripts.keys().cloned().collect();
    let mut found = Vec::new();
    for (name, settings) in scripts.iter().filter(|(_, settings)| settings.enabled) {
        let place = find_hooks_setting_location(config, &["scripts", name]);
        let script = settings.build_script(name, base, place.clone());
        let script = script.and_then(|script| match missing_program_error(environment, &script) {
            Some(why) => Err(why),
            None => Ok(script),
        });
        match script {
            Ok(script) => found.push(script),
            Err(why) => bail_usage!("{place}: [hooks.scripts.{name}]: {why}"),
        }
    }
    for file in &claude {
        match read_claude(&base.resolve_path(file), &paths.workspace, base) {
            Ok(hooks) => {
                // Warn about hooks of Claude Code that Rind does not support.
                hooks
                    .unsupported
                    .iter()
                    .for_each(|line| environment.warn_once(line));
                found.extend(make_script_names_unique(hooks.scripts, &mut names));
            }
            Err(why) => bail_usage!(
                "{}: [hooks] claude: {why}",
                find_hooks_setting_location(config, &["claude"])
            ),
        }
    }
    found.extend(make_script_names_unique(
        setup.project_hooks.clone(),
        &mut names,
    ));
    found.retain(|script| is_script_allowed(environment, script, &policy));
    Ok(found)
}

/// Returns the file and line in which a key below `[hooks]` is set.
fn find_hooks_setting_location(config: &Config, key: &[&str]) -> String {
    let key = [&[HooksConfig::NAME], key].concat();
    config.value_locations(&key).pop().unwrap_or_default()
}

/// Renames scripts so that no two have the same name.
fn make_script_names_unique(
    mut scripts: Vec<HookScript>,
    names: &mut BTreeSet<String>,
) -> Vec<HookScript> {
    for script in &mut scripts {
        script.name = unique_script_name(&script.name, names);
        names.insert(script.name.clone());
    }
    scripts
}

/// Returns `name` with the number at its end replaced by the first number that is not taken, so
/// that the hooks of several files are numbered consecutively.
fn unique_script_name(name: &str, taken: &BTreeSet<String>) -> String {
    let own = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let mut numbered = (1_u32..).map(|n| format!("{own}{n}"));
    let free = numbered.find(|name| !taken.contains(name));
    free.unwrap_or_else(|| name.to_owned())
}

/// Whether the policy allows a script to run. Warns if it does not.
fn is_script_allowed(
    environment: &OperatorEnvironment,
    script: &HookScript,
    policy: &CapabilityPolicy,
) -> bool {
    let by = policy.find_entry_disabling_script(&script.name);
    if let Some(by) = &by {
        environment.warn(&format!(
            "{}: script `{}` is not called: {by} disables it",
            script.place, script.name
        ));
    }
    by.is_none()
}

/// Warns about script files that the agent could change: with such a change, the agent could
/// disable a check.
///
/// # Errors
/// A setting of the hooks is invalid, or one that determines where the agent may write.
pub fn warn_writable_scripts(
    setup: &OperatorWorkspaceSetup,
    scripts: &[HookScript],
) -> anyhow::Result<()> {
    for open in find_writable_scripts(setup, scripts)? {
        setup.environment.warn(&format!(
            "{}: the agent can change {}, because {} is in {}; move it to a folder that the agent cannot change",
            open.place,
            open.what,
            open.file.display(),
            open.folder.display()
        ));
    }
    Ok(())
}

/// Script file, or list of hooks, that the agent could change.
pub struct AgentWritableScript {
    /// Location of the setting that names the file, for messages.
    place: String,
    /// Words for a message about what the file determines, for example "which hooks are called".
    pub what: String,
    /// Path of the program, the script or the list of hooks.
    pub file: PathBuf,
    /// Folder that contains the file and that the agent may write to.
    pub folder: PathBuf,
}

/// Returns the files of scripts, and the files that list hooks, to which the agent may write.
///
/// # Errors
/// A setting is wrong.
pub fn find_writable_scripts(
    setup: &OperatorWorkspaceSetup,
    scripts: &[HookScript],
) -> anyhow::Result<Vec<AgentWritableScript>> {
    let (environment, paths, config) = (&setup.environment, &setup.paths, &setup.config);
    let home = environment.home_folder_or_empty();
    let HooksConfig { claude, .. } = config.section()?;
    let base = ScriptSettingsBaseFolders {
        home: &home,
        settings: &paths.config,
    };
    let folders = writable_agent_folders(setup)?;
    let within = |file: &Path| {
        folders
            .iter()
            .find(|folder| is_in_folder_following_symlinks(file, folder))
    };
    let mut found = Vec::new();
    for file in claude.iter().map(|file| base.resolve_path(file)) {
        if let Some(folder) = within(&file) {
            found.push(AgentWritableScript {
                place: find_hooks_setting_location(config, &["claude"]),
                what: "which hooks are called".to_owned(),
                folder: folder.clone(),
                file,
            });
        }
    }
    for script in scripts {
        let mut files = script.files_named_in_command(&home, &paths.workspace);
        // Leave out pinned files: a change to one is detected before the script runs.
        files.retain(|file| script.pins.iter().all(|pin| pin.path() != file));
        files.extend(
            script
                .command
                .first()
                .and_then(|program| environment.find_program(program)),
        );
        let open = files
            .into_iter()
            .find_map(|file| Some((within(&file)?.clone(), file)));
        found.extend(open.map(|(folder, file)| AgentWritableScript {
            place: script.place.clone(),
            what: format!("what script `{}` does", script.name),
            file,
            folder,
        }));
    }
    Ok(found)
}

/// Whether a file is in a folder, either by its path or by the target of a symlink on that path. A
/// symlink inside the folder counts as well, because the agent could replace it.
fn is_in_folder_following_symlinks(file: &Path, folder: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    let own = file.parent().and_then(real).zip(file.file_name());
    let own = own.map(|(parent, name)| parent.join(name));
    let below = |path: &Path| {
        let rest = path.strip_prefix(folder).ok();
        let first = rest.and_then(|rest| rest.components().next());
        first.is_some_and(|first| matches!(first, Component::Normal(_)))
    };
    [Some(file.to_owned()), own, real(file)]
        .iter()
        .flatten()
        .any(|path| below(path))
}

/// Returns the reason why the program of a script cannot be started, or `None` if no reason can be
/// found without starting it.
fn missing_program_error(environment: &OperatorEnvironment, script: &HookScript) -> Option<String> {
    let program = Path::new(script.command.first()?);
    let shown = program.display();
    if program.is_absolute() {
        if !program.exists() {
            return Some(format!("`{shown}` does not exist"));
        }
        return (!is_executable_file(program))
            .then(|| format!("`{shown}` is not executable; try `chmod +x {shown}`"));
    }
    let is_found = environment.find_program(program.as_os_str()).is_some();
    (!is_found).then(|| format!("there is no program `{shown}` in PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_can_be_changed_counts_as_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let (workspace, other) = (root.join("w"), root.join("other"));
        for folder in [&workspace, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("own"), "").unwrap();
        }
        let link = |target: &Path, at: &Path| std::os::unix::fs::symlink(target, at).unwrap();
        link(&other.join("own"), &workspace.join("out"));
        link(&other, &workspace.join("folder"));
        link(&workspace.join("own"), &other.join("in"));
        link(&workspace, &root.join("link"));
        for (file, expected) in [
            ("w/own", true),
            ("other/own", false),
            ("w/out", true),
            ("w/folder/own", true),
            ("other/in", true),
            ("link/own", true),
            ("link/out", true),
            ("w/../other/own", false),
            ("w", false),
            ("none/x", false),
        ] {
            assert_eq!(
                is_in_folder_following_symlinks(&root.join(file), &workspace),
                expected,
                "{file}"
            );
        }
    }

    #[test]
    fn a_name_that_is_taken_counts_on() {
        let taken = ["a-1", "a-2", "b-3"].map(str::to_owned).into();
        assert_eq!(unique_script_name("a-1", &taken), "a-3");
        assert_eq!(unique_script_name("b-7", &taken), "b-1");
    }
}
