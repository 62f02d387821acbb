//! Greets people: the smallest plugin with a tool and a hook.
#[rind_sdk::plugin]
mod hello {
    use rind_sdk::prelude::*;

    /// Arguments of `greet`.
    #[args]
    struct Greet {
        /// The person's name.
        name: String,
    }

    /// Greets somebody by name.
    #[tool(effect = "read")]
    fn greet(args: Greet) -> String {
        format!("Hello, {}!", args.name)
    }

    #[hook]
    fn turn_end(turn: TurnSummary) {
        log::info(format_args!("the turn took {} steps", turn.steps));
    }
}
