//! Starts all processes of Rind: runs a program with a deadline, limits on its output, and control
//! over its whole process tree.
//!
//! After a normal exit, the deadline, cancellation or the drop of the future, no descendant of the
//! program is left running. This crate must not depend on which program runs, nor why. Start from
//! [`Process`].

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
pub use capture::MAX_LINE_BYTES;
use capture::OutputLineSplitter;
pub use cgroup::CgroupParent;
use confine::{Confinement, HelperProcessCommand};
pub use detached::start_detached;
pub use environment::{base_environment, base_environment_with_variables};
use group::{ProcessTreeResources, RunningProcessTree};
pub use input_pipe::InputPipe;
pub use passed::VariablesToPass;
pub use watch::ExceededProcessLimit;
use watch::ProcessTreeMonitor;

/// Time for which background processes of an exited program may keep the program's output open
/// before they are stopped.
const LINGER: Duration = Duration::from_millis(100);

/// Time for which output is still read after the process tree has ended. After the end, only a
/// process that has escaped from the tree can keep the output open.
const LAST_READ: Duration = Duration::from_millis(500);

/// Output stream of a process. With [`OutputPipes::Merged`], all output counts as `Stdout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Pipes for standard output and standard error: one for both, or one for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputPipes {
    /// Pipe that both outputs share, which preserves their order. The text is kept as a terminal would
    /// show it at the end, without control sequences and overwritten lines.
    Merged,
    /// Each output has its own pipe.
    Separate,
}

/// Callback for each line of output, without the line break; lines over 1 MiB are passed in pieces.
/// It must not block.
pub type OnLine = Arc<dyn Fn(Stream, &str) + Send + Sync>;

/// Callback for the bytes of each output stream as they arrive. It must not block.
pub type OnBytes = Arc<dyn Fn(Stream, &[u8]) + Send + Sync>;

/// Program to run, in its own process group.
///
/// Set the fields, or start from [`Process::bare`], then call [`Process::run`]. The program
/// inherits neither environment variables nor descriptors of the host: everything it needs must be
/// in the fields.
#[derive(Clone)]
pub struct Process {
    /// Name or path of the program.
    pub program: OsString,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Complete environment: no other variables are passed. Usually [`base_environment`].
    pub env: Vec<(OsString, OsString)>,
    /// Path of a file or named pipe for standard input, which a confined program may also read;
    /// `None` means empty input.
    pub stdin: Option<PathBuf>,
    /// Maximum duration of the run.
    pub deadline: Duration,
    /// Whether standard output and standard error share a pipe.
    pub streams: OutputPipes,
    /// Maximum number of bytes that are kept of each output stream. Of longer output, the middle is
    /// dropped.
    pub capture_bytes: usize,
    /// Callback for each line of output, for example to show progress.
    pub on_line: Option<OnLine>,
    /// Callback for the bytes of output as they arrive, for callers that do not need lines.
    pub on_bytes: Option<OnBytes>,
    /// Confinement of the program and its descendants; `None` runs the program unconfined.
    pub confine: Option<Confinement>,
    /// Path of Rind's own binary, which runs as the keeper if the program is unconfined: the keeper
    /// reaps all descendants of the program, so that none escapes. If `None`, a descendant that
    /// leaves the process group and clears its environment cannot be found.
    pub keeper: Option<PathBuf>,
}

/// Reason why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnding {
    /// Exited by itself with this exit code.
    Exited(i32),
    /// Killed by a signal that Rind did not send.
    Signaled(i32),
    /// Stopped at its deadline.
    Deadline,
    /// Stopped because its call was cancelled.
    Cancelled,
    /// Stopped because it exceeded a limit.
    Exceeded(ExceededProcessLimit),
}

/// Outcome and output of a process that has ended, together with all its descendants.
#[derive(Debug)]
pub struct Finished {
    /// Reason why the process ended.
    pub ending: ProcessEnding,
    /// Standard output; with [`OutputPipes::Merged`], also standard error.
    pub stdout: CapturedOutput,
    /// Standard error; empty with [`OutputPipes::Merged`].
    pub stderr: CapturedOutput,
    /// Whether background processes of the program had to be stopped.
    pub stopped_background: bool,
}

/// Error about a process that could not be run.
#[derive(Debug, thiserror::Error)]
#[error("cannot run `{program}` in `{cwd}`: {source}")]
pub struct SpawnError {
    /// Name or path of the program.
    pub program: String,
    /// Working directory of the program.
    pub cwd: PathBuf,
    /// Error from the operating system.
    #[source]
    pub source: std::io::Error,
}

/// Timeout of a program started with [`Process::bare`]. Such a program takes milliseconds, but a
/// busy machine may need longer.
const BARE_DEADLINE: Duration = Duration::from_secs(30);

/// Maximum output in bytes of a program started with [`Process::bare`]: enough for an answer or an
/// error.
const BARE_CAPTURE_BYTES: usize = 16 << 10;

