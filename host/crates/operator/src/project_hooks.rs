//! Reads hooks of Claude Code in the settings of a project, and asks whether they may be called.
//!
//! The hooks need an approval in addition to the trust in the project, because they judge tool
//! calls and run programs. The approval covers the hooks, and the files of the project that the
//! hooks run, as the question showed them. After a change, the question is asked again at the next
//! start; until then, the hooks are not called. The hooks run like commands and can read only what
//! commands can read. Hooks in the operator's own settings may also read other files that they
//! name.
//!
//! Start from [`load_approved_project_hooks`].

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::json;

use super::other_agents;
use super::project::{ProjectApprovalDuration, ProjectTrustAsker};
use super::setup::OperatorWorkspaceSetup;
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::grant::project::{ProjectTrust, TrustedProjects};
use rind_lib::paths::RindPaths;
use rind_lib::script::{
    ClaudeHooks, DigestPinnedFile, HookScript, HooksConfig, ScriptSettingsBaseFolders,
    read_project_claude,
};

/// Files of a project that may contain hooks.
pub(super) const PROJECT_HOOK_FILES: [&str; 2] =
    [".claude/settings.json", ".claude/settings.local.json"];

/// Hooks of a project, as read from its files.
#[derive(Debug)]
pub struct ProjectHooks {
    /// Hooks, each as a script, in the order of the files that contain them.
    pub scripts: Vec<HookScript>,
    /// Files of the project, relative to its folder, that contain hooks.
    pub places: Vec<&'static str>,
    /// Messages about entries of these files that have no effect, each with the reason.
    unsupported: Vec<String>,
}

/// Question to a person whether the hooks of a project may be called.
pub struct ProjectHookApprovalQuestion<'a> {
    /// Folders of Rind, and the workspace that contains the project.
    pub paths: &'a RindPaths,
    /// Earlier answer about the hooks of this project, if there is one.
    pub trust: &'a ProjectTrust,
    /// Hooks of the project that will be called if the person approves them.
    pub hooks: &'a ProjectHooks,
}

/// Returns the project's hooks if a person has approved them in their current state. If there is no
/// valid answer yet, asks with `ask`. If `ask` is `None`, warns once for each state that the hooks
/// are not called. Omits hooks in files that the operator's settings name, because they are called
/// without this approval.
///
/// # Errors
/// The settings of hooks are wrong, or the remembered answers cannot be read or written.
pub async fn load_approved_project_hooks(
    setup: &OperatorWorkspaceSetup,
    ask: Option<&dyn ProjectTrustAsker>,
) -> anyhow::Result<Vec<HookScript>> {
    let (environment, paths) = (&setup.environment, &setup.paths);
    let named = configured_claude_hook_files(setup)?;
    let hooks = match read_project_hooks(&paths.workspace, &named) {
        Ok(Some(hooks)) => hooks,
        Ok(None) => return Ok(Vec::new()),
        Err(why) => {
            environment.warn_once(&format!("the project's hooks are not called: {why}"));
            return Ok(Vec::new());
        }
    };
    let mut answers = TrustedProjects::read(&paths.project_hooks_path())?;
    let digest = hooks.digest();
    let trust = answers.find_workspace_trust(&paths.workspace, &digest);
    if trust != ProjectTrust::Trusted {
        let Some(ask) = ask else {
            let what = hooks.places.join(" and ");
            let why = match trust {
                ProjectTrust::Changed { .. } => "they have changed since they were allowed",
                _ => "nobody has allowed them",
            };
            if other_agents::create_notice_marker_file(&paths.shown_notice_marker_path(&[&digest]))
            {
                environment.warn_once(&format!(
                    "the project's hooks in {what} are not called: {why}; start `rind` at a terminal to be asked about them (shown once)"
                ));
            }
            return Ok(Vec::new());
        };
        let question = ProjectHookApprovalQuestion {
            paths,
            trust: &trust,
            hooks: &hooks,
        };
        match ask.ask_hook_approval(&question).await {
            None => return Ok(Vec::new()),
            Some(ProjectApprovalDuration::Once) => {}
            Some(ProjectApprovalDuration::UntilChanged) => answers
                .trust_workspace(
                    &paths.workspace,
                    digest,
                    rind_lib::clock::format_current_time(),
                )
                .context("cannot store that the project's hooks are allowed")?,
        }
    }
    for line in &hooks.unsupported {
        environment.warn_once(line);
    }
    Ok(hooks.scripts)
}

/// Returns the files of Claude Code hooks that the operator's settings name.
fn configured_claude_hook_files(setup: &OperatorWorkspaceSetup) -> anyhow::Result<Vec<PathBuf>> {
    let HooksConfig { claude, .. } = setup.config.section()?;
    let home = setup.environment.home_folder_or_empty();
    let base = ScriptSettingsBaseFolders {
        home: &home,
        settings: &setup.paths.config,
    };
    Ok(claude.iter().map(|file| base.resolve_path(file)).collect())
}

