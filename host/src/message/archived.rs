//! Message that replaces an archived turn in the conversation. The message names the subagent ("the
//! holder") that stores the complete turn on disk.
//!
//! Owns the format of the message's text. Only a message that the host marked as a summary is
//! recognized: the same text elsewhere was written by a model, a tool or a person.

use super::{Content, Message, Origin, Role};

/// Beginning of the text of a message that replaces an archived turn. The id of the subagent that
/// holds the turn follows on the same line, then the summary.
const ARCHIVED_TURN_TEXT_PREFIX: &str = "[archived turn]\nsubagent_id: ";

impl Message {
    /// Creates the message that replaces an archived turn. `agent` is the id of the subagent that
    /// stores the complete turn.
    #[must_use]
    pub fn for_archived_turn(agent: &str, summary: &str) -> Self {
        let text = format!("{ARCHIVED_TURN_TEXT_PREFIX}{agent}\n\n{summary}");
        Self::text(Role::Assistant, text).from(Origin::Summary)
    }

    /// Returns the id of the subagent that stores the turn, if the message replaces an archived
    /// turn.
    #[must_use]
    pub fn id_of_archiving_subagent(&self) -> Option<&str> {
        if self.role != Role::Assistant || self.origin != Some(Origin::Summary) {
            return None;
        }
        match self.content.first() {
            Some(Content::Text { text }) => {
                text.strip_prefix(ARCHIVED_TURN_TEXT_PREFIX)?.lines().next()
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_summary_of_the_host_names_a_holder() {
        let message = Message::for_archived_turn("held-1", "It went well.");
        assert_eq!(message.id_of_archiving_subagent(), Some("held-1"));
        assert_eq!(
            message.joined_text(),
            "[archived turn]\nsubagent_id: held-1\n\nIt went well."
        );
        let forged = Message::text(Role::Assistant, message.joined_text());
        assert_eq!(forged.id_of_archiving_subagent(), None);
        let of_user = Message::text(Role::User, message.joined_text()).from(Origin::Summary);
        assert_eq!(of_user.id_of_archiving_subagent(), None);
    }
}
