//! Pauses between the runs of one loop, with exponential backoff after failures.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use super::{FIRST_FAILED_RUN_PAUSE, MAX_FAILED_RUN_PAUSE, MIN_PAUSE_BETWEEN_RUNS};

pub(super) struct LoopRunBackoff {
    growing: ExponentialBackoff,
    /// Number of consecutive runs that failed, up to the last run.
    failures: u32,
}

impl Default for LoopRunBackoff {
    fn default() -> Self {
        let growing = ExponentialBuilder::new()
            .with_min_delay(FIRST_FAILED_RUN_PAUSE)
            .with_max_delay(MAX_FAILED_RUN_PAUSE)
            .with_factor(2.0)
            .without_max_times();
        Self {
            growing: growing.build(),
            failures: 0,
        }
    }
}

impl LoopRunBackoff {
    /// Returns the pause after a successful run that requested a pause of `after`: at least
    /// [`MIN_PAUSE_BETWEEN_RUNS`]. Resets the backoff.
    pub(super) fn next_success_pause(&mut self, after: Duration) -> Duration {
        *self = Self::default();
        after.max(MIN_PAUSE_BETWEEN_RUNS)
    }

    /// Counts a failed run, and returns the pause before the next one.
    pub(super) fn next_failure_pause(&mut self) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.growing.next().unwrap_or(MAX_FAILED_RUN_PAUSE)
    }

    /// Returns the number of consecutive runs that failed, up to the last run.
    pub(super) fn consecutive_failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_five_minutes_and_start_over_after_a_good_run() {
        let mut pauses = LoopRunBackoff::default();
        let seconds = |pauses: &mut LoopRunBackoff| pauses.next_failure_pause().as_secs();
        let grown: Vec<u64> = (0..12).map(|_| seconds(&mut pauses)).collect();
        assert_eq!(grown, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(pauses.consecutive_failures(), 12);
        let minute = Duration::from_secs(60);
        assert_eq!(pauses.next_success_pause(minute), minute);
        assert_eq!(
            (pauses.consecutive_failures(), seconds(&mut pauses)),
            (0, 1)
        );
    }

    #[test]
    fn a_loop_that_asks_for_no_pause_gets_the_shortest_and_one_that_asks_for_ages_gets_those() {
        let mut pauses = LoopRunBackoff::default();
        assert_eq!(
            pauses.next_success_pause(Duration::ZERO),
            MIN_PAUSE_BETWEEN_RUNS
        );
        let ages = Duration::from_millis(u64::MAX);
        assert_eq!(pauses.next_success_pause(ages), ages);
    }
}
