//! A plugin that exports one of everything, with native tests of it.
//!
//! `cargo build -p rind-sdk --example everything --target wasm32-wasip2` builds its component.

#[rind_sdk::plugin]
mod everything {
    use rind_sdk::prelude::*;

    /// Style of shown notes.
    #[args]
    #[derive(PartialEq)]
    #[serde(rename_all = "lowercase")]
    enum Style {
        Plain,
        Loud,
    }

    #[args]
    struct NewNote {
        /// Text to remember.
        text: String,
        /// Style in which to show it.
        style: Option<Style>,
        /// Number of times to show it.
        times: Option<u32>,
    }

    #[data]
    #[derive(Default)]
    struct Notes {
        lines: Vec<String>,
    }

    #[data]
    struct Settings {
        most: usize,
    }

    /// Remembers a note for the rest of the session.
    ///
    /// Answers with all notes.
    #[tool(effect = "write", name = "add-note")]
    fn add_note(args: NewNote) -> Result<String, Error> {
        let settings: Settings = config::all()?;
        let mut notes: Notes = state::get_json("notes")?.unwrap_or_default();
        if notes.lines.len() >= settings.most {
            return Err(Error::Limit(format!(
                "there are {} notes already",
                settings.most
            )));
        }
        let loud = args.style == Some(Style::Loud);
        let text = args.text.repeat(args.times.unwrap_or(1) as usize);
        notes
            .lines
            .push(if loud { text.to_uppercase() } else { text });
        state::set_json("notes", &notes)?;
        Ok(notes.lines.join("\n"))
    }

    /// Counts the notes.
    #[tool(effect = "read")]
    fn count_notes() -> usize {
        log::debug(format_args!("asked in turn {}", caller::turn()));
        notes().map_or(0, |notes| notes.lines.len())
    }

    /// Shows all notes.
    #[command]
    fn show_notes() -> Result<String, Error> {
        Ok(notes()?.lines.join("\n"))
    }

    /// Asks the model to tidy the notes up.
    #[command]
    fn tidy(how: String) -> CommandOutcome {
        CommandOutcome::Prompt(format!("Tidy my notes up: {how}"))
    }

    /// Arguments of `/find-note`.
    #[args]
    struct FindNote {
        /// The word to look for.
        word: String,
    }

    /// Counts the notes that contain a word.
    #[command]
    fn find_note(args: FindNote) -> Result<String, Error> {
        let notes = notes()?.lines;
        let found = notes.iter().filter(|line| line.contains(&args.word));
        Ok(found.count().to_string())
    }

    #[implements("reviewer.check")]
    fn check(payload: Notes) -> usize {
        payload.lines.len()
    }

    #[implements("reviewer.allow")]
    fn allow(payload: &Notes) -> PointOutcome {
        if payload.lines.is_empty() {
            return PointOutcome::block("there is nothing to review");
        }
        PointOutcome::pass()
    }

    #[hook]
    fn context(messages: &Conversation) -> ContextOutcome {
        log::debug(format_args!(
            "{} messages in step {}",
            messages.len(),
            caller::step()
        ));
        ContextOutcome::default().append_message("Keep it short.")
    }

    #[hook]
    fn pre_tool(call: ProposedCall) -> Result<CallOutcome, Error> {
        let arguments: rind_sdk::serde_json::Value = call.call.parse()?;
        match arguments.get("path").and_then(|path| path.as_str()) {
            Some(path) if path.ends_with(".lock") => {
                Ok(CallOutcome::block("lock files are made by tools"))
            }
            _ => Ok(CallOutcome::pass()
                .with_note("fine")
                .notify(Level::Info, "looked at it")),
        }
    }

    #[hook]
    fn output_delta(delta: TextDelta) -> DeltaOutcome {
        // A name at the end of the text may continue in the next delta.
        let cut = delta.text.rfind(' ').map_or(0, |space| space + 1);
        let keep = if delta.is_last {
            0
        } else {
            delta.text.len() - cut
        };
        DeltaOutcome::replace(delta.text.replace("Voldemort", "[name]")).keep(keep)
    }

    #[hook]
    fn pre_output(text: &str) -> Result<OutputOutcome, String> {
        Ok(OutputOutcome::replace(text.trim_end()))
    }

    #[hook]
    fn turn_end(turn: TurnSummary) {
        log::info(format_args!("{} steps", turn.steps));
    }

    #[run_loop]
    fn heartbeat() -> LoopOutcome {
        LoopOutcome::Again {
            after: std::time::Duration::from_secs(60),
            reason: "once a minute".to_owned(),
        }
    }

    /// Runs turns in the built-in order, with the tools of a preset.
    #[agent_loop]
    fn order() -> Result<(), Error> {
        agent_turn::take_input()?;
        agent_turn::build_prompt()?;
        let order = agent_turn::RequestOrder::new().preset("minimal");
        loop {
            agent_turn::request_to_end(&order)?;
            if agent_turn::finish()? == agent_turn::TurnFinish::Done {
                return Ok(());
            }
        }
    }

    fn notes() -> Result<Notes, Error> {
        Ok(state::get_json("notes")?.unwrap_or_default())
    }
}

#[cfg(test)]
#[path = "everything_tests.rs"]
mod tests;
