//! Parses and renders templates in a process of its own, which has limits of memory, stack and time.
//!
//! Templates come from strangers, and a library that is handed one cannot be stopped: only a process can. It gets its jobs in a
//! private folder, leaves a line there for each that is done, and may touch nothing else. Start from [`Helper`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::language::{self, Fault};
use crate::tool::process::confine::{
    cap_memory_and_time, confine_this_process, end_with_parent, hide_process,
};
use crate::tool::process::{Ending, Finished, Process};

/// The hidden command of the process.
pub(in crate::cli) const TEMPLATE_COMMAND: &str = "__template";

/// Deadline of one process: the limit where the kernel has none for processor time. Long, for a machine that is busy.
const DEADLINE: Duration = Duration::from_secs(30);

/// Processor time of one process, in seconds. Templates for people take milliseconds.
const MAX_CPU_SECONDS: u64 = 2;

/// Memory of one process, in bytes: many times what the fuel of a template pays for.
const MAX_MEMORY_BYTES: u64 = 256 << 20;

/// Stack for one template, in bytes: several times what the deepest nesting takes that the parser allows.
const STACK_BYTES: usize = 16 << 20;

/// Processes that may end early while templates are checked; whatever is left then is not checked.
const MAX_ENDED: usize = 3;

/// Longest result that is read, in bytes.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// Names of the files in the private folder.
const INPUT: &str = "jobs.json";
const OUTPUT: &str = "done.jsonl";

/// Reason why a template was not parsed or rendered.
#[derive(Debug)]
pub(super) enum Refusal {
    /// A fault at a place in the template.
    Fault(Fault),
    /// The process was stopped, or could not run.
    Ended(String),
}

/// Parses and renders templates.
pub(super) enum Helper {
    /// A program that knows [`TEMPLATE_COMMAND`]: Rind's own.
    Program(PathBuf),
    /// This process, without limits.
    #[cfg(test)]
    Here,
}

/// A template, to be rendered with these arguments; without any, the names that it uses are returned.
#[derive(Serialize, Deserialize)]
struct Job<'a> {
    source: Cow<'a, str>,
    arguments: Option<Cow<'a, Value>>,
}

#[derive(Serialize, Deserialize)]
enum Done {
    Names(BTreeSet<String>),
    Text(String),
}

impl Job<'_> {
    fn run(&self) -> Result<Done, Fault> {
        match &self.arguments {
            Some(arguments) => language::render(&self.source, arguments).map(Done::Text),
            None => language::names(&self.source).map(Done::Names),
        }
    }
}

impl Helper {
    /// Returns the names that each template uses and does not set.
    pub(super) async fn names(&self, sources: &[&str]) -> Vec<Result<BTreeSet<String>, Refusal>> {
        let mut names = Vec::new();
        let mut n_ended = 0;
        while names.len() < sources.len() {
            let left = sources.iter().skip(names.len());
            if n_ended == MAX_ENDED {
                let why = "not checked: other templates ended the process that checks them";
                names.extend(left.map(|_| Err(Refusal::Ended(why.to_owned()))));
                break;
            }
            let jobs = left.map(|source| Job {
                source: Cow::Borrowed(*source),
                arguments: None,
            });
            let none = CancellationToken::new();
            let (done, ended) = match self.run(jobs.collect(), &none).await {
                Ok(ran) => ran,
                // It is no fault of a template, and the next process would not start either.
                Err(why) => {
                    let left = sources.iter().skip(names.len());
                    names.extend(left.map(|_| Err(Refusal::Ended(why.clone()))));
                    break;
                }
            };
            names.extend(done.into_iter().map(|done| match done {
                Ok(Done::Names(names)) => Ok(names),
                Ok(Done::Text(_)) => Err(Refusal::Ended(MISFIT.to_owned())),
                Err(fault) => Err(Refusal::Fault(fault)),
            }));
            if let Some(why) = ended {
                names.push(Err(Refusal::Ended(why)));
                n_ended += 1;
            }
        }
        names
    }

    /// Renders a template, until `cancel` is set.
    pub(super) async fn render(
        &self,
        source: &str,
        arguments: &Value,
        cancel: &CancellationToken,
    ) -> Result<String, Refusal> {
        let job = Job {
            source: Cow::Borrowed(source),
            arguments: Some(Cow::Borrowed(arguments)),
        };
        let (done, ended) = self.run(vec![job], cancel).await.map_err(Refusal::Ended)?;
        match (done.into_iter().next(), ended) {
            (Some(Ok(Done::Text(text))), _) => Ok(text),
            (Some(Err(fault)), _) => Err(Refusal::Fault(fault)),
            (_, Some(why)) => Err(Refusal::Ended(why)),
            (Some(Ok(Done::Names(_))) | None, None) => Err(Refusal::Ended(MISFIT.to_owned())),
        }
    }

