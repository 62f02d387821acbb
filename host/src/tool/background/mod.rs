//! Keeps the commands that continue in the background after the call that started them, until they
//! end, are stopped, or their session ends.
//!
//! Owns the list of a session's background commands, the limits on it, and the output that the
//! model has not read. This module must not know how a command is confined or approved: `bash`
//! starts a background command like any other. Start from [`BackgroundCommands`].

mod command;
mod unread;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;

pub use command::{BackgroundCommand, BackgroundCommandOutcome};

use crate::lock::lock_ignoring_poison;

/// Maximum number of background commands of a session that run at the same time, including those of
/// subagents. The host measures the memory and disk use of each command several times a second.
pub const MAX_RUNNING_COMMANDS_PER_SESSION: usize = 8;

/// Maximum time that a background command may run, and the default if its call sets no deadline.
pub const MAX_COMMAND_RUN_TIME: Duration = Duration::from_secs(8 * 3600);

/// Maximum number of ended commands whose output can still be read. The oldest are dropped first.
const MAX_READABLE_ENDED_COMMANDS: usize = 16;

/// Maximum time to wait until stopped commands have ended: a little longer than the time between
/// SIGTERM and SIGKILL. Then the session ends without waiting, and the commands are still killed.
const COMMAND_STOP_WAIT_TIMEOUT: Duration = Duration::from_secs(15);

/// Prefix of the ids of background commands.
const BACKGROUND_COMMAND_ID_PREFIX: &str = "bg-";

/// Function that is called when a background command has ended. Must not block.
pub type BackgroundCommandEndCallback =
    Arc<dyn Fn(&BackgroundCommand, &BackgroundCommandOutcome) + Send + Sync>;

/// Background commands of one session: those of its agent and of its subagents. Cheap to clone. A
/// clone does not keep commands running: the commands are stopped when the session ends.
///
/// For example, to list the running commands for the user:
///
/// ```
/// # let commands = rind_lib::tool::background::BackgroundCommands::default();
/// for command in commands.running_commands() {
///     let seconds = command.running_time().as_secs();
///     println!("{} for {seconds} s: {}", command.id(), command.masked_command_line());
/// }
/// ```
#[derive(Clone, Default)]
pub struct BackgroundCommands(Arc<Mutex<BackgroundCommandList>>);

#[derive(Default)]
struct BackgroundCommandList {
    /// Running commands and recently ended ones, oldest first.
    commands: Vec<Arc<BackgroundCommand>>,
    /// Number in the id of the command that was added last, such as 2 of `bg-2`.
    last_number: u32,
    is_closed: bool,
    on_end: Option<BackgroundCommandEndCallback>,
}

impl_partial_debug!(
    BackgroundCommands,
    self,
    n_commands = lock_ignoring_poison(&self.0).commands.len()
);

impl BackgroundCommands {
    /// Sets the function that is called when a command ends, for commands that start from now on.
    /// Replaces an earlier function.
    pub fn set_end_callback(&self, on_end: BackgroundCommandEndCallback) {
        lock_ignoring_poison(&self.0).on_end = Some(on_end);
    }

    /// Reserves all numbers up to `number`, so that no new command gets them: the conversation may
    /// contain ids of commands from an earlier run.
    pub(crate) fn reserve_command_numbers(&self, number: u32) {
        let mut list = lock_ignoring_poison(&self.0);
        list.last_number = list.last_number.max(number);
    }

    /// Adds a command that is about to start. `secrets` are the names and values in its
    /// environment, which are masked in its output.
    ///
    /// # Errors
    /// [`MAX_RUNNING_COMMANDS_PER_SESSION`] commands already run, or the session has ended; the
    /// text is for the model.
    pub(in crate::tool) fn register_command(
        &self,
        agent: &str,
        line: &str,
        secrets: &[(String, String)],
    ) -> Result<Arc<BackgroundCommand>, String> {
        let mut list = lock_ignoring_poison(&self.0);
        if list.is_closed {
            return Err("the session has ended, so no command can be started".to_owned());
        }
        let running: Vec<&str> = list
            .commands
            .iter()
            .filter(|one| one.is_running())
            .map(|one| one.id())
            .collect();
        if running.len() >= MAX_RUNNING_COMMANDS_PER_SESSION {
            return Err(format!(
                "{MAX_RUNNING_COMMANDS_PER_SESSION} commands run in the background of this session, and no more may at once: {}; stop one with \
                 the tool `background`, or wait for one",
                running.join(", ")
            ));
        }
        let ended = list.commands.iter().filter(|one| !one.is_running());
        let mut n_dropped = ended
            .count()
            .saturating_sub(MAX_READABLE_ENDED_COMMANDS - 1);
        list.commands.retain(|one| {
            let is_dropped = n_dropped > 0 && !one.is_running();
            n_dropped -= usize::from(is_dropped);
            !is_dropped
        });
        list.last_number = list.last_number.saturating_add(1);
        let id = format!("{BACKGROUND_COMMAND_ID_PREFIX}{}", list.last_number);
        let on_end = list.on_end.clone();
        let new = Arc::new(BackgroundCommand::new(id, agent, line, secrets, on_end));
        list.commands.push(new.clone());
        Ok(new)
    }

    /// Removes a command that could not be started from the list.
    pub(in crate::tool) fn remove_unstarted_command(&self, id: &str) {
        lock_ignoring_poison(&self.0)
            .commands
            .retain(|one| one.id() != id);
    }

