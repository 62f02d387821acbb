//! Learns which of the configured models does which kind of task well and cheaply, and picks it.

mod pick;
mod stats;
mod task;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod model_quartermaster {
    use crate::pick::{ModelAction, PickSettings, pick_model};
    use crate::stats::TaskStats;
    use crate::task::{self, RunningTurn};
    use rind_sdk::prelude::*;

    /// Key of the statistics, across sessions.
    const STATS: &str = "stats";

    /// The most messages that can be asked for.
    const ALL: u32 = 1000;

    /// Returns the key of a running turn.
    fn key() -> String {
        format!("turn/{}", caller::agent())
    }

    fn running() -> Result<Option<RunningTurn>, Error> {
        let kept: Option<RunningTurn> = state::get_json(&key())?;
        Ok(kept.filter(|running| running.turn == caller::turn()))
    }

    #[hook]
    fn pre_reason(request: ModelRequest) -> Result<RequestOutcome, Error> {
        let settings = config::shared::<PickSettings>()?;
        // A question outside of the conversation already names the model that is to answer.
        if settings.models.is_empty() || !matches!(request.purpose, Purpose::Step) {
            return Ok(RequestOutcome::default());
        }
        let mut outcome = RequestOutcome::default();
        let mut running = match running()? {
            Some(running) => running,
            None => {
                let kind = task::task_kind(&session::messages(ALL));
                let stats: TaskStats = store::get_json(STATS)?.unwrap_or_default();
                let pick = pick_model(
                    &kind,
                    &request.model,
                    &stats,
                    &settings,
                    task::random_chance(),
                );
                let mut running = RunningTurn::new(caller::turn(), kind, &request.model);
                let done = match &pick.action {
                    ModelAction::Defer => format!("keeps `{}`", request.model),
                    ModelAction::Suggest(model) => format!("suggests `{model}`"),
                    ModelAction::Enforce(model) => format!("takes `{model}`"),
                };
                outcome = outcome.log(Level::Info, format!("{done}: {}", pick.why));
                match pick.action {
                    ModelAction::Defer => {}
                    ModelAction::Suggest(model) => {
                        let said = format!("suggests the model `{model}`: {}", pick.why);
                        outcome = tell(outcome, "suggested", &running.kind, &model, said)?;
                    }
                    ModelAction::Enforce(model) => {
                        if model != request.model {
                            let said = format!(
                                "takes `{model}` in place of `{}`: {}",
                                request.model, pick.why
                            );
                            outcome = tell(outcome, "taken", &running.kind, &model, said)?;
                        }
                        running.picked = Some(model);
                    }
                }
                running
            }
        };
        if let Some(picked) = &running.picked {
            outcome.model = Some(picked.clone());
        }
        running.model = outcome.model.clone().unwrap_or(request.model);
        running.is_asking = true;
        state::set_json(&key(), &running)?;
        Ok(outcome)
    }

    /// Tells the person about the choice for a kind of task, once in a session as long as it is the
    /// same model.
    fn tell(
        outcome: RequestOutcome,
        what: &str,
        kind: &str,
        model: &str,
        said: String,
    ) -> Result<RequestOutcome, Error> {
        let key = format!("{what}/{kind}");
        if state::get(&key).as_deref() == Some(model) {
            return Ok(outcome);
        }
        state::set(&key, model)?;
        Ok(outcome.notify(Level::Info, said))
    }

    #[hook]
    fn after_provider_response(response: &WireResponse) -> Result<(), Error> {
        let Some(mut running) = running()?.filter(|running| running.is_asking) else {
            return Ok(());
        };
        running.is_asking = false;
        running.requests += 1;
        let usage = response.usage();
        running.input = running.input.saturating_add(usage.input_tokens);
        running.output = running.output.saturating_add(usage.output_tokens);
        running.millis = running.millis.saturating_add(response.latency_ms());
        state::set_json(&key(), &running)
    }

    #[hook]
    fn post_reason(message: Message) -> Result<ReplyOutcome, Error> {
        if let Some(mut running) = running()? {
            running.is_empty =
                message.text().trim().is_empty() && message.tool_calls().count() == 0;
            state::set_json(&key(), &running)?;
        }
        Ok(ReplyOutcome::default())
    }

    #[hook]
    fn turn_end(summary: TurnSummary) -> Result<(), Error> {
        let Some(mut running) = running()? else {
            return Ok(());
        };
        state::remove(&key())?;
        let settings: PickSettings = config::all()?;
        (running.results, running.errors) = task::count_results(&session::messages(ALL));
        if let Some(seen) = running.observe_end(summary.stop) {
            // Read again: another session may have written meanwhile.
            let mut stats: TaskStats = store::get_json(STATS)?.unwrap_or_default();
            stats.add_turn(&running.kind, &running.model, seen, &settings.names());
            store::set_json(STATS, &stats)?;
        }
        Ok(())
    }
}
