//! Runs scripts: programs that the operator configures as hooks, with JSON input and output.
//!
//! The settings bind scripts to extension points. The dispatcher calls them like plugins and native
//! hooks, with the same order, timeouts, failure policy, quarantine, rights and trace. They run
//! like commands of `bash`, with the same confinement, environment and limits. Their output is
//! masked and limited like that of plugins. This module must not know where a script was
//! configured, nor the meaning of an extension point.
//!
//! Start from [`HookScript`].

mod claude;
mod hook;
mod json;
mod names;
mod once;
mod pin;
mod settings;
mod stray;
mod warm;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;

use crate::point::catalog::{self, BuiltinExtensionPoint};
use crate::point::dispatch::ExtensionPointKind;
use crate::point::failure::OnFailure;
use crate::point::registry::{DEFAULT_HOOK_DEADLINE, DEFAULT_HOOK_PRIORITY, HookSpec};

pub use claude::{
    ClaudeHooks, parse_project_hooks as read_project_claude, read_operator_hooks as read_claude,
};
pub(crate) use hook::SessionHookScript;
pub use json::script_protocol_schema;
pub(crate) use once::ScriptProgram;
pub use pin::DigestPinnedFile;
pub use settings::{HooksConfig, ScriptSettings, ScriptSettingsBaseFolders};

/// A program that is called as a hook.
///
/// A script can be bound to several extension points. Use [`HookScript::new`] for the defaults,
/// then [`HookScript::check_field_values`] before binding it.
#[derive(Clone, Debug)]
pub struct HookScript {
    /// Name of the script, unique among plugins, scripts and native hooks.
    pub name: String,
    /// Names of the extension points that call the script.
    pub points: Vec<&'static str>,
    /// Program and arguments. A program without `/` is searched in `PATH`; otherwise it is an
    /// absolute path.
    pub command: Vec<OsString>,
    /// Files that the script may read in addition to those that commands of the agent may read: the
    /// script itself, and files named in its arguments.
    pub files: Vec<PathBuf>,
    /// Directories that the script may read in addition to those that commands of the agent may
    /// read: the directories of its files, which may contain modules and data.
    pub folders: Vec<PathBuf>,
    /// Files that must have the content with which a person allowed the script. Otherwise a call
    /// fails.
    pub pins: Vec<DigestPinnedFile>,
    /// Environment variables that the script gets in addition to the usual ones.
    pub env: Vec<(OsString, OsString)>,
    /// Pattern for the full names of the tools for which the script is called; `None` for all
    /// tools. Only at `pre-tool` and `post-tool`.
    pub matcher: Option<Regex>,
    /// Priority among the hooks of a point; the lowest number runs first.
    pub priority: u16,
    /// Timeout of one call of the script.
    pub deadline: Duration,
    /// Policy if the script fails; `None` for the default of the point.
    pub on_failure: Option<OnFailure>,
    /// Whether the turn continues without waiting for the script. Only at points that observe.
    pub is_async: bool,
    /// Rights that the script has at its extension point, such as `block`; `None` for all rights of
    /// the point.
    pub may: Option<Vec<String>>,
    /// Whether one process keeps running for the session and answers each call with a line.
    pub is_warm: bool,
    /// File and position of the script's settings, for display.
    pub place: String,
    /// Claude Code event that the script handles, if it is a hook of Claude Code.
    claude: Option<claude::ClaudeHook>,
}

