//! Money that the turns of one loop cost, held against the operator's limit of a day.
//!
//! A turn reserves the most that it may spend, so that turns side by side cannot pass the limit
//! together. The module must not know turns. Start from [`LoopSpending`].

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::point::handle::HandleError;

/// Time in which costs are added up.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Costs of the turns of one loop, in US dollars.
#[derive(Debug, Default)]
pub(super) struct LoopSpending {
    /// Costs of ended turns and when they ended.
    spent: VecDeque<(Instant, f64)>,
    /// Most that the running turns may still cost.
    reserved: f64,
}

impl LoopSpending {
    /// Reserves the cost of a turn that may spend `wanted`, and returns the most that it may spend:
    /// `None` where there is no limit.
    ///
    /// # Errors
    /// Nothing is left of the limit. The message names `plugin`.
    pub(super) fn reserve_cost(
        &mut self,
        plugin: &str,
        limit: Option<f64>,
        wanted: Option<f64>,
        now: Instant,
    ) -> Result<Option<f64>, HandleError> {
        let Some(limit) = limit else {
            return Ok(wanted);
        };
        let is_over = |(ended, _): &&(Instant, f64)| now.duration_since(*ended) >= DAY;
        while self.spent.front().filter(is_over).is_some() {
            self.spent.pop_front();
        }
        let spent: f64 = self.spent.iter().map(|(_, usd)| usd).sum();
        let left = limit - spent - self.reserved;
        if left <= 0.0 {
            return Err(HandleError::Limit(format!(
                "turns of the loop of plugin `{plugin}` have cost {spent:.4} USD within a day and running ones may cost {:.4} \
                 more, of the {limit} USD that `max_loop_cost_usd` under [agent] allows; turns run side by side only with a \
                 `max-cost-usd` of their own",
                self.reserved
            )));
        }
        let most = wanted.unwrap_or(left).min(left);
        self.reserved += most;
        Ok(Some(most))
    }

    /// Notes that a turn has ended that had reserved `reserved` and has cost `usd`.
    pub(super) fn end_turn(&mut self, reserved: Option<f64>, usd: f64, now: Instant) {
        self.reserved = (self.reserved - reserved.unwrap_or(0.0)).max(0.0);
        if usd > 0.0 {
            self.spent.push_back((now, usd));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_holds_over_all_turns_of_a_day_and_over_those_side_by_side() {
        let (mut spending, now) = (LoopSpending::default(), Instant::now());
        let reserve = |spending: &mut LoopSpending, wanted, now| {
            spending.reserve_cost("p", Some(1.0), wanted, now)
        };
        assert_eq!(reserve(&mut spending, Some(0.6), now), Ok(Some(0.6)));
        assert_eq!(reserve(&mut spending, None, now), Ok(Some(0.4)));
        let refused = reserve(&mut spending, Some(0.1), now);
        assert!(matches!(refused, Err(HandleError::Limit(why)) if why.contains("`p`")));
        spending.end_turn(Some(0.6), 0.7, now);
        spending.end_turn(Some(0.4), 0.2, now);
        let left = reserve(&mut spending, Some(0.5), now).unwrap().unwrap();
        assert!((left - 0.1).abs() < 1e-9, "{left}");
        spending.end_turn(Some(left), 0.0, now);
        assert_eq!(reserve(&mut spending, Some(0.5), now + DAY), Ok(Some(0.5)));
        let free = LoopSpending::default().reserve_cost("p", None, None, now);
        assert_eq!(free, Ok(None));
    }
}
