//! Runs a turn for each job in a folder, at least once, and puts the result beside it.

mod folder;
mod job;
#[cfg(test)]
mod tests;

#[rind_sdk::plugin]
mod queue {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    use crate::folder::{ClaimedJob, JobResult, QueueFolder};
    use crate::job::{QueueSettings, read_job};
    use rind_sdk::prelude::*;
    use rind_sdk::turns::{TurnOrder, TurnReport};
    use rind_sdk::waiting::{WakeConditions, Wakeup};

    /// Folder of the queue, as `files` and `waiting` name it.
    const FOLDER: &str = "workspace/queue";

    /// Longest time between two looks at the folder.
    const LOOK: Duration = Duration::from_secs(60);

    /// Pause after a refusal that passes, such as the limit of turns in a minute.
    const RETRY: Duration = Duration::from_secs(5);

    /// Times that a job is tried whose turn fails before it begins.
    const MAX_TRIES: u32 = 3;

    /// End of the turn of a job.
    enum JobEnd {
        Report(TurnReport),
        /// The turn could not be started or has no report, for this reason.
        Failed(String),
        /// The host ends; the job continues at the next start.
        Later,
    }

    /// Path of the folder for a standard library.
    fn folder_path() -> String {
        match cfg!(target_family = "wasm") {
            true => "/workspace/queue".to_owned(),
            false => caller::workspace() + "/queue",
        }
    }

    /// Does the next job, after a wait.
    #[run_loop]
    pub(crate) fn run() -> Result<LoopOutcome, Error> {
        let settings: QueueSettings = config::all()?;
        files::create_folder(FOLDER)?;
        let folder = QueueFolder::open(folder_path())?;
        if let Some(job) = folder.claimed()?.into_iter().next() {
            return do_job(&folder, &job, &settings, true);
        }
        loop {
            let settle = Duration::from_secs(settings.settle_seconds);
            let pause = match folder.first_job(settle)? {
                Ok(name) => {
                    if let Some(job) = folder.claim(&name, &new_id())? {
                        return do_job(&folder, &job, &settings, false);
                    }
                    Duration::ZERO
                }
                Err(left) => left.unwrap_or(LOOK),
            };
            let until = WakeConditions::new().timeout(pause).change_of(FOLDER);
            if matches!(waiting::wait(&until)?, Wakeup::Shutdown) {
                return again("the host ends");
            }
        }
    }

    /// Returns an id that grows with time and that no other job has.
    fn new_id() -> String {
        use std::hash::{BuildHasher, RandomState};
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = now.map_or(0, |now| now.as_millis());
        let random = RandomState::new().hash_one(ms);
        format!("{ms:012x}{:08x}", random & 0xffff_ffff)
    }

    /// Does a job that was claimed, in this run or before a crash.
    fn do_job(
        folder: &QueueFolder,
        job: &ClaimedJob,
        settings: &QueueSettings,
        is_recovered: bool,
    ) -> Result<LoopOutcome, Error> {
        if is_recovered && folder.has_result(job) {
            folder.finish(job, true)?;
            return again(&format!("{} was done before", job.name));
        }
        let order = read_job(&folder.path_of(job), &job.name, &job.id, settings);
        let end = match order {
            Ok(order) => run_turn(order, job, is_recovered)?,
            Err(why) => JobEnd::Failed(why),
        };
        let result = match end {
            JobEnd::Later => return again("the host ends"),
            JobEnd::Report(report) => result_of(job, report),
            JobEnd::Failed(why) => JobResult {
                id: job.id.clone(),
                job: job.name.clone(),
                state: "failed".to_owned(),
                answer: why,
                ..JobResult::default()
            },
        };
        folder.put_result(job, &result)?;
        folder.finish(job, result.state == "done")?;
        store::remove(&job.id)?;
        let first = result.answer.trim().lines().next().unwrap_or_default();
        again(&format!("{} {}: {first}", job.name, result.state))
    }

    /// Runs the turn of a job. Its input has an id, so that the session takes it once: a turn that
    /// a crash cut off continues, and one that ended is not run again.
    fn run_turn(order: TurnOrder, job: &ClaimedJob, is_recovered: bool) -> Result<JobEnd, Error> {
        // Number of the try, which the id of the input has: one that the end of the host
        // interrupted has ended, and its id is taken.
        let mut n = store::get_json::<u32>(&job.id)?.unwrap_or(1);
        let (mut n_failed, mut is_known) = (0, is_recovered);
        loop {
            let order = order.clone().input_id(format!("{}.{n}", job.id));
            let why = match turns::run(&order) {
                Ok(report) if report.state != "cancelled" => return Ok(JobEnd::Report(report)),
                Ok(report) => {
                    n += 1;
                    store::set_json(&job.id, &n)?;
                    if is_over(Duration::ZERO)? {
                        return Ok(JobEnd::Later);
                    }
                    // Before the crash the end of the host may have interrupted it; else a person
                    // did just now.
                    if !std::mem::take(&mut is_known) {
                        return Ok(JobEnd::Report(report));
                    }
                    continue;
                }
                Err(Error::Limit(_)) => None,
                Err(Error::Failed(why)) => Some(why),
                // A mistake of the job, which another try does not mend.
                Err(error) => return Ok(JobEnd::Failed(error.message().to_owned())),
            };
            if let Some(why) = why {
                n_failed += 1;
                if n_failed >= MAX_TRIES {
                    return Ok(JobEnd::Failed(why));
                }
            }
            if is_over(RETRY)? {
                return Ok(JobEnd::Later);
            }
        }
    }

    /// Waits for a time. Returns whether the host ends.
    fn is_over(time: Duration) -> Result<bool, Error> {
        let until = WakeConditions::new().timeout(time);
        Ok(matches!(waiting::wait(&until)?, Wakeup::Shutdown))
    }

    fn result_of(job: &ClaimedJob, report: TurnReport) -> JobResult {
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

    fn again(reason: &str) -> Result<LoopOutcome, Error> {
        Ok(LoopOutcome::Again {
            after: Duration::from_millis(100),
            reason: reason.to_owned(),
        })
    }
}
