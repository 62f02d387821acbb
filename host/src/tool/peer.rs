//! Starts a program that keeps running and exchanges lines with the host, such as an MCP server
//! over standard input and output.
//!
//! The program is confined by the same mechanism as the commands of `bash`, but with directories,
//! network access and environment of its own. Lines and output are bounded while they are read, so
//! that a peer cannot exhaust memory. This module must not interpret the lines. Start from
//! [`PeerProcessSpec::start`].

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::sync::mpsc::{self, Receiver};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::builtin::{CommandConfinementAndEnvironment, ProcessConfinementSettings};
use super::process::{
    InputNamedPipe, OutputBytesCallback, OutputPipeMode, ProcessEndReason, ProcessOutputStream,
    ProcessSpec,
};
use crate::lock::lock_ignoring_poison;
use crate::secret::SecretScanner;
use crate::text::escape_and_truncate_line;

/// Maximum length of a line that a peer may write, in bytes. A result with an encoded image fits.
pub const MAX_PEER_LINE_BYTES: usize = 16 << 20;

/// Maximum number of bytes that a peer may write before the host sends it another line. Also the
/// maximum total size, in bytes, of the lines that the host sends and the peer has not read.
const MAX_UNSOLICITED_PEER_BYTES: usize = 4 * MAX_PEER_LINE_BYTES;

/// Maximum number of lines of a peer that the host has not read yet.
const MAX_BUFFERED_PEER_PROCESS_LINES: usize = 1024;

/// Number of bytes of standard error that are kept for the message about the end of a peer.
const KEPT_PEER_STDERR_BYTES: usize = 4096;

/// Maximum number of bytes of a peer's standard error in the message that the peer has ended. A
/// peer is a program that keeps running and exchanges lines with the host.
const MAX_DISPLAYED_PEER_STDERR_BYTES: usize = 400;

/// Maximum number of lines of standard error that are logged for one process.
const MAX_LOGGED_STDERR_LINES: usize = 200;

/// Maximum length of a logged line, in bytes.
const MAX_LOGGED_STDERR_LINE_BYTES: usize = 500;

/// Deadline of a peer's process. It is longer than any session, so that it is never reached.
const NEVER_REACHED_PROCESS_DEADLINE: Duration = Duration::from_secs(365 * 24 * 3600);

/// Time to wait for the report about the end of a process after its output has ended.
const EXIT_REPORT_WAIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Prefix of the temporary directories for the standard input of peers.
const PEER_PROCESS_PIPE_FOLDER_PREFIX: &str = "rind-peer-";

/// A program that keeps running, and its permissions.
#[derive(Clone)]
pub struct PeerProcessSpec {
    /// Name of the program for messages and the log.
    pub name: String,
    /// Program to start, followed by its arguments.
    pub command: Vec<OsString>,
    /// Working directory of the program.
    pub cwd: PathBuf,
    /// Complete environment of the program.
    pub env: Vec<(OsString, OsString)>,
    /// Directories and files that the program may read.
    pub read: Vec<PathBuf>,
    /// Directories and files that the program may also change. Each must exist.
    pub write: Vec<PathBuf>,
    /// Whether the program may open network connections.
    pub network: bool,
    /// Memory limit of the peer. If `None`, the limit for commands applies.
    pub memory: Option<PeerProcessMemoryLimit>,
    /// Settings of commands, which determine the mechanism of the confinement.
    pub commands: CommandConfinementAndEnvironment,
}

/// Memory limit of one peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerProcessMemoryLimit {
    /// Maximum memory of all processes of the peer together, in bytes.
    pub bytes: u64,
    /// Section of the settings that sets this memory limit, for the message about a peer that
    /// exceeded it.
    pub section: String,
}

// The environment may hold secrets.
impl_partial_debug!(
    PeerProcessSpec,
    self,
    name = self.name,
    command = self.command
);

