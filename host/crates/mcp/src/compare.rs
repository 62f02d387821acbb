//! Finds the differences between the pinned tools and prompts of a server and its current ones.

use serde_json::Value;

use super::offer::{OfferedTool, ServerToolsAndPrompts};
use super::prompt::{OfferedArgument, OfferedPrompt};
use rind_lib::text::escape_and_truncate_line;

/// Maximum length of an excerpt of a changed text, in bytes.
const MAX_CHANGED_TEXT_EXCERPT_BYTES: usize = 160;

/// Number of bytes that an excerpt shows before the first difference.
const EXCERPT_BYTES_BEFORE_DIFFERENCE: usize = 24;

/// Maximum number of differences that the description of one change lists.
const MAX_LISTED_DIFFERENCES: usize = 12;

/// Difference between the pinned tools, prompts and instructions of a server and the current ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeSinceServerApproval {
    /// The definition of an approved tool has changed.
    Changed {
        /// Name of the tool on its server.
        tool: String,
        /// Lines that describe the differences, one for each field that differs, with excerpts of
        /// its value.
        lines: Vec<String>,
    },
    /// The server no longer offers a tool that the operator approved.
    Gone {
        /// Name of the tool on its server.
        tool: String,
    },
    /// The server offers a tool that it did not offer when the operator approved its tools.
    New {
        /// Name of the tool on its server.
        tool: String,
    },
    /// The definition of an approved prompt has changed.
    PromptChanged {
        /// Name of the prompt on its server.
        prompt: String,
        /// Lines that describe the differences, one for each field, with excerpts of its value.
        lines: Vec<String>,
    },
    /// The server no longer offers a prompt that the operator approved.
    PromptGone {
        /// Name of the prompt on its server.
        prompt: String,
    },
    /// The prompt was not part of the offer that the operator approved.
    PromptNew {
        /// Name of the prompt on its server.
        prompt: String,
    },
    /// The instructions of the server differ from the approved ones; contains excerpts of both
    /// texts.
    Instructions(String),
}

impl ChangeSinceServerApproval {
    /// Returns the tool that must not be called because of this difference.
    #[must_use]
    pub fn withheld_tool_name(&self) -> Option<&str> {
        match self {
            Self::Changed { tool, .. } | Self::Gone { tool } => Some(tool),
            _ => None,
        }
    }

    /// Returns the name of the prompt that must not be fetched because of this difference; `None`
    /// if there is none.
    #[must_use]
    pub fn withheld_prompt_name(&self) -> Option<&str> {
        match self {
            Self::PromptChanged { prompt, .. } | Self::PromptGone { prompt } => Some(prompt),
            _ => None,
        }
    }
}

impl std::fmt::Display for ChangeSinceServerApproval {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |tool: &str| escape_and_truncate_line(tool, 64);
        match self {
            Self::Changed { tool, lines } => {
                write!(f, "`{}` has changed: {}", name(tool), lines.join("; "))
            }
            Self::Gone { tool } => write!(f, "`{}` is no longer offered", name(tool)),
            Self::New { tool } => write!(f, "`{}` is new", name(tool)),
            Self::PromptChanged { prompt, lines } => {
                let lines = lines.join("; ");
                write!(f, "the prompt `{}` has changed: {lines}", name(prompt))
            }
            Self::PromptGone { prompt } => {
                write!(f, "the prompt `{}` is no longer offered", name(prompt))
            }
            Self::PromptNew { prompt } => write!(f, "the prompt `{}` is new", name(prompt)),
            Self::Instructions(line) => write!(f, "its instructions have changed: {line}"),
        }
    }
}

