//! Starts all processes of Rind: runs a program with a deadline, limits on its output, and control
//! over its whole process tree.
//!
//! After a normal exit, the deadline, cancellation or the drop of the future, no descendant of the
//! program is left running. This crate must not depend on which program runs, nor why. Start from
//! [`ProcessSpec`].

// Other systems have no confinement, and no list of processes.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, unused_imports))]

mod capture;
mod cgroup;
pub mod confine;
mod detached;
mod environment;
pub mod foreground;
mod group;
mod input_pipe;
mod passed;
mod screen;
mod tree;
mod watch;

use std::ffi::OsString;
use std::io::PipeReader;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio_util::sync::CancellationToken;

pub use capture::CapturedOutput;
pub use capture::MAX_UNSPLIT_OUTPUT_LINE_BYTES;
use capture::OutputLineSplitter;
pub use cgroup::ParentCgroup;
use confine::{ConfinementHelperCommand, ConfinementPermissions};
pub use detached::start_detached_program;
pub use environment::{base_environment, base_environment_with_variables};
use group::{ProcessTreeOwnedResources, RunningProcessTree};
pub use input_pipe::InputNamedPipe;
pub use passed::VariablesToPass;
pub use watch::ExceededProcessLimit;
use watch::ProcessTreeLimitMonitor;

/// Time for which background processes of an exited program may keep the program's output open
/// before they are stopped.
const BACKGROUND_OUTPUT_GRACE_PERIOD: Duration = Duration::from_millis(100);

/// Time for which output is still read after the process tree has ended. After the end, only a
/// process that has escaped from the tree can keep the output open.
const FINAL_OUTPUT_READ_TIMEOUT: Duration = Duration::from_millis(500);

/// Output stream of a process. With [`OutputPipeMode::Merged`], all output counts as `Stdout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessOutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Pipes for standard output and standard error: one for both, or one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPipeMode {
    /// Pipe that both outputs share, which preserves their order. The text is kept as a terminal would
    /// show it at the end, without control sequences and overwritten lines.
    Merged,
    /// Standard output and standard error have a pipe each.
    Separate,
}

/// Callback for each line of output, without the line break; lines over 1 MiB are passed in pieces.
/// It must not block.
pub type OutputLineCallback = Arc<dyn Fn(ProcessOutputStream, &str) + Send + Sync>;

/// Callback for the bytes of each output stream as they arrive. It must not block.
pub type OutputBytesCallback = Arc<dyn Fn(ProcessOutputStream, &[u8]) + Send + Sync>;

/// Program to run, in its own process group.
///
/// Set the fields, or start from [`ProcessSpec::new_unconfined`], then call [`ProcessSpec::run`].
/// The program inherits neither environment variables nor descriptors of the host: everything it
/// needs must be in the fields.
#[derive(Clone)]
pub struct ProcessSpec {
    /// Name or path of the program to start.
    pub program: OsString,
    /// Arguments of the program, without its name.
    pub args: Vec<OsString>,
    /// Working directory in which the program starts.
    pub cwd: PathBuf,
    /// Complete environment: no other variables are passed. Usually [`base_environment`].
    pub env: Vec<(OsString, OsString)>,
    /// Path of a file or named pipe for standard input, which a confined program may also read;
    /// `None` means empty input.
    pub stdin: Option<PathBuf>,
    /// Maximum duration of the run, after which the process is stopped.
    pub deadline: Duration,
    /// Whether standard output and standard error share a pipe.
    pub streams: OutputPipeMode,
    /// Maximum number of bytes that are kept of each output stream. Of longer output, the middle is
    /// dropped.
    pub capture_bytes: usize,
    /// Callback for each line of output, for example to show progress.
    pub on_line: Option<OutputLineCallback>,
    /// Callback for the bytes of output as they arrive, for callers that do not need lines.
    pub on_bytes: Option<OutputBytesCallback>,
    /// Confinement of the program and its descendants; `None` runs the program unconfined.
    pub confine: Option<ConfinementPermissions>,
    /// Path of Rind's own binary, which runs as the keeper if the program is unconfined: the keeper
    /// reaps all descendants of the program, so that none escapes. If `None`, a descendant that
    /// leaves the process group and clears its environment cannot be found.
    pub keeper: Option<PathBuf>,
}

/// Reason why a process ended: by itself or because it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEndReason {
    /// Exited by itself with this exit code.
    Exited(i32),
    /// Killed by a signal that Rind did not send.
    Signaled(i32),
    /// Stopped because it was still running at its deadline.
    Deadline,
    /// Stopped because its call was cancelled.
    Cancelled,
    /// Stopped because the process tree exceeded this limit.
    Exceeded(ExceededProcessLimit),
}

