//! Offers the person a slash command that makes a prompt: `/explain`.
//!
//! A plugin is a module of functions under `#[rind_sdk::plugin]`. A command takes one type marked
//! `#[args]`, from which its JSON Schema is made; `/help` shows its doc comments. It returns text,
//! a prompt, or nothing.

#[rind_sdk::plugin]
mod plugin {
    use rind_sdk::prelude::*;

    /// Arguments of `/explain`.
    #[args]
    struct Explain {
        /// Topic to explain.
        topic: String,
        /// Audience of the explanation.
        #[serde(default)]
        reader: Reader,
    }

    /// An audience.
    #[args]
    #[derive(Default)]
    #[serde(rename_all = "lowercase")]
    enum Reader {
        Child,
        #[default]
        Expert,
    }

    /// Asks for a short explanation.
    #[command]
    fn explain(args: Explain) -> CommandOutcome {
        let reader = match args.reader {
            Reader::Child => "a child",
            Reader::Expert => "an expert",
        };
        CommandOutcome::Prompt(format!("Explain {} to {reader} in three sentences.", args.topic))
    }
}

// `cargo test` runs natively: the SDK stands in for the host.
#[cfg(test)]
mod tests {
    use super::plugin::*;
    use rind_sdk::CommandOutcome;

    #[test]
    fn a_prompt_names_topic_and_reader() {
        let run = |arguments: &str| __rind_run_command("explain", arguments.to_owned());
        let prompt = "Explain tides to an expert in three sentences.".to_owned();
        assert_eq!(run(r#"{"topic": "tides"}"#).unwrap(), CommandOutcome::Prompt(prompt));
        assert!(run("{}").is_err());
    }
}