impl Process {
    /// Describes a program to run without arguments, environment, input or confinement. Use this
    /// only for a trusted program that answers quickly.
    #[must_use]
    pub fn bare(program: impl Into<OsString>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: Vec::new(),
            stdin: None,
            deadline: BARE_DEADLINE,
            streams: OutputPipes::Separate,
            capture_bytes: BARE_CAPTURE_BYTES,
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
    /// [`ProcessEnding`], not an error.
    pub async fn run(self, cancel: &CancellationToken) -> Result<Finished, SpawnError> {
        let failed = |source| SpawnError {
            program: self.program.to_string_lossy().into_owned(),
            cwd: self.cwd.clone(),
            source,
        };
        let wrapped = self.wrap_command().await.map_err(failed)?;
        let (mut running, out, err) = self.spawn(wrapped).map_err(failed)?;
        let watch = ProcessTreeMonitor::new(
            self.confine.as_ref(),
            running.keeper_pid(),
            running.temporary_folder(),
        )
        .await
        .map_err(failed)?;
        let mut stdout = match self.streams {
            OutputPipes::Merged => CapturedOutput::terminal_output_capture(self.capture_bytes),
            OutputPipes::Separate => CapturedOutput::new(self.capture_bytes),
        };
        let mut stderr = CapturedOutput::new(self.capture_bytes);
        let told = OutputCallbacks {
            on_line: self.on_line.as_ref(),
            on_bytes: self.on_bytes.as_ref(),
        };
        let (mut ending, ended_alone, stopped);
        {
            let mut reading = pin!(async {
                tokio::join!(
                    read_output_pipe(out, Stream::Stdout, &mut stdout, told),
                    read_output_pipe(err, Stream::Stderr, &mut stderr, told),
                )
            });
            let mut all_read = false;
            let mut exceeded = pin!(watch.find_exceeded_limit());
            let mut deadline = pin!(tokio::time::sleep(self.deadline));
            ending = loop {
                tokio::select! {
                    status = running.wait_for_program() => break ending_from_exit_status(status.map_err(failed)?),
                    _ = &mut reading, if !all_read => all_read = true,
                    () = cancel.cancelled() => break ProcessEnding::Cancelled,
                    () = &mut deadline => break ProcessEnding::Deadline,
                    limit = &mut exceeded => break ProcessEnding::Exceeded(limit),
                }
            };
            ended_alone = matches!(
                ending,
                ProcessEnding::Exited(_) | ProcessEnding::Signaled(_)
            );
            if ended_alone && ending != ProcessEnding::Exited(0) && running.ran_out_of_memory() {
                let most = self
                    .confine
                    .as_ref()
                    .map(|confine| confine.limits.memory_bytes);
                ending = most.map_or(ending, |most| {
                    ProcessEnding::Exceeded(ExceededProcessLimit::Memory(most))
                });
            }
            if ended_alone && !all_read {
                all_read = tokio::time::timeout(LINGER, &mut reading).await.is_ok();
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
                let _ = tokio::time::timeout(LAST_READ, &mut reading).await;
            }
        }
        stdout.flush_screen_at_output_end();
        Ok(Finished {
            stopped_background: stopped && ended_alone,
            ending,
            stdout,
            stderr,
        })
    }

    /// Returns the process to start: the program itself, or a helper that starts it. Blocking disk
    /// access runs on a blocking thread.
    async fn wrap_command(&self) -> std::io::Result<HelperProcessCommand> {
        let process = self.clone();
        let wrap = move || match (&process.confine, &process.keeper) {
            (Some(confinement), _) => confinement.wrap_in_confinement_helper(&process),
            (None, Some(keeper)) => confine::wrap_in_unconfined_helper(keeper, &process),
            (None, None) => Ok(HelperProcessCommand {
                program: process.program,
                args: process.args,
                env: process.env,
                kept: ProcessTreeResources::default(),
            }),
        };
        tokio::task::spawn_blocking(wrap).await?
    }

    /// Spawns the process on this thread. A blocking thread may exit early, and some programs are
    /// killed when the thread that started them exits.
    fn spawn(
        &self,
        wrapped: HelperProcessCommand,
    ) -> std::io::Result<(RunningProcessTree, PipeReader, Option<PipeReader>)> {
        let (out_reader, out_writer) = std::io::pipe()?;
        let (err_reader, err_writer) = match self.streams {
            OutputPipes::Merged => (None, out_writer.try_clone()?),
            OutputPipes::Separate => {
                let (reader, writer) = std::io::pipe()?;
                (Some(reader), writer)
            }
        };
        // Prevent the program from inheriting descriptors that this process inherited.
        confine::set_close_on_exec()?;
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

fn ending_from_exit_status(status: std::process::ExitStatus) -> ProcessEnding {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessEnding::Exited(code),
        (None, Some(signal)) => ProcessEnding::Signaled(signal),
        (None, None) => ProcessEnding::Exited(-1),
    }
}

/// Callbacks for the output of one process.
#[derive(Clone, Copy)]
struct OutputCallbacks<'a> {
    on_line: Option<&'a OnLine>,
    on_bytes: Option<&'a OnBytes>,
}

/// Reads a pipe to its end, and passes the output on. After a read error, the bytes read so far are
/// kept.
async fn read_output_pipe(
    reader: impl Into<Option<PipeReader>>,
    stream: Stream,
    captured: &mut CapturedOutput,
    told: OutputCallbacks<'_>,
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
        lines.finish_lines(|line| on_line(stream, line));
    }
}
