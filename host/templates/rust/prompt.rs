//! Adds a part to the system prompt.
//!
//! A plugin is a module of functions under `#[rind_sdk::plugin]`. The name of a hook is its point,
//! here `system-prompt`, where every plugin contributes parts. A part of the tier `stable` stays
//! the same for the whole session, so that the provider's prompt cache holds; `volatile` parts are
//! for text that changes with each turn.

#[rind_sdk::plugin]
mod plugin {
    use rind_sdk::prelude::*;

    /// Settings of the operator. `[config]` in plugin.toml declares them, with their defaults.
    #[data]
    struct Settings {
        /// Text of the part.
        text: String,
    }

    #[hook]
    fn system_prompt(_about: PromptContext) -> Result<PromptOutcome, Error> {
        let settings: Settings = config::all()?;
        Ok(PromptOutcome::part(PromptPart::new(
            Tier::Stable,
            "house-rules",
            settings.text,
        )))
    }
}

// `cargo test` runs natively: the SDK stands in for the host.
#[cfg(test)]
mod tests {
    use super::plugin::*;
    use rind_sdk::prelude::*;
    use rind_sdk::{serde_json::json, testing};

    #[test]
    fn the_text_of_the_settings_is_a_part_of_the_prompt() {
        testing::set_config(json!({ "text": "Answer in one sentence." }));
        let about = PromptContext {
            model: "any".to_owned(),
            tools: Vec::new(),
            decision: Decision::Direct,
        };
        let outcome = __rind_hook_system_prompt(about).unwrap();
        assert_eq!(outcome.parts[0].text, "Answer in one sentence.");
    }
}
