//! Looks for prompt injection in what reaches the model, and warns of it once.

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
    use crate::memory::Memory;
    use crate::report::{self, Find, Place};
    use crate::score;
    use rind_sdk::prelude::*;

    #[data]
    struct Settings {
        mode: String,
        skip_tools: Vec<String>,
    }

    #[hook]
    fn pre_reason(ctx: &CallContext, request: ModelRequest) -> Result<RequestOutcome, Error> {
        let settings: Settings = config::all()?;
        let mut memory = Memory::load(&ctx.agent)?;
        let mut found = Vec::new();
        for message in &request.messages {
            if !memory.is_new(message) {
                continue;
            }
            let before = found.len();
            look_at(message, &settings, &mut found);
            let foreign = found[before..].iter().filter(|find| find.is_foreign());
            let words: Vec<String> = foreign.map(Find::in_words).collect();
            if !words.is_empty() {
                memory.add_find(&message.id, words.join("; "));
            }
        }
        let known = memory.finds_in(&request.messages);
        memory.save(&request.messages)?;

        let foreign: Vec<&Find> = found.iter().filter(|find| find.is_foreign()).collect();
        let mut outcome = if settings.mode == "block" && !known.is_empty() {
            RequestOutcome::block(report::refusal(&known))
        } else if foreign.is_empty() {
            RequestOutcome::default()
        } else {
            RequestOutcome::default().inject(report::warning(&foreign))
        };
        for find in &found {
            outcome = outcome.notify(Level::Warn, report::notice(find));
        }
        Ok(outcome)
    }

    /// Adds what there is to find in one message. What the model itself wrote is not looked at.
    fn look_at(message: &Message, settings: &Settings, found: &mut Vec<Find>) {
        let mut add = |place: Place, text: &str| {
            if let Some(suspicion) = score::judge(text) {
                found.push(Find { place, suspicion });
            }
        };
        for part in &message.content {
            match part {
                Content::Text(text) if message.role == Role::User => add(Place::User, text),
                Content::ToolResult(result) if !settings.skip_tools.contains(&result.name) => {
                    add(Place::Tool(result.name.clone()), &result.content);
                }
                _ => {}
            }
        }
    }
}