impl HookScript {
    /// Creates a script with the defaults of its points: one process per call, timeout 5 s.
    #[must_use]
    pub fn new(name: impl Into<String>, points: &[&'static str], command: &[&str]) -> Self {
        Self {
            name: name.into(),
            points: points.to_vec(),
            command: command.iter().map(OsString::from).collect(),
            files: Vec::new(),
            folders: Vec::new(),
            pins: Vec::new(),
            env: Vec::new(),
            matcher: None,
            priority: DEFAULT_HOOK_PRIORITY,
            deadline: DEFAULT_HOOK_DEADLINE,
            on_failure: None,
            is_async: false,
            may: None,
            is_warm: false,
            place: String::new(),
            claude: None,
        }
    }

    /// Checks the constraints that the types do not express.
    ///
    /// # Errors
    /// A sentence about the first violation.
    pub fn check_field_values(&self) -> Result<(), String> {
        crate::plugin::manifest::check_plugin_name(&self.name)?;
        if self
            .command
            .first()
            .is_none_or(|program| program.is_empty())
        {
            return Err("`command` is empty; name the program and its arguments".to_owned());
        }
        if self.points.is_empty() {
            return Err("`point` names no point".to_owned());
        }
        for point in &self.points {
            let Some(row) = catalog::find_builtin_extension_point(point) else {
                return Err(format!(
                    "there is no point `{point}`; `rind schema hooks` lists them"
                ));
            };
            self.check_extension_point_settings(row)?;
        }
        Ok(())
    }

    fn check_extension_point_settings(&self, row: &BuiltinExtensionPoint) -> Result<(), String> {
        let point = row.name;
        if self.is_async && row.kind != ExtensionPointKind::Observe {
            return Err(format!(
                "`async` is for hooks that only observe, and `{point}` waits for its answer"
            ));
        }
        if self.matcher.is_some() && !matches!(point, "pre-tool" | "post-tool") {
            return Err(format!(
                "`matcher` selects tools by name, and `{point}` does not concern a tool"
            ));
        }
        let unknown = self
            .may
            .iter()
            .flatten()
            .find(|right| !row.rights.contains(&right.as_str()));
        if let Some(right) = unknown {
            return Err(format!(
                "`may` names `{right}`, which is not a right of `{point}`; its rights are: {}",
                row.rights.join(", ")
            ));
        }
        Ok(())
    }

    /// Returns the specification of the script's hook at one of its extension points.
    #[must_use]
    pub fn hook_spec(&self, row: &BuiltinExtensionPoint) -> HookSpec {
        HookSpec {
            plugin: self.name.as_str().into(),
            point: row.name.to_owned(),
            priority: self.priority,
            deadline: self.deadline,
            on_failure: self
                .on_failure
                .unwrap_or_else(|| row.default_failure_action()),
            is_async: self.is_async,
            may_change: true,
            may: self.may.clone(),
            only_tools: None,
            only_final: false,
            only_over: None,
        }
    }

    /// Returns the specifications of the script's hooks, one for each extension point.
    pub fn hook_specs(&self) -> impl Iterator<Item = HookSpec> {
        self.extension_points().map(|row| self.hook_spec(row))
    }

    /// Returns the tool pattern as written in the settings.
    #[must_use]
    pub fn matcher_text(&self) -> Option<&str> {
        let pattern = self.matcher.as_ref()?.as_str();
        let own = pattern
            .strip_prefix("^(?:")
            .and_then(|own| own.strip_suffix(")$"));
        Some(own.unwrap_or(pattern))
    }

    /// Returns the event, matcher and command of a Claude Code hook, as written in its file; `None`
    /// for any other script.
    #[must_use]
    pub fn claude_hook_definition(&self) -> Option<(&'static str, &str, String)> {
        let hook = self.claude.as_ref()?;
        let command = self.command.last()?.to_string_lossy().into_owned();
        Some((hook.event_name(), hook.matcher_text(), command))
    }

    /// Returns the existing files that the words of the command name. Relative paths are resolved
    /// against the workspace, in which the command runs.
    #[must_use]
    pub fn files_named_in_command(&self, home: &Path, workspace: &Path) -> Vec<PathBuf> {
        let places = names::FileNameBaseFolders {
            home,
            variables: &self.env,
            current: Some(workspace),
        };
        let words = self.command.iter().map(|word| word.to_string_lossy());
        let mut found: Vec<PathBuf> = words
            .flat_map(|word| names::files_named_in_command_line(&word, places))
            .collect();
        found.extend(self.files.iter().cloned());
        found
    }

    /// Iterates over the catalog rows of the script's extension points.
    pub fn extension_points(&self) -> impl Iterator<Item = &'static BuiltinExtensionPoint> {
        self.points
            .iter()
            .filter_map(|point| catalog::find_builtin_extension_point(point))
    }
}
