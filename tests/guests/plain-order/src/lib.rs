//! The built-in order of a turn.
#[rind_sdk::plugin]
mod plain_order {
    use rind_sdk::agent_turn::{RequestOrder, TurnFinish};
    use rind_sdk::prelude::*;

    #[agent_loop]
    fn run() -> Result<(), Error> {
        agent_turn::take_input()?;
        agent_turn::build_prompt()?;
        loop {
            let answer = agent_turn::request(&RequestOrder::new())?;
            if !answer.calls.is_empty() {
                agent_turn::run_calls()?;
            } else if agent_turn::finish()? == TurnFinish::Done {
                return Ok(());
            }
        }
    }
}
