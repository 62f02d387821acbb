//! Selects the tools that a subagent gets, always a subset of the tools that its parent may call
//! now.
//!
//! A preset selects among these tools, and a list of names narrows the selection; neither can add a
//! tool. Start from [`choose_subagent_tools`].

use super::preset::{PresetToolSelection, SubagentPreset};
use crate::agent::scope::SharedTurnState;
use crate::point::handle::HostFunctionError;
use crate::skill::Skill;
use crate::text::escape_and_truncate_line;
use crate::tool::registry::ToolRegistry;

/// Maximum length of a tool's name in an error, in bytes.
const MAX_SHOWN_TOOL_NAME_BYTES: usize = 64;

/// Returns the names of the tools that a subagent gets: with a preset, those that the preset and
/// the list `wanted` select; without a preset, the list unchanged. Without either, returns the
/// tools that only read.
///
/// # Errors
/// The list names a tool that the preset does not select. Without a preset, the list is not checked
/// here; [`require_available_tools`] rejects tools that the parent does not have.
pub(in crate::agent) fn choose_subagent_tools(
    scope: &SharedTurnState,
    preset: Option<&SubagentPreset>,
    wanted: Option<Vec<String>>,
) -> Result<Vec<String>, HostFunctionError> {
    let selection = match (preset, &wanted) {
        (None, Some(_)) => None,
        (None, None) => Some(&PresetToolSelection::Reading),
        (Some(preset), _) => Some(&preset.tools),
    };
    let Some(selection) = selection else {
        return Ok(wanted.unwrap_or_default());
    };
    let tools = scope.skills.tools();
    let active = scope.skills.callable_tool_names();
    let selected = active.iter().filter(|name| {
        let entry = tools.get(name);
        entry.is_some_and(|entry| selection.selects_tool(&entry.spec))
    });
    let selected: Vec<String> = selected.cloned().collect();
    let Some(wanted) = wanted else {
        return Ok(selected);
    };
    let beyond = wanted.iter().find(|name| !selected.contains(name));
    let name = preset.map_or("", |preset| &preset.name);
    match beyond {
        Some(beyond) => Err(HostFunctionError::NotFound(format!(
            "the preset `{name}` has no tool `{}` here; its tools are: {}",
            escape_and_truncate_line(beyond, MAX_SHOWN_TOOL_NAME_BYTES),
            match selected.as_slice() {
                [] => "none".to_owned(),
                selected => selected.join(", "),
            }
        ))),
        None => Ok(wanted),
    }
}

/// Returns the tools for the task of a subagent. Each must be available to this agent now, or
/// become available with the skill `of` that the subagent runs.
///
/// # Errors
/// A tool is not available, or an active skill forbids it.
pub(in crate::agent) fn require_available_tools(
    scope: &SharedTurnState,
    names: &[String],
    of: Option<&Skill>,
) -> Result<ToolRegistry, HostFunctionError> {
    let active = scope.skills.callable_tool_names();
    let tools = scope.skills.tools();
    let forbidden = |name: &String| scope.skills.find_forbidding_skill(&tools.get(name)?.spec);
    if let Some((_, why)) = names.iter().find_map(forbidden) {
        return Err(HostFunctionError::Denied(why));
    }
    let is_there = |name: &String| {
        active.contains(name)
            || of.is_some_and(|skill| scope.skills.can_skill_unlock_tool(skill, name))
    };
    if let Some(missing) = names.iter().find(|name| !is_there(name)) {
        return Err(HostFunctionError::NotFound(format!(
            "there is no tool `{}` to give to a subagent; the tools are: {}",
            escape_and_truncate_line(missing, MAX_SHOWN_TOOL_NAME_BYTES),
            active.join(", ")
        )));
    }
    Ok(tools.only_named_tools(names))
}