/// Finds the differences between the pinned offer of a server and its current offer.
#[must_use]
pub fn list_changes_since_approval(
    pinned: &ServerToolsAndPrompts,
    live: &ServerToolsAndPrompts,
) -> Vec<ChangeSinceServerApproval> {
    let mut changes = Vec::new();
    for before in &pinned.tools {
        let tool = before.name.clone();
        match live.find_tool(&tool) {
            None => changes.push(ChangeSinceServerApproval::Gone { tool }),
            Some(now) => {
                let lines = tool_differences(before, now);
                if !lines.is_empty() {
                    changes.push(ChangeSinceServerApproval::Changed { tool, lines });
                }
            }
        }
    }
    let is_new = |tool: &&OfferedTool| pinned.find_tool(&tool.name).is_none();
    changes.extend(
        live.tools
            .iter()
            .filter(is_new)
            .map(|tool| ChangeSinceServerApproval::New {
                tool: tool.name.clone(),
            }),
    );
    changes.extend(find_prompt_changes(pinned, live));
    let [before, now] =
        [pinned, live].map(|offer| offer.instructions.as_deref().unwrap_or_default());
    if let Some(line) = describe_text_difference(before, now) {
        changes.push(ChangeSinceServerApproval::Instructions(line));
    }
    changes
}

fn find_prompt_changes(
    pinned: &ServerToolsAndPrompts,
    live: &ServerToolsAndPrompts,
) -> Vec<ChangeSinceServerApproval> {
    let mut changes = Vec::new();
    for before in &pinned.prompts {
        let prompt = before.name.clone();
        match live.find_prompt(&prompt) {
            None => changes.push(ChangeSinceServerApproval::PromptGone { prompt }),
            Some(now) => {
                let lines = list_prompt_differences(before, now);
                if !lines.is_empty() {
                    changes.push(ChangeSinceServerApproval::PromptChanged { prompt, lines });
                }
            }
        }
    }
    let new = live.prompts.iter();
    let new = new.filter(|own| pinned.find_prompt(&own.name).is_none());
    changes.extend(new.map(|own| ChangeSinceServerApproval::PromptNew {
        prompt: own.name.clone(),
    }));
    changes
}

/// Describes the first differences in one text, followed by the number of the remaining ones.
#[must_use]
pub fn describe_pinned_server_changes(changes: &[ChangeSinceServerApproval]) -> String {
    let shown = changes
        .iter()
        .take(MAX_LISTED_DIFFERENCES)
        .map(ToString::to_string);
    let shown: Vec<String> = shown.collect();
    let more = changes.len().saturating_sub(MAX_LISTED_DIFFERENCES);
    match more {
        0 => shown.join("; "),
        n => format!("{}; and {n} more", shown.join("; ")),
    }
}

fn tool_differences(before: &OfferedTool, now: &OfferedTool) -> Vec<String> {
    let text = |value: &Option<Value>| value.as_ref().map(Value::to_string).unwrap_or_default();
    let title = |tool: &OfferedTool| tool.title.clone().unwrap_or_default();
    let fields = [
        ("title", title(before), title(now)),
        (
            "description",
            before.description.clone(),
            now.description.clone(),
        ),
        (
            "arguments",
            before.input_schema.to_string(),
            now.input_schema.to_string(),
        ),
        (
            "result",
            text(&before.output_schema),
            text(&now.output_schema),
        ),
        ("claims", text(&before.annotations), text(&now.annotations)),
    ];
    let lines = fields.iter().filter_map(|(field, before, now)| {
        Some(format!(
            "{field} {}",
            describe_text_difference(before, now)?
        ))
    });
    lines.collect()
}

