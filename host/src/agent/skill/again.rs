//! Repeats the texts of active skills to the model after compaction removed them from the
//! conversation.

use std::sync::Arc;

use super::parts::{has_given_skill_text, has_skill_text, is_skill_reannouncement};
use super::ready::PreparedSkillInvocation;
use super::scope::TurnSkillState;
use crate::message::{Message, Origin, Role, SkillPart};

/// Maximum size of the text of one skill that is repeated after compaction, in bytes: about 5,000
/// tokens.
const MAX_POST_COMPACTION_SKILL_BYTES: usize = 20_000;

/// Maximum total size of the texts of skills that are repeated after compaction, in bytes.
const MAX_REPEATED_SKILLS_TOTAL_BYTES: usize = 100_000;

impl TurnSkillState {
    /// Returns the text of an active skill as the model received it.
    pub(in crate::agent) fn active_skill_text(&self, id: &str) -> Option<Arc<str>> {
        let active = self.active_skills().into_iter().rev();
        let mut active = active.filter(|skill| *skill.id == *id && !skill.text.is_empty());
        active.next().map(|skill| skill.text.clone())
    }

    /// Whether the skill is active and its text is already in the conversation.
    pub(in crate::agent) fn is_skill_text_in_conversation(
        &self,
        ready: &PreparedSkillInvocation,
    ) -> bool {
        let own = self.own.all();
        let is_active = own.iter().any(|skill| skill.text == ready.text);
        is_active
            && self
                .spec
                .session
                .messages()
                .iter()
                .any(|message| has_given_skill_text(message, &ready.skill.id, &ready.text))
    }

    /// Whether a message is the text of an active skill, or repeats announcements of skills for
    /// files. Such a message is sent again after compaction, so the summary leaves it out.
    pub(in crate::agent) fn is_repeated_skill_text(&self, message: &Message) -> bool {
        if is_skill_reannouncement(message) {
            return true;
        }
        let own = self.own.all();
        let mut own = own.iter().filter(|skill| !skill.text.is_empty());
        message.role == Role::User
            && own.any(|skill| has_given_skill_text(message, &skill.id, &skill.text))
    }

    /// Returns messages that repeat the texts of the active skills in `removed`. The length of each
    /// text and of all texts together is limited; newer skills take precedence over older ones.
    pub(in crate::agent) fn skill_texts_to_repeat(&self, removed: &[Message]) -> Vec<Message> {
        let mut room = MAX_REPEATED_SKILLS_TOTAL_BYTES;
        let mut again = Vec::new();
        for skill in self.own.all().iter().rev() {
            let was_shown = || match skill.is_restored_from_earlier_run() {
                false => removed
                    .iter()
                    .any(|message| has_given_skill_text(message, &skill.id, &skill.text)),
                // The first line of the skill's text depends on the arguments, which are no longer
                // known, so search only for the skill's id.
                true => removed
                    .iter()
                    .any(|message| has_skill_text(message, &skill.id)),
            };
            if skill.text.is_empty() || room == 0 || !was_shown() {
                continue;
            }
            let most = room.min(MAX_POST_COMPACTION_SKILL_BYTES);
            let end = skill.text.floor_char_boundary(most.min(skill.text.len()));
            room -= end;
            let mut text = format!(
                "[skill {}, still active, again after the summary]\n{}",
                skill.id,
                &skill.text[..end]
            );
            if end < skill.text.len() {
                let close = skill.text.lines().last().unwrap_or_default();
                text.push_str(&format!(
                    "\n[cut; the tool `skill` with an offset reads on]\n{close}"
                ));
            }
            let part = SkillPart::Text(skill.id.to_string());
            let message = Message::text(Role::User, text).from(Origin::Summary);
            again.push(message.with_skills(vec![part]));
        }
        again.reverse();
        again.extend(self.create_reannouncement_message(removed));
        again
    }
}
