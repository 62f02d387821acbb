//! Asks the model for the summary that takes the place of old messages.

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
        // The summary of another plugin stays; the host asks again about it once it is there.
        if !slice.summary().trim().is_empty() {
            return Ok(SliceOutcome::default());
        }
        let settings: SummarySettings = config::all()?;
        let ask = |question: &model::Question| Ok(model::ask(question)?.text);
        let messages: Vec<Message> = slice.iter().collect();
        let summary = summary::write_summary(&messages, &settings, ask)?;
        Ok(SliceOutcome::summary(summary))
    }
}
