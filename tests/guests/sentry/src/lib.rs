//! Blocks, asks, changes and masks calls whose texts say so, and breaks where they say so.

#[rind_sdk::plugin]
mod sentry {
    use rind_sdk::prelude::*;
    use rind_sdk::serde_json::Value;

    /// Text that no model may read.
    const SECRET: &str = "hunter2";

    #[hook]
    fn pre_tool(proposed: ProposedCall) -> Result<CallOutcome, Error> {
        let arguments = &proposed.call.arguments;
        if arguments.contains("crash") {
            panic!("broken on purpose");
        }
        if arguments.contains("hang") {
            loop {
                std::hint::black_box(());
            }
        }
        if arguments.contains("rm -rf") {
            return Ok(CallOutcome::block("it would delete everything"));
        }
        if arguments.contains("/etc/") {
            return Ok(CallOutcome::block("a file of the system"));
        }
        if arguments.contains("deploy") {
            return Ok(CallOutcome::ask("it goes to production"));
        }
        if arguments.contains("loudly") {
            let mut changed: Value = rind_sdk::serde_json::from_str(arguments)?;
            let command = changed["command"]
                .as_str()
                .unwrap_or_default()
                .replace("loudly", "quietly");
            changed["command"] = command.into();
            return Ok(CallOutcome::change(changed.to_string()));
        }
        if arguments.contains("slowly") {
            return Ok(CallOutcome::pass().with_note("this takes long"));
        }
        Ok(CallOutcome::pass())
    }

    #[hook]
    fn post_tool(finished: &FinishedCall) -> ResultOutcome {
        let text = finished.text();
        if text.contains("explode") {
            panic!("broken on purpose");
        }
        match text.contains(SECRET) {
            true => ResultOutcome::replace(text.replace(SECRET, "[masked]")),
            false => ResultOutcome::default(),
        }
    }

    #[hook]
    fn turn_start(input: TurnInput) -> InputOutcome {
        if input.text.contains("forbidden") {
            return InputOutcome::block("nobody may ask that");
        }
        match input.text.contains(SECRET) {
            true => InputOutcome::replace(input.text.replace(SECRET, "[masked]")),
            false => InputOutcome::default(),
        }
    }
}