    /// Returns all commands that run, oldest first.
    #[must_use]
    pub fn running_commands(&self) -> Vec<Arc<BackgroundCommand>> {
        let list = lock_ignoring_poison(&self.0);
        let running = list.commands.iter().filter(|one| one.is_running());
        running.cloned().collect()
    }

    /// Returns an agent's commands that are running or have ended recently, oldest first.
    #[must_use]
    pub fn commands_of_agent(&self, agent: &str) -> Vec<Arc<BackgroundCommand>> {
        let list = lock_ignoring_poison(&self.0);
        let own = list.commands.iter().filter(|one| one.agent_name() == agent);
        own.cloned().collect()
    }

    /// Stops the running command with this id, whichever agent started it, for the reason `why`.
    /// Returns the command; `None` if no running command has this id.
    #[must_use]
    pub fn stop_command(&self, id: &str, why: &str) -> Option<Arc<BackgroundCommand>> {
        let running = self.running_commands();
        let found = running.into_iter().find(|one| one.id() == id)?;
        found.stop(why);
        Some(found)
    }

    /// Stops the commands of an agent, and waits at most `COMMAND_STOP_WAIT_TIMEOUT` until their
    /// processes are gone.
    pub(crate) async fn stop_agent_commands(&self, agent: &str, why: &str) {
        let mut own = self.running_commands();
        own.retain(|one| one.agent_name() == agent);
        stop_commands_and_wait(&own, why).await;
    }

    /// Stops all commands, refuses new ones, and waits at most `COMMAND_STOP_WAIT_TIMEOUT` until
    /// the processes are gone. Returns the ids of the commands that were running.
    pub(crate) async fn stop_all_and_close(&self) -> Vec<String> {
        let running = self.signal_all_to_stop();
        stop_commands_and_wait(&running, SESSION_ENDED_STOP_REASON).await;
        running.iter().map(|one| one.id().to_owned()).collect()
    }

    /// Signals all commands to stop, without waiting, and refuses new ones. Returns the commands
    /// that were running.
    fn signal_all_to_stop(&self) -> Vec<Arc<BackgroundCommand>> {
        lock_ignoring_poison(&self.0).is_closed = true;
        let running = self.running_commands();
        running
            .iter()
            .for_each(|one| one.stop(SESSION_ENDED_STOP_REASON));
        running
    }
}

/// Reason that is recorded for commands that are stopped because their session ends.
const SESSION_ENDED_STOP_REASON: &str = "the session ended";

async fn stop_commands_and_wait(commands: &[Arc<BackgroundCommand>], why: &str) {
    commands.iter().for_each(|one| one.stop(why));
    let ends = join_all(commands.iter().map(|one| one.wait_until_ended()));
    if tokio::time::timeout(COMMAND_STOP_WAIT_TIMEOUT, ends)
        .await
        .is_err()
    {
        tracing::warn!("a command in the background did not end in time; it is being killed");
    }
}

/// Returns the number in an id, such as 2 of `bg-2`.
pub(crate) fn parse_command_number(id: &str) -> Option<u32> {
    id.strip_prefix(BACKGROUND_COMMAND_ID_PREFIX)?.parse().ok()
}

/// Guard that stops all background commands of a session when it is dropped.
pub(crate) struct BackgroundCommandsStopGuard(pub(crate) BackgroundCommands);

impl Drop for BackgroundCommandsStopGuard {
    fn drop(&mut self) {
        self.0.signal_all_to_stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(commands: &BackgroundCommands) -> Result<Arc<BackgroundCommand>, String> {
        commands.register_command("main", "sleep 9", &[])
    }

    fn end(words: &str) -> BackgroundCommandOutcome {
        BackgroundCommandOutcome {
            words: words.to_owned(),
            cause: None,
            is_success: true,
            after: Duration::ZERO,
            refused: Vec::new(),
            is_started: true,
        }
    }

    #[test]
    fn as_many_run_at_once_as_may_and_the_number_of_ended_ones_is_bounded() {
        let commands = BackgroundCommands::default();
        for n in 1..=MAX_RUNNING_COMMANDS_PER_SESSION {
            assert_eq!(begin(&commands).unwrap().id(), format!("bg-{n}"));
        }
        for _ in 0..1000 {
            let why = begin(&commands).unwrap_err();
            assert!(
                why.contains("bg-1, bg-2") && why.contains("stop one"),
                "{why}"
            );
        }
        for n in 0..1000 {
            commands.running_commands()[0].record_outcome(end("exit code 0"));
            assert!(begin(&commands).is_ok(), "{n}");
        }
        assert_eq!(
            commands.running_commands().len(),
            MAX_RUNNING_COMMANDS_PER_SESSION
        );
        assert!(
            commands.commands_of_agent("main").len()
                <= MAX_RUNNING_COMMANDS_PER_SESSION + MAX_READABLE_ENDED_COMMANDS
        );
        assert!(commands.commands_of_agent("sub-1").is_empty());
    }

    #[test]
    fn a_session_that_is_dropped_ends_its_commands_and_starts_no_other() {
        let commands = BackgroundCommands::default();
        commands.reserve_command_numbers(7);
        let one = begin(&commands).unwrap();
        assert_eq!(
            (one.id(), parse_command_number(one.id())),
            ("bg-8", Some(8))
        );
        drop(BackgroundCommandsStopGuard(commands.clone()));
        assert!(one.cancellation_token().is_cancelled());
        assert!(begin(&commands).unwrap_err().contains("session has ended"));
    }
}
