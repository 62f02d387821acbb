//! Replaces ids of subagents and sessions in observed behavior by stable names, because the ids
//! differ in each run and the snapshots must not differ.
//!
//! Only ids that appeared in an event are replaced, because a plugin may write other text that
//! looks like an id. Start from [`SeenAgentIds::record_event`].

use rind_lib::event::Event;
use rind_lib::host::plugin_owning_loop_session;

/// Start of the target in the access record of a plugin that runs a subagent. The subagent's id
/// follows.
const SUBAGENT_ACCESS_TARGET_PREFIX: &str = "agent ";

/// Ids of subagents and of agents that hold archived turns, in the order in which they
/// appeared in events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenAgentIds(Vec<String>);

impl SeenAgentIds {
    /// Records the id in an event, if it has one.
    pub(super) fn record_event(&mut self, event: &Event) {
        let id = match event {
            Event::SubagentStart { subagent, .. } => Some(subagent.as_str()),
            Event::ArchiveEnd { holder, .. } => holder.as_deref(),
            // The record of an access also names subagents that were refused.
            Event::Access { record } => record.target.strip_prefix(SUBAGENT_ACCESS_TARGET_PREFIX),
            _ => None,
        };
        if let Some(id) = id.filter(|id| is_host_generated_id(id))
            && !self.0.iter().any(|own| own == id)
        {
            self.0.push(id.to_owned());
        }
    }

    /// Replaces each recorded id in a text by its kind and a number, for example `sub-1`.
    pub(super) fn replace_ids_by_numbers(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (n, id) in self.0.iter().enumerate() {
            if let Some((kind, _)) = id.split_once('-') {
                text = text.replace(id.as_str(), &format!("{kind}-{}", n + 1));
            }
        }
        text
    }
}

/// Replaces those parts of session ids in the text that differ between runs, for sessions in which
/// loops of plugins ran turns.
pub(super) fn replace_varying_session_ids(text: &str) -> String {
    let is_in_id = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let (mut stable, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("loop.") {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c| !is_in_id(c)).unwrap_or(from.len());
        let (id, after) = from.split_at(end);
        stable.push_str(before);
        match plugin_owning_loop_session(id) {
            Some(plugin) => {
                let name = id.split('.').nth(2).unwrap_or_default();
                let name = if name.starts_with('_') { "_new" } else { name };
                stable.extend(["loop.", plugin, ".", name, ".place"]);
            }
            None => stable.push_str(id),
        }
        rest = after;
    }
    stable + rest
}

/// Whether a text has the form of an id that the host creates: a kind and eight hex digits.
fn is_host_generated_id(text: &str) -> bool {
    text.split_once('-').is_some_and(|(kind, digits)| {
        matches!(kind, "sub" | "held")
            && digits.len() == 8
            && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_of_loops_have_the_same_id_in_every_run() {
        for (text, expected) in [
            ("in loop.a.b.0123abcd, done", "in loop.a.b.place, done"),
            ("loop.a._x1.0123abcd", "loop.a._new.place"),
            ("loop.a.b loop. the loop.", "loop.a.b loop. the loop."),
        ] {
            assert_eq!(replace_varying_session_ids(text), expected);
        }
    }

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
        let mut ids = SeenAgentIds::default();
        for id in ["sub-0123abcd", "sub-ffff0000", "sub-0123abcd", "sub-all"] {
            ids.record_event(&started(id));
        }
        let text = "agent sub-ffff0000 and sub-0123abcd, sub-all, sub-99999999";
        assert_eq!(
            ids.replace_ids_by_numbers(text),
            "agent sub-2 and sub-1, sub-all, sub-99999999"
        );
    }
}
