//! Computes when a job runs: from its schedule in its time zone, with missed runs and with the
//! delay of each run.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use croner::Cron;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, Zoned};
use rind_sdk::types::Error;

/// Delay in milliseconds after its start time above which a run counts as missed.
const MISSED_RUN_DELAY_MS: i64 = 60_000;

/// Schedule of one job.
pub(crate) struct JobSchedule {
    name: String,
    cron: Cron,
    zone: TimeZone,
    jitter_seconds: u64,
}

/// Result of [`JobSchedule::find_due_run`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DueJobRunResult {
    /// The run scheduled for this time, in milliseconds since 1970, is due.
    At(i64),
    /// The run scheduled for this time, in milliseconds since 1970, was missed. Earlier runs may
    /// have been missed too.
    Missed(i64),
    /// No run is due. Contains the start time of the next run, in milliseconds since 1970; `None`
    /// if there is no further run.
    Next(Option<i64>),
}

impl JobSchedule {
    pub(crate) fn parse(
        name: &str,
        schedule: &str,
        zone: &str,
        jitter_seconds: u64,
    ) -> Result<Self, Error> {
        let invalid = |what: &str, error: &dyn std::fmt::Display| {
            Error::InvalidInput(format!("job `{name}`: `{what}`: {error}"))
        };
        // Use the bundled time zones: the plugin cannot see those of the file system.
        let zones = TimeZoneDatabase::bundled();
        Ok(Self {
            name: name.to_owned(),
            cron: Cron::from_str(schedule).map_err(|error| invalid("schedule", &error))?,
            zone: zones
                .get(zone)
                .map_err(|error| invalid("timezone", &error))?,
            jitter_seconds,
        })
    }

    /// Returns the run that is due at `now_ms`, or the time of the next one. `last_ms` is the
    /// scheduled time of the last run that was made.
    pub(crate) fn find_due_run(&self, now_ms: i64, last_ms: i64) -> Result<DueJobRunResult, Error> {
        let now = self.time_in_zone(now_ms)?;
        // Search backwards from the latest scheduled time that is not after `now_ms`: its delay may
        // not have passed yet, while that of an earlier run has.
        let mut before = self.cron.find_previous_occurrence(&now, true).ok();
        while let Some(at) = &before {
            let ms = at.timestamp().as_millisecond();
            if ms <= last_ms {
                break;
            }
            let starts = ms.saturating_add(self.jitter_delay_ms(ms));
            if starts <= now_ms {
                let is_late = now_ms - starts > MISSED_RUN_DELAY_MS;
                return Ok(match is_late {
                    true => DueJobRunResult::Missed(ms),
                    false => DueJobRunResult::At(ms),
                });
            }
            before = self.cron.find_previous_occurrence(at, false).ok();
        }
        let from = self.time_in_zone(now_ms.max(last_ms))?;
        let waiting = find_delayed_run_start_ms(self, now_ms, last_ms)?;
        let next = self.cron.find_next_occurrence(&from, false).ok();
        let next = next.map(|at| at.timestamp().as_millisecond());
        let next = next.map(|ms| ms.saturating_add(self.jitter_delay_ms(ms)));
        Ok(DueJobRunResult::Next(waiting.into_iter().chain(next).min()))
    }

    /// Returns the delay, in milliseconds, of the run scheduled for this time: a number between 0
    /// and the job's jitter that a hash of the job's name and the time determines.
    fn jitter_delay_ms(&self, ms: i64) -> i64 {
        if self.jitter_seconds == 0 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (&self.name, ms).hash(&mut hasher);
        let delay = hasher.finish() % (self.jitter_seconds * 1000 + 1);
        i64::try_from(delay).unwrap_or(0)
    }

    fn time_in_zone(&self, ms: i64) -> Result<Zoned, Error> {
        let at = Timestamp::from_millisecond(ms);
        let at = at.map_err(|error| Error::Failed(format!("the clock: {error}")))?;
        Ok(at.to_zoned(self.zone.clone()))
    }
}

/// Returns the start of a run, in milliseconds since 1970, if its scheduled time has come but its
/// random delay has not passed yet.
fn find_delayed_run_start_ms(
    job: &JobSchedule,
    now_ms: i64,
    last_ms: i64,
) -> Result<Option<i64>, Error> {
    let now = job.time_in_zone(now_ms)?;
    let at = job.cron.find_previous_occurrence(&now, true).ok();
    let ms = at.map(|at| at.timestamp().as_millisecond());
    let ms = ms.filter(|ms| *ms > last_ms);
    let starts = ms.map(|ms| ms.saturating_add(job.jitter_delay_ms(ms)));
    Ok(starts.filter(|starts| *starts > now_ms))
}
