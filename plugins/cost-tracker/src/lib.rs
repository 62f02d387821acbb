//! Counts tokens and costs per session, model, tool, plugin and skill, reports them at the end of a
//! turn, and refuses further requests once a budget is spent.

mod budget;
mod ledger;
mod say;
#[cfg(test)]
mod tests;
mod totals;

#[rind_sdk::plugin]
mod cost_tracker {
    use crate::budget::{self, CostLimits};
    use crate::ledger::{CostLedger, HookCallPosition, ToolCallMeasurements};
    use crate::{say, totals};
    use rind_sdk::prelude::*;

    /// Key of the [`CostLedger`] in the session's state.
    const KEY: &str = "ledger";

    thread_local! {
        static LEDGER: state::Cached<CostLedger> = const { state::Cached::new() };
    }

    #[data]
    struct Settings {
        notice: bool,
        details: bool,
        budget_usd: CostLimits<f64>,
        budget_tokens: CostLimits<u64>,
    }

    fn call_position() -> HookCallPosition {
        HookCallPosition {
            depth: caller::depth(),
            turn: caller::turn(),
        }
    }

    /// Changes the ledger and stores it. In a new turn of the main agent, the sums of the turn are
    /// reset first.
    fn update_ledger<R>(
        at: &HookCallPosition,
        change: impl FnOnce(&mut CostLedger) -> R,
    ) -> Result<R, Error> {
        let change = |ledger: &mut CostLedger| {
            ledger.reset_turn_if_new(at);
            change(ledger)
        };
        LEDGER.with(|cached| cached.change(KEY, change))
    }

    #[hook]
    fn pre_reason(_request: ModelRequest) -> Result<RequestOutcome, Error> {
        let settings = config::shared::<Settings>()?;
        let at = call_position();
        let (tokens, usd) = (caller::tokens_used(), caller::cost_usd());
        let spent = update_ledger(&at, |ledger| {
            ledger.add_unanswered_requests(&at, tokens, usd);
            budget::spent_budget_reason(ledger, &settings.budget_usd, &settings.budget_tokens)
        })?;
        Ok(match spent {
            Some(why) => RequestOutcome::block(why),
            None => RequestOutcome::default(),
        })
    }

    #[hook]
    fn after_provider_response(response: &WireResponse) -> Result<Observed, Error> {
        let settings = config::shared::<Settings>()?;
        let (purpose, model) = (&response.purpose(), &response.model());
        let cost = response.cost_usd();
        let usage = &response.usage();
        let skill = caller::skill();
        let is_new = update_ledger(&call_position(), |ledger| {
            let is_new = !ledger.models.contains_key(model);
            ledger.record_answer_cost(purpose, model, usage, cost);
            if let Some(skill) = skill {
                ledger.record_answer_cost_for_skill(&skill, usage, cost);
            }
            is_new
        })?;
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        let mut outcome = Observed::default().metric("cost.request.tokens", tokens as f64);
        match cost {
            Some(usd) => outcome = outcome.metric("cost.request.usd", usd),
            None if is_new && !settings.budget_usd.is_empty() => {
                let text = format!(
                    "`{model}` has no price, so the budget in dollars does not hold it; give it one under [prices] in \
                     config.toml"
                );
                outcome = outcome.notify(Level::Warn, text);
            }
            None => {}
        }
        Ok(outcome)
    }

    #[hook]
    fn post_tool(finished: &FinishedCall) -> Result<ResultOutcome, Error> {
        let ran = ToolCallMeasurements {
            plugin: finished.plugin(),
            bytes: usize::try_from(finished.size()).unwrap_or(usize::MAX),
            millis: finished.duration_ms(),
            is_error: finished.is_error(),
        };
        let tool = finished.call().name;
        update_ledger(&call_position(), |ledger| {
            ledger.count_tool_call(&tool, ran)
        })?;
        Ok(ResultOutcome::default())
    }

    #[hook]
    fn post_output(_output: String) -> Result<Observed, Error> {
        if caller::depth() > 0 {
            return Ok(Observed::default());
        }
        update_ledger(&call_position(), |ledger| {
            Observed::default()
                .metric("cost.turn.usd", ledger.this_turn.usd)
                .metric("cost.turn.tokens", ledger.this_turn.total_tokens() as f64)
                .metric("cost.session.usd", ledger.session.usd)
                .metric("cost.session.tokens", ledger.session.total_tokens() as f64)
        })
    }

    #[hook]
    fn skill_ended(skill: SkillInfo) -> Result<Observed, Error> {
        update_ledger(&call_position(), |ledger| {
            match ledger.skills.get(&skill.id) {
                None => Observed::default(),
                Some(sum) => Observed::default()
                    .metric("cost.skill.usd", sum.usd)
                    .metric("cost.skill.tokens", sum.total_tokens() as f64),
            }
        })
    }

    #[hook]
    fn turn_end(summary: TurnSummary) -> Result<Observed, Error> {
        let settings = config::shared::<Settings>()?;
        let at = call_position();
        let usage = &summary.usage;
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        let ledger = update_ledger(&at, |ledger| {
            ledger.add_unanswered_requests(&at, tokens, summary.cost_usd);
            ledger.clone()
        })?;
        if caller::depth() > 0 {
            return Ok(Observed::default());
        }
        let all = totals::store_session_total(&caller::session(), &ledger.session)?;
        let outcome = Observed::default().metric("cost.all_sessions.usd", all.usd);
        Ok(
            match say::format_ledger_summary(&ledger, settings.details) {
                Some(text) if settings.notice => outcome.notify(Level::Info, text),
                _ => outcome,
            },
        )
    }
}
