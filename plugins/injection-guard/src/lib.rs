//! Looks for prompt injection in texts that reach the model, and warns the model once about each.

mod hidden;
mod memory;
mod pattern;
mod report;
mod rules;
mod score;
mod starts;
mod words;

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod injection_guard {
    use crate::memory::{AgentInjectionFindings, ConversationScanCursor};
    use crate::report::{self, SuspectedInjection, SuspiciousTextOrigin};
    use crate::score;
    use rind_sdk::prelude::*;
    use std::borrow::Cow;

    #[data]
    struct Settings {
        mode: String,
        skip_tools: Vec<String>,
    }

    /// Name of this plugin.
    const OWN: &str = "injection-guard";

    /// Number of messages that are requested to get the complete conversation: the most that the
    /// host returns.
    const ALL: u32 = 1000;

    #[hook]
    fn pre_reason(request: ModelRequest) -> Result<RequestOutcome, Error> {
        let settings = config::shared::<Settings>()?;
        let found = match request.purpose {
            Purpose::Step => examine_new_messages(&settings)?,
            // Do not examine a request outside of the conversation, such as one for a summary: the
            // texts of the conversation in it are examined before the next step.
            _ => Vec::new(),
        };
        let known = match settings.mode.as_str() {
            "block" => describe_recorded_finds()?,
            _ => Vec::new(),
        };

        let foreign: Vec<&SuspectedInjection> = found
            .iter()
            .filter(|find| find.has_non_user_source())
            .collect();
        let mut outcome = if !known.is_empty() {
            RequestOutcome::block(report::refusal_text(&known))
        } else if foreign.is_empty() {
            RequestOutcome::default()
        } else {
            RequestOutcome::default().inject(report::warning_text(&foreign))
        };
        for find in &found {
            outcome = outcome.notify(Level::Warn, report::format_user_notice(find));
        }
        Ok(outcome)
    }

    /// Resets the position after a compaction, so that all messages are examined again: the new
    /// summary may precede messages that were already examined.
    #[hook]
    fn after_compact(_slice: &Slice) -> Result<(), Error> {
        ConversationScanCursor::for_calling_agent().set_last_examined_message_id("");
        Ok(())
    }

    #[hook]
    fn after_archive(_slice: &Slice) -> Result<(), Error> {
        ConversationScanCursor::for_calling_agent().set_last_examined_message_id("");
        Ok(())
    }

    /// Returns descriptions of the suspicious phrases that were found in the conversation,
    /// including those of earlier steps, but not those in the user's own text.
    fn describe_recorded_finds() -> Result<Vec<String>, Error> {
        AgentInjectionFindings::inspect_stored_findings(|memory| {
            match memory.has_non_user_findings() {
                true => memory.describe_findings_in_messages(&session::messages(ALL)),
                false => Vec::new(),
            }
        })
    }

    /// Examines the messages that were added since the last step, and returns the finds in them
    /// that were not reported before.
    fn examine_new_messages(settings: &Settings) -> Result<Vec<SuspectedInjection>, Error> {
        let position = ConversationScanCursor::for_calling_agent();
        let messages = session::messages_after(&position.last_examined_message_id());
        let mut found = Vec::new();
        for message in &messages {
            let finds = examine_message(message, settings);
            if !finds.is_empty() {
                found.push((&message.id, finds));
            }
        }
        // Access the state only if there are finds: most messages have none.
        if !found.is_empty() {
            AgentInjectionFindings::update_stored_findings(|memory| {
                found.retain(|(id, _)| !memory.has_findings_for_message(id));
                for (id, finds) in &found {
                    memory.add_message_findings(id, finds);
                }
            })?;
        }
        let found = found.into_iter().flat_map(|(_, finds)| finds).collect();
        // Advance only after the finds are stored, so that the messages are examined again after an
        // error.
        if let Some(last) = messages.last() {
            position.set_last_examined_message_id(&last.id);
        }
        Ok(found)
    }

    /// Returns the injections found in one message. The model's own text, the guard's own warnings
    /// and results of tools in `skip_tools` are not examined; all other text is, whatever role the
    /// message has for the model.
    fn examine_message(message: &Message, settings: &Settings) -> Vec<SuspectedInjection> {
        let place = match &message.origin {
            Origin::User => SuspiciousTextOrigin::User,
            Origin::Plugin(plugin) if plugin == OWN => return Vec::new(),
            Origin::Plugin(plugin) => SuspiciousTextOrigin::Plugin(plugin.clone()),
            Origin::Summary => SuspiciousTextOrigin::Summary,
            Origin::Reflection => SuspiciousTextOrigin::Reflection,
            Origin::Agent => SuspiciousTextOrigin::Task,
            Origin::Model => return Vec::new(),
            Origin::Tools => {
                let results = message.tool_results();
                let probed = results.filter(|result| !settings.skip_tools.contains(&result.name));
                let finds = probed.filter_map(|result| {
                    let suspicion = score::find_injection_signs(&result_text(result))?;
                    let place = SuspiciousTextOrigin::Tool(result.name.clone());
                    Some(SuspectedInjection { place, suspicion })
                });
                return finds.collect();
            }
        };
        let suspicion = score::find_injection_signs(&message.text());
        let find = suspicion.map(|suspicion| SuspectedInjection { place, suspicion });
        find.into_iter().collect()
    }

    /// Returns the text of a result, borrowed if the result is a single text.
    fn result_text(result: &ToolResult) -> Cow<'_, str> {
        match &result.parts[..] {
            [Part::Text(text)] => Cow::Borrowed(text),
            _ => Cow::Owned(result.text()),
        }
    }
}
