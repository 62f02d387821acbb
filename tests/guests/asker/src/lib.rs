//! Commands that ask the person, and others that misbehave; a tool that asks as well.

#[rind_sdk::plugin]
mod asker {
    use rind_sdk::prelude::*;

    fn said(result: Result<String, Error>) -> String {
        result.unwrap_or_else(|error| format!("{error:?}"))
    }

    /// Asks for a yes, with these words.
    #[command]
    fn confirm(text: String) -> String {
        said(ask::confirm(&text, false).map(|yes| yes.to_string()))
    }

    /// Asks to choose a color.
    #[command]
    fn choose() -> String {
        let colors = ["red", "green\u{1b}[2K"].map(str::to_owned);
        said(ask::choose("Which color?", &colors, 0).map(|at| at.to_string()))
    }

    /// Asks for a name.
    #[command]
    fn name() -> String {
        said(ask::text("What is your name?", "nobody"))
    }

    /// Asks more often than it may.
    #[command]
    fn often() -> String {
        let asked = (0..6).map(|n| ask::confirm(&format!("Question {n}?"), true));
        said(
            asked
                .collect::<Result<Vec<bool>, Error>>()
                .map(|all| all.len().to_string()),
        )
    }

    /// Asks what cannot be asked.
    #[command]
    fn wrongly() -> String {
        let one = ["a".to_owned()];
        [
            said(ask::confirm(" ", true).map(|_| String::new())),
            said(ask::confirm(&"x".repeat(2_000), true).map(|_| String::new())),
            said(ask::choose("Which?", &one, 0).map(|_| String::new())),
        ]
        .join("\n")
    }

    /// Arguments of `/start`.
    #[args]
    struct Start {
        /// Topic of the turn.
        topic: String,
        /// Whether in capital letters.
        #[serde(default)]
        loud: bool,
    }

    /// Starts a turn.
    #[command]
    fn start(args: Start) -> CommandOutcome {
        let topic = match args.loud {
            true => args.topic.to_uppercase(),
            false => args.topic,
        };
        CommandOutcome::Prompt(format!("Tell me about {topic}."))
    }

    /// Never ends.
    #[command]
    fn spin() -> String {
        loop {
            std::hint::black_box(0);
        }
    }

    /// Shows a key.
    #[command]
    fn leak() -> String {
        format!("the key is AKIA{}", "Z7QX3M5R2T6P4WKV")
    }

    /// Fails.
    #[command]
    fn fail() -> Result<(), Error> {
        Err(Error::Failed("it is closed\u{1b}[2K".to_owned()))
    }

    /// Sets the line of status.
    #[command]
    fn line(text: String) {
        status::set(&text);
    }

    /// Asks when nobody is there any more.
    #[hook]
    fn session_end(_session: SessionInfo) -> Result<Observed, Error> {
        said(ask::confirm("Was it good?", false).map(|yes| yes.to_string()));
        Ok(Observed::default())
    }

    /// Asks the person.
    #[tool(effect = "read")]
    fn ask_person() -> String {
        said(ask::confirm("May the tool go on?", false).map(|yes| yes.to_string()))
    }
}
