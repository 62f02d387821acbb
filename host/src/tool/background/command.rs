//! Holds the state of one background command: its output so far, and its outcome.
//!
//! This module must not know how the command is run. Start from [`BackgroundCommand`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::BackgroundCommandEndCallback;
use super::unread::UnreadCommandOutput;
use crate::lock::lock_ignoring_poison;
use crate::secret::SecretScanner;
use crate::text::escape_and_truncate_line;
use crate::tool::live::RunningToolCallOutput;
use crate::tool::process::OutputBytesCallback;

/// Maximum number of bytes that a command may write in total. A command that writes without end
/// would keep a core of the machine busy for hours.
const MAX_TOTAL_COMMAND_OUTPUT_BYTES: u64 = 1 << 30;

/// Minimum time between two searches of the output for an awaited text.
const MIN_OUTPUT_SEARCH_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum length of a command line as shown to the user, in bytes; a longer one is truncated.
const MAX_DISPLAYED_COMMAND_LINE_BYTES: usize = 400;

/// Outcome of a background command that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundCommandOutcome {
    /// Description of how the command ended, such as `exit code 1`.
    pub words: String,
    /// Line about the confinement or limit that was the likely cause of a failure.
    pub cause: Option<String>,
    /// Whether the command exited with code 0, and no file had to be renamed (see `refused`).
    pub is_success: bool,
    /// Duration for which the command ran.
    pub after: Duration,
    /// Messages for the model about files that the command left and that the host renamed, because
    /// git would run them.
    pub refused: Vec<String>,
    /// Whether the process of the command could be started.
    pub is_started: bool,
}

impl BackgroundCommandOutcome {
    /// Creates the outcome of a command that could not be started, for the reason `why`.
    pub(in crate::tool) fn from_start_failure(why: &str) -> Self {
        Self {
            words: format!("`bash` is refused: {why}"),
            cause: None,
            is_success: false,
            after: Duration::ZERO,
            refused: Vec::new(),
            is_started: false,
        }
    }
}

/// A command that continues in the background, or has ended.
pub struct BackgroundCommand {
    id: String,
    agent: String,
    line: String,
    started: Instant,
    cancel: CancellationToken,
    stop_reason: Mutex<Option<String>>,
    live: RunningToolCallOutput,
    unread: Mutex<UnreadCommandOutput>,
    n_written: AtomicU64,
    /// Notifies tasks that wait for a text in new output.
    grown: Notify,
    /// Whether the model has been notified of the command's end.
    is_told: AtomicBool,
    on_end: Option<BackgroundCommandEndCallback>,
    /// Outcome of the command; `None` while it runs.
    end: watch::Sender<Option<Arc<BackgroundCommandOutcome>>>,
}

impl_partial_debug!(BackgroundCommand, self, id = self.id, agent = self.agent);

impl BackgroundCommand {
    pub(super) fn new(
        id: String,
        agent: &str,
        line: &str,
        secrets: &[(String, String)],
        on_end: Option<BackgroundCommandEndCallback>,
    ) -> Self {
        let live = RunningToolCallOutput::default();
        live.set_secrets_to_mask(secrets.to_vec());
        Self {
            id,
            agent: agent.to_owned(),
            line: line.to_owned(),
            started: Instant::now(),
            cancel: CancellationToken::new(),
            stop_reason: Mutex::default(),
            live,
            unread: Mutex::new(UnreadCommandOutput::new(secrets.to_vec())),
            n_written: AtomicU64::new(0),
            grown: Notify::new(),
            is_told: AtomicBool::new(false),
            on_end,
            end: watch::Sender::new(None),
        }
    }

    /// Returns the id of the command, such as `bg-1`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the name of the agent that started the command.
    #[must_use]
    pub fn agent_name(&self) -> &str {
        &self.agent
    }

    /// Returns the command as one line, with secrets masked and without control characters. A long
    /// command is truncated.
    #[must_use]
    pub fn masked_command_line(&self) -> String {
        escape_and_truncate_line(
            &SecretScanner::shared().to_masked_text(&self.line),
            MAX_DISPLAYED_COMMAND_LINE_BYTES,
        )
    }

    /// Returns the time since the command started, or its total running time if it has ended.
    #[must_use]
    pub fn running_time(&self) -> Duration {
        self.outcome()
            .map_or_else(|| self.started.elapsed(), |end| end.after)
    }

