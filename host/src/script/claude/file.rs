//! Reads files with hooks of Claude Code: the key `hooks` of its settings, or the `hooks.json` of a
//! plugin.
//!
//! Each command becomes a [`HookScript`]. Entries without an equivalent are reported, but an
//! unsupported entry at an event whose hooks can refuse is an error. Start from
//! [`read_operator_hooks`].
//!
//! For example:
//!
//! ```json
//! {"hooks": {
//!   "PreToolUse": [{
//!     "matcher": "Bash",
//!     "hooks": [{ "type": "command", "command": "~/.claude/hooks/block-rm.sh", "timeout": 30 }]
//!   }],
//!   "SessionStart": [{ "hooks": [{ "type": "command", "command": "echo 'Branch: main'" }] }]
//! }}
//! ```

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

use super::super::HookScript;
use super::super::names::{self, FileNameBaseFolders};
use super::super::pin::DigestPinnedFile;
use super::super::settings::ScriptSettingsBaseFolders;
use super::event::CLAUDE_EVENT_EXTENSION_POINTS;
use super::exec::build_command_line;
use super::{ClaudeHook, ClaudeHookEvent, ClaudeHookMatcher};
use crate::json::UniqueKeysJsonValue;
use crate::near::find_nearest_name;

/// Default timeout of a Claude Code hook, in seconds.
const DEFAULT_HOOK_TIMEOUT_SECONDS: u64 = 60;

/// Maximum timeout of a Claude Code hook, in seconds.
const MAX_HOOK_TIMEOUT_SECONDS: u64 = 600;

/// Maximum size of a file with Claude Code hooks, in bytes.
const MAX_HOOKS_FILE_BYTES: u64 = 1 << 20;

/// Supported keys of a group of hooks, which share one matcher.
const HOOK_GROUP_KEYS: [&str; 2] = ["hooks", "matcher"];

/// Keys of a hook that Rind supports.
const SUPPORTED_HOOK_KEYS: &[&str] = &["type", "command", "args", "timeout", "statusMessage"];

/// Hooks that were read from one file with Claude Code hooks.
#[derive(Debug, Default)]
pub struct ClaudeHooks {
    /// Supported hooks, as scripts.
    pub scripts: Vec<HookScript>,
    /// Descriptions of unsupported entries, each with its position in the file.
    pub unsupported: Vec<String>,
    /// Whether the file disables all hooks in it.
    pub are_disabled: bool,
}

/// Owner of a file with hooks. Decides which files the hooks may read.
#[derive(Clone, Copy)]
enum HooksFileOwner<'a> {
    /// File of the operator. Its hooks may read the files that they name.
    Operator { base: ScriptSettingsBaseFolders<'a> },
    /// File of the project. Its hooks may read only the files that commands of the agent may read.
    Project,
}

/// Reads a hooks file of the operator. `workspace` is the project directory.
///
/// # Errors
/// A sentence with the position: the file cannot be read, is malformed, or has an unsupported hook
/// that could refuse an action.
pub fn read_operator_hooks(
    path: &Path,
    workspace: &Path,
    base: ScriptSettingsBaseFolders<'_>,
) -> Result<ClaudeHooks, String> {
    let shown = path.display();
    let size = path
        .metadata()
        .map_err(|error| format!("{shown}: {error}"))?;
    if size.len() > MAX_HOOKS_FILE_BYTES {
        return Err(format!(
            "{shown}: the file has more than {MAX_HOOKS_FILE_BYTES} bytes"
        ));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}"))?;
    parse_hooks_file(path, &text, HooksFileOwner::Operator { base }, workspace)
}

/// Reads the text of a project's hooks file. The hooks may read only the files that commands of the
/// agent may read, even if they name others. The files in the project that they name are pinned to
/// their current content.
///
/// # Errors
/// A sentence with the position: the text is malformed, has an unsupported hook that could refuse
/// an action, or names a file that cannot be read.
pub fn parse_project_hooks(
    path: &Path,
    text: &str,
    workspace: &Path,
) -> Result<ClaudeHooks, String> {
    if text.len() as u64 > MAX_HOOKS_FILE_BYTES {
        return Err(format!(
            "{}: the file has more than {MAX_HOOKS_FILE_BYTES} bytes",
            path.display()
        ));
    }
    parse_hooks_file(path, text, HooksFileOwner::Project, workspace)
}

