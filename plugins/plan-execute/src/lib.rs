//! Runs the turns of the agent in two phases: a plan with tools that only read, then its execution.

#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod plan_execute {
    use rind_sdk::agent_turn::{RequestOrder, TakenInput, TurnFinish};
    use rind_sdk::prelude::*;

    const PLAN: &str = "Do not do the work yet. Look at what you need to know with the tools that you have now, which only read. Then \
                        answer with a plan: numbered steps, each with the files that it changes and how its result is checked.";

    const WRITE: &str = "You have looked long enough. Write the plan now.";

    const EXECUTE: &str = "Now carry out your plan, step by step, with all tools. Where a step turns out to be wrong, say so and \
                           adapt the plan. At the end, answer the user's request and say what was done.";

    const RESUME: &str = "This turn was interrupted and goes on now. If there is no plan yet, make one first. Then carry the plan out, \
                          step by step, with all tools; steps that are done stay done. Where a step turns out to be wrong, say so \
                          and adapt the plan. At the end, answer the user's request and say what was done.";

    #[data]
    pub(crate) struct PlanSettings {
        pub(crate) when: String,
        pub(crate) planner: String,
        pub(crate) worker: String,
        pub(crate) max_looks: u32,
    }

    impl PlanSettings {
        fn wants_plan(&self, input: &TakenInput) -> bool {
            self.when == "always" || input.decision == Decision::Plan
        }
    }

    fn request_order(model: &str) -> RequestOrder {
        match model {
            "" => RequestOrder::new(),
            model => RequestOrder::new().model(model),
        }
    }

    /// Runs a turn: makes a plan if the settings or the input ask for one, then sends requests
    /// until the answer is accepted.
    #[agent_loop]
    pub(crate) fn run() -> Result<(), Error> {
        let settings: PlanSettings = config::all()?;
        let is_resumed = agent_turn::is_resumed()?;
        let input = agent_turn::take_input()?;
        agent_turn::build_prompt()?;
        match input {
            // Let the model decide whether a plan is missing: the turn may have been interrupted
            // before, during or after planning, and an existing answer may be only the plan.
            Some(input) if is_resumed && settings.wants_plan(&input) => agent_turn::inject(RESUME)?,
            Some(input) if !is_resumed => make_plan(&settings, &input)?,
            _ => {}
        }
        let work = request_order(&settings.worker);
        loop {
            agent_turn::request_to_end(&work)?;
            match agent_turn::finish()? {
                TurnFinish::Done => return Ok(()),
                TurnFinish::Again(_) => {}
                TurnFinish::FollowUp(input) => make_plan(&settings, &input)?,
            }
        }
    }

    /// Lets the model investigate and write a plan, then tells it to carry out the plan. Does
    /// nothing if neither the settings nor the input ask for a plan.
    fn make_plan(settings: &PlanSettings, input: &TakenInput) -> Result<(), Error> {
        if !settings.wants_plan(input) {
            return Ok(());
        }
        agent_turn::inject(PLAN)?;
        let look = request_order(&settings.planner).preset("investigate");
        for _ in 0..settings.max_looks {
            if agent_turn::request(&look)?.calls.is_empty() {
                return agent_turn::inject(EXECUTE);
            }
            agent_turn::run_calls()?;
        }
        let write = request_order(&settings.planner)
            .preset("minimal")
            .note(WRITE);
        agent_turn::request_to_end(&write)?;
        agent_turn::inject(EXECUTE)
    }
}
