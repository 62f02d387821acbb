//! Parses and renders templates in a process of its own, with limits on memory, stack and time.
//!
//! Templates are untrusted. The process reads its jobs from a private folder, and writes a line
//! there for each finished job. Start from [`TemplateHelper`].

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::super::worker::{INPUT, OUTPUT, WorkerKind};
use super::language::{self, TemplateFault};
use rind_lib::tool::process::Finished;

/// The hidden command of the process.
pub(crate) const TEMPLATE_COMMAND: &str = "__template";

/// The work, with its limits. Ordinary templates take milliseconds, and a small part of the memory
/// that their fuel could allocate; the stack is several times the need of the deepest nesting that
/// the parser allows.
const WORKER: WorkerKind = WorkerKind {
    command: TEMPLATE_COMMAND,
    name: "renders templates",
    deadline: Duration::from_secs(30),
    max_cpu_seconds: 2,
    max_memory_bytes: 256 << 20,
    stack_bytes: 16 << 20,
};

/// Maximum number of processes that may die while templates are checked; the remaining templates
/// are not checked.
const MAX_ENDED: usize = 3;

/// Reason why a template was not parsed or rendered.
#[derive(Debug)]
pub(super) enum TemplateRefusal {
    Fault(TemplateFault),
    /// The process was stopped, or could not run.
    Ended(String),
}

/// Parses and renders templates.
pub(super) enum TemplateHelper {
    /// A program that knows [`TEMPLATE_COMMAND`]: Rind's own.
    Program(PathBuf),
    /// This process, without limits.
    #[cfg(test)]
    Here,
}

/// A template, to be rendered with these arguments; without any, the names that it uses are
/// returned.
#[derive(Serialize, Deserialize)]
struct TemplateJob<'a> {
    source: Cow<'a, str>,
    arguments: Option<Cow<'a, Value>>,
}

#[derive(Serialize, Deserialize)]
enum TemplateResult {
    Names(BTreeSet<String>),
    Text(String),
}

impl TemplateJob<'_> {
    fn run(&self) -> Result<TemplateResult, TemplateFault> {
        match &self.arguments {
            Some(arguments) => {
                language::render_template(&self.source, arguments).map(TemplateResult::Text)
            }
            None => language::template_names(&self.source).map(TemplateResult::Names),
        }
    }
}

impl TemplateHelper {
    /// Returns the names that each template uses and does not set.
    pub(super) async fn find_names(
        &self,
        sources: &[&str],
    ) -> Vec<Result<BTreeSet<String>, TemplateRefusal>> {
        let mut names = Vec::new();
        let mut n_ended = 0;
        while names.len() < sources.len() {
            let left = sources.iter().skip(names.len());
            if n_ended == MAX_ENDED {
                let why = "not checked: other templates ended the process that checks them";
                names.extend(left.map(|_| Err(TemplateRefusal::Ended(why.to_owned()))));
                break;
            }
            let jobs = left.map(|source| TemplateJob {
                source: Cow::Borrowed(*source),
                arguments: None,
            });
            let none = CancellationToken::new();
            let (done, ended) = match self.run_jobs(jobs.collect(), &none).await {
                Ok(ran) => ran,
                // The failure to start is no fault of a template, and the next process would fail
                // in the same way.
                Err(why) => {
                    let left = sources.iter().skip(names.len());
                    names.extend(left.map(|_| Err(TemplateRefusal::Ended(why.clone()))));
                    break;
                }
            };
            names.extend(done.into_iter().map(|done| match done {
                Ok(TemplateResult::Names(names)) => Ok(names),
                Ok(TemplateResult::Text(_)) => Err(TemplateRefusal::Ended(WORKER.no_answer())),
                Err(fault) => Err(TemplateRefusal::Fault(fault)),
            }));
            if let Some(why) = ended {
                names.push(Err(TemplateRefusal::Ended(why)));
                n_ended += 1;
            }
        }
        names
    }

    /// Renders a template, until `cancel` is set.
    pub(super) async fn render_template(
        &self,
        source: &str,
        arguments: &Value,
        cancel: &CancellationToken,
    ) -> Result<String, TemplateRefusal> {
        let job = TemplateJob {
            source: Cow::Borrowed(source),
            arguments: Some(Cow::Borrowed(arguments)),
        };
        let (done, ended) = self
            .run_jobs(vec![job], cancel)
            .await
            .map_err(TemplateRefusal::Ended)?;
        match (done.into_iter().next(), ended) {
            (Some(Ok(TemplateResult::Text(text))), _) => Ok(text),
            (Some(Err(fault)), _) => Err(TemplateRefusal::Fault(fault)),
            (_, Some(why)) => Err(TemplateRefusal::Ended(why)),
            (Some(Ok(TemplateResult::Names(_))) | None, None) => {
                Err(TemplateRefusal::Ended(WORKER.no_answer()))
            }
        }
    }

    /// Does jobs in their order. Unless all are done, the reason why the first of the others is
    /// not.
    ///
    /// # Errors
    /// Why there is no process that does any.
    async fn run_jobs(
        &self,
        jobs: Vec<TemplateJob<'_>>,
        cancel: &CancellationToken,
    ) -> Result<(Vec<Result<TemplateResult, TemplateFault>>, Option<String>), String> {
        match self {
            Self::Program(program) => {
                let ran = in_process(program, &jobs, cancel).await;
                let (done, finished) = ran.map_err(|why| {
                    format!("{why}; if rind was replaced while it ran, start it again")
                })?;
                let left = (done.len() < jobs.len()).then(|| WORKER.end_reason(&finished));
                Ok((done, left))
            }
            #[cfg(test)]
            Self::Here => Ok((jobs.iter().map(TemplateJob::run).collect(), None)),
        }
    }
}

async fn in_process(
    program: &Path,
    jobs: &[TemplateJob<'_>],
    cancel: &CancellationToken,
) -> Result<(Vec<Result<TemplateResult, TemplateFault>>, Finished), String> {
    let jobs = serde_json::to_vec(jobs).map_err(|error| error.to_string())?;
    let (text, finished) = WORKER.run_worker(program, &jobs, cancel).await?;
    // Ignore a truncated line.
    let done = text
        .lines()
        .map_while(|line| serde_json::from_str(line).ok());
    Ok((done.collect(), finished))
}

/// Main function of the process, with the arguments that follow [`TEMPLATE_COMMAND`].
///
/// # Errors
/// Why not all jobs are done, for standard error.
pub(crate) fn template_main(args: impl Iterator<Item = OsString>) -> Result<(), String> {
    WORKER.main(args, work_as_helper)
}

fn work_as_helper(folder: &Path) -> std::io::Result<()> {
    let jobs = fs::read(folder.join(INPUT))?;
    let jobs: Vec<TemplateJob> = serde_json::from_slice(&jobs)?;
    let mut output = File::create(folder.join(OUTPUT))?;
    for job in &jobs {
        let mut line = serde_json::to_vec(&job.run())?;
        line.push(b'\n');
        output.write_all(&line)?;
    }
    Ok(())
}
