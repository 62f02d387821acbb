//! Manages the folder of the queue. Jobs and results are moved only by renames, so a crash leaves
//! each job in exactly one folder.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rind_sdk::data;
use rind_sdk::serde_json::{self, Value};

use crate::job::{RESULT_FILE_NAME_SUFFIX, is_job_name, job_stem};

/// State of a job that succeeded, and name of the subfolder for such jobs.
pub(crate) const DONE_JOBS_FOLDER_NAME: &str = "done";

/// Name of the subfolder for claimed jobs.
const CLAIMED_JOBS_FOLDER_NAME: &str = "claimed";

/// Maximum number of entries that are read from a folder.
const MAX_FOLDER_ENTRIES_READ: usize = 10_000;

/// Folder of the queue, with its subfolders.
pub(crate) struct QueueFolder {
    root: PathBuf,
}

/// A job that was claimed: its file is in the subfolder for claimed jobs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClaimedJob {
    /// Id under which the job was claimed.
    pub(crate) id: String,
    /// Original name of the job's file.
    pub(crate) name: String,
}

/// Result of a job, as stored in its result file.
#[data]
#[derive(Default)]
pub(crate) struct JobResult {
    pub(crate) id: String,
    pub(crate) job: String,
    pub(crate) state: String,
    pub(crate) answer: String,
    pub(crate) session: String,
    pub(crate) turn: u32,
    pub(crate) steps: u32,
    pub(crate) tool_calls: u32,
    pub(crate) cost_usd: f64,
    pub(crate) unpriced_tokens: u64,
}

impl QueueFolder {
    /// Opens the queue, and creates its subfolders.
    pub(crate) fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        for name in [CLAIMED_JOBS_FOLDER_NAME, DONE_JOBS_FOLDER_NAME, "failed"] {
            fs::create_dir_all(root.join(name))?;
        }
        Ok(Self { root })
    }

    /// Returns the claimed jobs that are not finished, in the order of their ids.
    pub(crate) fn list_claimed_jobs(&self) -> io::Result<Vec<ClaimedJob>> {
        let mut jobs = Vec::new();
        for entry in
            fs::read_dir(self.root.join(CLAIMED_JOBS_FOLDER_NAME))?.take(MAX_FOLDER_ENTRIES_READ)
        {
            let name = entry?.file_name();
            // Skip results that are still being written: their names contain no `~`.
            let parts = name.to_str().and_then(|name| name.split_once('~'));
            jobs.extend(parts.map(|(id, name)| ClaimedJob {
                id: id.to_owned(),
                name: name.to_owned(),
            }));
        }
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(jobs)
    }

    /// Returns the name of the first job whose file has not changed for `settle`. The inner `Err`
    /// means that there is none: it contains the time until a file is old enough, or `None` if
    /// there are no jobs.
    pub(crate) fn find_next_ready_job(
        &self,
        settle: Duration,
    ) -> io::Result<Result<String, Option<Duration>>> {
        let now = SystemTime::now();
        let (mut first, mut left): (Option<String>, Option<Duration>) = (None, None);
        for entry in fs::read_dir(&self.root)?.take(MAX_FOLDER_ENTRIES_READ) {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if !is_job_name(&name) {
                continue;
            }
            // The job may have been removed in the meantime.
            let Ok(metadata) = fs::symlink_metadata(entry.path()) else {
                continue;
            };
            let age = metadata.modified().map_or(settle, |changed| {
                now.duration_since(changed).unwrap_or(Duration::ZERO)
            });
            let wait = settle.saturating_sub(age);
            match wait.is_zero() {
                true => first = first.into_iter().chain([name]).min(),
                false => left = left.into_iter().chain([wait]).min(),
            }
        }
        Ok(first.ok_or(left))
    }

    /// Claims a job under an id. Returns `None` if its file no longer exists.
    pub(crate) fn claim_job(&self, name: &str, id: &str) -> io::Result<Option<ClaimedJob>> {
        let job = ClaimedJob {
            id: id.to_owned(),
            name: name.to_owned(),
        };
        match fs::rename(self.root.join(name), self.claimed_job_path(&job)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            renamed => renamed.map(|()| Some(job)),
        }
    }

    /// Returns the path of a claimed job's file.
    pub(crate) fn claimed_job_path(&self, job: &ClaimedJob) -> PathBuf {
        let name = format!("{}~{}", job.id, job.name);
        self.root.join(CLAIMED_JOBS_FOLDER_NAME).join(name)
    }

    /// Returns the state in a claimed job's result, if an earlier run has already written the
    /// result.
    pub(crate) fn existing_result_state(&self, job: &ClaimedJob) -> Option<String> {
        self.result_file_names(job)
            .iter()
            .find_map(|name| read_result_state(&self.root.join(name), &job.id))
    }

    /// Writes the result of a claimed job atomically into the folder.
    pub(crate) fn write_result(&self, job: &ClaimedJob, result: &JobResult) -> io::Result<()> {
        let [own, other] = self.result_file_names(job);
        let is_free = fs::symlink_metadata(self.root.join(&own)).is_err();
        let name = if is_free { own } else { other };
        let text = serde_json::to_vec_pretty(result).map_err(io::Error::other)?;
        let draft = self
            .root
            .join(CLAIMED_JOBS_FOLDER_NAME)
            .join(format!("{}.result", job.id));
        let mut file = File::create(&draft)?;
        file.write_all(&text)?;
        file.sync_all()?;
        drop(file);
        fs::rename(draft, self.root.join(name))
    }

    /// Moves a claimed job with a result to `done` or `failed`.
    pub(crate) fn move_finished_job(&self, job: &ClaimedJob, is_done: bool) -> io::Result<()> {
        let to = self.root.join(if is_done {
            DONE_JOBS_FOLDER_NAME
        } else {
            "failed"
        });
        fs::rename(
            self.claimed_job_path(job),
            to.join(format!("{}~{}", job.id, job.name)),
        )
    }

    /// Returns the two possible file names of a job's result. The second is used if a file with the
    /// first one already exists.
    fn result_file_names(&self, job: &ClaimedJob) -> [String; 2] {
        let stem = job_stem(&job.name);
        [
            format!("{stem}{RESULT_FILE_NAME_SUFFIX}"),
            format!("{stem}.{}{RESULT_FILE_NAME_SUFFIX}", job.id),
        ]
    }
}

/// Returns the state in a file, if the file is the result of the job with this id.
fn read_result_state(path: &Path, id: &str) -> Option<String> {
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let text = is_file.then(|| fs::read(path).ok()).flatten()?;
    let value: Value = serde_json::from_slice(&text).ok()?;
    (value["id"] == id).then(|| value["state"].as_str().unwrap_or_default().to_owned())
}
