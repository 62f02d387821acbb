//! Stores what it is shown. Its component of each released version of the contract is kept in `tests/evolution`, and every later
//! host must run it as it is.

#[rind_sdk::plugin]
mod contract_now {
    use rind_sdk::prelude::*;

    /// Says what was kept.
    #[tool(effect = "read")]
    fn kept() -> Result<String, Error> {
        state::set("tool", "called")?;
        Ok(format!(
            "kept in turn {}: {:?}",
            caller::turn(),
            state::keys("")
        ))
    }

    #[hook]
    fn pre_output(output: &str) -> OutputOutcome {
        OutputOutcome::replace(format!("{output}, read by the old")).store("pre-output", output)
    }

    #[hook]
    fn post_output(output: &str) -> Observed {
        Observed::default().store("post-output", output)
    }

    #[hook]
    fn turn_end(turn: TurnSummary) -> Observed {
        let what = format!("{:?} after {} calls", turn.stop, turn.tool_calls);
        Observed::default().store("turn-end", what)
    }
}
