//! Skills that are for certain files: when a call reads or changes such a file for the first time,
//! a note about the skill is appended to the result of the call.
//!
//! The list of skills in the system prompt is not extended instead, because any change to it would
//! invalidate the prompt cache. The notes to the model are recorded in the messages of the
//! conversation, so they remain correct after a resume, `/undo` and compaction.

use super::active::SKILL_TOOL_NAME;
use super::parts::announces_skill;
use super::scope::TurnSkillState;
use crate::event::Event;
use crate::message::{Message, Origin, Role, SkillPart};
use crate::point::outcome::Level;
use crate::skill::{SessionSkills, Skill};

/// Maximum number of skills that one result announces; the others are announced in the next result.
const MAX_SKILLS_ANNOUNCED_PER_RESULT: usize = 5;

impl TurnSkillState {
    /// Returns a note that lists the skills for a file that a call read or changed. The note is
    /// appended to the result of that call. `path` is relative to the workspace.
    pub(in crate::agent) fn skill_note_for_file(&self, call: &str, path: &str) -> Option<String> {
        let tools = self.tools();
        let reads_skills = tools
            .get(SKILL_TOOL_NAME)
            .is_some_and(|tool| self.permits_tool(&tool.spec));
        let mut about = self.spec.skills.skills_for_path(path).peekable();
        if !reads_skills || about.peek().is_none() {
            return None;
        }
        let messages = self.spec.session.messages();
        let active = self.active_skills();
        let is_known = |skill: &Skill| {
            active.iter().any(|own| *own.id == *skill.id)
                || messages
                    .iter()
                    .any(|message| announces_skill(message, &skill.id))
        };
        let new = about
            .filter(|skill| !is_known(skill))
            .take(MAX_SKILLS_ANNOUNCED_PER_RESULT);
        let text: String = new
            .map(|skill| {
                let text = format!(
                    "the model is told of the skill {}, which is meant for files such as {}",
                    skill.id,
                    crate::text::escape_and_truncate_line(path, 200)
                );
                self.spec
                    .events
                    .emit(Event::create_host_notice(Level::Info, text));
                let line = skill_announcement_text(skill);
                let part = SkillPart::Description(skill.id.clone());
                self.parts.record_skill_content(call, part, line.clone());
                format!("\n{line}")
            })
            .collect();
        (!text.is_empty()).then_some(text)
    }

    /// Returns a message for the model that announces again the skills that were announced in the
    /// messages `removed`; `None` if there are none.
    pub(super) fn create_reannouncement_message(&self, removed: &[Message]) -> Option<Message> {
        let all = self.spec.skills.iter().filter(|s| !s.paths.is_empty());
        let is_told = |skill: &Skill| {
            removed
                .iter()
                .any(|message| announces_skill(message, &skill.id))
        };
        let was_told: Vec<_> = all.filter(|skill| is_told(skill)).collect();
        let lines: Vec<String> = was_told
            .iter()
            .map(|skill| skill_announcement_text(skill))
            .collect();
        let parts = was_told.iter();
        let parts = parts.map(|skill| SkillPart::Description(skill.id.clone()));
        let message = Message::text(Role::User, lines.join("\n")).from(Origin::Summary);
        (!lines.is_empty()).then(|| message.with_skills(parts.collect()))
    }
}

fn skill_announcement_text(skill: &Skill) -> String {
    let entry = SessionSkills::catalogue_line(skill);
    let description = entry.strip_prefix(&format!("{}: ", skill.id));
    format!(
        "[skill for files such as this, {}: {} When it fits the task, call `{SKILL_TOOL_NAME}` with its name first.]",
        skill.id,
        description.unwrap_or(&entry)
    )
}
