//! Locates the settings files of the agents that Rind guards, and writes changes to them that the
//! user has seen.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rind_lib::disk::{create_private_folder, read_if_present, replace_private_file};
use rind_lib::text::printable_text;
use serde::Serialize;

use super::agent::GuardedAgent;
use super::error::GuardFileOrDaemonError;

/// Maximum size of a settings file of an agent, in bytes.
const MAX_SETTINGS_FILE_BYTES: u64 = 4 << 20;

/// Folders from which the paths of an agent's files are derived.
#[derive(Clone, Debug)]
pub struct AgentSettingsRootFolders {
    /// Home folder of the user.
    pub home: PathBuf,
    /// Folder with the settings of all agents: `XDG_CONFIG_HOME`, or else `~/.config`.
    pub config_home: PathBuf,
    /// Agent's folder, if the agent's own environment variable overrides the default folder.
    pub agent_folder: Option<PathBuf>,
    /// Folder of the project for which the guard is installed; `None` installs it for all projects.
    pub project: Option<PathBuf>,
}

impl AgentSettingsRootFolders {
    /// Returns the agent's folder with the user's settings, which apply to all projects.
    pub(crate) fn user_settings_folder(&self, agent: GuardedAgent) -> PathBuf {
        let usual = match agent {
            GuardedAgent::ClaudeCode => self.home.join(".claude"),
            GuardedAgent::Codex => self.home.join(".codex"),
            GuardedAgent::OpenCode => self.config_home.join("opencode"),
            GuardedAgent::Goose => self.home.join(".agents/plugins/rind-guard"),
            GuardedAgent::Pi => self.home.join(".pi/agent"),
        };
        self.agent_folder.clone().unwrap_or(usual)
    }

    /// Returns the path of the file into which the hooks are installed: a settings file of the
    /// agent, or a file that only Rind writes.
    pub(crate) fn hook_file_path(&self, agent: GuardedAgent) -> PathBuf {
        let folder = match (&self.project, agent) {
            (None, _) => self.user_settings_folder(agent),
            (Some(project), GuardedAgent::ClaudeCode) => project.join(".claude"),
            (Some(project), GuardedAgent::Codex) => project.join(".codex"),
            (Some(project), GuardedAgent::OpenCode) => project.join(".opencode"),
            (Some(project), GuardedAgent::Goose) => project.join(".agents/plugins/rind-guard"),
            (Some(project), GuardedAgent::Pi) => project.join(".pi"),
        };
        folder.join(match agent {
            // The hook's command contains paths of this machine. `settings.json` may be committed
            // and then used on other machines.
            GuardedAgent::ClaudeCode if self.project.is_some() => "settings.local.json",
            GuardedAgent::ClaudeCode => "settings.json",
            GuardedAgent::Codex => "hooks.json",
            GuardedAgent::OpenCode => "plugins/rind-guard.js",
            GuardedAgent::Goose => "hooks/hooks.json",
            GuardedAgent::Pi => "extensions/rind-guard.ts",
        })
    }
}

/// Change of a file, which is shown to the user before it is applied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileChange {
    /// Path of the changed file.
    pub path: PathBuf,
    /// Text of the file before the change; `None` if the file does not exist.
    pub before: Option<String>,
    /// Text of the file after the change; `None` removes the file.
    pub after: Option<String>,
}

impl FileChange {
    /// Returns the change that gives a file this text; `None` if the file already has this text.
    pub(crate) fn from_new_text(
        path: PathBuf,
        after: Option<String>,
    ) -> Result<Option<Self>, GuardFileOrDaemonError> {
        let before = read_settings_file(&path)?;
        Ok((before != after).then_some(Self {
            path,
            before,
            after,
        }))
    }

    /// Writes the new text to the file, or removes the file, after saving a copy of the old text in
    /// the folder `copies`. Returns the path of the copy; `None` if the file did not exist.
    ///
    /// # Errors
    /// The file has changed since the change was computed, or it cannot be written or removed.
    pub fn write_with_backup(
        &self,
        copies: &Path,
    ) -> Result<Option<PathBuf>, GuardFileOrDaemonError> {
        if read_settings_file(&self.path)? != self.before {
            let why = "it was changed meanwhile; nothing was written, run the command again";
            return Err(GuardFileOrDaemonError::file_error(&self.path, why));
        }
        let copy = match &self.before {
            Some(before) => Some(self.save_backup_copy(before, copies)?),
            None => None,
        };
        let write = || match &self.after {
            Some(after) => self.write(after),
            None => fs::remove_file(&self.path),
        };
        write().map_err(|error| GuardFileOrDaemonError::file_error(&self.path, error))?;
        if self.after.is_none() {
            remove_empty_guard_folders(&self.path);
        }
        Ok(copy)
    }

    fn save_backup_copy(
        &self,
        before: &str,
        copies: &Path,
    ) -> Result<PathBuf, GuardFileOrDaemonError> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let time: String = rind_lib::clock::format_current_time()
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .collect();
        create_private_folder(copies)
            .map_err(|error| GuardFileOrDaemonError::file_error(copies, error))?;
        let name = printable_text(&name);
        let mut copy = copies.join(format!("{time}-{name}"));
        // Number the copies that are made within the same second.
        for n in 2.. {
            if copy.symlink_metadata().is_err() {
                break;
            }
            copy = copies.join(format!("{time}-{n}-{name}"));
        }
        replace_private_file(&copy, before.as_bytes())
            .map_err(|error| GuardFileOrDaemonError::file_error(&copy, error))?;
        Ok(copy)
    }

    /// Replaces the content of a file atomically. Keeps the file's permissions; if the path is a
    /// symlink, replaces the content of its target.
    fn write(&self, text: &str) -> std::io::Result<()> {
        let target = self
            .path
            .canonicalize()
            .unwrap_or_else(|_| self.path.clone());
        let mode = fs::metadata(&target).map(|found| found.mode() & 0o777).ok();
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder)?;
        }
        replace_private_file(&target, text.as_bytes())?;
        match mode {
            Some(mode) => fs::set_permissions(&target, Permissions::from_mode(mode)),
            None => Ok(()),
        }
    }
}

/// Names of folders that `install` creates, and that `remove` deletes if they are empty.
const INSTALL_CREATED_FOLDERS: &[&str] = &["hooks", "rind-guard"];

fn remove_empty_guard_folders(path: &Path) {
    for folder in path.ancestors().skip(1) {
        let name = folder.file_name().unwrap_or_default();
        // `remove_dir` fails for a folder that is not empty, so such a folder is kept.
        if !INSTALL_CREATED_FOLDERS.iter().any(|own| name == *own)
            || fs::remove_dir(folder).is_err()
        {
            return;
        }
    }
}

/// Reads a settings file; `None` if the file does not exist.
pub(crate) fn read_settings_file(path: &Path) -> Result<Option<String>, GuardFileOrDaemonError> {
    read_if_present(path, MAX_SETTINGS_FILE_BYTES)
        .map_err(|error| GuardFileOrDaemonError::file_error(path, error))
}
