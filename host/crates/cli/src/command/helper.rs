//! Parses and renders templates in a separate process, with limits on memory, stack and time.
//!
//! Templates are untrusted. The process reads its jobs from a private folder, and writes a line
//! there for each finished job. Start from [`TemplateRenderBackend`].

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

use super::super::worker::{WORKER_INPUT_FILE_NAME, WORKER_OUTPUT_FILE_NAME, WorkerProcessSpec};
use super::language::{self, TemplateFault};
use rind_lib::tool::process::FinishedProcess;

/// Hidden subcommand that starts the process in which templates are parsed and rendered.
pub(crate) const TEMPLATE_RENDERER_SUBCOMMAND: &str = "__template";

/// Limits of the process that renders templates. An ordinary template takes milliseconds and little
/// memory, far less than its fuel would let it allocate. The stack is several times as large as the
/// deepest nesting of the parser needs.
const TEMPLATE_WORKER_LIMITS: WorkerProcessSpec = WorkerProcessSpec {
    command: TEMPLATE_RENDERER_SUBCOMMAND,
    name: "renders templates",
    deadline: Duration::from_secs(30),
    max_cpu_seconds: 2,
    max_memory_bytes: 256 << 20,
    stack_bytes: 16 << 20,
};

/// Maximum number of processes that may die while templates are checked. After that, the remaining
/// templates are not checked.
const MAX_TEMPLATE_RENDERER_CRASHES: usize = 3;

/// Reason why a template of a slash command was not parsed or rendered.
#[derive(Debug)]
pub(super) enum TemplateRenderError {
    Fault(TemplateFault),
    /// The worker process was killed or could not be started, with the reason.
    Ended(String),
}

/// Way in which templates of slash commands are parsed and rendered.
pub(super) enum TemplateRenderBackend {
    /// Path of a program that understands [`TEMPLATE_RENDERER_SUBCOMMAND`], normally Rind's own
    /// binary.
    Program(PathBuf),
    /// Renderer in this process, without limits, for tests.
    #[cfg(test)]
    Here,
}

/// Job of the helper process: a template to render with `arguments`. Without arguments, the process
/// only returns the variables that the template uses.
#[derive(Serialize, Deserialize)]
struct TemplateRenderRequest<'a> {
    source: Cow<'a, str>,
    arguments: Option<Cow<'a, Value>>,
}

#[derive(Serialize, Deserialize)]
enum TemplateResult {
    Names(BTreeSet<String>),
    Text(String),
}

impl TemplateRenderRequest<'_> {
    fn run(&self) -> Result<TemplateResult, TemplateFault> {
        match &self.arguments {
            Some(arguments) => {
                language::render_template(&self.source, arguments).map(TemplateResult::Text)
            }
            None => language::find_undeclared_variables(&self.source).map(TemplateResult::Names),
        }
    }
}

impl TemplateRenderBackend {
    /// Returns for each template the variables that it uses but does not set.
    pub(super) async fn find_undeclared_template_variables(
        &self,
        sources: &[&str],
    ) -> Vec<Result<BTreeSet<String>, TemplateRenderError>> {
        let mut names = Vec::new();
        let mut n_ended = 0;
        while names.len() < sources.len() {
            let left = sources.iter().skip(names.len());
            if n_ended == MAX_TEMPLATE_RENDERER_CRASHES {
                let why = "not checked: other templates ended the process that checks them";
                names.extend(left.map(|_| Err(TemplateRenderError::Ended(why.to_owned()))));
                break;
            }
            let jobs = left.map(|source| TemplateRenderRequest {
                source: Cow::Borrowed(*source),
                arguments: None,
            });
            let none = CancellationToken::new();
            let (done, ended) = match self
                .render_templates_in_sandbox(jobs.collect(), &none)
                .await
            {
                Ok(ran) => ran,
                // The process could not be started. This is no fault of a template, and another
                // process would fail to start too.
                Err(why) => {
                    let left = sources.iter().skip(names.len());
                    names.extend(left.map(|_| Err(TemplateRenderError::Ended(why.clone()))));
                    break;
                }
            };
            names.extend(done.into_iter().map(|done| match done {
                Ok(TemplateResult::Names(names)) => Ok(names),
                Ok(TemplateResult::Text(_)) => Err(TemplateRenderError::Ended(
                    TEMPLATE_WORKER_LIMITS.missing_worker_answer_error(),
                )),
                Err(fault) => Err(TemplateRenderError::Fault(fault)),
            }));
            if let Some(why) = ended {
                names.push(Err(TemplateRenderError::Ended(why)));
                n_ended += 1;
            }
        }
        names
    }

