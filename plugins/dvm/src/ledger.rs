//! Stores jobs in the plugin's store. Each job is in one of three states, even after a crash: to
//! do, answered (but no relay has accepted the answer yet), or done.

use rind_sdk::types::Error;
use rind_sdk::{data, store};

use crate::event::NostrEvent;

/// Maximum number of jobs that wait to be run.
pub(crate) const MAX_WAITING_JOBS: usize = 100;

/// Maximum number of done jobs that are remembered.
const MAX_REMEMBERED_DONE_JOBS: usize = 5_000;

/// Age of a request, in seconds, from which the plugin ignores it. The plugin can forget done jobs
/// whose requests are older.
pub(crate) const MAX_REQUEST_AGE_SECONDS: u64 = 86_400;

/// Maximum time, in seconds, by which the time of a request may be in the future.
pub(crate) const MAX_REQUEST_TIME_AHEAD_SECONDS: u64 = 900;

/// Keys of the store. The first four are prefixes that are followed by the id of the request.
const TODO_JOB_KEY_PREFIX: &str = "todo.";
const ANSWERED_JOB_KEY_PREFIX: &str = "answer.";
const JOB_WITH_PUBLISHED_ANSWER_KEY_PREFIX: &str = "done.";
const JOB_TRIES_KEY_PREFIX: &str = "tries.";
const OLDEST_ACCEPTED_REQUEST_TIME_KEY: &str = "floor";
const HOURLY_JOB_COUNT_KEY: &str = "hour";

/// Answer of a job: the events that are published.
#[data]
pub(crate) struct JobAnswer {
    pub(crate) events: Vec<NostrEvent>,
    /// Time of the request, in seconds since 1970.
    pub(crate) created_at: u64,
}

fn job_state_key(state: &str, id: &str) -> String {
    format!("{state}{id}")
}

/// Whether a job for this request is stored, in any state.
pub(crate) fn is_job_known(id: &str) -> Result<bool, Error> {
    for state in [
        TODO_JOB_KEY_PREFIX,
        ANSWERED_JOB_KEY_PREFIX,
        JOB_WITH_PUBLISHED_ANSWER_KEY_PREFIX,
    ] {
        if store::get(&job_state_key(state, id))?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the time, in seconds since 1970, before which requests are ignored: their jobs may have
/// been done and forgotten.
pub(crate) fn oldest_accepted_request_time(now: u64) -> Result<u64, Error> {
    let floor = store::get_json::<u64>(OLDEST_ACCEPTED_REQUEST_TIME_KEY)?.unwrap_or(0);
    Ok(floor.max(now.saturating_sub(MAX_REQUEST_AGE_SECONDS)))
}

/// Stores a customer's request as a job to do. Returns false if too many jobs are waiting.
pub(crate) fn add_job(job: &NostrEvent) -> Result<bool, Error> {
    if store::keys(TODO_JOB_KEY_PREFIX)?.len() >= MAX_WAITING_JOBS {
        return Ok(false);
    }
    store::set_json(&job_state_key(TODO_JOB_KEY_PREFIX, &job.id), job)?;
    Ok(true)
}

/// Returns the requests of the jobs to do, the oldest first.
pub(crate) fn requests_to_process() -> Result<Vec<NostrEvent>, Error> {
    let mut jobs = Vec::new();
    for own in store::keys(TODO_JOB_KEY_PREFIX)? {
        jobs.extend(store::get_json::<NostrEvent>(&own)?);
    }
    jobs.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    Ok(jobs)
}

/// Stores the answer of a job before the answer is published.
pub(crate) fn store_answer(job: &NostrEvent, answer: &JobAnswer) -> Result<(), Error> {
    store::set_json(&job_state_key(ANSWERED_JOB_KEY_PREFIX, &job.id), answer)?;
    store::remove(&job_state_key(TODO_JOB_KEY_PREFIX, &job.id))
}

/// Returns the answers that no relay has accepted yet, with the ids of their requests.
pub(crate) fn unpublished_answers() -> Result<Vec<(String, JobAnswer)>, Error> {
    let mut answers = Vec::new();
    for own in store::keys(ANSWERED_JOB_KEY_PREFIX)? {
        let id = own.trim_start_matches(ANSWERED_JOB_KEY_PREFIX).to_owned();
        // After a crash, a request may still be recorded as a job to do although its answer is
        // stored.
        store::remove(&job_state_key(TODO_JOB_KEY_PREFIX, &id))?;
        answers.extend(store::get_json::<JobAnswer>(&own)?.map(|answer| (id, answer)));
    }
    Ok(answers)
}

/// Counts a job toward this hour's limit. Returns false if the limit is reached.
pub(crate) fn count_job_toward_limit(now: u64, limit: u32) -> Result<bool, Error> {
    let (mut hour, mut n) =
        store::get_json::<(u64, u32)>(HOURLY_JOB_COUNT_KEY)?.unwrap_or_default();
    if hour != now / 3600 {
        (hour, n) = (now / 3600, 0);
    }
    if n >= limit {
        return Ok(false);
    }
    store::set_json(HOURLY_JOB_COUNT_KEY, &(hour, n + 1))?;
    Ok(true)
}

/// Returns the number of times that the turn of a job was interrupted.
pub(crate) fn interruption_count(id: &str) -> Result<u32, Error> {
    Ok(store::get_json(&job_state_key(JOB_TRIES_KEY_PREFIX, id))?.unwrap_or(0))
}

/// Stores the number of times that the turn of a job was interrupted.
pub(crate) fn store_turn_interruption_count(id: &str, n: u32) -> Result<(), Error> {
    store::set_json(&job_state_key(JOB_TRIES_KEY_PREFIX, id), &n)
}

/// Marks a job as done, after a relay accepted its answer.
pub(crate) fn mark_job_done(id: &str, created_at: u64) -> Result<(), Error> {
    store::set_json(
        &job_state_key(JOB_WITH_PUBLISHED_ANSWER_KEY_PREFIX, id),
        &created_at,
    )?;
    store::remove(&job_state_key(JOB_TRIES_KEY_PREFIX, id))?;
    store::remove(&job_state_key(ANSWERED_JOB_KEY_PREFIX, id))
}

/// Forgets done jobs whose requests are too old to be accepted again. If too many done jobs remain,
/// forgets the oldest of them too, and requests as old as these are ignored from now on.
pub(crate) fn forget_old_jobs(now: u64) -> Result<(), Error> {
    let mut done = Vec::new();
    for own in store::keys(JOB_WITH_PUBLISHED_ANSWER_KEY_PREFIX)? {
        done.push((store::get_json::<u64>(&own)?.unwrap_or(0), own));
    }
    done.sort();
    let n_over = done.len().saturating_sub(MAX_REMEMBERED_DONE_JOBS);
    let oldest = now.saturating_sub(MAX_REQUEST_AGE_SECONDS);
    if let Some((created_at, _)) = n_over.checked_sub(1).and_then(|last| done.get(last)) {
        store::set_json(OLDEST_ACCEPTED_REQUEST_TIME_KEY, &(created_at + 1))?;
    }
    for (at, (created_at, own)) in done.iter().enumerate() {
        if at < n_over || *created_at < oldest {
            store::remove(own)?;
        }
    }
    Ok(())
}
