//! Asks a model for a title of each session, once, after the session's first finished turn.

mod title;

#[rind_sdk::plugin]
mod titles {
    use crate::title::{clean_title, title_prompt};
    use rind_sdk::model::{self, Question};
    use rind_sdk::prelude::*;
    use rind_sdk::session;

    /// State key that is set once a title was requested.
    const TITLE_REQUESTED_STATE_KEY: &str = "titled";

    /// Name of the session entry that the host shows as the title.
    const TITLE_SESSION_ENTRY_NAME: &str = "title";

    /// Maximum number of tokens of the model's answer, which contains the title.
    const MAX_TITLE_ANSWER_TOKENS: u32 = 60;

    /// Number of messages that are searched for the first input.
    const MAX_MESSAGES_SEARCHED_FOR_INPUT: u32 = 1000;

    const TITLE_SYSTEM_PROMPT: &str = "You name conversations. Answer with a title alone: no quotes, no full stop, in the language of the \
                          conversation.";

    #[data]
    struct Settings {
        model: Option<String>,
        max_words: u32,
    }

    #[hook]
    fn turn_end(summary: TurnSummary) -> Result<Observed, Error> {
        let is_done = summary.stop == StopReason::Done;
        if caller::depth() > 0 || !is_done || state::get(TITLE_REQUESTED_STATE_KEY).is_some() {
            return Ok(Observed::default());
        }
        let settings: Settings = config::all()?;
        let messages = session::messages(MAX_MESSAGES_SEARCHED_FOR_INPUT);
        let first = messages.iter().find(|own| own.role == Role::User);
        let Some(first) = first else {
            return Ok(Observed::default());
        };
        // Set the key before the request, so that a model that fails is not asked again after every
        // turn.
        state::set(TITLE_REQUESTED_STATE_KEY, "1")?;
        let reply = model::ask(&Question {
            system: TITLE_SYSTEM_PROMPT.to_owned(),
            prompt: title_prompt(&first.text(), &summary.output, settings.max_words),
            model: settings.model,
            max_tokens: MAX_TITLE_ANSWER_TOKENS,
        })?;
        if let Some(title) = clean_title(&reply.text, settings.max_words) {
            session::append_json(TITLE_SESSION_ENTRY_NAME, &title)?;
        }
        Ok(Observed::default())
    }
}