fn list_prompt_differences(before: &OfferedPrompt, now: &OfferedPrompt) -> Vec<String> {
    let title = |prompt: &OfferedPrompt| prompt.title.clone().unwrap_or_default();
    let arguments = |prompt: &OfferedPrompt| {
        let one = |own: &OfferedArgument| {
            let required = if own.required { " (required)" } else { "" };
            format!("{}{required}: {}", own.name, own.description)
        };
        prompt
            .arguments
            .iter()
            .map(one)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let fields = [
        ("title", title(before), title(now)),
        (
            "description",
            before.description.clone(),
            now.description.clone(),
        ),
        ("arguments", arguments(before), arguments(now)),
    ];
    let lines = fields.iter().filter_map(|(field, before, now)| {
        Some(format!(
            "{field} {}",
            describe_text_difference(before, now)?
        ))
    });
    lines.collect()
}

/// Describes a difference with an excerpt of both texts, which starts shortly before the first
/// difference; `None` if the texts are equal.
fn describe_text_difference(before: &str, now: &str) -> Option<String> {
    if before == now {
        return None;
    }
    let same = before.bytes().zip(now.bytes()).take_while(|(a, b)| a == b);
    let from = same.count().saturating_sub(EXCERPT_BYTES_BEFORE_DIFFERENCE);
    let excerpt = |text: &str| {
        let from = text.floor_char_boundary(from);
        let rest = escape_and_truncate_line(
            text.get(from..).unwrap_or_default(),
            MAX_CHANGED_TEXT_EXCERPT_BYTES,
        );
        match (rest.is_empty(), from) {
            (true, _) => "nothing".to_owned(),
            (false, 0) => format!("“{rest}”"),
            (false, _) => format!("“…{rest}”"),
        }
    };
    Some(format!("was {}, is now {}", excerpt(before), excerpt(now)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::offer::offered_tool_for_tests;

    #[test]
    fn every_field_counts_and_the_order_of_tools_does_not() {
        let pinned = ServerToolsAndPrompts {
            tools: vec![
                offered_tool_for_tests("a", "reads"),
                offered_tool_for_tests("b", "x"),
                offered_tool_for_tests("c", "x"),
            ],
            ..ServerToolsAndPrompts::default()
        };
        assert!(list_changes_since_approval(&pinned, &pinned).is_empty());
        let mut live = ServerToolsAndPrompts {
            tools: vec![
                offered_tool_for_tests("d", "x"),
                offered_tool_for_tests("a", "reads"),
                offered_tool_for_tests("b", "x"),
            ],
            server: "other 2".to_owned(),
            instructions: Some("do it".to_owned()),
            ..ServerToolsAndPrompts::default()
        };
        live.tools[1].annotations = Some(json!({"readOnlyHint": true}));
        live.tools[2].description = "x, and send it to \u{1b}[2Jme".to_owned();
        let changes = list_changes_since_approval(&pinned, &live);
        let held: Vec<&str> = changes
            .iter()
            .filter_map(ChangeSinceServerApproval::withheld_tool_name)
            .collect();
        assert_eq!(held, ["a", "b", "c"]);
        let text = describe_pinned_server_changes(&changes);
        assert!(
            text.contains("claims was nothing, is now “{\"readOnlyHint\":true}”"),
            "{text}"
        );
        assert!(text.contains("send it to"), "{text}");
        assert!(
            text.contains("`c` is no longer offered; `d` is new"),
            "{text}"
        );
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_prompt_that_differs_is_held_and_a_new_one_is_told() {
        let prompt = |name: &str, description: &str, required| OfferedPrompt {
            name: name.to_owned(),
            description: description.to_owned(),
            arguments: vec![OfferedArgument {
                name: "path".to_owned(),
                description: String::new(),
                required,
            }],
            ..OfferedPrompt::default()
        };
        let offer = |prompts: Vec<OfferedPrompt>| ServerToolsAndPrompts {
            prompts,
            ..ServerToolsAndPrompts::default()
        };
        let pinned = offer(vec![
            prompt("a", "d", true),
            prompt("b", "d", true),
            prompt("c", "d", true),
        ]);
        assert!(list_changes_since_approval(&pinned, &pinned).is_empty());
        let live = offer(vec![
            prompt("d", "d", true),
            prompt("b", "d", false),
            prompt("a", "other", true),
        ]);
        let changes = list_changes_since_approval(&pinned, &live);
        let held: Vec<&str> = changes
            .iter()
            .filter_map(ChangeSinceServerApproval::withheld_prompt_name)
            .collect();
        assert_eq!(held, ["a", "b", "c"]);
        assert!(
            changes
                .iter()
                .all(|change| change.withheld_tool_name().is_none())
        );
        let text = describe_pinned_server_changes(&changes);
        for words in [
            "the prompt `a` has changed: description was “d”, is now “other”",
            "arguments was “path (required):”, is now “path:”",
            "the prompt `c` is no longer offered; the prompt `d` is new",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    #[test]
    fn a_long_text_is_shown_from_its_difference_on() {
        let before = format!("{}end", "é".repeat(1000));
        let now = format!("{}other end", "é".repeat(1000));
        let line = describe_text_difference(&before, &now).unwrap();
        assert!(
            line.contains("end”") && line.contains("other end”"),
            "{line}"
        );
        assert!(line.len() < 200, "{line}");
    }
}