/// A running peer. It is stopped when [`Self::stop`] is dropped.
pub struct PeerProcess {
    /// Standard input of the peer.
    pub input: PeerProcessStdin,
    /// Lines that the peer writes, without line breaks.
    pub output: Receiver<Vec<u8>>,
    /// Watch that reports the reason for the end of the peer.
    pub end: PeerProcessEndWatch,
    /// Guard that stops the peer when it is dropped.
    pub stop: PeerProcessStopper,
}

/// Guard that stops a peer and all its descendants when it is dropped.
#[derive(Debug)]
pub struct PeerProcessStopper {
    _guard: DropGuard,
}

/// Standard input of a peer. Cheap to clone.
#[derive(Clone)]
pub struct PeerProcessStdin {
    pipe: Arc<AsyncMutex<Sender>>,
    output: Arc<Mutex<PeerProcessOutputState>>,
}

impl_partial_debug!(
    PeerProcessStdin,
    self,
    is_stopped = lock_ignoring_poison(&self.output).stopped.is_some()
);

impl PeerProcessStdin {
    /// Writes one line, which must contain no line break.
    ///
    /// # Errors
    /// The peer has ended, or too many lines already wait for the peer to read them.
    pub async fn write_line(&self, mut line: Vec<u8>) -> std::io::Result<()> {
        line.push(b'\n');
        let _waiting = UnreadPeerStdinLine::reserve_unread_bytes(&self.output, line.len())?;
        self.pipe.lock().await.write_all(&line).await?;
        // Reset the count of the peer's output only after the line is written: the peer cannot
        // answer a line that it has not received.
        lock_ignoring_poison(&self.output).n_unasked = 0;
        Ok(())
    }
}

/// A line to the peer that the peer has not read. Until this value is dropped, the length of the
/// line counts toward the limit on unread lines.
struct UnreadPeerStdinLine<'a> {
    output: &'a Mutex<PeerProcessOutputState>,
    n_bytes: usize,
}

impl<'a> UnreadPeerStdinLine<'a> {
    /// Counts the bytes of a line as unread; fails if too many bytes are unread. Without this
    /// limit, a peer that sends requests and never reads the answers would fill the memory.
    fn reserve_unread_bytes(
        output: &'a Mutex<PeerProcessOutputState>,
        n_bytes: usize,
    ) -> std::io::Result<Self> {
        let mut counted = lock_ignoring_poison(output);
        let n_waiting = counted.n_waiting.saturating_add(n_bytes);
        if counted.n_waiting > 0 && n_waiting > MAX_UNSOLICITED_PEER_BYTES {
            return Err(std::io::Error::other(
                "it does not read the messages that it is sent",
            ));
        }
        counted.n_waiting = n_waiting;
        Ok(Self { output, n_bytes })
    }
}

impl Drop for UnreadPeerStdinLine<'_> {
    fn drop(&mut self) {
        let mut counted = lock_ignoring_poison(self.output);
        counted.n_waiting = counted.n_waiting.saturating_sub(self.n_bytes);
    }
}

/// Handle that stops a peer and reports the reason for the peer's end. Cheap to clone.
#[derive(Clone, Debug)]
pub struct PeerProcessEndWatch {
    cancel: CancellationToken,
    output: Arc<Mutex<PeerProcessOutputState>>,
    ended: watch::Receiver<Option<String>>,
}

impl PeerProcessEndWatch {
    /// Stops the peer for the reason `why`. If it is stopped already, the earlier reason is kept.
    pub fn stop_process_with_reason(&self, why: &str) {
        lock_ignoring_poison(&self.output)
            .stopped
            .get_or_insert_with(|| why.to_owned());
        self.cancel.cancel();
    }

