//! Records which messages contain texts of skills. The record is a field of the message and not
//! derived from its text, because a file or a tool can return any text.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::lock::lock_ignoring_poison;
use crate::message::{Content, Message, Origin, SkillPart};

/// Parts of skills that are in the results of tool calls, by call id. An entry is kept until the
/// result of its call becomes a message of the conversation.
#[derive(Default)]
pub(in crate::agent) struct ToolResultSkillTracker(
    Mutex<HashMap<String, Vec<ToolResultSkillContent>>>,
);

struct ToolResultSkillContent {
    part: SkillPart,
    /// First line of the part in the result. If a hook removed this line, the part is not attached
    /// to the message with the result.
    line: String,
}

impl ToolResultSkillTracker {
    /// Records that the result of a call contains a part of a skill that begins with this line.
    pub(in crate::agent) fn record_skill_content(&self, call: &str, part: SkillPart, line: String) {
        let mut noted = lock_ignoring_poison(&self.0);
        let of_call = noted.entry(call.to_owned()).or_default();
        of_call.push(ToolResultSkillContent { part, line });
    }

    /// Attaches the parts of skills that were recorded for a call to the message with its result,
    /// except parts whose line a hook removed from the message.
    pub(in crate::agent) fn attach_skill_content_to_message(
        &self,
        message: Message,
        call: &str,
    ) -> Message {
        let noted = lock_ignoring_poison(&self.0)
            .remove(call)
            .unwrap_or_default();
        let noted = noted.into_iter();
        let left = noted.filter(|noted| contains_line(&message, &noted.line));
        let left = left.map(|noted| noted.part).collect();
        message.with_skills(left)
    }
}

/// Whether a message announces the skill `id`, a skill whose `paths` select certain files, to the
/// model.
pub(super) fn announces_skill(message: &Message, id: &str) -> bool {
    let is_it = |part: &SkillPart| matches!(part, SkillPart::Description(own) if own == id);
    message.skills.iter().any(is_it)
}

/// Whether a message repeats the descriptions of skills whose first announcement a compaction
/// replaced by a summary.
pub(super) fn is_skill_reannouncement(message: &Message) -> bool {
    let is_description = |part: &SkillPart| matches!(part, SkillPart::Description(_));
    message.origin == Some(Origin::Summary) && message.skills.iter().any(is_description)
}

/// Whether a message contains a text of the skill `id`, with any arguments.
pub(super) fn has_skill_text(message: &Message, id: &str) -> bool {
    let is_it = |part: &SkillPart| matches!(part, SkillPart::Text(own) if own == id);
    message.skills.iter().any(is_it)
}

/// Whether a message contains this text of the skill `id`, or a page of it.
pub(super) fn has_given_skill_text(message: &Message, id: &str, text: &str) -> bool {
    has_skill_text(message, id) && contains_line(message, first_text_line(text))
}

fn contains_line(message: &Message, line: &str) -> bool {
    message.content.iter().any(|part| match part {
        Content::Text { text } => text.contains(line),
        Content::ToolResult(result) => result.content.text().contains(line),
        _ => false,
    })
}

/// Returns the first line of the wrapped text of a skill, which contains a unique marker.
pub(super) fn first_text_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}
