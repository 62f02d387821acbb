//! Behavior of a skill in a case, as the events of its session show it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;
use serde::Serialize;

use super::file::BASE;
use crate::cases::oversight::unknown_tool;
use crate::event::{Event, Stamped};

/// Name of the tool that gives the model the text of a skill.
const TOOL: &str = "skill";

/// Marks of a skill's wrapper, which differ with the place of its folder.
#[expect(clippy::expect_used, reason = "the pattern is a constant")]
static MARK: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("(</?skill)-[0-9a-f]{16}").expect("a valid pattern"));

/// Behavior of a skill, without times, ids and places.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SkillSeen {
    /// Skills that became active, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skills: Vec<String>,
    /// Reason why the skill could not be used.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// Calls of the model, each with how it came to run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<String>,
    /// Tools that the person was asked about.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// Notices of the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// Output of the last turn.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Reason for its end; empty when no turn ran.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stop: String,
    /// Text of the skill as the model was given it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Results of calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<String>,
    /// Files of the workspace that are text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, String>,
    /// Results of calls of tools that do not exist.
    #[serde(skip)]
    pub unknown_tools: Vec<String>,
}

impl SkillSeen {
    /// Takes in an event.
    pub(super) fn see(&mut self, stamped: &Stamped) {
        let unknown = unknown_tool(&stamped.event);
        let unknown = unknown.map(|result| result.content.to_string());
        self.unknown_tools.extend(unknown);
        match &stamped.event {
            Event::SkillActivated { skill, by, .. } => self.skills.push(format!("{skill} by {by}")),
            Event::Notice {
                text, plugin: None, ..
            } => self.notices.push(text.clone()),
            // The text of a skill that a subagent runs is its task.
            Event::SubagentStart { task, .. } if self.text.is_empty() => self.text.clone_from(task),
            Event::ToolEnd {
                result,
                by: None,
                refused_by,
                ..
            } => {
                let text = result.content.to_string();
                if result.name == TOOL && refused_by.is_none() {
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

    /// Whether a call of this tool got as far as being run.
    pub(super) fn has_run(&self, tool: &str) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|call| {
            let how = call
                .strip_prefix(tool)
                .and_then(|how| how.strip_prefix(' '));
            how.is_some_and(|how| !how.starts_with("refused"))
        })
    }

    /// Puts `~` in place of the folder of the run and `{baseDir}` in place of the skill's, which differ from machine to
    /// machine and say nothing.
    pub(super) fn without(mut self, root: &Path, skill: &Path) -> Self {
        let (root, skill) = (root.display().to_string(), skill.display().to_string());
        let lists = [&mut self.results, &mut self.notices];
        let texts = [&mut self.output, &mut self.text, &mut self.refused];
        for text in lists.into_iter().flatten().chain(texts) {
            let plain = text.replace(&skill, BASE).replace(&root, "~");
            *text = MARK.replace_all(&plain, "$1").into_owned();
        }
        self
    }
}