/// Outcome and output of a process that has ended, together with all its descendants.
#[derive(Debug)]
pub struct FinishedProcess {
    /// Reason why the process ended: by itself or because it was stopped.
    pub ending: ProcessEndReason,
    /// Standard output; with [`OutputPipeMode::Merged`], also standard error.
    pub stdout: CapturedOutput,
    /// Standard error; empty with [`OutputPipeMode::Merged`].
    pub stderr: CapturedOutput,
    /// Whether background processes of the program had to be stopped.
    pub stopped_background: bool,
}

/// Error of the operating system because of which a process could not be run.
#[derive(Debug, thiserror::Error)]
#[error("cannot run `{program}` in `{cwd}`: {source}")]
pub struct ProcessRunError {
    /// Name or path of the program that could not be run.
    pub program: String,
    /// Working directory in which the program was to start.
    pub cwd: PathBuf,
    /// Error that the operating system reported.
    #[source]
    pub source: std::io::Error,
}

/// Timeout of a program started with [`ProcessSpec::new_unconfined`]. Such a program takes
/// milliseconds, but a busy machine may need longer.
const UNCONFINED_PROCESS_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum output in bytes of a program started with [`ProcessSpec::new_unconfined`]: enough for an
/// answer or an error.
const MAX_UNCONFINED_PROCESS_OUTPUT_BYTES: usize = 16 << 10;

impl ProcessSpec {
    /// Describes a program to run without arguments, environment, input or confinement. Use this
    /// only for a trusted program that answers quickly.
    #[must_use]
    pub fn new_unconfined(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: Vec::new(),
            stdin: None,
            deadline: UNCONFINED_PROCESS_TIMEOUT,
            streams: OutputPipeMode::Separate,
            capture_bytes: MAX_UNCONFINED_PROCESS_OUTPUT_BYTES,
            on_line: None,
            on_bytes: None,
            confine: None,
            keeper: None,
        }
    }

    /// Runs the program until its whole process tree has ended. At the deadline, on `cancel`, or
    /// when this future is dropped, the tree gets SIGTERM, and SIGKILL two seconds later, or
    /// earlier if the tree keeps starting processes.
    ///
    /// # Errors
    /// The program could not be started or waited for. A program that fails is a
    /// [`ProcessEndReason`], not an error.
    pub async fn run(self, cancel: &CancellationToken) -> Result<FinishedProcess, ProcessRunError> {
        let failed = |source| ProcessRunError {
            program: self.program.to_string_lossy().into_owned(),
            cwd: self.cwd.clone(),
            source,
        };
        let wrapped = self.wrap_in_helper_command().await.map_err(failed)?;
        let (mut running, out, err) = self.spawn(wrapped).map_err(failed)?;
        let watch = ProcessTreeLimitMonitor::new(
            self.confine.as_ref(),
            running.reaper_pid(),
            running.temporary_folder(),
        )
        .await
        .map_err(failed)?;
        let mut stdout = match self.streams {
            OutputPipeMode::Merged => CapturedOutput::with_terminal_emulation(self.capture_bytes),
            OutputPipeMode::Separate => CapturedOutput::new(self.capture_bytes),
        };
        let mut stderr = CapturedOutput::new(self.capture_bytes);
        let told = ProcessOutputCallbacks {
            on_line: self.on_line.as_ref(),
            on_bytes: self.on_bytes.as_ref(),
        };
        let (mut ending, ended_alone, stopped);
        {
            let mut reading = pin!(async {
                tokio::join!(
                    read_output_pipe(out, ProcessOutputStream::Stdout, &mut stdout, told),
                    read_output_pipe(err, ProcessOutputStream::Stderr, &mut stderr, told),
                )
            });
            let mut all_read = false;
            let mut exceeded = pin!(watch.find_exceeded_limit());
            let mut deadline = pin!(tokio::time::sleep(self.deadline));
            ending = loop {
                tokio::select! {
                    status = running.wait_for_program() => break ending_from_exit_status(status.map_err(failed)?),
                    _ = &mut reading, if !all_read => all_read = true,
                    () = cancel.cancelled() => break ProcessEndReason::Cancelled,
                    () = &mut deadline => break ProcessEndReason::Deadline,
                    limit = &mut exceeded => break ProcessEndReason::Exceeded(limit),
                }
            };
            ended_alone = matches!(
                ending,
                ProcessEndReason::Exited(_) | ProcessEndReason::Signaled(_)
            );
            if ended_alone && ending != ProcessEndReason::Exited(0) && running.ran_out_of_memory() {
                let most = self
                    .confine
                    .as_ref()
                    .map(|confine| confine.limits.memory_bytes);
                ending = most.map_or(ending, |most| {
                    ProcessEndReason::Exceeded(ExceededProcessLimit::Memory(most))
                });
            }
            if ended_alone && !all_read {
                all_read = tokio::time::timeout(BACKGROUND_OUTPUT_GRACE_PERIOD, &mut reading)
                    .await
                    .is_ok();
            }
            // Keep reading while the tree is stopped: a process that blocks on a full pipe could
            // not exit.
            let mut stopping = pin!(running.stop_tree(ended_alone));
            stopped = loop {
                tokio::select! {
                    stopped = &mut stopping => break stopped,
                    _ = &mut reading, if !all_read => all_read = true,
                }
            };
            if !all_read {
                let _ = tokio::time::timeout(FINAL_OUTPUT_READ_TIMEOUT, &mut reading).await;
            }
        }
        stdout.flush_terminal_screen();
        Ok(FinishedProcess {
            stopped_background: stopped && ended_alone,
            ending,
            stdout,
            stderr,
        })
    }

    /// Returns the process to start: the program itself, or a helper that starts it. Blocking disk
    /// access runs on a blocking thread.
    async fn wrap_in_helper_command(&self) -> std::io::Result<ConfinementHelperCommand> {
        let process = self.clone();
        let wrap = move || match (&process.confine, &process.keeper) {
            (Some(confinement), _) => confinement.wrap_in_confinement_helper(&process),
            (None, Some(keeper)) => confine::wrap_in_helper_without_confinement(keeper, &process),
            (None, None) => Ok(ConfinementHelperCommand {
                program: process.program,
                args: process.args,
                env: process.env,
                kept: ProcessTreeOwnedResources::default(),
            }),
        };
        tokio::task::spawn_blocking(wrap).await?
    }

    /// Spawns the process on this thread. A blocking thread may exit early, and some programs are
    /// killed when the thread that started them exits.
    fn spawn(
        &self,
        wrapped: ConfinementHelperCommand,
    ) -> std::io::Result<(RunningProcessTree, PipeReader, Option<PipeReader>)> {
        let (out_reader, out_writer) = std::io::pipe()?;
        let (err_reader, err_writer) = match self.streams {
            OutputPipeMode::Merged => (None, out_writer.try_clone()?),
            OutputPipeMode::Separate => {
                let (reader, writer) = std::io::pipe()?;
                (Some(reader), writer)
            }
        };
        // Prevent the program from inheriting descriptors that this process inherited.
        confine::set_close_on_exec_on_all_fds()?;
        let stdin = match &self.stdin {
            // The standard input of a helper is its socket to the host. The helper opens this file
            // for the program.
            Some(path) if self.confine.is_none() && self.keeper.is_none() => {
                std::fs::File::open(path)?.into()
            }
            _ => Stdio::null(),
        };
        // `command` owns this process's copies of the write ends of the pipes. It is dropped on
        // return: with open copies, reading the pipes would never end.
        let mut command = tokio::process::Command::new(wrapped.program);
        command
            .args(wrapped.args)
            .current_dir(&self.cwd)
            .env_clear()
            .envs(wrapped.env)
            .stdin(stdin)
            .stdout(out_writer)
            .stderr(err_writer);
        Ok((
            RunningProcessTree::spawn_process_tree(command, wrapped.kept)?,
            out_reader,
            err_reader,
        ))
    }
}

