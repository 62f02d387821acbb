//! A hook that uses up its whole deadline at every call.

#[rind_sdk::plugin]
mod blocks_slowly {
    use rind_sdk::prelude::*;

    #[hook]
    fn pre_tool(_call: ProposedCall) -> Result<CallOutcome, Error> {
        loop {
            std::hint::black_box(());
        }
    }
}
