//! Adds a stable part to the system prompt and, when its settings say so, rewrites the text in the context tier.

#[rind_sdk::plugin]
mod prompter {
    use rind_sdk::prelude::*;

    #[hook]
    fn system_prompt(_context: PromptContext) -> PromptOutcome {
        let part = PromptPart::new(Tier::Stable, "05-tone", "Be kind.");
        PromptOutcome::part(part)
    }

    #[hook]
    fn after_system_prompt(text: String) -> Result<TextOutcome, Error> {
        let is_told = config::get::<bool>("rewrite")?.unwrap_or_default();
        Ok(if is_told {
            TextOutcome::replace(text.replace("feet", "yards"))
        } else {
            TextOutcome::default()
        })
    }
}