fn ending_from_exit_status(status: std::process::ExitStatus) -> ProcessEndReason {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessEndReason::Exited(code),
        (None, Some(signal)) => ProcessEndReason::Signaled(signal),
        (None, None) => ProcessEndReason::Exited(-1),
    }
}

/// Callbacks that receive the output of one process while it runs.
#[derive(Clone, Copy)]
struct ProcessOutputCallbacks<'a> {
    on_line: Option<&'a OutputLineCallback>,
    on_bytes: Option<&'a OutputBytesCallback>,
}

/// Reads a pipe to its end, and passes the output on. After a read error, the bytes read so far are
/// kept.
async fn read_output_pipe(
    reader: impl Into<Option<PipeReader>>,
    stream: ProcessOutputStream,
    captured: &mut CapturedOutput,
    told: ProcessOutputCallbacks<'_>,
) {
    let Some(Ok(mut receiver)) = reader
        .into()
        .map(|reader| Receiver::from_owned_fd(reader.into()))
    else {
        return;
    };
    let mut lines = OutputLineSplitter::default();
    let mut buffer = vec![0_u8; 16 * 1024];
    while let Ok(count @ 1..) = receiver.read(&mut buffer).await {
        captured.push(&buffer[..count]);
        if let Some(on_bytes) = told.on_bytes {
            on_bytes(stream, &buffer[..count]);
        }
        if let Some(on_line) = told.on_line {
            lines.push(&buffer[..count], |line| on_line(stream, line));
        }
    }
    if let Some(on_line) = told.on_line {
        lines.flush_last_line(|line| on_line(stream, line));
    }
}
