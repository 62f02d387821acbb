//! Paths of Rind's files.
//!
//! Owns the folder layout. Computes paths from the arguments alone and reads neither the
//! environment nor the disk, so that tests and CI decide where files go. It must not know the
//! content of any file.
//!
//! Start from [`RindPaths::new`].

use std::path::{Path, PathBuf};

/// Environment variable that names one folder for all of Rind's folders, except for the project's
/// folder.
pub const HOME_VARIABLE: &str = "RIND_HOME";

/// Name of the folder in a workspace that contains the project's files.
pub const PROJECT_FOLDER: &str = ".rind";

/// Policy of the machine's administrator, which takes precedence over the user's.
pub const ADMIN_POLICY_FILE_PATH: &str = "/etc/rind/policy.toml";

/// Folders in which Rind keeps its files, and the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RindPaths {
    /// Files that the user writes: `config.toml`, installed plugins, skills.
    pub config: PathBuf,
    /// Files that must not be lost: sessions, grants, plugins' stores.
    pub data: PathBuf,
    /// Files that can be regenerated: compiled components, derived skills.
    pub cache: PathBuf,
    /// Workspace: the folder that the agent works in.
    pub workspace: PathBuf,
}

impl RindPaths {
    /// Computes the folders for a user with the home folder `home` and the environment `env`,
    /// working in `workspace`.
    ///
    /// The XDG variables apply if they are absolute paths, as their specification demands.
    /// `RIND_HOME` takes precedence. If it is relative, it is resolved against the workspace:
    /// ignoring it would write to the real home folder instead. The rules are implemented here
    /// because `etcetera` reads the process environment itself.
    #[must_use]
    pub fn new(home: &Path, env: impl Fn(&str) -> Option<String>, workspace: &Path) -> Self {
        let workspace = workspace.to_owned();
        let absolute = |name: &str| env(name).map(PathBuf::from).filter(|p| p.is_absolute());
        if let Some(root) = env(HOME_VARIABLE).filter(|root| !root.is_empty()) {
            return Self::from_single_root(&workspace.join(root), &workspace);
        }
        let base = |name: &str, default: &str| {
            absolute(name)
                .unwrap_or_else(|| home.join(default))
                .join("rind")
        };
        Self {
            config: base("XDG_CONFIG_HOME", ".config"),
            data: base("XDG_DATA_HOME", ".local/share"),
            cache: base("XDG_CACHE_HOME", ".cache"),
            workspace,
        }
    }

    /// Computes the folders for a host that stores all its files under `root`.
    #[must_use]
    pub fn from_single_root(root: &Path, workspace: &Path) -> Self {
        Self {
            config: root.join("config"),
            data: root.join("data"),
            cache: root.join("cache"),
            workspace: workspace.to_owned(),
        }
    }

    /// Returns the three folders with Rind's own files, which no tool, command or plugin may
    /// access.
    #[must_use]
    pub fn config_data_cache_folders(&self) -> [PathBuf; 3] {
        [&self.config, &self.data, &self.cache].map(Clone::clone)
    }

    /// Returns the path of the user's settings file, `config.toml`.
    #[must_use]
    pub fn user_config(&self) -> PathBuf {
        self.config.join("config.toml")
    }

    /// Returns the folder `.rind` of the project, which lies in the workspace.
    #[must_use]
    pub fn project_folder(&self) -> PathBuf {
        self.workspace.join(PROJECT_FOLDER)
    }

    /// Returns the path of the project's settings, which are read only if the project is trusted.
    #[must_use]
    pub fn project_config_path(&self) -> PathBuf {
        self.project_folder().join("config.toml")
    }

    /// Returns the path of the user's settings for this workspace. The file is in the user's config
    /// folder and not in the workspace: only the user can write it, so it needs no trust.
    #[must_use]
    pub fn user_workspace_config_path(&self) -> PathBuf {
        let path = self.workspace.as_os_str().as_encoded_bytes();
        let name = blake3::hash(path).to_hex();
        self.config
            .join("workspaces")
            .join(format!("{}.toml", &name[..16]))
    }

    /// Returns the path of the file with the user's policy for plugins.
    #[must_use]
    pub fn user_policy_path(&self) -> PathBuf {
        self.config.join("policy.toml")
    }

    /// Returns the path of the file with the operator's decisions about the permissions of plugins.
    #[must_use]
    pub fn grant_answers_path(&self) -> PathBuf {
        self.data.join("grants.json")
    }

    /// Returns the path of a file whose existence means that a notice was already shown for this
    /// workspace. The parts in `things` together identify the notice.
    #[must_use]
    pub fn shown_notice_marker_path(&self, things: &[&str]) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.workspace.as_os_str().as_encoded_bytes());
        for thing in things {
            hasher.update(b"\0");
            hasher.update(thing.as_bytes());
        }
        let name = hasher.finalize().to_hex();
        self.data.join("told").join(&name[..16])
    }

    /// Returns the folder for temporary files. It is used if the system's temporary folder is
    /// inside the workspace.
    #[must_use]
    pub fn temporary_folder(&self) -> PathBuf {
        self.data.join("tmp")
    }

    /// Returns the path of the file that lists the projects which the user trusts.
    #[must_use]
    pub fn trusted_projects_path(&self) -> PathBuf {
        self.data.join("projects.json")
    }

    /// Returns the path of the list of projects whose Claude Code hooks are allowed.
    #[must_use]
    pub fn project_hooks_path(&self) -> PathBuf {
        self.data.join("project-hooks.json")
    }

    /// Returns the folder that contains one record for each running command.
    #[must_use]
    pub fn running_command_records_folder(&self) -> PathBuf {
        self.data.join("commands")
    }

    /// Returns the folder of unpacked SDKs. It is next to the data folder and not inside it, so
    /// that the commands of an agent that works on a plugin can read the SDK.
    #[must_use]
    pub fn unpacked_sdks_folder(&self) -> PathBuf {
        self.data.with_file_name("rind-sdk")
    }

    /// Returns the folder of the target directories in which Rust plugins are compiled.
    #[must_use]
    pub fn plugin_builds(&self) -> PathBuf {
        self.cache.join("builds")
    }

    /// Returns the folder that contains all stored sessions.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }
}

/// Returns the base name of a path; empty if it has none.
pub fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Returns the base name of a path without its extension; empty if it has none.
pub fn file_stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rind_home_goes_before_xdg_variables_and_these_before_the_home_folder() {
        let table = [
            (
                "",
                "/home/u/.config/rind /home/u/.local/share/rind /home/u/.cache/rind",
            ),
            (
                "XDG_CONFIG_HOME=/c XDG_DATA_HOME=relative",
                "/c/rind /home/u/.local/share/rind /home/u/.cache/rind",
            ),
            (
                "RIND_HOME=/r XDG_CONFIG_HOME=/c",
                "/r/config /r/data /r/cache",
            ),
            // Relative `RIND_HOME`, so that the folders are inside the workspace.
            ("RIND_HOME=ci", "/w/ci/config /w/ci/data /w/ci/cache"),
        ];
        for (variables, expected) in table {
            let lookup = |name: &str| {
                let mut all = variables.split(' ');
                let value = all.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
                value.map(str::to_owned)
            };
            let paths = RindPaths::new(Path::new("/home/u"), lookup, Path::new("/w"));
            let found = [&paths.config, &paths.data, &paths.cache];
            let found = found.map(|path| path.display().to_string()).join(" ");
            assert_eq!(found, expected, "{variables}");
            assert_eq!(
                paths.project_config_path(),
                Path::new("/w/.rind/config.toml")
            );
        }
    }
}
