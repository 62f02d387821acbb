//! Runs turns at the times of a crontab, one at a time.

mod schedule;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod cron {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use crate::schedule::{DueJobRunResult, JobSchedule};
    use rind_sdk::prelude::*;
    use rind_sdk::turns::TurnOrder;
    use rind_sdk::waiting::{WakeConditions, Wakeup};

    /// Maximum time to wait before reading the clock again. A longer wait could be late, because
    /// timers stop while the machine sleeps.
    const LOOK: Duration = Duration::from_secs(30);

    #[data]
    struct CronSettings {
        timezone: String,
        jitter_seconds: u64,
        jobs: Vec<CronJob>,
    }

    #[data]
    struct CronJob {
        name: String,
        schedule: String,
        input: String,
        timezone: Option<String>,
        missed: Option<String>,
        session: Option<String>,
        preset: Option<String>,
        model: Option<String>,
        max_cost_usd: Option<f64>,
    }

    /// Stored scheduled time of a job's last run. For a job that has not run yet, the time at which
    /// the plugin first read the job.
    #[data]
    struct LastRun {
        /// Schedule and time zone that the job had when this was stored. If they have changed, the
        /// stored time no longer applies.
        schedule: String,
        /// Scheduled time of the run, in milliseconds since 1970.
        at: i64,
    }

    fn now_ms() -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(0, |now| i64::try_from(now.as_millis()).unwrap_or(i64::MAX))
    }

    /// Waits until a job is due, runs its turn, and returns.
    #[run_loop]
    pub(crate) fn run() -> Result<LoopOutcome, Error> {
        let settings: CronSettings = config::all()?;
        if settings.jobs.is_empty() {
            return Ok(LoopOutcome::Done);
        }
        let names: Vec<&String> = settings.jobs.iter().map(|job| &job.name).collect();
        if let Some(twice) = names
            .iter()
            .enumerate()
            .find(|(at, name)| names[..*at].contains(name))
        {
            let text = format!("two jobs have the name `{}`", twice.1);
            return Err(Error::InvalidInput(text));
        }
        loop {
            let now = now_ms();
            let mut next: Option<i64> = None;
            for job in &settings.jobs {
                match find_job_due_run(&settings, job, now)? {
                    DueJobRunResult::At(at) => return run_job(&settings, job, at),
                    DueJobRunResult::Missed(at) if job.missed.as_deref() == Some("skip") => {
                        store_last_run(&settings, job, at)?;
                        log::info(format_args!(
                            "{}: runs were missed and are left out",
                            job.name
                        ));
                        // Check the job again immediately, to find its next run.
                        next = Some(now);
                    }
                    DueJobRunResult::Missed(at) => return run_job(&settings, job, at),
                    DueJobRunResult::Next(at) => next = next.into_iter().chain(at).min(),
                }
            }
            let Some(next) = next else {
                return Ok(LoopOutcome::Done);
            };
            let left = u64::try_from(next - now).unwrap_or(0);
            let until = WakeConditions::new().timeout(Duration::from_millis(left).min(LOOK));
            if matches!(waiting::wait(&until)?, Wakeup::Shutdown) {
                return schedule_next_run("the host ends");
            }
        }
    }

    fn job_time_zone<'a>(settings: &'a CronSettings, job: &'a CronJob) -> &'a str {
        job.timezone.as_deref().unwrap_or(&settings.timezone)
    }

    /// Returns the schedule and the time zone of a job as one text, to detect changes of either.
    fn schedule_text(settings: &CronSettings, job: &CronJob) -> String {
        format!("{} {}", job.schedule, job_time_zone(settings, job))
    }

    fn find_job_due_run(
        settings: &CronSettings,
        job: &CronJob,
        now: i64,
    ) -> Result<DueJobRunResult, Error> {
        let (zone, jitter) = (job_time_zone(settings, job), settings.jitter_seconds);
        let schedule = JobSchedule::parse(&job.name, &job.schedule, zone, jitter)?;
        let last: Option<LastRun> = store::get_json(&job.name)?;
        let last = last.filter(|last| last.schedule == schedule_text(settings, job));
        // Ignore a time more than a day in the future: it was stored before the clock was set back.
        let last = last.filter(|last| last.at <= now.saturating_add(86_400_000));
        let last = match last {
            Some(last) => last.at,
            None => {
                store_last_run(settings, job, now)?;
                now
            }
        };
        schedule.find_due_run(now, last)
    }

    fn store_last_run(settings: &CronSettings, job: &CronJob, at: i64) -> Result<(), Error> {
        let schedule = schedule_text(settings, job);
        store::set_json(&job.name, &LastRun { schedule, at })
    }

    fn run_job(settings: &CronSettings, job: &CronJob, at: i64) -> Result<LoopOutcome, Error> {
        store_last_run(settings, job, at)?;
        let mut order = TurnOrder::new(&job.input);
        if job.session.as_deref() == Some("kept") {
            order = order.in_session(&job.name);
        }
        order.preset.clone_from(&job.preset);
        order.model.clone_from(&job.model);
        order.max_cost_usd = job.max_cost_usd;
        let ran = turns::run(&order);
        let text = match &ran {
            Ok(report) => {
                let first = report.answer.trim().lines().next().unwrap_or_default();
                format!("{} {}: {first}", job.name, report.state)
            }
            Err(error) => format!("{} failed: {}", job.name, error.message()),
        };
        log::info(format_args!("{text}"));
        schedule_next_run(&text)
    }

    fn schedule_next_run(reason: &str) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Again {
            after: Duration::from_millis(100),
            reason: reason.to_owned(),
        })
    }
}
