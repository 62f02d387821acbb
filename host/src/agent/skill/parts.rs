//! Parts of skills in messages, as data of the message: a file or a tool may hold any text, and
//! such text never counts as the host's.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::lock::lock;
use crate::message::{Content, Message, Origin, SkillPart};

/// Parts that were put into results of calls, by the id of the call, until the results are
/// messages.
#[derive(Default)]
pub(in crate::agent) struct SkillParts(Mutex<HashMap<String, Vec<NotedSkill>>>);

struct NotedSkill {
    part: SkillPart,
    /// Line in the result, unless a hook removed it.
    line: String,
}

impl SkillParts {
    /// Records that the result of a call has a part of a skill, which begins with this line.
    pub(in crate::agent) fn note_part(&self, call: &str, part: SkillPart, line: String) {
        let mut noted = lock(&self.0);
        let of_call = noted.entry(call.to_owned()).or_default();
        of_call.push(NotedSkill { part, line });
    }

    /// Puts the recorded parts into the message of a result, except those whose line the hooks took
    /// out.
    pub(in crate::agent) fn put_into(&self, message: Message, call: &str) -> Message {
        let noted = lock(&self.0).remove(call).unwrap_or_default();
        let noted = noted.into_iter();
        let left = noted.filter(|noted| holds_line(&message, &noted.line));
        let left = left.map(|noted| noted.part).collect();
        message.with_skills(left)
    }
}

/// Whether a message announces a skill about files.
pub(super) fn announces_skill(message: &Message, id: &str) -> bool {
    let is_it = |part: &SkillPart| matches!(part, SkillPart::Description(own) if own == id);
    message.skills.iter().any(is_it)
}

/// Whether a message repeats the active skills after a summary.
pub(super) fn tells_again(message: &Message) -> bool {
    let is_description = |part: &SkillPart| matches!(part, SkillPart::Description(_));
    message.origin == Some(Origin::Summary) && message.skills.iter().any(is_description)
}

/// Whether a message has a text of a skill, with any arguments.
pub(super) fn has_text_of(message: &Message, id: &str) -> bool {
    let is_it = |part: &SkillPart| matches!(part, SkillPart::Text(own) if own == id);
    message.skills.iter().any(is_it)
}

/// Whether a message has this text of a skill, or a page of it.
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

/// First line of a text in its wrapper: it has a mark that no other text has.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}
