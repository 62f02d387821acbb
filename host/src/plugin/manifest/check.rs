//! Checks a parsed manifest for mistakes that the TOML parser accepts, such as reserved names,
//! sections without their side effect, and hooks on unknown points.

use std::collections::BTreeMap;

use serde_json::Value;
use toml::Spanned;

use super::{HookOptions, Manifest, ToolOptions, network};
use crate::grant::SideEffect;
use crate::near::find_nearest_name;
use crate::point::ExtensionPoint;
use crate::point::catalog::{self, BuiltinExtensionPoint, CATALOG};
use crate::point::dispatch::ExtensionPointKind;
use crate::point::failure::OnFailure;
use crate::tool::registry::is_valid_tool_name;

/// Maximum number of permissions that a plugin may request, so that the question about them fits on
/// a screen.
const MAX_REQUESTED_PERMISSIONS: usize = 32;

/// Names that already stand for the program, the model or a person, for example as the author of a
/// refusal, as an agent, or as a settings section. A plugin with such a name could impersonate
/// them.
const RESERVED_PLUGIN_NAMES: &[&str] = &[
    "admin",
    "administrator",
    "agent",
    "archive",
    "assistant",
    "developer",
    "error",
    "hook",
    "host",
    "human",
    "main",
    "model",
    "note",
    "operator",
    "plugin",
    "plugins",
    "policy",
    "project",
    "provider",
    "reflection",
    "rind",
    "root",
    "sandbox",
    "session",
    "steering",
    "subagent",
    "system",
    "terminal",
    "tool",
    "tools",
    "user",
    "warning",
    "you",
];

/// Prefix of subagent ids, which label the output of subagents.
const SUBAGENT_ID_PREFIX: &str = "sub-";

/// Checks the name of a plugin, or of a hook in the settings. Output of the plugin or hook is
/// labeled with this name.
///
/// # Errors
/// Returns a sentence that describes the problem.
pub(crate) fn check_plugin_name(name: &str) -> Result<(), String> {
    check_name_characters(name)?;
    check_name_not_reserved(name)?;
    check_no_leading_dash(name)
}

impl Manifest {
    /// Checks the whole manifest. `text` is its source, for line numbers in messages.
    pub(super) fn check_manifest(&mut self, text: &str) -> Result<(), String> {
        check_plugin_name(&self.name)?;
        if let Some(component) = &self.component
            && (component.is_empty()
                || component.contains(['/', '\\'])
                || component.starts_with('.'))
        {
            return Err(format!(
                "component = \"{component}\" is not the name of a file in the folder of the manifest"
            ));
        }
        if self.has_side_effect(SideEffect::None) && self.side_effects.len() > 1 {
            return Err(
                "side_effects: `none` cannot be combined with others; remove it".to_owned(),
            );
        }
        self.check_declared_side_effects()?;
        self.check_requested_permissions()?;
        self.check_hooks(text)?;
        for (name, point) in &self.points {
            check_name_characters(name).map_err(|e| format!("[points.{name}]: {e}"))?;
            for caller in &point.callers {
                check_name_characters(caller)
                    .map_err(|e| format!("[points.{name}] callers: {e}"))?;
            }
        }
        for (name, options) in &self.tools {
            check_tool_options(name, options).map_err(|why| format!("[tools.{name}]: {why}"))?;
        }
        for name in self.dependencies.keys() {
            check_name_characters(name).map_err(|e| format!("[dependencies]: {e}"))?;
        }
        for (name, options) in &self.implements {
            if name.split_once('.').is_none_or(|(owner, point)| {
                check_name_characters(owner).is_err() || check_name_characters(point).is_err()
            }) {
                return Err(format!(
                    "[implements] `{name}` is not of the form `owner.NAME`"
                ));
            }
            if options.may.is_some() {
                return Err(format!(
                    "[implements] `{name}`: remove `may`: it limits the rights of a hook, and points of other plugins give none"
                ));
            }
            let conditions = [
                ("only_with", options.only_with.is_some()),
                ("only_tools", options.only_tools.is_some()),
                ("only_final", options.only_final),
                ("only_over", options.only_over.is_some()),
            ];
            if let Some((key, _)) = conditions.iter().find(|(_, is_set)| *is_set) {
                return Err(format!(
                    "[implements] `{name}`: `{key}` is not allowed, because the plugin that declares a point relies on an answer to each call"
                ));
            }
            if options.is_async {
                return Err(format!(
                    "[implements] `{name}`: `async` is not allowed, because the plugin that declares a point waits for the answers"
                ));
            }
        }
        Ok(())
    }

