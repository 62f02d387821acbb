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
    use crate::memory::{self, AgentMemory};
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

    /// The most that can be asked for.
    const ALL: u32 = 1000;

    #[hook]
    fn pre_reason(request: ModelRequest) -> Result<RequestOutcome, Error> {
        let settings = config::shared::<Settings>()?;
        let found = match request.purpose {
            Purpose::Step => look_at_new(&settings)?,
            // A question outside of the conversation is about the same texts; the new ones are
            // examined before the next step.
            _ => Vec::new(),
        };
        let known = AgentMemory::view_memory(|memory| {
            if settings.mode == "block" && memory.has_finds() {
                memory.finds_in(&session::messages(ALL))
            } else {
                Vec::new()
            }
        })?;

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
        memory::go_to("");
        Ok(())
    }

    #[hook]
    fn after_archive(_slice: &Slice) -> Result<(), Error> {
        memory::go_to("");
        Ok(())
    }

    /// Looks at the messages that are new since the last step, and returns what is found in them.
    fn look_at_new(settings: &Settings) -> Result<Vec<InjectionFind>, Error> {
        let messages = session::messages_after(&memory::last_message());
        let mut found = Vec::new();
        // Messages with finds, and the place of these in `found`.
        let mut places = Vec::new();
        AgentMemory::view_memory(|memory| {
            for message in messages.iter().filter(|m| !memory.knows_message(&m.id)) {
                let start = found.len();
                look_at(message, settings, &mut found);
                if found.len() > start {
                    places.push((&message.id, start..found.len()));
                }
            }
        })?;
        if !places.is_empty() {
            AgentMemory::change_memory(|memory| {
                for (id, range) in places {
                    memory.add_finds(id, &found[range]);
                }
            })?;
        }
        // Goes on only when the finds are stored: the messages are looked at again otherwise.
        if let Some(last) = messages.last() {
            memory::go_to(&last.id);
        }
        Ok(found)
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