    /// Waits for the end of a peer that no longer writes, and returns the reason, worded as the
    /// predicate of a sentence that begins with "it".
    pub async fn wait_for_end_reason(&self) -> String {
        let mut ended = self.ended.clone();
        let told = ended.wait_for(Option::is_some);
        let how = match tokio::time::timeout(EXIT_REPORT_WAIT_TIMEOUT, told).await {
            Ok(Ok(how)) => how.clone(),
            _ => None,
        };
        let output = lock_ignoring_poison(&self.output);
        let what = match (&output.stopped, how) {
            (Some(why), _) => why.clone(),
            (None, Some(how)) => how,
            (None, None) => "was stopped".to_owned(),
        };
        match output.masked_stderr_line() {
            errors if errors.is_empty() => what,
            errors => format!("{what}: {errors}"),
        }
    }
}

/// Output of a peer that is being read, and counts of the bytes exchanged with the peer.
struct PeerProcessOutputState {
    name: String,
    partial: Vec<u8>,
    /// Number of bytes that the peer wrote since the host last sent it a line.
    n_unasked: usize,
    /// Total size, in bytes, of the lines to the peer that the peer has not read.
    n_waiting: usize,
    lines: Option<mpsc::Sender<Vec<u8>>>,
    /// Reason why the host stops the peer.
    stopped: Option<String>,
    errors: Vec<u8>,
    n_logged: usize,
    error_partial: Vec<u8>,
}

impl_partial_debug!(
    PeerProcessOutputState,
    self,
    name = self.name,
    stopped = self.stopped
);

impl PeerProcessOutputState {
    fn new(name: &str, lines: mpsc::Sender<Vec<u8>>) -> Self {
        Self {
            name: name.to_owned(),
            partial: Vec::new(),
            n_unasked: 0,
            n_waiting: 0,
            lines: Some(lines),
            stopped: None,
            errors: Vec::new(),
            n_logged: 0,
            error_partial: Vec::new(),
        }
    }

    /// Processes output of the peer. Returns an error with the reason if the peer must be stopped.
    fn process_output(&mut self, stream: ProcessOutputStream, bytes: &[u8]) -> Result<(), String> {
        self.n_unasked = self.n_unasked.saturating_add(bytes.len());
        if self.n_unasked > MAX_UNSOLICITED_PEER_BYTES {
            return Err(format!(
                "was stopped: it wrote more than {} MiB for one message",
                MAX_UNSOLICITED_PEER_BYTES >> 20
            ));
        }
        match stream {
            ProcessOutputStream::Stdout => self.queue_stdout_lines(bytes),
            ProcessOutputStream::Stderr => {
                self.process_stderr(bytes);
                Ok(())
            }
        }
    }

    fn queue_stdout_lines(&mut self, bytes: &[u8]) -> Result<(), String> {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if self.partial.len().saturating_add(piece.len()) > MAX_PEER_LINE_BYTES {
                return Err(format!(
                    "was stopped: it wrote a message of more than {} MiB",
                    MAX_PEER_LINE_BYTES >> 20
                ));
            }
            self.partial.extend_from_slice(piece);
            if pieces.peek().is_none() {
                break;
            }
            let line = std::mem::take(&mut self.partial);
            let Some(lines) = &self.lines else {
                return Ok(());
            };
            if let Err(mpsc::error::TrySendError::Full(_)) = lines.try_send(line) {
                return Err(format!(
                    "was stopped: more than {MAX_BUFFERED_PEER_PROCESS_LINES} of its messages wait to be read"
                ));
            }
        }
        Ok(())
    }

    /// Processes bytes of the peer's standard error: keeps the last ones, and logs the first lines.
    fn process_stderr(&mut self, bytes: &[u8]) {
        self.errors.extend_from_slice(bytes);
        let excess = self.errors.len().saturating_sub(KEPT_PEER_STDERR_BYTES);
        self.errors.drain(..excess);
        if self.n_logged > MAX_LOGGED_STDERR_LINES {
            return;
        }
        self.error_partial.extend_from_slice(bytes);
        self.error_partial.truncate(KEPT_PEER_STDERR_BYTES);
        while let Some(end) = self.error_partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.error_partial.drain(..=end).collect();
            let line = String::from_utf8_lossy(&line);
            let line = SecretScanner::shared().to_masked_text(&line);
            self.n_logged += 1;
            let name = &self.name;
            if self.n_logged > MAX_LOGGED_STDERR_LINES {
                tracing::info!(target: "peer", name, "more lines of its standard error are not logged");
                return;
            }
            let line = escape_and_truncate_line(&line, MAX_LOGGED_STDERR_LINE_BYTES);
            tracing::info!(target: "peer", name, "{line}");
        }
        if self.error_partial.len() >= KEPT_PEER_STDERR_BYTES {
            self.error_partial.clear();
        }
    }

    /// Returns the last part of the peer's standard error as one line, with secrets masked.
    fn masked_stderr_line(&self) -> String {
        let text = String::from_utf8_lossy(&self.errors);
        let text = SecretScanner::shared().to_masked_text(&text);
        let text = text.trim();
        let from =
            text.ceil_char_boundary(text.len().saturating_sub(MAX_DISPLAYED_PEER_STDERR_BYTES));
        escape_and_truncate_line(
            text.get(from..).unwrap_or_default(),
            MAX_DISPLAYED_PEER_STDERR_BYTES,
        )
    }
}

