//! Runs a turn for each event that other programs send over HTTP.

mod event;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod webhook {
    use std::time::Duration;

    use crate::event::{AcceptedWebhookEvent, WebhookSettings, parse_and_filter_event};
    use rind_sdk::prelude::*;
    use rind_sdk::turns::{TurnOrder, TurnReport};
    use rind_sdk::waiting::{WakeConditions, Wakeup};

    /// Store key of the ids of accepted events, the oldest first.
    const TAKEN: &str = "taken";

    /// Maximum number of event ids that the store keeps.
    const MAX_TAKEN: usize = 1000;

    /// Pause before trying again to run a turn that was refused, for example because too many turns
    /// were started in the same minute.
    const RETRY: Duration = Duration::from_secs(5);

    /// Maximum number of attempts to run the turn of an event.
    const MAX_TRIES: u32 = 3;

    /// Waits for an event, runs its turn, and returns.
    #[run_loop]
    pub(crate) fn run() -> Result<LoopOutcome, Error> {
        let settings: WebhookSettings = config::all()?;
        let Wakeup::Message(message) = waiting::wait(&WakeConditions::new().message())? else {
            return schedule_next_run("the host ends");
        };
        let event = match parse_and_filter_event(&message.text, &settings) {
            Ok(event) => event,
            Err(why) => return schedule_next_run(&format!("no turn: {why}")),
        };
        let mut taken: Vec<String> = store::get_json(TAKEN)?.unwrap_or_default();
        if event.id.as_ref().is_some_and(|id| taken.contains(id)) {
            return schedule_next_run("no turn: the event was taken before");
        }
        let report = run_turn(&event, &settings)?;
        // Store the id only after the turn, so that the sender can send the event again if its turn
        // could not be run.
        if let Some(id) = event.id {
            taken.push(id);
            taken.drain(..taken.len().saturating_sub(MAX_TAKEN));
            store::set_json(TAKEN, &taken)?;
        }
        let answer = report.answer.trim();
        log::info(format_args!(
            "{} {}: {answer}",
            report.session, report.state
        ));
        let first = answer.lines().next().unwrap_or_default();
        status::set(first);
        schedule_next_run(&format!("{} {}: {first}", report.session, report.state))
    }

    /// Runs a turn whose input comes from an event.
    fn run_turn(
        event: &AcceptedWebhookEvent,
        settings: &WebhookSettings,
    ) -> Result<TurnReport, Error> {
        let named = |text: &String| Some(text.clone()).filter(|name| !name.is_empty());
        let mut order = TurnOrder::new(event.input.clone());
        if let Some(session) = &event.session {
            order = order.in_session(session.clone());
        }
        order.preset = named(&settings.preset);
        order.model = named(&settings.model);
        order.max_cost_usd = Some(settings.max_cost_usd);
        let mut n_tries = 0;
        loop {
            n_tries += 1;
            match turns::run(&order) {
                Err(Error::Limit(_) | Error::Failed(_)) if n_tries < MAX_TRIES => {
                    let until = WakeConditions::new().timeout(RETRY);
                    if matches!(waiting::wait(&until)?, Wakeup::Shutdown) {
                        return Err(Error::Failed("the host ends".to_owned()));
                    }
                }
                ended => return ended,
            }
        }
    }

    fn schedule_next_run(reason: &str) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Again {
            after: Duration::from_millis(100),
            reason: reason.to_owned(),
        })
    }
}
