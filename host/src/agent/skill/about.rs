//! Skills about certain files: the model is told of one beneath the result of the first call that reads or changes such a file.
//!
//! Beneath the result, because the list in the system prompt stays the same to the byte: one that grew would take the prompt cache
//! with it. What the model was told is read from the conversation itself, so it is right after a resume, `/undo` and compaction.

use super::TOOL;
use crate::agent::scope::TurnScope;
use crate::event::Event;
use crate::message::{Content, Message, Origin, Role};
use crate::point::outcome::Level;
use crate::skill::{Skill, Skills};

/// Most skills that one result tells of; the others come with the next.
const MAX_AT_ONCE: usize = 5;

impl TurnScope {
    /// Returns what to tell the model of skills about a file that it read or changed, by its path from the workspace.
    pub(in crate::agent) fn skills_about(&self, path: &str) -> Option<String> {
        let tools = self.tools();
        let reads_skills = tools
            .get(TOOL)
            .is_some_and(|tool| self.permits_tool(&tool.spec));
        let mut about = self.spec.skills.about(path).peekable();
        if !reads_skills || about.peek().is_none() {
            return None;
        }
        let messages = self.spec.session.messages();
        let active = self.active_skills();
        let is_known = |skill: &Skill| {
            active.iter().any(|own| *own.id == *skill.id)
                || messages.iter().any(|message| tells_of(message, skill))
        };
        let new = about.filter(|skill| !is_known(skill)).take(MAX_AT_ONCE);
        let text: String = new
            .map(|skill| {
                let text = format!(
                    "the model is told of the skill {}: {} is one of its files",
                    skill.id,
                    crate::text::clean(path, 200)
                );
                self.spec.events.emit(Event::notice(Level::Info, text));
                format!("\n{}", told(skill))
            })
            .collect();
        (!text.is_empty()).then_some(text)
    }

    /// The message that tells the model again of skills about files of which it was told in `removed`.
    pub(super) fn told_again(&self, removed: &[Message]) -> Option<Message> {
        let all = self.spec.skills.iter().filter(|s| !s.paths.is_empty());
        let was_told = all.filter(|skill| removed.iter().any(|message| tells_of(message, skill)));
        let lines: Vec<String> = was_told.map(|skill| told(skill)).collect();
        let message = || Message::text(Role::User, lines.join("\n")).from(Origin::Summary);
        (!lines.is_empty()).then(message)
    }
}

/// Beginning of every line that tells of a skill.
const MARK: &str = "[skill for files such as this, ";

/// Beginning of the line that tells of a skill.
fn mark(skill: &Skill) -> String {
    format!("{MARK}{}: ", skill.id)
}

/// Whether a message is the one that tells of skills again. A summary may quote one and is more.
pub(super) fn tells_again(message: &Message) -> bool {
    message.origin == Some(Origin::Summary)
        && message.role == Role::User
        && message.joined_text().starts_with(MARK)
}

/// The line that tells of a skill.
fn told(skill: &Skill) -> String {
    let entry = Skills::entry(skill);
    let description = entry.strip_prefix(&format!("{}: ", skill.id));
    format!(
        "{}{} When it fits the task, call `{TOOL}` with its name first.]",
        mark(skill),
        description.unwrap_or(&entry)
    )
}

/// Whether a message tells of a skill.
fn tells_of(message: &Message, skill: &Skill) -> bool {
    let mark = mark(skill);
    let again = tells_again(message);
    message.content.iter().any(|part| match part {
        Content::ToolResult(result) => result.content.text().contains(&mark),
        Content::Text { text } => again && text.contains(&mark),
        _ => false,
    })
}
