//! The tools that a subagent gets: always some of those that its parent may call now.
//!
//! A preset selects among them, a list of names narrows further, and nothing gives one back. Start
//! from [`grant_tools`].

use super::preset::{PresetTools, SubagentPreset};
use crate::agent::scope::TurnScope;
use crate::point::handle::HandleError;
use crate::skill::Skill;
use crate::text::clean_line;
use crate::tool::registry::ToolRegistry;

/// Longest name that an error repeats, in bytes.
const MAX_SHOWN: usize = 64;

/// Returns the names of the tools that a preset and a list of names leave; without either, the
/// tools that only read.
///
/// # Errors
/// The list names a tool that the preset does not have. A tool that the parent does not have is
/// refused by [`check_tools`].
pub(in crate::agent) fn grant_tools(
    scope: &TurnScope,
    preset: Option<&SubagentPreset>,
    wanted: Option<Vec<String>>,
) -> Result<Vec<String>, HandleError> {
    let selection = match (preset, &wanted) {
        (None, Some(_)) => None,
        (None, None) => Some(&PresetTools::Reading),
        (Some(preset), _) => Some(&preset.tools),
    };
    let Some(selection) = selection else {
        return Ok(wanted.unwrap_or_default());
    };
    let tools = scope.skills.tools();
    let active = scope.skills.active();
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
        Some(beyond) => Err(HandleError::NotFound(format!(
            "the preset `{name}` has no tool `{}` here; its tools are: {}",
            clean_line(beyond, MAX_SHOWN),
            match selected.as_slice() {
                [] => "none".to_owned(),
                selected => selected.join(", "),
            }
        ))),
        None => Ok(wanted),
    }
}

/// Returns the tools of a task: all of them are available to this agent now, or come with the skill
/// that the subagent begins with.
///
/// # Errors
/// A tool is not available, or an active skill forbids it.
pub(in crate::agent) fn check_tools(
    scope: &TurnScope,
    names: &[String],
    of: Option<&Skill>,
) -> Result<ToolRegistry, HandleError> {
    let active = scope.skills.active();
    let tools = scope.skills.tools();
    let forbidden = |name: &String| scope.skills.forbidden_by_skill(&tools.get(name)?.spec);
    if let Some((_, why)) = names.iter().find_map(forbidden) {
        return Err(HandleError::Denied(why));
    }
    let is_there = |name: &String| {
        active.contains(name) || of.is_some_and(|skill| scope.skills.is_brought_by(skill, name))
    };
    if let Some(missing) = names.iter().find(|name| !is_there(name)) {
        return Err(HandleError::NotFound(format!(
            "there is no tool `{}` to give to a subagent; the tools are: {}",
            clean_line(missing, MAX_SHOWN),
            active.join(", ")
        )));
    }
    Ok(tools.only(names))
}
