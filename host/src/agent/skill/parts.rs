//! Records which messages contain texts of skills. The record is a field of the message and not
//! derived from its text, because a file or a tool can return any text.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::lock::lock;
use crate::message::{Content, Message, Origin, SkillPart};

/// Parts of skills in results of calls that are not messages yet, by id of the call.
#[derive(Default)]
pub(in crate::agent) struct SkillParts(Mutex<HashMap<String, Vec<NotedSkill>>>);

struct NotedSkill {
    part: SkillPart,
    /// Line of the result that identifies the part. If a hook removed the line, the part is
    /// discarded.
    line: String,
}

impl SkillParts {
    /// Records that the result of a call contains a part of a skill that begins with this line.
    pub(in crate::agent) fn note_part(&self, call: &str, part: SkillPart, line: String) {
        let mut noted = lock(&self.0);
        let of_call = noted.entry(call.to_owned()).or_default();
        of_call.push(NotedSkill { part, line });
    }

    /// Attaches the recorded parts of a call to the message with its result, except those whose
    /// line a hook removed.
    pub(in crate::agent) fn put_into(&self, message: Message, call: &str) -> Message {
        let noted = lock(&self.0).remove(call).unwrap_or_default();
        let noted = noted.into_iter();
        let left = noted.filter(|noted| holds_line(&message, &noted.line));
        let left = left.map(|noted| noted.part).collect();
        message.with_skills(left)
    }
}

/// Whether a message announces the skill `id`, which is for certain files.
pub(super) fn announces_skill(message: &Message, id: &str) -> bool {
    let is_it = |part: &SkillPart| matches!(part, SkillPart::Description(own) if own == id);
    message.skills.iter().any(is_it)
}

/// Whether a message repeats announcements of skills after a summary.
pub(super) fn tells_again(message: &Message) -> bool {
    let is_description = |part: &SkillPart| matches!(part, SkillPart::Description(_));
    message.origin == Some(Origin::Summary) && message.skills.iter().any(is_description)
}

/// Whether a message contains a text of the skill `id`, with any arguments.
pub(super) fn has_text_of(message: &Message, id: &str) -> bool {
    let is_it = |part: &SkillPart| matches!(part, SkillPart::Text(own) if own == id);
    message.skills.iter().any(is_it)
}

/// Whether a message contains this text of the skill `id`, or a page of it.
pub(super) fn has_text(message: &Message, id: &str, text: &str) -> bool {
    has_text_of(message, id) && holds_line(message, first_line(text))
}

fn holds_line(message: &Message, line: &str) -> bool {
    message.content.iter().any(|part| match part {
        Content::Text { text } => text.contains(line),
        Content::ToolResult(result) => result.content.text().contains(line),
        _ => false,
    })
}

/// Returns the first line of a wrapped text, which contains a unique mark.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}
