//! Observed behavior of a skill in a test case, collected from the events of its session.
//!
//! The structure is serialized into snapshots, so it must be the same in every run: times, ids and
//! temporary paths are left out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::file::SKILL_FOLDER_PLACEHOLDER;
use crate::oversight::find_result_of_unknown_tool;
use rind_lib::event::{Event, Stamped};

/// Name of the tool that returns the text of a skill to the model.
const SKILL_TOOL_NAME: &str = "skill";

/// Pattern of the tags around a skill's text. The hexadecimal suffix of the tags is removed,
/// because it depends on the path of the skill's directory.
#[expect(clippy::expect_used, reason = "the pattern is a constant")]
static SKILL_TAG_REGEX: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("(</?skill)-[0-9a-f]{16}").expect("a valid pattern"));

/// Observed behavior of a session with the tested skill, without times, ids and paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ObservedSkill {
    /// Skills that became active, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Reason why the skill could not be used; empty if it could.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// Tool calls of the model, each with the decision about it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// Names of the tools whose calls the user was asked to approve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// Notices that the host showed to the user.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Output of the last turn.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Stop reason of the last turn; empty if no turn ran.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stop: String,
    /// Text of the skill as shown to the model.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Texts of the results of the tool calls, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// Text files in the workspace after the last turn: content by path.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Results of calls of tools that do not exist.
    #[serde(skip)]
    pub unknown_tools: Vec<String>,
}

impl ObservedSkill {
    /// Records what an event of the session shows about the skill's behavior.
    pub(super) fn record_event(&mut self, stamped: &Stamped) {
        let unknown = find_result_of_unknown_tool(&stamped.event);
        let unknown = unknown.map(|result| result.content.to_string());
        self.unknown_tools.extend(unknown);
        match &stamped.event {
            Event::SkillActivated { skill, by, .. } => self.skills.push(format!("{skill} by {by}")),
            Event::Notice {
                text, plugin: None, ..
            } => self.notices.push(text.clone()),
            // If a skill runs in a subagent, its text is the subagent's task.
            Event::SubagentStart { task, .. } if self.text.is_empty() => self.text.clone_from(task),
            Event::ToolEnd {
                result,
                by: None,
                refused_by,
                ..
            } => {
                let text = result.content.to_string();
                if result.name == SKILL_TOOL_NAME && refused_by.is_none() {
                    let place = match result.is_error {
                        true => &mut self.refused,
                        false => &mut self.text,
                    };
                    if place.is_empty() {
                        place.clone_from(&text);
                    }
                }
                self.results.push(text);
            }
            _ => {}
        }
    }

    /// Whether a call of this tool was executed, not only requested by the model.
    pub(super) fn has_executed_tool(&self, tool: &str) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| {
            let how = call
                .strip_prefix(tool)
                .and_then(|how| how.strip_prefix(' '));
            how.is_some_and(|how| !how.starts_with("refused"))
        })
    }

    /// Replaces the run's directory by `~` and the skill's directory by `{baseDir}`, because they
    /// differ between machines.
    pub(super) fn with_path_placeholders(mut self, root: &Path, skill: &Path) -> Self {
        let (root, skill) = (root.display().to_string(), skill.display().to_string());
        let lists = [&mut self.results, &mut self.notices];
        let texts = [&mut self.output, &mut self.text, &mut self.refused];
        for text in lists.into_iter().flatten().chain(texts) {
            let plain = text
                .replace(&skill, SKILL_FOLDER_PLACEHOLDER)
                .replace(&root, "~");
            *text = SKILL_TAG_REGEX.replace_all(&plain, "$1").into_owned();
        }
        self
    }
}