    /// Checks that the manifest declares the side effect of each section that requests access, for
    /// example `network` for `[network]`. Also checks the contents of `[network]`.
    fn check_declared_side_effects(&self) -> Result<(), String> {
        let sections = [
            (
                "filesystem",
                self.filesystem.is_some(),
                SideEffect::Filesystem,
            ),
            ("network", self.network.is_some(), SideEffect::Network),
            ("external", self.external.is_some(), SideEffect::External),
        ];
        for (section, is_there, effect) in sections {
            if is_there && !self.has_side_effect(effect) {
                return Err(format!("[{section}] needs `side_effects = [\"{effect}\"]`"));
            }
        }
        self.network
            .as_ref()
            .map_or(Ok(()), network::check_network_section)
    }

    /// Checks the requested permissions, because the operator is asked about them: there must be
    /// few enough to read, and tool names must not contain control characters.
    fn check_requested_permissions(&self) -> Result<(), String> {
        let n_requested = self.requested_permissions().len();
        if n_requested > MAX_REQUESTED_PERMISSIONS {
            return Err(format!(
                "the plugin asks for {n_requested} permissions; at most {MAX_REQUESTED_PERMISSIONS} are allowed, so that the operator can read the question about them"
            ));
        }
        let tools = self.external.iter().flat_map(|section| &section.tools);
        if let Some(name) = tools.into_iter().find(|name| !is_valid_tool_name(name)) {
            return Err(format!(
                "[external] tools: `{}` is not a valid tool name",
                name.escape_debug()
            ));
        }
        Ok(())
    }

    /// Returns the schema of a setting in `[config]`.
    fn setting_schema(&self, name: &str) -> Option<&Value> {
        self.config.as_ref()?.get("properties")?.get(name)
    }

    /// Checks the conditions under which a hook is called, such as `only_tools`. A wrong condition
    /// would silently disable the hook.
    fn check_hook_conditions(
        &self,
        row: &BuiltinExtensionPoint,
        options: &HookOptions,
    ) -> Result<(), String> {
        let only_over = options.only_over.as_ref().map(std::slice::from_ref);
        let conditions = [
            ("only_with", options.only_with.as_deref()),
            ("only_tools", options.only_tools.as_deref()),
            ("only_over", only_over),
        ];
        for (key, names) in conditions {
            if names.is_some_and(<[String]>::is_empty) {
                return Err(format!("{key} is empty: name a setting, or remove the key"));
            }
            for name in names.unwrap_or_default() {
                let Some(setting) = self.setting_schema(name) else {
                    let name = name.escape_debug();
                    return Err(format!("{key}: [config] has no setting `{name}`"));
                };
                let kind = |at| setting.pointer(at).and_then(Value::as_str);
                let is_list =
                    kind("/type") == Some("array") && kind("/items/type") == Some("string");
                if key == "only_tools" && !is_list {
                    return Err(format!(
                        "{key}: the setting `{name}` is not a list of texts"
                    ));
                }
                if key == "only_over" && kind("/type") != Some("integer") {
                    return Err(format!("{key}: the setting `{name}` is not a whole number"));
                }
            }
        }
        if options.only_final && row.name != catalog::PostReason::NAME {
            return Err(format!(
                "only_final: remove it, because hooks on {} are not given an answer of the model",
                row.name
            ));
        }
        if options.only_tools.is_some()
            && ![catalog::PreTool::NAME, catalog::PostTool::NAME].contains(&row.name)
        {
            return Err(format!(
                "only_tools: hooks on {} receive no tool call",
                row.name
            ));
        }
        if options.only_over.is_some() && row.name != catalog::PostTool::NAME {
            return Err(format!(
                "only_over: hooks on {} receive no result of a tool",
                row.name
            ));
        }
        Ok(())
    }