impl PeerProcessSpec {
    /// Starts the program. It is stopped when [`PeerProcess::stop`] is dropped.
    ///
    /// # Errors
    /// Reason why the program cannot be started, worded as the predicate of a sentence that begins
    /// with "it".
    pub async fn start(&self) -> Result<PeerProcess, String> {
        let unmade = |error| format!("has no pipe for its standard input: {error}");
        let (pipe, sender) = InputNamedPipe::create(PEER_PROCESS_PIPE_FOLDER_PREFIX)
            .await
            .map_err(unmade)?;
        let (lines, output) = mpsc::channel(MAX_BUFFERED_PEER_PROCESS_LINES);
        let shared = Arc::new(Mutex::new(PeerProcessOutputState::new(&self.name, lines)));
        let cancel = CancellationToken::new();
        let (told, ended) = watch::channel(None);
        let end = PeerProcessEndWatch {
            cancel: cancel.clone(),
            output: shared.clone(),
            ended,
        };
        let process = self
            .build_process_spec(pipe.path().to_owned(), build_output_callback(&end))
            .await?;
        let (until, of_task) = (cancel.clone(), shared.clone());
        let section = self.memory.as_ref().map(|own| own.section.clone());
        tokio::spawn(async move {
            let finished = process.run(&until).await;
            let how = match finished {
                Ok(finished) => describe_peer_ending(finished.ending, section.as_deref()),
                Err(error) => format!("did not start: {error}"),
            };
            // Ignore the error: the receiver may be gone.
            drop(told.send(Some(how)));
            lock_ignoring_poison(&of_task).lines = None;
            drop(pipe);
        });
        Ok(PeerProcess {
            input: PeerProcessStdin {
                pipe: Arc::new(AsyncMutex::new(sender)),
                output: shared,
            },
            output,
            end,
            stop: PeerProcessStopper {
                _guard: cancel.drop_guard(),
            },
        })
    }

    async fn build_process_spec(
        &self,
        stdin: PathBuf,
        on_bytes: OutputBytesCallback,
    ) -> Result<ProcessSpec, String> {
        let around = self.commands.resolve_process_confinement().await;
        let ProcessConfinementSettings {
            mut confine,
            keeper,
        } = around.map_err(|why| {
            format!("must be confined like `bash` commands, whose confinement {why}")
        })?;
        if let Some(confinement) = &mut confine {
            confinement.write.clone_from(&self.write);
            confinement.read.clone_from(&self.read);
            confinement.network = self.network;
            if let Some(own) = &self.memory {
                confinement.limits.memory_bytes = own.bytes;
            }
        }
        let mut words = self.command.iter().cloned();
        Ok(ProcessSpec {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            cwd: self.cwd.clone(),
            env: self.env.clone(),
            stdin: Some(stdin),
            deadline: NEVER_REACHED_PROCESS_DEADLINE,
            streams: OutputPipeMode::Separate,
            // Do not capture the output: `on_bytes` receives it as it arrives.
            capture_bytes: 0,
            on_line: None,
            on_bytes: Some(on_bytes),
            confine,
            keeper,
        })
    }
}

