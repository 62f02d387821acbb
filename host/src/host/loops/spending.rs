//! Adds up the cost of the turns of one loop, and checks it against the operator's daily limit.
//!
//! A turn reserves the maximum that it may cost, so that concurrent turns cannot exceed the limit
//! together. The module must not know turns. Start from [`LoopTurnCosts`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::Instant;

use crate::lock::lock_ignoring_poison;
use crate::point::handle::HostFunctionError;

/// Period over which the costs of a loop's turns are added up for its daily limit.
const COST_SUM_PERIOD: Duration = Duration::from_secs(24 * 3600);

/// Minimum amount of the loop's daily limit that must be left for a turn to start, in US dollars.
const MIN_REMAINING_DAILY_BUDGET_USD: f64 = 0.000_001;

/// Costs of the turns of one loop. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct LoopTurnCosts {
    /// Maximum cost per day, in US dollars; `None` for no limit.
    limit: Option<f64>,
    costs: Arc<Mutex<SpentAndReservedCosts>>,
}

/// Costs of a loop's ended and running turns, in US dollars.
#[derive(Debug, Default)]
struct SpentAndReservedCosts {
    /// Times at which turns ended, each with the cost of the turn.
    spent: VecDeque<(Instant, f64)>,
    /// Sum of the amounts that the running turns have reserved.
    reserved: f64,
}

/// Cost that a running turn has reserved. When it is dropped, the actual cost of the turn replaces
/// the reserved one, even if the task of the turn failed.
#[derive(Debug)]
pub(super) struct TurnCostReservation {
    spending: LoopTurnCosts,
    most: Option<f64>,
    /// Actual cost of the turn; `None` until the turn ends normally.
    cost: Option<f64>,
    /// Whether the turn has begun and may have cost something.
    has_begun: Arc<AtomicBool>,
}

impl LoopTurnCosts {
    pub(super) fn new(limit: Option<f64>) -> Self {
        Self {
            limit,
            costs: Arc::default(),
        }
    }

    /// Reserves the cost of a turn that may cost `wanted` US dollars. Reserves less if the limit
    /// leaves less, and all that the limit leaves if `wanted` is `None`.
    ///
    /// # Errors
    /// Nothing is left of the limit. The message names `plugin`.
    pub(super) fn reserve_cost(
        &self,
        plugin: &str,
        wanted: Option<f64>,
        now: Instant,
    ) -> Result<TurnCostReservation, HostFunctionError> {
        let mut most = wanted;
        if let Some(limit) = self.limit {
            let mut costs = lock_ignoring_poison(&self.costs);
            let is_over =
                |(ended, _): &&(Instant, f64)| now.duration_since(*ended) >= COST_SUM_PERIOD;
            while costs.spent.front().filter(is_over).is_some() {
                costs.spent.pop_front();
            }
            let spent: f64 = costs.spent.iter().map(|(_, usd)| usd).sum();
            let left = limit - spent - costs.reserved;
            if left < MIN_REMAINING_DAILY_BUDGET_USD {
                return Err(HostFunctionError::Limit(format!(
                    "turns of the loop of plugin `{plugin}` have cost {spent:.4} USD within a day and running ones may cost {:.4} \
                     more, of the {limit} USD that `max_loop_cost_usd` under [agent] allows; turns run side by side only with a \
                     `max-cost-usd` of their own",
                    costs.reserved
                )));
            }
            let own = wanted.unwrap_or(left).min(left);
            costs.reserved += own;
            most = Some(own);
        }
        Ok(TurnCostReservation {
            spending: self.clone(),
            most,
            cost: None,
            has_begun: Arc::default(),
        })
    }
}

impl TurnCostReservation {
    /// Returns the maximum cost of the turn in US dollars; `None` for no limit.
    pub(super) fn max_cost_usd(&self) -> Option<f64> {
        self.most
    }

    /// Returns the flag that the runner of the loop's turn must set when the turn begins.
    pub(super) fn turn_begun_flag(&self) -> Arc<AtomicBool> {
        self.has_begun.clone()
    }

    /// Records the cost of a turn that has ended, in US dollars.
    pub(super) fn record_turn_cost(&mut self, usd: f64) {
        self.cost = Some(usd);
    }
}

impl Drop for TurnCostReservation {
    fn drop(&mut self) {
        let (Some(_), Some(most)) = (self.spending.limit, self.most) else {
            return;
        };
        let mut costs = lock_ignoring_poison(&self.spending.costs);
        costs.reserved = (costs.reserved - most).max(0.0);
        // If the cost of a turn is not known, assume that it has spent all that it reserved.
        if self.has_begun.load(Ordering::Acquire) {
            let usd = self.cost.unwrap_or(most);
            costs.spent.push_back((Instant::now(), usd));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_over_all_turns_of_a_day_and_over_those_side_by_side() {
        let (spending, now) = (LoopTurnCosts::new(Some(1.0)), Instant::now());
        let reserve = |wanted, now| spending.reserve_cost("p", wanted, now);
        let mut first = reserve(Some(0.6), now).unwrap();
        let mut second = reserve(None, now).unwrap();
        assert_eq!(
            (first.max_cost_usd(), second.max_cost_usd()),
            (Some(0.6), Some(0.4))
        );
        let refused = reserve(Some(0.1), now);
        assert!(matches!(refused, Err(HostFunctionError::Limit(why)) if why.contains("`p`")));
        for turn in [&first, &second] {
            turn.turn_begun_flag().store(true, Ordering::Release);
        }
        first.record_turn_cost(0.7);
        second.record_turn_cost(0.2);
        drop((first, second));
        let left = reserve(Some(0.5), now).unwrap().max_cost_usd().unwrap();
        assert!((left - 0.1).abs() < 1e-9, "{left}");
        // A turn that did not begin costs nothing, one that broke off all that it had reserved.
        let broken = reserve(Some(0.1), now).unwrap();
        broken.turn_begun_flag().store(true, Ordering::Release);
        drop(broken);
        assert!(reserve(Some(0.1), now).is_err());
        let later = reserve(Some(0.5), now + 2 * COST_SUM_PERIOD).unwrap();
        assert_eq!(later.max_cost_usd(), Some(0.5));
        let free = LoopTurnCosts::new(None).reserve_cost("p", None, now);
        assert_eq!(free.unwrap().max_cost_usd(), None);
    }
}