    /// Checks that hooks name points of the catalog, and replaces aliases by the catalog's names.
    fn check_hooks(&mut self, text: &str) -> Result<(), String> {
        let mut hooks = BTreeMap::new();
        for (name, options) in std::mem::take(&mut self.hooks) {
            let at = format!(
                "line {}, [hooks.{}]",
                line_number_at_offset(text, name.span().start),
                name.get_ref()
            );
            let Some(row) = catalog::find_builtin_extension_point(name.get_ref()) else {
                let hyphened = name.get_ref().replace('_', "-");
                let near = catalog::find_builtin_extension_point(&hyphened).map(|row| row.name);
                let near = near
                    .or_else(|| find_nearest_name(&hyphened, CATALOG.iter().map(|row| row.name)));
                let hint = near.map_or_else(
                    || format!("the points are {}", list_point_names()),
                    |near| format!("did you mean `{near}`? `rind plugin points` lists them"),
                );
                return Err(format!("{at}: there is no such point; {hint}"));
            };
            if options.is_async && row.kind != ExtensionPointKind::Observe {
                return Err(format!(
                    "{at}: only hooks of observe points can be `async`, and {} is a {} point",
                    row.name, row.kind
                ));
            }
            if options.on_failure == Some(OnFailure::Block)
                && matches!(
                    row.kind,
                    ExtensionPointKind::Observe | ExtensionPointKind::Collect
                )
            {
                return Err(format!(
                    "{at}: `on_failure = \"block\"` is not possible for hooks of {} points",
                    row.kind
                ));
            }
            check_hook_rights(row, options.may.as_deref()).map_err(|why| format!("{at}: {why}"))?;
            self.check_hook_conditions(row, &options)
                .map_err(|why| format!("{at}: {why}"))?;
            let key = Spanned::new(name.span(), row.name.to_owned());
            if hooks.insert(key, options).is_some() {
                return Err(format!(
                    "{at}: the options of the hook on {} are set twice",
                    row.name
                ));
            }
        }
        self.hooks = hooks;
        Ok(())
    }
}

/// Checks `may`, the list of rights that a hook keeps. If a right were misspelled, the hook would
/// silently lack that right.
fn check_hook_rights(row: &BuiltinExtensionPoint, may: Option<&[String]>) -> Result<(), String> {
    let unknown = |name: &&String| !row.rights.contains(&name.as_str());
    match may.and_then(|may| may.iter().find(unknown)) {
        None => Ok(()),
        Some(_) if row.rights.is_empty() => Err(format!(
            "hooks on {} cannot change anything, so `may` has no right to list; remove it",
            row.name
        )),
        Some(name) => Err(format!(
            "may: `{}` is not a right of {}; its rights are {}",
            name.escape_debug(),
            row.name,
            row.rights.join(", ")
        )),
    }
}

fn list_point_names() -> String {
    let names: Vec<&str> = catalog::CATALOG.iter().map(|row| row.name).collect();
    names.join(", ")
}

fn check_name_characters(name: &str) -> Result<(), String> {
    let is_fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.is_empty() || name.len() > 64 || !name.bytes().all(is_fine) {
        return Err(format!(
            "the name `{}` is not made of 1 to 64 of a-z, 0-9 and `-`",
            name.escape_debug()
        ));
    }
    Ok(())
}

/// Refuses names that commands would parse as an option, for example `-x` in `rind plugin remove
/// -x`.
fn check_no_leading_dash(name: &str) -> Result<(), String> {
    if name.starts_with('-') {
        return Err(format!(
            "the name `{name}` begins with `-`, as options of commands do; choose one that begins with a letter or a digit"
        ));
    }
    Ok(())
}

/// Refuses reserved names, ids of subagents, and names that begin with `rind-`, which look like a
/// part of the program. A reserved name with additional dashes is refused too, because a reader
/// would overlook the dashes.
fn check_name_not_reserved(name: &str) -> Result<(), String> {
    let is_agent_id = name
        .strip_prefix(SUBAGENT_ID_PREFIX)
        .is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let bare = name.trim_matches('-');
    let is_word =
        bare.is_empty() || RESERVED_PLUGIN_NAMES.contains(&bare) || bare.starts_with("rind-");
    if is_agent_id || is_word {
        return Err(format!(
            "the name `{name}` is reserved: what a plugin of this name says would read as if the program itself, the model or \
             you had said it; choose a name that says what the plugin does"
        ));
    }
    Ok(())
}

/// Checks the options of one tool, but not whether the component lists the tool, which is known
/// only when the plugin is loaded.
fn check_tool_options(name: &str, options: &ToolOptions) -> Result<(), String> {
    let tools = std::iter::once(name).chain(options.check.as_deref());
    for tool in tools {
        if !is_valid_tool_name(tool) {
            return Err(format!(
                "`{}` is not a valid tool name (1 to 64 of a-z, A-Z, 0-9, `_` and `-`)",
                tool.escape_debug()
            ));
        }
    }
    match &options.check {
        Some(_) if options.idempotent => {
            Err("`idempotent` and `check` exclude each other; remove one".to_owned())
        }
        Some(check) if check == name => {
            Err("`check` names the tool itself; name another tool that only reads".to_owned())
        }
        None if !options.idempotent => Err(
            "the section is empty; set `idempotent = true` or `check`, or remove the section"
                .to_owned(),
        ),
        _ => Ok(()),
    }
}

fn line_number_at_offset(text: &str, at: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(at)
        .filter(|b| **b == b'\n')
        .count()
        + 1
}
