//! Asks a model for the summary that replaces old messages.

mod chunk;
mod summary;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod summarization {
    use crate::summary::{self, SummarySettings};
    use rind_sdk::model;
    use rind_sdk::prelude::*;

    #[hook]
    fn before_compact(slice: &Slice) -> Result<SliceOutcome, Error> {
        // Keep the summary of another plugin. The host calls this hook again if a hook that runs
        // later sets a summary.
        if !slice.summary().trim().is_empty() {
            return Ok(SliceOutcome::default());
        }
        let settings: SummarySettings = config::all()?;
        let ask = |question: &model::Question| Ok(model::ask(question)?.text);
        let messages: Vec<Message> = slice.iter().collect();
        let summary = summary::summarize_messages(&messages, &settings, ask)?;
        Ok(SliceOutcome::summary(summary))
    }
}
