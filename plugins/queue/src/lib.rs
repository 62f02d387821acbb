//! Runs a turn for each job file in a folder, at least once, and writes the result beside the job.

mod folder;
mod job;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod queue {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use crate::folder::{ClaimedJob, DONE_JOBS_FOLDER_NAME, JobResult, QueueFolder};
    use crate::job::{QueueSettings, read_job};
    use rind_sdk::prelude::*;
    use rind_sdk::turns::{TurnOrder, TurnReport};
    use rind_sdk::waiting::{WakeConditions, Wakeup};

    /// Path of the queue's folder in the host interfaces `files` and `waiting`.
    const FOLDER: &str = "workspace/queue";

    /// Maximum time to wait for new jobs before the folder of the queue is read again.
    const LOOK: Duration = Duration::from_secs(60);

    /// Pause before trying again to run a turn that was refused, for example because too many turns
    /// were started in the same minute.
    const RETRY: Duration = Duration::from_secs(5);

    /// Number of failed attempts to run a job's turn after which the job fails.
    const MAX_TRIES: u32 = 3;

    /// Result of the turn that ran a job.
    enum JobTurnResult {
        Report(TurnReport),
        /// The job is invalid, or its turn could not be run, for this reason.
        Failed(String),
        /// The host shuts down; the job continues after the next start.
        Later,
    }

    /// Returns the path at which `std::fs` finds the queue's folder.
    fn folder_path() -> String {
        match cfg!(target_family = "wasm") {
            true => "/workspace/queue".to_owned(),
            false => caller::workspace() + "/queue",
        }
    }

    /// Waits for a job, runs it, and returns.
    #[run_loop]
    pub(crate) fn run() -> Result<LoopOutcome, Error> {
        let settings: QueueSettings = config::all()?;
        files::create_folder(FOLDER)?;
        let folder = QueueFolder::open(folder_path())?;
        if let Some(job) = folder.list_claimed_jobs()?.into_iter().next() {
            return run_job(&folder, &job, &settings, true);
        }
        loop {
            let settle = Duration::from_secs(settings.settle_seconds);
            let pause = match folder.find_next_ready_job(settle)? {
                Ok(name) => {
                    if let Some(job) = folder.claim_job(&name, &create_sortable_id())? {
                        return run_job(&folder, &job, &settings, false);
                    }
                    Duration::ZERO
                }
                Err(left) => left.unwrap_or(LOOK),
            };
            let until = WakeConditions::new().timeout(pause).change_of(FOLDER);
            if matches!(waiting::wait(&until)?, Wakeup::Shutdown) {
                return schedule_next_run("the host ends");
            }
        }
    }

    /// Returns a unique id that sorts by time.
    fn create_sortable_id() -> String {
        use std::hash::{BuildHasher, RandomState};
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = now.map_or(0, |now| now.as_millis());
        let random = RandomState::new().hash_one(ms);
        format!("{ms:012x}{:08x}", random & 0xffff_ffff)
    }

    /// Runs a claimed job. `is_recovered` means that an earlier run of the loop claimed the job.
    fn run_job(
        folder: &QueueFolder,
        job: &ClaimedJob,
        settings: &QueueSettings,
        is_recovered: bool,
    ) -> Result<LoopOutcome, Error> {
        if let Some(state) = folder.existing_result_state(job).filter(|_| is_recovered) {
            folder.move_finished_job(job, state == DONE_JOBS_FOLDER_NAME)?;
            store::remove(&job.id)?;
            return schedule_next_run(&format!("{} ended before: {state}", job.name));
        }
        let order = read_job(&folder.claimed_job_path(job), &job.name, &job.id, settings);
        let end = match order {
            Ok(order) => run_turn(order, job, is_recovered)?,
            Err(why) => JobTurnResult::Failed(why),
        };
        let result = match end {
            JobTurnResult::Later => return schedule_next_run("the host ends"),
            JobTurnResult::Report(report) => build_job_result(job, report),
            JobTurnResult::Failed(why) => JobResult {
                id: job.id.clone(),
                job: job.name.clone(),
                state: "failed".to_owned(),
                answer: why,
                ..JobResult::default()
            },
        };
        folder.write_result(job, &result)?;
        folder.move_finished_job(job, result.state == DONE_JOBS_FOLDER_NAME)?;
        store::remove(&job.id)?;
        let first = result.answer.trim().lines().next().unwrap_or_default();
        schedule_next_run(&format!("{} {}: {first}", job.name, result.state))
    }

    /// Runs the turn of a job. The turn's input has an id, which the session accepts only once: an
    /// interrupted turn continues after a crash, and a turn that ended is not repeated.
    fn run_turn(
        order: TurnOrder,
        job: &ClaimedJob,
        is_recovered: bool,
    ) -> Result<JobTurnResult, Error> {
        // Number of the attempt, which is part of the input's id. A turn that was cancelled, for
        // example by the shutdown of the host, cannot continue, so the next attempt needs a new id.
        let mut n = store::get_json::<u32>(&job.id)?.unwrap_or(1);
        let (mut n_failed, mut is_known) = (0, is_recovered);
        loop {
            let order = order.clone().input_id(format!("{}.{n}", job.id));
            let why = match turns::run(&order) {
                Ok(report) if report.state != "cancelled" => {
                    return Ok(JobTurnResult::Report(report));
                }
                Ok(report) => {
                    n += 1;
                    store::set_json(&job.id, &n)?;
                    if wait_for_shutdown(Duration::ZERO)? {
                        return Ok(JobTurnResult::Later);
                    }
                    // Try again once if an earlier run of the loop claimed the job: the shutdown of
                    // the host may have cancelled the turn in that run. Otherwise a person has
                    // cancelled it.
                    if !std::mem::take(&mut is_known) {
                        return Ok(JobTurnResult::Report(report));
                    }
                    continue;
                }
                Err(Error::Limit(_)) => None,
                Err(Error::Failed(why)) => Some(why),
                // The job itself is invalid, so another attempt would fail as well.
                Err(error) => return Ok(JobTurnResult::Failed(error.message().to_owned())),
            };
            if let Some(why) = why {
                n_failed += 1;
                if n_failed >= MAX_TRIES {
                    return Ok(JobTurnResult::Failed(why));
                }
            }
            if wait_for_shutdown(RETRY)? {
                return Ok(JobTurnResult::Later);
            }
        }
    }

    /// Waits for `time`. Returns true if the host shuts down.
    fn wait_for_shutdown(time: Duration) -> Result<bool, Error> {
        let until = WakeConditions::new().timeout(time);
        Ok(matches!(waiting::wait(&until)?, Wakeup::Shutdown))
    }

    fn build_job_result(job: &ClaimedJob, report: TurnReport) -> JobResult {
        JobResult {
            id: job.id.clone(),
            job: job.name.clone(),
            state: report.state,
            answer: report.answer,
            session: report.session,
            turn: report.turn,
            steps: report.steps,
            tool_calls: report.tool_calls,
            cost_usd: report.cost_usd,
            unpriced_tokens: report.unpriced_tokens,
        }
    }

    fn schedule_next_run(reason: &str) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Again {
            after: Duration::from_millis(100),
            reason: reason.to_owned(),
        })
    }
}
