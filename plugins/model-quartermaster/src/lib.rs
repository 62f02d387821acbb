//! Learns which of the configured models does which kind of task well and cheaply, and picks a
//! model for each turn.

mod pick;
mod stats;
mod task;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod model_quartermaster {
    use crate::pick::{ModelSelectionSettings, TurnModelDecision, pick_model};
    use crate::stats::TaskStats;
    use crate::task::{self, RunningTurn};
    use rind_sdk::prelude::*;

    /// Store key of the statistics of all sessions.
    const STATS: &str = "stats";

    /// Maximum number of messages that the host returns for one request.
    const ALL: u32 = 1000;

    /// Returns the key, in the session's state, of the [`RunningTurn`] of the calling agent.
    fn running_turn_key() -> String {
        format!("turn/{}", caller::agent())
    }

    fn load_running_turn() -> Result<Option<RunningTurn>, Error> {
        let kept: Option<RunningTurn> = state::get_json(&running_turn_key())?;
        Ok(kept.filter(|running| running.turn == caller::turn()))
    }

    #[hook]
    fn pre_reason(request: ModelRequest) -> Result<RequestOutcome, Error> {
        let settings = config::shared::<ModelSelectionSettings>()?;
        // Pick no model for a request outside of the conversation: such a request names its model.
        if settings.models.is_empty() || !matches!(request.purpose, Purpose::Step) {
            return Ok(RequestOutcome::default());
        }
        let mut outcome = RequestOutcome::default();
        let mut running = match load_running_turn()? {
            Some(running) => running,
            None => {
                let kind = task::task_kind(&session::messages(ALL));
                let stats: TaskStats = store::get_json(STATS)?.unwrap_or_default();
                let pick = pick_model(
                    &kind,
                    &request.model,
                    &stats,
                    &settings,
                    task::hash_turn_to_fraction(),
                );
                let mut running = RunningTurn::new(caller::turn(), kind, &request.model);
                let done = match &pick.action {
                    TurnModelDecision::Defer => format!("keeps `{}`", request.model),
                    TurnModelDecision::Suggest(model) => format!("suggests `{model}`"),
                    TurnModelDecision::Enforce(model) => format!("takes `{model}`"),
                };
                outcome = outcome.log(Level::Info, format!("{done}: {}", pick.why));
                match pick.action {
                    TurnModelDecision::Defer => {}
                    TurnModelDecision::Suggest(model) => {
                        let said = format!("suggests the model `{model}`: {}", pick.why);
                        outcome =
                            notify_model_choice(outcome, "suggested", &running.kind, &model, said)?;
                    }
                    TurnModelDecision::Enforce(model) => {
                        if model != request.model {
                            let said = format!(
                                "takes `{model}` in place of `{}`: {}",
                                request.model, pick.why
                            );
                            outcome =
                                notify_model_choice(outcome, "taken", &running.kind, &model, said)?;
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
        state::set_json(&running_turn_key(), &running)?;
        Ok(outcome)
    }

    /// Notifies the person of the choice for a kind of task, unless the last such notice in this
    /// session named the same model.
    fn notify_model_choice(
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
        let Some(mut running) = load_running_turn()?.filter(|running| running.is_asking) else {
            return Ok(());
        };
        running.is_asking = false;
        running.requests += 1;
        let usage = response.usage();
        running.input = running.input.saturating_add(usage.input_tokens);
        running.output = running.output.saturating_add(usage.output_tokens);
        running.millis = running.millis.saturating_add(response.latency_ms());
        state::set_json(&running_turn_key(), &running)
    }

    #[hook]
    fn post_reason(message: Message) -> Result<ReplyOutcome, Error> {
        if let Some(mut running) = load_running_turn()? {
            running.is_empty =
                message.text().trim().is_empty() && message.tool_calls().count() == 0;
            state::set_json(&running_turn_key(), &running)?;
        }
        Ok(ReplyOutcome::default())
    }

    #[hook]
    fn turn_end(summary: TurnSummary) -> Result<(), Error> {
        let Some(mut running) = load_running_turn()? else {
            return Ok(());
        };
        state::remove(&running_turn_key())?;
        let settings: ModelSelectionSettings = config::all()?;
        (running.results, running.errors) = task::count_tool_results(&session::messages(ALL));
        if let Some(seen) = running.summarize_ended_turn(summary.stop) {
            // Read the statistics only now, because another session may have changed them during
            // the turn.
            let mut stats: TaskStats = store::get_json(STATS)?.unwrap_or_default();
            stats.add_turn(&running.kind, &running.model, seen, &settings.model_names());
            store::set_json(STATS, &stats)?;
        }
        Ok(())
    }
}
