//! Scripts: programs of the operator as hooks, JSON in and JSON out.
//!
//! A script is bound to points by the operator's settings and called by the one dispatcher, as plugins and native hooks are:
//! order, deadline, failure policy, quarantine, rights and trace are the same. It runs as commands of `bash` do, with their
//! confinement, environment and limits. What it says is masked and cut like what a plugin says. It must not know who sets it,
//! nor what a point means. Start from [`Script`].

mod claude;
mod hook;
mod json;
mod names;
mod once;
mod settings;
mod stray;
mod warm;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;

use crate::point::catalog::{self, PointRow};
use crate::point::dispatch::PointKind;
use crate::point::failure::OnFailure;
use crate::point::registry::{DEFAULT_PRIORITY, HOOK_DEADLINE, HookSpec};

pub use claude::{ClaudeHooks, read as read_claude};
pub(crate) use hook::OpenScript;
pub use json::schema;
pub(crate) use once::Program;
pub use settings::{Base, HooksConfig, ScriptSettings};

/// A program that is called at points.
#[derive(Clone, Debug)]
pub struct Script {
    /// Name under which it speaks: of plugins, scripts and native hooks each has one of its own.
    pub name: String,
    /// Names of the points.
    pub points: Vec<&'static str>,
    /// Program and arguments. One without `/` is looked for in `PATH`, any other is an absolute path.
    pub command: Vec<OsString>,
    /// Files that it may read besides what commands may: itself, what its arguments name.
    pub files: Vec<PathBuf>,
    /// Folders that it may read besides what commands may: those of its files, where modules and data are beside it.
    pub folders: Vec<PathBuf>,
    /// Variables of its environment besides those of commands.
    pub env: Vec<(OsString, OsString)>,
    /// Tools whose calls it is asked about, by their whole names; `None`: all of them. At `pre-tool` and `post-tool` only.
    pub matcher: Option<Regex>,
    /// Priority among the hooks of a point; lower runs first.
    pub priority: u16,
    /// Deadline of one call.
    pub deadline: Duration,
    /// Action when it fails; `None` is the default of the point.
    pub on_failure: Option<OnFailure>,
    /// Whether nobody waits for it; observe points only.
    pub is_async: bool,
    /// Rights of the point that it keeps; `None` is all of them.
    pub may: Option<Vec<String>>,
    /// Whether it stays for the session and answers lines.
    pub is_warm: bool,
    /// Place of its settings, for people.
    pub place: String,
    /// Event of Claude Code that it is a hook of.
    claude: Option<claude::ClaudeHook>,
}

impl Script {
    /// A script with the defaults of its points: called once, deadline 5 s.
    #[must_use]
    pub fn new(name: impl Into<String>, points: &[&'static str], command: &[&str]) -> Self {
        Self {
            name: name.into(),
            points: points.to_vec(),
            command: command.iter().map(OsString::from).collect(),
            files: Vec::new(),
            folders: Vec::new(),
            env: Vec::new(),
            matcher: None,
            priority: DEFAULT_PRIORITY,
            deadline: HOOK_DEADLINE,
            on_failure: None,
            is_async: false,
            may: None,
            is_warm: false,
            place: String::new(),
            claude: None,
        }
    }

    /// Checks what the types cannot hold.
    ///
    /// # Errors
    /// A sentence that says what does not fit.
    pub fn check(&self) -> Result<(), String> {
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
            let Some(row) = catalog::find(point) else {
                return Err(format!(
                    "there is no point `{point}`; `rind schema hooks` lists them"
                ));
            };
            self.check_at(row)?;
        }
        Ok(())
    }

    fn check_at(&self, row: &PointRow) -> Result<(), String> {
        let point = row.name;
        if self.is_async && row.kind != PointKind::Observe {
            return Err(format!(
                "`async` is for hooks that only observe, and `{point}` waits for its answer"
            ));
        }
        if self.matcher.is_some() && !matches!(point, "pre-tool" | "post-tool") {
            return Err(format!(
                "`matcher` is about the names of tools, and `{point}` is not about one"
            ));
        }
        let unknown = self
            .may
            .iter()
            .flatten()
            .find(|right| !row.rights.contains(&right.as_str()));
        if let Some(right) = unknown {
            return Err(format!(
                "`may` names `{right}`; the rights of `{point}` are: {}",
                row.rights.join(", ")
            ));
        }
        Ok(())
    }

    /// Describes the hook at one of its points.
    #[must_use]
    pub fn spec(&self, row: &PointRow) -> HookSpec {
        HookSpec {
            plugin: self.name.as_str().into(),
            point: row.name.to_owned(),
            priority: self.priority,
            deadline: self.deadline,
            on_failure: self.on_failure.unwrap_or_else(|| row.default_on_failure()),
            is_async: self.is_async,
            may_change: true,
            may: self.may.clone(),
        }
    }

    /// Describes its hooks, one for each point.
    pub fn specs(&self) -> impl Iterator<Item = HookSpec> {
        self.rows().map(|row| self.spec(row))
    }

    /// Returns the pattern of its tools, as it was set.
    #[must_use]
    pub fn matcher(&self) -> Option<&str> {
        let pattern = self.matcher.as_ref()?.as_str();
        let own = pattern
            .strip_prefix("^(?:")
            .and_then(|own| own.strip_suffix(")$"));
        Some(own.unwrap_or(pattern))
    }

    /// Returns the files that its command names, as far as that shows: relative ones are those of the workspace, in which it runs.
    #[must_use]
    pub fn named_files(&self, home: &Path, workspace: &Path) -> Vec<PathBuf> {
        let places = names::Places {
            home,
            variables: &self.env,
            current: Some(workspace),
        };
        let words = self.command.iter().map(|word| word.to_string_lossy());
        let mut found: Vec<PathBuf> = words.flat_map(|word| names::files(&word, places)).collect();
        found.extend(self.files.iter().cloned());
        found
    }

    /// Iterates over the rows of its points.
    pub fn rows(&self) -> impl Iterator<Item = &'static PointRow> {
        self.points.iter().filter_map(|point| catalog::find(point))
    }
}