    /// Does jobs in their order. Unless all are done, the reason why the first of the others is not.
    ///
    /// # Errors
    /// Why there is no process that does any.
    async fn run(
        &self,
        jobs: Vec<Job<'_>>,
        cancel: &CancellationToken,
    ) -> Result<(Vec<Result<Done, Fault>>, Option<String>), String> {
        match self {
            Self::Program(program) => {
                let ran = in_process(program, &jobs, cancel).await;
                let (done, finished) = ran.map_err(|why| {
                    format!("{why}; if rind was replaced while it ran, start it again")
                })?;
                let left = (done.len() < jobs.len()).then(|| reason(&finished));
                Ok((done, left))
            }
            #[cfg(test)]
            Self::Here => Ok((jobs.iter().map(Job::run).collect(), None)),
        }
    }
}

/// Reason for an answer that does not fit the job.
const MISFIT: &str = "the process that renders templates gave no answer";

async fn in_process(
    program: &Path,
    jobs: &[Job<'_>],
    cancel: &CancellationToken,
) -> Result<(Vec<Result<Done, Fault>>, Finished), String> {
    let failed =
        |error: std::io::Error| format!("cannot prepare the rendering of templates: {error}");
    let private = tempfile::Builder::new()
        .prefix("rind-template-")
        .tempdir()
        .map_err(failed)?;
    let jobs = serde_json::to_vec(jobs).map_err(|error| failed(error.into()))?;
    fs::write(private.path().join(INPUT), jobs).map_err(failed)?;
    let args: Vec<OsString> = vec![TEMPLATE_COMMAND.into(), private.path().into()];
    let finished = Process {
        args,
        // The allocator of the binary would otherwise take a gigabyte that it does not use, and the limit counts it.
        env: vec![("MIMALLOC_ARENA_EAGER_COMMIT".into(), "0".into())],
        deadline: DEADLINE,
        ..Process::bare(program, private.path())
    }
    .run(cancel)
    .await
    .map_err(|error| error.to_string())?;
    let mut text = String::new();
    if let Ok(output) = File::open(private.path().join(OUTPUT)) {
        // A line that was cut is no answer.
        let _ = output.take(MAX_OUTPUT_BYTES).read_to_string(&mut text);
    }
    let done = text
        .lines()
        .map_while(|line| serde_json::from_str(line).ok());
    Ok((done.collect(), finished))
}

/// Returns why a process has not done all of its jobs.
fn reason(finished: &Finished) -> String {
    let said = finished.stderr.text();
    let said = said.trim().trim_start_matches("rind: ");
    match finished.ending {
        Ending::Cancelled => "it was interrupted".to_owned(),
        Ending::Deadline => format!("it takes more than {} s", DEADLINE.as_secs()),
        _ if said.contains("memory allocation of") => {
            format!(
                "it takes more than {} MiB of memory",
                MAX_MEMORY_BYTES >> 20
            )
        }
        _ if said.contains("overflowed its stack") => {
            "an expression or a value in it is nested too deeply".to_owned()
        }
        // At the limit of the kernel: SIGKILL, or SIGXCPU where a lower limit was inherited.
        Ending::Signaled(9 | 24) => {
            format!("it takes more than {MAX_CPU_SECONDS} s of processor time")
        }
        ending if said.is_empty() => format!("{MISFIT}: {ending:?}"),
        _ => format!("{MISFIT}: {said}"),
    }
}

/// The process, with what follows [`TEMPLATE_COMMAND`]: the private folder. It must be alone in its process.
///
/// # Errors
/// Why not all jobs are done, for standard error.
pub(in crate::cli) fn template_main(
    mut args: impl Iterator<Item = OsString>,
) -> Result<(), String> {
    let folder = PathBuf::from(args.next().unwrap_or_default());
    end_with_parent();
    cap_memory_and_time(MAX_MEMORY_BYTES, MAX_CPU_SECONDS)
        .map_err(|e| format!("resource limits: {e}"))?;
    // Where the kernel cannot do it the library still is what it was: safe Rust that was handed text. `rind doctor` says it.
    let _ = confine_this_process(&folder);
    // What a hostile template ends leaves no dump.
    hide_process();
    // On a thread: the stack of this one has the size that somebody set for the shell.
    let work = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(move || work(&folder).map_err(|e| e.to_string()))
        .map_err(|e| format!("cannot start a thread: {e}"))?;
    work.join().map_err(|_| "internal error".to_owned())?
}

fn work(folder: &Path) -> std::io::Result<()> {
    let jobs = fs::read(folder.join(INPUT))?;
    let jobs: Vec<Job> = serde_json::from_slice(&jobs)?;
    let mut output = File::create(folder.join(OUTPUT))?;
    for job in &jobs {
        let mut line = serde_json::to_vec(&job.run())?;
        line.push(b'\n');
        output.write_all(&line)?;
    }
    Ok(())
}