    /// Returns the last lines of the command's output for the screen of the user, with secrets
    /// masked and without control characters.
    #[must_use]
    pub fn last_lines(&self, n_lines: usize) -> Vec<String> {
        self.live.last_lines(n_lines)
    }

    /// Returns the outcome of the command; `None` while it runs.
    #[must_use]
    pub fn outcome(&self) -> Option<Arc<BackgroundCommandOutcome>> {
        self.end.borrow().clone()
    }

    /// Whether the command still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.end.borrow().is_none()
    }

    /// Signals the command to stop, for the reason `why`. If it is called again, the first reason
    /// is kept.
    pub fn stop(&self, why: &str) {
        if self.is_running() {
            lock_ignoring_poison(&self.stop_reason).get_or_insert_with(|| why.to_owned());
            self.cancel.cancel();
        }
    }

    /// Returns the reason passed to [`Self::stop`]; `None` if the command was not stopped.
    pub(in crate::tool) fn stop_reason(&self) -> Option<String> {
        lock_ignoring_poison(&self.stop_reason).clone()
    }

    /// Returns the token that stops the command when it is cancelled.
    pub(in crate::tool) fn cancellation_token(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Returns the time at which the command started.
    pub(in crate::tool) fn start_time(&self) -> Instant {
        self.started
    }

    /// Returns the callback that receives the output of the command's process.
    pub(in crate::tool) fn output_callback(self: &Arc<Self>) -> OutputBytesCallback {
        let own = self.clone();
        Arc::new(move |_, bytes| own.append_output(bytes))
    }

    fn append_output(&self, bytes: &[u8]) {
        self.live.push(bytes);
        lock_ignoring_poison(&self.unread).push(bytes);
        let n_new = bytes.len() as u64;
        let n_before = self.n_written.fetch_add(n_new, Ordering::Relaxed);
        if n_before.saturating_add(n_new) > MAX_TOTAL_COMMAND_OUTPUT_BYTES {
            self.stop(&format!(
                "the command wrote more than {} MiB",
                MAX_TOTAL_COMMAND_OUTPUT_BYTES >> 20
            ));
        }
        self.grown.notify_waiters();
    }

    /// Returns the output since the last call, for the model, and marks it as read.
    #[must_use]
    pub fn take_unread_output(&self) -> String {
        // Check `is_over` first, so that all text written before the end is in the last output.
        let is_over = !self.is_running();
        lock_ignoring_poison(&self.unread).take_new_output(is_over)
    }

    /// Returns the number of output lines that the model has not read.
    #[must_use]
    pub fn n_unread_output_lines(&self) -> usize {
        lock_ignoring_poison(&self.unread)
            .peek(true)
            .lines()
            .count()
    }

    /// Waits until the command has ended, and returns its outcome.
    pub async fn wait_until_ended(&self) -> Arc<BackgroundCommandOutcome> {
        let mut receiver = self.end.subscribe();
        let ended = receiver.wait_for(Option::is_some).await;
        match ended.ok().and_then(|ended| ended.clone()) {
            Some(end) => end,
            // `wait_for` fails only when the sender is gone, but this function borrows the sender.
            None => std::future::pending().await,
        }
    }

    /// Waits until the unread output contains this text, or the command has ended.
    pub async fn wait_for_text(&self, text: &str) {
        loop {
            let grown = self.grown.notified();
            let is_over = !self.is_running();
            if is_over
                || lock_ignoring_poison(&self.unread)
                    .peek(false)
                    .contains(text)
            {
                return;
            }
            tokio::select! {
                () = grown => {}
                _ = self.wait_until_ended() => {}
            }
            tokio::time::sleep(MIN_OUTPUT_SEARCH_INTERVAL).await;
        }
    }

    /// Records the outcome, unless one was recorded before, and calls the callback for ended
    /// commands if the process was started.
    pub(in crate::tool) fn record_outcome(&self, end: BackgroundCommandOutcome) {
        let end = Arc::new(end);
        let is_first = self.end.send_if_modified(|kept| {
            let is_first = kept.is_none();
            kept.get_or_insert_with(|| end.clone());
            is_first
        });
        if let (true, true, Some(on_end)) = (is_first, end.is_started, &self.on_end) {
            on_end(self, &end);
        }
    }

    /// Records that the model has been notified of the command's end. Returns whether it had been
    /// notified before.
    pub(crate) fn mark_end_reported(&self) -> bool {
        self.is_told.swap(true, Ordering::AcqRel)
    }
}
