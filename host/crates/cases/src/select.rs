//! Selects which test cases of a plugin are run, by name or by shard, how many run at the same
//! time, and with which deadline.
//!
//! It must not know what a case does. Start from [`CaseSelection`].

use std::num::NonZeroUsize;
use std::str::FromStr;
use std::time::Duration;

/// Default deadline of a case. A single hook has its own deadline of a few seconds.
pub const DEFAULT_CASE_DEADLINE: Duration = Duration::from_secs(60);

/// Options of a run: which cases are run, how, and whether snapshots are written.
#[derive(Clone, Debug, Default)]
pub struct CaseSelection {
    /// Substring that the names of the selected cases contain; all cases if absent.
    pub only: Option<String>,
    /// Shard of the cases that is run; all cases if absent.
    pub shard: Option<CaseShard>,
    /// Whether snapshots are written instead of compared (`--accept`).
    pub accept: bool,
    /// Number of cases that run at the same time; 1 if absent. The results are in the order of the
    /// cases.
    pub jobs: Option<NonZeroUsize>,
    /// Whether to stop after the first case that fails.
    pub fail_fast: bool,
    /// Time after which a case is stopped; [`DEFAULT_CASE_DEADLINE`] if absent.
    pub deadline: Option<Duration>,
}

impl CaseSelection {
    pub(super) fn selects_case(&self, name: &str) -> bool {
        name.contains(self.only.as_deref().unwrap_or_default())
    }

    /// Whether all cases of the plugin are selected, so that the run measures the costs and writes
    /// the snapshots of all of them.
    #[must_use]
    pub fn selects_all_cases(&self) -> bool {
        self.only.is_none() && self.shard.is_none()
    }

    pub(super) fn max_parallel_cases(&self) -> usize {
        self.jobs.map_or(1, NonZeroUsize::get)
    }

    pub(super) fn case_deadline(&self) -> Duration {
        self.deadline.unwrap_or(DEFAULT_CASE_DEADLINE)
    }
}

/// Shard of all cases, written as in `2/5`: the second of five parts of equal size. Cases are
/// assigned to shards round-robin, so that slow neighbors are in different shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaseShard {
    /// Number of the shard whose cases this run selects, counted from 1.
    number: usize,
    /// Total number of shards among which the cases are divided.
    of: NonZeroUsize,
    /// Total number of test cases of the plugins whose cases were run before those of the current
    /// plugin.
    n_before: usize,
}

impl CaseShard {
    /// Whether the case at `index` in the current plugin belongs to this shard.
    pub(super) fn contains_case(&self, index: usize) -> bool {
        (self.n_before + index) % self.of == self.number - 1
    }

    /// Skips the `n_cases` cases of the current plugin: the cases of the next plugin are
    /// distributed over the shards from there on.
    pub fn advance_case_offset(&mut self, n_cases: usize) {
        self.n_before += n_cases;
    }
}

impl FromStr for CaseShard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("`{text}` is not a shard of the cases: write `1/4` for the first of four");
        let (number, of) = text.split_once('/').ok_or_else(wrong)?;
        let number: usize = number.parse().map_err(|_| wrong())?;
        let of: NonZeroUsize = of.parse().map_err(|_| wrong())?;
        if number == 0 || number > of.get() {
            return Err(format!(
                "there is no shard {number} of {of}: the number must be from 1 to {of}"
            ));
        }
        Ok(Self {
            number,
            of,
            n_before: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_is_in_exactly_one_share_also_across_plugins() {
        let mut shards: Vec<CaseShard> = ["1/3", "2/3", "3/3"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let mut taken = [0; 3];
        for n_cases in [1, 1, 1, 4, 2] {
            for index in 0..n_cases {
                let takers: Vec<usize> =
                    (0..3).filter(|n| shards[*n].contains_case(index)).collect();
                assert_eq!(takers.len(), 1);
                taken[takers[0]] += 1;
            }
            for shard in &mut shards {
                shard.advance_case_offset(n_cases);
            }
        }
        assert_eq!(taken, [3, 3, 3]);
    }

    #[test]
    fn what_is_no_share_is_refused() {
        for text in ["", "1", "0/2", "3/2", "1/0", "a/b", "-1/2", "1/2/3"] {
            assert!(text.parse::<CaseShard>().is_err(), "{text}");
        }
    }
}