    /// Renders the template of a slash command; stops when `cancel` is set.
    pub(super) async fn render_template(
        &self,
        source: &str,
        arguments: &Value,
        cancel: &CancellationToken,
    ) -> Result<String, TemplateRenderError> {
        let job = TemplateRenderRequest {
            source: Cow::Borrowed(source),
            arguments: Some(Cow::Borrowed(arguments)),
        };
        let (done, ended) = self
            .render_templates_in_sandbox(vec![job], cancel)
            .await
            .map_err(TemplateRenderError::Ended)?;
        match (done.into_iter().next(), ended) {
            (Some(Ok(TemplateResult::Text(text))), _) => Ok(text),
            (Some(Err(fault)), _) => Err(TemplateRenderError::Fault(fault)),
            (_, Some(why)) => Err(TemplateRenderError::Ended(why)),
            (Some(Ok(TemplateResult::Names(_))) | None, None) => Err(TemplateRenderError::Ended(
                TEMPLATE_WORKER_LIMITS.missing_worker_answer_error(),
            )),
        }
    }

    /// Runs the jobs in order. Returns the results of the finished jobs and, if some are missing,
    /// the reason why the first of these did not finish.
    ///
    /// # Errors
    /// The reason why the process could not be started.
    async fn render_templates_in_sandbox(
        &self,
        jobs: Vec<TemplateRenderRequest<'_>>,
        cancel: &CancellationToken,
    ) -> Result<(Vec<Result<TemplateResult, TemplateFault>>, Option<String>), String> {
        match self {
            Self::Program(program) => {
                let ran = run_jobs_in_helper_process(program, &jobs, cancel).await;
                let (done, finished) = ran.map_err(|why| {
                    format!("{why}; if rind was replaced while it ran, start it again")
                })?;
                let left = (done.len() < jobs.len())
                    .then(|| TEMPLATE_WORKER_LIMITS.incomplete_worker_output_reason(&finished));
                Ok((done, left))
            }
            #[cfg(test)]
            Self::Here => Ok((jobs.iter().map(TemplateRenderRequest::run).collect(), None)),
        }
    }
}

async fn run_jobs_in_helper_process(
    program: &Path,
    jobs: &[TemplateRenderRequest<'_>],
    cancel: &CancellationToken,
) -> Result<(Vec<Result<TemplateResult, TemplateFault>>, FinishedProcess), String> {
    let jobs = serde_json::to_vec(jobs).map_err(|error| error.to_string())?;
    let (text, finished) = TEMPLATE_WORKER_LIMITS
        .run_worker(program, &jobs, cancel)
        .await?;
    // If the process died while it wrote a line, that last line is incomplete: ignore it.
    let done = text
        .lines()
        .map_while(|line| serde_json::from_str(line).ok());
    Ok((done.collect(), finished))
}

/// Runs as the main function of the process that renders templates. `args` are the arguments after
/// [`TEMPLATE_RENDERER_SUBCOMMAND`].
///
/// # Errors
/// The reason why not all jobs were done, which the caller prints to standard error.
pub(crate) fn template_helper_process_main(
    args: impl Iterator<Item = OsString>,
) -> Result<(), String> {
    TEMPLATE_WORKER_LIMITS.run_worker_entry_point(args, process_render_requests)
}

fn process_render_requests(folder: &Path) -> std::io::Result<()> {
    let jobs = fs::read(folder.join(WORKER_INPUT_FILE_NAME))?;
    let jobs: Vec<TemplateRenderRequest> = serde_json::from_slice(&jobs)?;
    let mut output = File::create(folder.join(WORKER_OUTPUT_FILE_NAME))?;
    for job in &jobs {
        let mut line = serde_json::to_vec(&job.run())?;
        line.push(b'\n');
        output.write_all(&line)?;
    }
    Ok(())
}
