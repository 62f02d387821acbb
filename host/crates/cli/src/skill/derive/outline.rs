//! Parses Rust, WIT and components, and renders their skills, in a separate process. The parsers
//! recurse without limit on untrusted input, and unlike a thread, a process can be killed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio_util::sync::CancellationToken;

use super::super::super::worker::{INPUT, OUTPUT, WorkerProcessSpec};
use rind_derive::{DeriveJob, DeriveJobResult};

/// Hidden subcommand that starts the worker process.
pub(crate) const OUTLINE_COMMAND: &str = "__outline";

/// Worker process with its limits. The largest crates need a few seconds and some hundred MiB; the
/// stack is many times what real code needs.
const WORKER: WorkerProcessSpec = WorkerProcessSpec {
    command: OUTLINE_COMMAND,
    name: "reads packages",
    deadline: Duration::from_secs(120),
    max_cpu_seconds: 20,
    max_memory_bytes: 1 << 30,
    stack_bytes: 64 << 20,
};

/// Runs a job in the worker process.
pub(super) async fn run_derive_job(job: &DeriveJob) -> anyhow::Result<DeriveJobResult> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let input = serde_json::to_vec(job)?;
    let (text, finished) = WORKER
        .run_worker(&program, &input, &CancellationToken::new())
        .await
        .map_err(|why| anyhow!(why))?;
    match serde_json::from_str::<Result<DeriveJobResult, String>>(&text) {
        Ok(outcome) => outcome.map_err(|why| anyhow!(why)),
        Err(_) => Err(anyhow!(WORKER.end_reason(&finished))),
    }
}

/// Main function of the worker process, with the arguments after [`OUTLINE_COMMAND`].
///
/// # Errors
/// The reason why the job was not done, to be printed to standard error.
pub(crate) fn run_outline_process(args: impl Iterator<Item = OsString>) -> Result<(), String> {
    WORKER.main(args, run_derive_worker)
}

fn run_derive_worker(folder: &Path) -> std::io::Result<()> {
    let job: DeriveJob = serde_json::from_slice(&fs::read(folder.join(INPUT))?)?;
    fs::write(folder.join(OUTPUT), serde_json::to_vec(&job.run_job())?)
}
