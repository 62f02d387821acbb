//! Answers with what it was shown: the text crosses the border twice and nothing else is measured.

#[rind_sdk::plugin]
mod echo {
    use rind_sdk::prelude::*;

    #[hook]
    fn after_system_prompt(text: String) -> TextOutcome {
        TextOutcome::replace(text)
    }
}
