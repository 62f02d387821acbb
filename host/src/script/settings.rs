//! Reads the settings of scripts: the section `[hooks]`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use regex::Regex;
use serde::Deserialize;

use super::{HookScript, names};
use crate::config::{Section, number};
use crate::point::catalog;
use crate::point::failure::OnFailure;
use crate::point::registry::{DEFAULT_HOOK_DEADLINE, DEFAULT_HOOK_PRIORITY};

/// Default timeout of a script with the setting `async`.
const DEFAULT_ASYNC_SCRIPT_TIMEOUT: Duration = Duration::from_secs(15);

/// Hooks configured by the operator, except those of plugins.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HooksConfig {
    /// Scripts to call as hooks, by name.
    pub scripts: BTreeMap<String, ScriptSettings>,
    /// Paths of files with Claude Code hooks.
    pub claude: Vec<String>,
}

impl Section for HooksConfig {
    const NAME: &'static str = "hooks";
}

/// Name of an extension point, or a list of names.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected the name of a point, or a list of names"
)]
enum ExtensionPointNames {
    One(String),
    More(Vec<String>),
}

/// Settings of one script.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptSettings {
    /// Extension point that calls the script, or a list of several.
    point: ExtensionPointNames,
    /// Program and its arguments. A word that begins with `~/` is a path in the home folder; the
    /// first word may be relative to the folder of the settings.
    command: Vec<String>,
    /// Whether the script is called. Default: yes.
    #[serde(default = "default_true")]
    pub enabled: bool,
    /// Regular expression for whole names of tools, at `pre-tool` and `post-tool`. Default: all
    /// tools.
    #[serde(default)]
    matcher: Option<String>,
    /// Priority among the hooks of a point; the lowest number runs first. Default: 100.
    #[serde(default)]
    priority: Option<u16>,
    /// Action when the script fails. Default: that of the point.
    #[serde(default)]
    on_failure: Option<OnFailure>,
    /// Timeout of a call, in seconds. Default: 5, and 15 with `async`.
    #[serde(default, deserialize_with = "number::within_if_set::<1, 600, _, _>")]
    timeout_seconds: Option<u64>,
    /// Whether the turn continues without waiting for the script, at points that only observe.
    /// Default: no.
    #[serde(default, rename = "async")]
    is_async: bool,
    /// Rights that the script has, such as `block`, out of those of its point. Default: all of them.
    #[serde(default)]
    may: Option<Vec<String>>,
    /// Whether one process runs for the session and reads one call per line. Default: no.
    #[serde(default, rename = "warm")]
    is_warm: bool,
}

fn default_true() -> bool {
    true
}

/// Directories against which relative paths and `~/` in the settings are resolved.
#[derive(Clone, Copy, Debug)]
pub struct ScriptSettingsBaseFolders<'a> {
    /// Home directory, for `~` at the start of a word.
    pub home: &'a Path,
    /// Directory of the settings file, for relative paths.
    pub settings: &'a Path,
}

impl ScriptSettings {
    /// Builds the script with this name; `place` is the position of its settings.
    ///
    /// # Errors
    /// A sentence about the first invalid setting.
    pub fn build_script(
        &self,
        name: &str,
        base: ScriptSettingsBaseFolders<'_>,
        place: String,
    ) -> Result<HookScript, String> {
        let wanted = match &self.point {
            ExtensionPointNames::One(point) => std::slice::from_ref(point),
            ExtensionPointNames::More(points) => points,
        };
        let mut points = Vec::new();
        for point in wanted {
            let row = catalog::find_builtin_extension_point(point).ok_or_else(|| {
                format!("there is no point `{point}`; `rind schema hooks` lists them")
            })?;
            if !points.contains(&row.name) {
                points.push(row.name);
            }
        }
        let (command, files) = resolve_command_paths(&self.command, base);
        let matcher = self
            .matcher
            .as_deref()
            .map(compile_tool_name_pattern)
            .transpose()?;
        let by_default = if self.is_async {
            DEFAULT_ASYNC_SCRIPT_TIMEOUT
        } else {
            DEFAULT_HOOK_DEADLINE
        };
        let mut script = HookScript::new(name, &points, &[]);
        (script.command, script.files) = (command, files);
        script.folders = names::executable_file_folders(&script.files, base.home);
        script.matcher = matcher;
        script.priority = self.priority.unwrap_or(DEFAULT_HOOK_PRIORITY);
        script.deadline = self.timeout_seconds.map_or(by_default, Duration::from_secs);
        script.on_failure = self.on_failure;
        script.is_async = self.is_async;
        script.may.clone_from(&self.may);
        script.is_warm = self.is_warm;
        script.place = place;
        script.check_field_values()?;
        Ok(script)
    }
}

/// Compiles a pattern that matches full tool names.
pub(super) fn compile_tool_name_pattern(pattern: &str) -> Result<Regex, String> {
    Regex::new(&format!("^(?:{pattern})$")).map_err(|error| {
        format!(
            "`matcher` is not a regular expression: {}",
            error.to_string().replace('\n', " ")
        )
    })
}

impl ScriptSettingsBaseFolders<'_> {
    /// Resolves a path from the settings: against the home directory after `~/`, else against the
    /// directory of the settings file.
    #[must_use]
    pub fn resolve_path(&self, text: &str) -> PathBuf {
        match text.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => self.settings.join(text),
        }
    }
}

/// Resolves the paths in a command. Returns the command, and the existing files that it names,
/// which the script may read.
fn resolve_command_paths(
    words: &[String],
    base: ScriptSettingsBaseFolders<'_>,
) -> (Vec<OsString>, Vec<PathBuf>) {
    let path = |(at, word): (usize, &String)| {
        if word.starts_with("~/") || (at == 0 && word.contains('/')) {
            base.resolve_path(word)
        } else {
            PathBuf::from(word)
        }
    };
    let words: Vec<PathBuf> = words.iter().enumerate().map(path).collect();
    let is_named = |word: &&PathBuf| word.is_absolute() && word.is_file();
    let files = words.iter().filter(is_named).cloned().collect();
    (words.into_iter().map(OsString::from).collect(), files)
}
