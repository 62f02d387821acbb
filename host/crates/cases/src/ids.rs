//! Ids of subagents in what a case sees: they differ between runs, and a recorded case must not.
//!
//! Owns the numbers that take their place. An id that no event named is left as it is: a plugin may
//! write any text. Start from [`AgentIds::see_event`].

use rind_lib::event::Event;

/// Target of an access of a plugin that runs a subagent, before the id.
const TARGET: &str = "agent ";

/// Ids of subagents and holders of a turn, in the order in which they appeared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AgentIds(Vec<String>);

impl AgentIds {
    /// Notes the ids in an event.
    pub(super) fn see_event(&mut self, event: &Event) {
        let id = match event {
            Event::SubagentStart { subagent, .. } => Some(subagent.as_str()),
            Event::ArchiveEnd { holder, .. } => holder.as_deref(),
            // A subagent that was refused has an id, too.
            Event::Access { record } => record.target.strip_prefix(TARGET),
            _ => None,
        };
        if let Some(id) = id.filter(|id| is_id(id))
            && !self.0.iter().any(|own| own == id)
        {
            self.0.push(id.to_owned());
        }
    }

    /// Replaces each id by its kind and number, such as `sub-1`.
    pub(super) fn number_ids(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (n, id) in self.0.iter().enumerate() {
            if let Some((kind, _)) = id.split_once('-') {
                text = text.replace(id.as_str(), &format!("{kind}-{}", n + 1));
            }
        }
        text
    }
}

/// Whether a text is an id as the host makes them: a kind, and digits.
fn is_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(kind, digits)| {
        matches!(kind, "sub" | "held")
            && digits.len() == 8
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(id: &str) -> Event {
        Event::SubagentStart {
            subagent: id.to_owned(),
            plugin: None,
            task: "t".to_owned(),
            tools: Vec::new(),
            preset: None,
            is_continued: false,
            call_id: None,
        }
    }

    #[test]
    fn ids_become_numbers_in_their_order_and_other_texts_stay() {
        let mut ids = AgentIds::default();
        for id in ["sub-0123abcd", "sub-ffff0000", "sub-0123abcd", "sub-all"] {
            ids.see_event(&started(id));
        }
        let text = "agent sub-ffff0000 and sub-0123abcd, sub-all, sub-99999999";
        assert_eq!(
            ids.number_ids(text),
            "agent sub-2 and sub-1, sub-all, sub-99999999"
        );
    }
}