fn parse_hooks_file(
    path: &Path,
    text: &str,
    owner: HooksFileOwner<'_>,
    workspace: &Path,
) -> Result<ClaudeHooks, String> {
    let shown = path.display();
    let UniqueKeysJsonValue(file) =
        serde_json::from_str(text).map_err(|error| format!("{shown}:{}: {error}", error.line()))?;
    let mut reader = ClaudeHooksReader {
        path,
        workspace,
        owner,
        found: ClaudeHooks::default(),
        commands: Vec::new(),
    };
    if file["disableAllHooks"] == true {
        reader.found.are_disabled = true;
        reader.warn_about_unsupported_entry(
            "",
            "`disableAllHooks` is set, so none of its hooks is called",
        );
        return Ok(reader.found);
    }
    match &file["hooks"] {
        Value::Null => reader.warn_about_unsupported_entry("", "it has no hooks"),
        Value::Object(events) => {
            for (event, groups) in events {
                reader.read_hooks_of_event(event, groups)?;
            }
        }
        _ => return Err(format!("{shown}: `hooks` is not an object")),
    }
    Ok(reader.found)
}

struct ClaudeHooksReader<'a> {
    path: &'a Path,
    workspace: &'a Path,
    owner: HooksFileOwner<'a>,
    found: ClaudeHooks,
    /// Event, matcher and command of each hook that was read so far, to skip duplicates.
    commands: Vec<(String, String, String)>,
}

