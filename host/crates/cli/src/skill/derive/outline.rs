//! Parses Rust, WIT and components, and renders their skills, in a separate process. The parsers
//! recurse without limit on untrusted input, and unlike a thread, a process can be killed.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use tokio_util::sync::CancellationToken;

use super::super::super::worker::{
    WORKER_INPUT_FILE_NAME, WORKER_OUTPUT_FILE_NAME, WorkerProcessSpec,
};
use rind_derive::{DeriveJobResult, SkillDeriveJob};

/// Hidden subcommand that starts the worker process for deriving skills.
pub(crate) const OUTLINE_WORKER_SUBCOMMAND: &str = "__outline";

/// Worker process with its limits. The largest crates need a few seconds and some hundred MiB; the
/// stack is many times what real code needs.
const SKILL_DERIVE_WORKER_PROCESS_SPEC: WorkerProcessSpec = WorkerProcessSpec {
    command: OUTLINE_WORKER_SUBCOMMAND,
    name: "reads packages",
    deadline: Duration::from_secs(120),
    max_cpu_seconds: 20,
    max_memory_bytes: 1 << 30,
    stack_bytes: 64 << 20,
};

/// Runs a job that derives a skill in a separate worker process.
pub(super) async fn run_derive_job_in_worker_process(
    job: &SkillDeriveJob,
) -> anyhow::Result<DeriveJobResult> {
    let program = std::env::current_exe().context("cannot find the path of this program")?;
    let input = serde_json::to_vec(job)?;
    let (text, finished) = SKILL_DERIVE_WORKER_PROCESS_SPEC
        .run_worker(&program, &input, &CancellationToken::new())
        .await
        .map_err(|why| anyhow!(why))?;
    match serde_json::from_str::<Result<DeriveJobResult, String>>(&text) {
        Ok(outcome) => outcome.map_err(|why| anyhow!(why)),
        Err(_) => Err(anyhow!(
            SKILL_DERIVE_WORKER_PROCESS_SPEC.incomplete_worker_output_reason(&finished)
        )),
    }
}

/// Main function of the worker process, with the arguments after [`OUTLINE_WORKER_SUBCOMMAND`].
///
/// # Errors
/// The reason why the job was not done, to be printed to standard error.
pub(crate) fn skill_derive_worker_main(args: impl Iterator<Item = OsString>) -> Result<(), String> {
    SKILL_DERIVE_WORKER_PROCESS_SPEC.run_worker_entry_point(args, run_skill_derive_job_in_folder)
}

fn run_skill_derive_job_in_folder(folder: &Path) -> std::io::Result<()> {
    let job: SkillDeriveJob =
        serde_json::from_slice(&fs::read(folder.join(WORKER_INPUT_FILE_NAME))?)?;
    fs::write(
        folder.join(WORKER_OUTPUT_FILE_NAME),
        serde_json::to_vec(&job.run_job())?,
    )
}
