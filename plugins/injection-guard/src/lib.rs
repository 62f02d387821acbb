//! Looks for prompt injection in texts that reach the model, and warns the model once about each.

mod hidden;
mod memory;
mod pattern;
mod report;
mod rules;
mod score;
mod words;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod injection_guard {
    use crate::memory::AgentMemory;
    use crate::report::{self, InjectionFind, TextOrigin};
    use crate::score;
    use rind_sdk::prelude::*;

    #[data]
    struct Settings {
        mode: String,
        skip_tools: Vec<String>,
    }

    /// The name of this plugin.
    const OWN: &str = "injection-guard";

    /// Number of the last messages that are read at first: a step mostly adds two, after the last
    /// that was checked.
    const FEW: u32 = 3;

    /// The most that can be asked for.
    const ALL: u32 = 1000;

    #[hook]
    fn pre_reason(request: ModelRequest) -> Result<RequestOutcome, Error> {
        let settings = config::shared::<Settings>()?;
        let mut memory = AgentMemory::load_memory(&caller::agent())?;
        let mut found = Vec::new();
        // A question outside of the conversation is about the same texts; the new ones are examined
        // before the next step.
        if matches!(request.purpose, Purpose::Step) {
            for message in new_messages(&memory) {
                if !memory.goes_to(&message.id) {
                    continue;
                }
                let before = found.len();
                look_at(&message, &settings, &mut found);
                memory.add_finds(&message.id, &found[before..]);
            }
        }
        let blocks = settings.mode == "block" && memory.has_finds();
        let known = if blocks {
            memory.finds_in(&session::messages(ALL))
        } else {
            Vec::new()
        };
        memory.save_memory()?;

        let foreign: Vec<&InjectionFind> = found.iter().filter(|find| find.is_foreign()).collect();
        let mut outcome = if !known.is_empty() {
            RequestOutcome::block(report::refusal_text(&known))
        } else if foreign.is_empty() {
            RequestOutcome::default()
        } else {
            RequestOutcome::default().inject(report::warning_text(&foreign))
        };
        for find in &found {
            outcome = outcome.notify(Level::Warn, report::notice_text(find));
        }
        Ok(outcome)
    }

    /// A summary is in the middle of the conversation and replaces messages that were examined.
    #[hook]
    fn after_compact(_slice: &Slice) -> Result<(), Error> {
        AgentMemory::load_memory(&caller::agent())?
            .start_anew()
            .save_memory()
    }

    #[hook]
    fn after_archive(_slice: &Slice) -> Result<(), Error> {
        AgentMemory::load_memory(&caller::agent())?
            .start_anew()
            .save_memory()
    }

    /// The messages after the last one that was examined; all where that one is gone.
    fn new_messages(memory: &AgentMemory) -> Vec<Message> {
        let mut last = FEW;
        loop {
            let mut messages = session::messages(last);
            let is_all = messages.len() < last as usize || last >= ALL;
            if let Some(at) = messages.iter().position(|m| memory.is_last(&m.id)) {
                messages.drain(..=at);
                return messages;
            }
            if is_all {
                return messages;
            }
            last = (last * 4).min(ALL);
        }
    }

    /// Adds the finds of one message. The model's own text is not examined; all other text is, in
    /// any role in which the model reads it. The guard's own warnings are its own words.
    fn look_at(message: &Message, settings: &Settings, found: &mut Vec<InjectionFind>) {
        let mut add = |place: TextOrigin, text: &str| {
            if let Some(suspicion) = score::judge_text(text) {
                found.push(InjectionFind { place, suspicion });
            }
        };
        let place = match &message.origin {
            Origin::User => TextOrigin::User,
            Origin::Plugin(plugin) if plugin == OWN => return,
            Origin::Plugin(plugin) => TextOrigin::Plugin(plugin.clone()),
            Origin::Summary => TextOrigin::Summary,
            Origin::Reflection => TextOrigin::Reflection,
            Origin::Agent => TextOrigin::Task,
            Origin::Model => return,
            Origin::Tools => {
                let results = message.tool_results();
                let probe_once =
                    results.filter(|result| !settings.skip_tools.contains(&result.name));
                probe_once
                    .for_each(|result| add(TextOrigin::Tool(result.name.clone()), &result.text()));
                return;
            }
        };
        add(place, &message.text());
    }
}