/// Reads the hooks of a project from its settings files for Claude Code, except the files that the
/// operator's settings name (`named`). Returns `None` if there are no hooks, or if a file disables
/// all hooks.
fn read_project_hooks(workspace: &Path, named: &[PathBuf]) -> Result<Option<ProjectHooks>, String> {
    let mut all = ProjectHooks {
        scripts: Vec::new(),
        places: Vec::new(),
        unsupported: Vec::new(),
    };
    for place in PROJECT_HOOK_FILES {
        let path = workspace.join(place);
        if path.symlink_metadata().is_err() || named.contains(&path) {
            continue;
        }
        let held = InMemoryFolder::read_file_following_symlinks(&path, workspace);
        let held = held.map_err(|error| error.to_string())?;
        let bytes = held.file_content(&path).unwrap_or_default();
        let text = std::str::from_utf8(bytes)
            .map_err(|_| format!("{}: the file is not UTF-8", path.display()))?;
        let ClaudeHooks {
            scripts,
            unsupported,
            are_disabled,
        } = read_project_claude(&path, text, workspace)?;
        if are_disabled {
            return Ok(None);
        }
        if !scripts.is_empty() {
            all.places.push(place);
            all.scripts.extend(scripts);
            all.unsupported.extend(unsupported);
        }
    }
    Ok((!all.scripts.is_empty()).then_some(all))
}

impl ProjectHooks {
    /// Returns a hash of everything that an approval covers, in hexadecimal digits.
    fn digest(&self) -> String {
        let hooks = self.scripts.iter().map(|script| {
            let pins = script.pins.iter().map(|pin| (pin.path(), pin.digest()));
            let pins: Vec<_> = pins.collect();
            json!([
                script.place,
                script.claude_hook_definition(),
                script.deadline.as_secs(),
                pins
            ])
        });
        let text = serde_json::Value::from_iter(hooks).to_string();
        blake3::hash(text.as_bytes()).to_hex().to_string()
    }

    /// Returns the files of the project that an approval covers, sorted and relative to the
    /// workspace.
    #[must_use]
    pub fn files_covered_by_approval(&self, workspace: &Path) -> Vec<String> {
        let pins = self.scripts.iter().flat_map(|script| &script.pins);
        let mut files: Vec<String> = pins
            .map(DigestPinnedFile::path)
            .map(|path| path.strip_prefix(workspace).unwrap_or(path))
            .map(|path| path.display().to_string())
            .collect();
        files.sort();
        files.dedup();
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    fn hooks(folder: &tempfile::TempDir) -> Option<ProjectHooks> {
        read_project_hooks(&folder.path().canonicalize().unwrap(), &[]).unwrap()
    }

    const GUARD: &str = r#"{"permissions": {"allow": ["Bash(ls)"]}, "hooks": {"PreToolUse": [{"matcher": "Bash",
        "hooks": [{"type": "command", "command": "\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/guard.sh ~/.ssh/id_rsa"}]}]}}"#;

    #[test]
    fn an_answer_covers_the_hooks_and_the_files_that_they_run_but_no_other_settings() {
        let folder = project(&[
            (PROJECT_HOOK_FILES[0], GUARD),
            (".claude/hooks/guard.sh", "exit 0"),
            ("README.md", "x"),
        ]);
        let own = hooks(&folder).unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        assert_eq!(
            own.files_covered_by_approval(&workspace),
            [".claude/hooks/guard.sh"]
        );
        assert!(own.scripts[0].files.is_empty() && own.scripts[0].folders.is_empty());
        let same = |folder: &tempfile::TempDir| hooks(folder).unwrap().digest() == own.digest();
        assert!(same(&folder));
        let write =
            |path: &str, text: &str| std::fs::write(folder.path().join(path), text).unwrap();
        write(
            PROJECT_HOOK_FILES[0],
            &GUARD.replace("Bash(ls)", "Bash(cat)"),
        );
        assert!(same(&folder));
        write(".claude/hooks/guard.sh", "exit 2");
        assert!(!same(&folder));
        write(".claude/hooks/guard.sh", "exit 0");
        write(
            PROJECT_HOOK_FILES[0],
            &GUARD.replace("\"Bash\"", "\"Edit\""),
        );
        assert!(!same(&folder));
        write(PROJECT_HOOK_FILES[0], GUARD);
        write(
            PROJECT_HOOK_FILES[1],
            &GUARD.replace("guard.sh", "guard.sh again"),
        );
        assert!(!same(&folder));
        write(PROJECT_HOOK_FILES[1], r#"{"disableAllHooks": true}"#);
        assert!(hooks(&folder).is_none());
    }

    #[test]
    fn settings_without_hooks_are_no_question_and_broken_ones_are_named() {
        let folder = project(&[(PROJECT_HOOK_FILES[0], r#"{"permissions": {}}"#)]);
        assert!(hooks(&folder).is_none());
        assert!(hooks(&project(&[])).is_none());
        for text in [
            "{",
            r#"{"hooks": []}"#,
            r#"{"hooks": {"PreToolUse": [{"hooks": [{"type": "prompt"}]}]}}"#,
        ] {
            let folder = project(&[(PROJECT_HOOK_FILES[0], text)]);
            let why = read_project_hooks(&folder.path().canonicalize().unwrap(), &[]).unwrap_err();
            assert!(why.contains("settings.json"), "{why}");
        }
        let outside = project(&[("x.json", GUARD)]);
        let folder = project(&[]);
        std::fs::create_dir(folder.path().join(".claude")).unwrap();
        let link = folder.path().join(PROJECT_HOOK_FILES[0]);
        std::os::unix::fs::symlink(outside.path().join("x.json"), link).unwrap();
        read_project_hooks(&folder.path().canonicalize().unwrap(), &[]).unwrap_err();
    }
}