fn build_output_callback(end: &PeerProcessEndWatch) -> OutputBytesCallback {
    let end = end.clone();
    Arc::new(move |stream, bytes| {
        let mut output = lock_ignoring_poison(&end.output);
        if output.stopped.is_some() {
            return;
        }
        if let Err(why) = output.process_output(stream, bytes) {
            output.stopped = Some(why);
            output.lines = None;
            output.partial = Vec::new();
            end.cancel.cancel();
        }
    })
}

/// Describes the end of a peer. `section` is the section of the settings that sets the memory limit
/// of this peer, if there is one.
fn describe_peer_ending(ending: ProcessEndReason, section: Option<&str>) -> String {
    match ending {
        ProcessEndReason::Exited(code) => format!("ended with exit code {code}"),
        ProcessEndReason::Signaled(signal) => format!("was ended by signal {signal}"),
        ProcessEndReason::Exceeded(limit) => match section {
            Some(section) => format!("was stopped: {}", limit.describe(section)),
            None => format!("was stopped: {limit}"),
        },
        ProcessEndReason::Deadline | ProcessEndReason::Cancelled => "was stopped".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output() -> (PeerProcessOutputState, Receiver<Vec<u8>>) {
        let (lines, read) = mpsc::channel(MAX_BUFFERED_PEER_PROCESS_LINES);
        (PeerProcessOutputState::new("p", lines), read)
    }

    #[test]
    fn lines_are_joined_across_pieces_and_an_unfinished_one_waits() {
        let (mut peer, mut read) = output();
        for piece in ["{\"a\"", ":1}\n\n{", "}\nrest"] {
            peer.process_output(ProcessOutputStream::Stdout, piece.as_bytes())
                .unwrap();
        }
        let mut lines = Vec::new();
        while let Ok(line) = read.try_recv() {
            lines.push(String::from_utf8(line).unwrap());
        }
        assert_eq!(lines, ["{\"a\":1}", "", "{}"]);
        assert_eq!(peer.partial, b"rest");
    }

    #[test]
    fn a_flood_names_its_limit() {
        let piece = vec![b'x'; 1 << 20];
        let (mut peer, _read) = output();
        let until_refused = |peer: &mut PeerProcessOutputState, stream| {
            (0..100).find_map(|_| peer.process_output(stream, &piece).err())
        };
        let why = until_refused(&mut peer, ProcessOutputStream::Stdout).unwrap();
        assert!(why.contains("a message of more than 16 MiB"), "{why}");
        let (mut peer, _read) = output();
        let why = until_refused(&mut peer, ProcessOutputStream::Stderr).unwrap();
        assert!(why.contains("more than 64 MiB for one message"), "{why}");
        assert!(peer.errors.len() <= KEPT_PEER_STDERR_BYTES);
        let (mut peer, _read) = output();
        let lines = b"{}\n".repeat(MAX_BUFFERED_PEER_PROCESS_LINES + 1);
        let why = peer
            .process_output(ProcessOutputStream::Stdout, &lines)
            .unwrap_err();
        assert!(why.contains("wait to be read"), "{why}");
    }

    #[test]
    fn the_end_of_standard_error_is_one_clean_line_without_secrets() {
        let (mut peer, _read) = output();
        let text = format!("first\nAKIA{} \u{1b}[2Jlast\n", "IOSFODNN7EXAMPLE");
        peer.process_output(ProcessOutputStream::Stderr, text.as_bytes())
            .unwrap();
        let line = peer.masked_stderr_line();
        assert!(!line.contains('\u{1b}') && !line.contains('\n'), "{line}");
        assert!(line.contains("last"), "{line}");
    }
}
