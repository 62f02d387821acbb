//! Reads Rust, WIT and components in a process of its own: what was written by strangers is parsed by libraries that follow every
//! nesting, and only a process can be stopped.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::super::super::worker::{INPUT, OUTPUT, Worker};
use crate::derive::rust::{self, CrateFiles, CrateOutline};
use crate::derive::wit::{self, WitFiles, WitOutline};

/// The hidden command of the process.
pub(in crate::cli) const OUTLINE_COMMAND: &str = "__outline";

/// The work, with its limits. The largest crates take a few seconds and some hundred MiB; the stack is many times what code that
/// somebody wrote takes.
const WORKER: Worker = Worker {
    command: OUTLINE_COMMAND,
    name: "reads packages",
    deadline: Duration::from_secs(120),
    max_cpu_seconds: 20,
    max_memory_bytes: 1 << 30,
    stack_bytes: 64 << 20,
};

#[derive(Serialize, Deserialize)]
enum Job {
    Crate(CrateFiles),
    Wit(WitFiles),
    /// Name of a component, and its bytes in base64.
    Component(String, String),
}

#[derive(Serialize, Deserialize)]
enum Outline {
    Crate(CrateOutline),
    Wit(WitOutline),
}

pub(super) async fn of_crate(files: CrateFiles) -> anyhow::Result<CrateOutline> {
    match run(&Job::Crate(files)).await? {
        Outline::Crate(outline) => Ok(outline),
        Outline::Wit(_) => Err(anyhow!(WORKER.no_answer())),
    }
}

pub(super) async fn of_wit(files: WitFiles) -> anyhow::Result<WitOutline> {
    of_any_wit(&Job::Wit(files)).await
}

pub(super) async fn of_component(name: &str, bytes: &[u8]) -> anyhow::Result<WitOutline> {
    of_any_wit(&Job::Component(name.to_owned(), STANDARD.encode(bytes))).await
}

async fn of_any_wit(job: &Job) -> anyhow::Result<WitOutline> {
    match run(job).await? {
        Outline::Wit(outline) => Ok(outline),
        Outline::Crate(_) => Err(anyhow!(WORKER.no_answer())),
    }
}

async fn run(job: &Job) -> anyhow::Result<Outline> {
    let program = std::env::current_exe().context("find this program")?;
    let input = serde_json::to_vec(job)?;
    let (text, finished) = WORKER
        .run(&program, &input, &CancellationToken::new())
        .await
        .map_err(|why| anyhow!(why))?;
    match serde_json::from_str::<Result<Outline, String>>(&text) {
        Ok(outcome) => outcome.map_err(|why| anyhow!(why)),
        Err(_) => Err(anyhow!(WORKER.reason(&finished))),
    }
}

/// The process, with what follows [`OUTLINE_COMMAND`].
///
/// # Errors
/// Why the work is not done, for standard error.
pub(in crate::cli) fn outline_main(args: impl Iterator<Item = OsString>) -> Result<(), String> {
    WORKER.main(args, work)
}

fn work(folder: &Path) -> std::io::Result<()> {
    let job: Job = serde_json::from_slice(&fs::read(folder.join(INPUT))?)?;
    let outcome = match job {
        Job::Crate(files) => rust::outline(&files).map(Outline::Crate),
        Job::Wit(files) => wit::package(&files).map(Outline::Wit),
        Job::Component(name, bytes) => STANDARD
            .decode(bytes)
            .map_err(|error| error.to_string())
            .and_then(|bytes| wit::component(&name, &bytes))
            .map(Outline::Wit),
    };
    fs::write(folder.join(OUTPUT), serde_json::to_vec(&outcome)?)
}
