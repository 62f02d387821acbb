//! Changes arguments to JSON that is a hundred thousand levels deep.

#[rind_sdk::plugin]
mod deep_arguments {
    use rind_sdk::prelude::*;

    #[hook]
    fn pre_tool(_call: ProposedCall) -> Result<CallOutcome, Error> {
        let deep = "[".repeat(100_000) + &"]".repeat(100_000);
        Ok(CallOutcome {
            verdict: CallVerdict::Change(deep),
            ..CallOutcome::pass()
        })
    }
}
