//! The folder of the queue. Every change of it is a rename, so a crash leaves each job in exactly
//! one place.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rind_sdk::data;
use rind_sdk::serde_json::{self, Value};

use crate::job::{RESULT_END, is_job_name, stem};

/// Folder of jobs that were claimed.
const CLAIMED: &str = "claimed";

/// Maximum number of jobs that are listed at once.
const MAX_LISTED: usize = 10_000;

/// Folders of the queue.
pub(crate) struct QueueFolder {
    root: PathBuf,
}

/// A job that was claimed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ClaimedJob {
    /// Id that it was claimed under.
    pub(crate) id: String,
    /// Name that its file had.
    pub(crate) name: String,
}

/// Result of a job.
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
    /// Opens the queue, and makes its folders.
    pub(crate) fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        for name in [CLAIMED, "done", "failed"] {
            fs::create_dir_all(root.join(name))?;
        }
        Ok(Self { root })
    }

    /// Returns the jobs that were claimed and have no end yet, in the order of their ids.
    pub(crate) fn claimed(&self) -> io::Result<Vec<ClaimedJob>> {
        let mut jobs = Vec::new();
        for entry in fs::read_dir(self.root.join(CLAIMED))?.take(MAX_LISTED) {
            let name = entry?.file_name();
            // Results that are not in place yet have no `~`.
            let parts = name.to_str().and_then(|name| name.split_once('~'));
            jobs.extend(parts.map(|(id, name)| ClaimedJob {
                id: id.to_owned(),
                name: name.to_owned(),
            }));
        }
        jobs.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(jobs)
    }

    /// Returns the name of the first job that has not changed for a while, or else the time after
    /// which one may be taken.
    pub(crate) fn first_job(
        &self,
        settle: Duration,
    ) -> io::Result<Result<String, Option<Duration>>> {
        let now = SystemTime::now();
        let (mut first, mut left): (Option<String>, Option<Duration>) = (None, None);
        for entry in fs::read_dir(&self.root)?.take(MAX_LISTED) {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if !is_job_name(&name) {
                continue;
            }
            // A job that was removed meanwhile is skipped.
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

    /// Claims a job under an id. `None` if it is gone.
    pub(crate) fn claim(&self, name: &str, id: &str) -> io::Result<Option<ClaimedJob>> {
        let job = ClaimedJob {
            id: id.to_owned(),
            name: name.to_owned(),
        };
        match fs::rename(self.root.join(name), self.path_of(&job)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            renamed => renamed.map(|()| Some(job)),
        }
    }

    /// Returns the place of a claimed job.
    pub(crate) fn path_of(&self, job: &ClaimedJob) -> PathBuf {
        let name = format!("{}~{}", job.id, job.name);
        self.root.join(CLAIMED).join(name)
    }

    /// Whether the result of a claimed job is in place.
    pub(crate) fn has_result(&self, job: &ClaimedJob) -> bool {
        self.names_of_result(job)
            .iter()
            .any(|name| is_result_of(&self.root.join(name), &job.id))
    }

    /// Puts the result of a claimed job in place.
    pub(crate) fn put_result(&self, job: &ClaimedJob, result: &JobResult) -> io::Result<()> {
        let [own, other] = self.names_of_result(job);
        let is_free = fs::symlink_metadata(self.root.join(&own)).is_err();
        let name = if is_free { own } else { other };
        let text = serde_json::to_vec_pretty(result).map_err(io::Error::other)?;
        let draft = self.root.join(CLAIMED).join(format!("{}.result", job.id));
        let mut file = File::create(&draft)?;
        file.write_all(&text)?;
        file.sync_all()?;
        drop(file);
        fs::rename(draft, self.root.join(name))
    }

    /// Moves a job whose result is in place to `done` or `failed`.
    pub(crate) fn finish(&self, job: &ClaimedJob, is_done: bool) -> io::Result<()> {
        let to = self.root.join(if is_done { "done" } else { "failed" });
        fs::rename(
            self.path_of(job),
            to.join(format!("{}~{}", job.id, job.name)),
        )
    }

    /// Names that the result of a job may have: the second where the first is taken.
    fn names_of_result(&self, job: &ClaimedJob) -> [String; 2] {
        let stem = stem(&job.name);
        [
            format!("{stem}{RESULT_END}"),
            format!("{stem}.{}{RESULT_END}", job.id),
        ]
    }
}

/// Whether a file is the result of the job with this id.
fn is_result_of(path: &Path, id: &str) -> bool {
    let is_file = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file());
    let text = is_file.then(|| fs::read(path).ok()).flatten();
    let value = text.and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    value.is_some_and(|value| value["id"] == id)
}