impl ClaudeHooksReader<'_> {
    fn warn_about_unsupported_entry(&mut self, place: &str, what: &str) {
        let place = if place.is_empty() {
            String::new()
        } else {
            format!(" {place}:")
        };
        let line = format!("{}:{place} {what}", self.path.display());
        self.found.unsupported.push(line);
    }

    fn hooks_file_error(&self, place: &str, what: &str) -> String {
        format!("{}: {place}: {what}", self.path.display())
    }

    fn read_hooks_of_event(&mut self, name: &str, groups: &Value) -> Result<(), String> {
        let Some(event) = ClaudeHookEvent::find_by_name(name) else {
            let known: Vec<&str> = CLAUDE_EVENT_EXTENSION_POINTS
                .iter()
                .map(|(_, name, _)| *name)
                .collect();
            let what = format!(
                "this event is not supported; the supported events are {}",
                known.join(", ")
            );
            self.warn_about_unsupported_entry(name, &what);
            return Ok(());
        };
        let groups = groups
            .as_array()
            .ok_or_else(|| self.hooks_file_error(name, "it is not a list"))?;
        for (at, group) in groups.iter().enumerate() {
            let place = format!("{name}[{at}]");
            self.check_group_keys(group, &place);
            let text = match &group["matcher"] {
                Value::Null => "",
                Value::String(text) => text,
                _ => return Err(self.hooks_file_error(&place, "`matcher` is not a text")),
            };
            let matcher = ClaudeHookMatcher::parse_matcher(text)
                .map_err(|why| self.hooks_file_error(&place, &why))?;
            let hooks = group["hooks"].as_array();
            let hooks =
                hooks.ok_or_else(|| self.hooks_file_error(&place, "`hooks` is not a list"))?;
            for (at, hook) in hooks.iter().enumerate() {
                let place = format!("{place}.hooks[{at}]");
                let hook = hook
                    .as_object()
                    .ok_or_else(|| self.hooks_file_error(&place, "it is not an object"))?;
                self.read_hook(event, (&matcher, text), hook, &place)?;
            }
        }
        Ok(())
    }

    /// Reports unknown keys of a group, such as a misspelled `matcher`: without a matcher, the
    /// hooks of the group are called for all tools.
    fn check_group_keys(&mut self, group: &Value, place: &str) {
        let keys = group.as_object().into_iter().flat_map(Map::keys);
        for key in keys.filter(|key| !HOOK_GROUP_KEYS.contains(&key.as_str())) {
            let meant = find_nearest_name(key, HOOK_GROUP_KEYS);
            let hint = meant.map_or_else(
                || format!("a group has {}", HOOK_GROUP_KEYS.join(" and ")),
                |meant| format!("did you mean `{meant}`?"),
            );
            let key = key.escape_debug();
            self.warn_about_unsupported_entry(
                place,
                &format!("`{key}` is unknown, so it has no effect; {hint}"),
            );
        }
    }

    fn read_hook(
        &mut self,
        event: ClaudeHookEvent,
        (matcher, text): (&ClaudeHookMatcher, &str),
        hook: &Map<String, Value>,
        place: &str,
    ) -> Result<(), String> {
        let kind = hook
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("command");
        if kind != "command" {
            let what = format!("hooks of the type `{kind}` are not supported");
            if event.can_refuse_action() {
                return Err(self.hooks_file_error(
                    place,
                    &format!("{what}, but this hook could refuse actions; remove it from the file to continue without this protection"),
                ));
            }
            self.warn_about_unsupported_entry(place, &format!("{what}; it is not called"));
            return Ok(());
        }
        for key in hook
            .keys()
            .filter(|key| !SUPPORTED_HOOK_KEYS.contains(&key.as_str()))
        {
            self.warn_about_unsupported_entry(
                place,
                &format!("`{key}` is not supported; the hook is called without it"),
            );
        }
        let command = hook.get("command").and_then(Value::as_str);
        let command = command.filter(|command| !command.trim().is_empty());
        let command =
            command.ok_or_else(|| self.hooks_file_error(place, "`command` is missing"))?;
        // Invalid `args` are an error: without its arguments, the command could do something else
        // than the author meant.
        let line = build_command_line(command, hook.get("args"), &self.hook_environment());
        let line = line.map_err(|why| self.hooks_file_error(place, &format!("this hook {why}")))?;
        let command = line.as_str();
        let seen = (event.name().to_owned(), text.to_owned(), command.to_owned());
        if self.commands.contains(&seen) {
            return Ok(());
        }
        self.commands.push(seen);
        let timeout = match hook.get("timeout") {
            None => DEFAULT_HOOK_TIMEOUT_SECONDS,
            Some(seconds) => {
                let seconds = seconds.as_f64().filter(|seconds| *seconds > 0.0);
                let seconds = seconds.ok_or_else(|| {
                    self.hooks_file_error(place, "`timeout` is no number of seconds")
                })?;
                // The conversion to an integer is safe, because `clamp` limits the number.
                (seconds.ceil() as u64).clamp(1, MAX_HOOK_TIMEOUT_SECONDS)
            }
        };
        let n = self.found.scripts.len() + 1;
        let mut script = HookScript::new(
            format!("claude-{}-{n}", to_kebab_case(event.name())),
            &[event.extension_point_name()],
            &[],
        );
        script.command = ["bash", "-c", command].map(OsString::from).to_vec();
        script.env = self.hook_environment();
        match self.owner {
            HooksFileOwner::Operator { base } => {
                script.files = self.script_files_named_in_command(command, base.home);
                script.folders = names::executable_file_folders(&script.files, base.home);
                // A hook of a Claude Code plugin may read all files of the plugin.
                let root = self.plugin_root();
                script
                    .folders
                    .extend(names::omit_missing_and_overbroad_folders(root, base.home));
            }
            HooksFileOwner::Project => {
                script.pins = self
                    .record_command_file_digests(command, &script.env)
                    .map_err(|why| self.hooks_file_error(place, &why))?;
            }
        }
        script.deadline = Duration::from_secs(timeout);
        script.place = format!("{}: {place}", self.path.display());
        script.claude = Some(ClaudeHook {
            event,
            matcher: matcher.clone(),
            matcher_text: text.to_owned(),
        });
        self.found.scripts.push(script);
        Ok(())
    }

    /// Returns the directory of the Claude Code plugin, if the file is the `hooks.json` of one.
    fn plugin_root(&self) -> Option<PathBuf> {
        let folder = self.path.parent()?;
        let is_of_plugin = self
            .path
            .file_name()
            .is_some_and(|name| name == "hooks.json");
        let is_inner = folder.file_name().is_some_and(|name| name == "hooks");
        let root = if is_inner { folder.parent()? } else { folder };
        is_of_plugin.then(|| root.to_owned())
    }

    fn hook_environment(&self) -> Vec<(OsString, OsString)> {
        let project = ("CLAUDE_PROJECT_DIR".into(), self.workspace.into());
        std::iter::once(project)
            .chain(self.plugin_root_variable())
            .collect()
    }

    fn plugin_root_variable(&self) -> Option<(OsString, OsString)> {
        let root = self.plugin_root()?;
        Some(("CLAUDE_PLUGIN_ROOT".into(), root.into()))
    }

    /// Returns the files that a command names with an absolute path, `~/` or a variable. The hook
    /// may read them although commands of the agent may not. Relative names are ignored: files of
    /// the project are readable anyway.
    fn script_files_named_in_command(&self, command: &str, home: &Path) -> Vec<PathBuf> {
        let root = self.plugin_root_variable();
        let places = FileNameBaseFolders {
            home,
            variables: root.as_slice(),
            current: None,
        };
        names::files_named_in_command_line(command, places)
    }

    /// Records the digests of the project's files that a hook's command line names, so that later
    /// changes to these files are noticed.
    fn record_command_file_digests(
        &self,
        command: &str,
        variables: &[(OsString, OsString)],
    ) -> Result<Vec<DigestPinnedFile>, String> {
        let places = FileNameBaseFolders {
            // Names under the home directory are not resolved: only files of the project are
            // pinned, because the project cannot change other files.
            home: Path::new("/nonexistent"),
            variables,
            current: Some(self.workspace),
        };
        let files = names::files_named_in_command_line(command, places).into_iter();
        let is_inside = |file: &PathBuf| {
            let real = file.canonicalize();
            file.starts_with(self.workspace)
                || real.is_ok_and(|real| real.starts_with(self.workspace))
        };
        files
            .filter(is_inside)
            .map(DigestPinnedFile::pin_file)
            .collect()
    }
}

/// Converts `PreToolUse` to `pre-tool-use`.
fn to_kebab_case(name: &str) -> String {
    let mut kebab = String::new();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(letter.to_ascii_lowercase());
    }
    kebab
}
