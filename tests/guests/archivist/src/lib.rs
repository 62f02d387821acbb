//! Writes the summaries of archived turns itself, and remembers what was archived. When its settings say so, it refuses.

#[rind_sdk::plugin]
mod archivist {
    use rind_sdk::prelude::*;

    #[hook]
    fn before_archive(slice: &Slice) -> Result<SliceOutcome, Error> {
        if config::get::<bool>("refuse")?.unwrap_or_default() {
            return Ok(SliceOutcome::cancel("not this one"));
        }
        let n = slice.len();
        let text = format!("{n} messages, because of {}", slice.reason());
        Ok(SliceOutcome::summary(text))
    }

    #[hook]
    fn after_archive(slice: &Slice) -> Result<(), Error> {
        state::set("archived", &slice.summary())
    }
}
