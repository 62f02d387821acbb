//! Tests implementations of [`Sessions`] (stores) for conformance: each check tests one property on
//! which the host relies.
//!
//! A store passes when every check of [`CHECKS`] returns `Ok`. Each check gets two handles of one
//! new, empty store, as two programs would have them. The checks do not depend on any particular
//! store. In a test:
//!
//! ```
//! use rind_lib::session::MemorySessions;
//! use rind_session_test::{CHECKS, StoreHandles};
//!
//! for check in CHECKS {
//!     let store = MemorySessions::default();
//!     let handles = StoreHandles::new(store.clone(), store);
//!     check.run(&handles).unwrap();
//! }
//! ```

mod frames;
mod lists;
mod sessions;
mod values;
mod writers;

use std::fmt::Debug;
use std::sync::Arc;

use rind_lib::session::{Error, FramePosition, Journal, SessionAddress, Sessions};
use rind_lib::text::format_error_chain;

/// Two handles of one store that is empty when a check begins.
#[derive(Clone, Debug)]
pub struct StoreHandles {
    /// Store handle of the first program, which writes.
    pub own: Arc<dyn Sessions>,
    /// Store handle of a second program, which uses the same store at the same time.
    pub other: Arc<dyn Sessions>,
}

impl StoreHandles {
    /// Creates a pair of handles. Both may be clones of the same value if the store cannot be
    /// opened twice.
    pub fn new(own: impl Sessions + 'static, other: impl Sessions + 'static) -> Self {
        Self {
            own: Arc::new(own),
            other: Arc::new(other),
        }
    }
}

/// Check of one property that every session store must have.
#[derive(Clone, Copy)]
pub struct StoreCheck {
    /// Name of the property: a sentence with `_` instead of spaces.
    pub name: &'static str,
    check: fn(&StoreHandles) -> Checked,
}

impl StoreCheck {
    /// Runs the check on a new, empty store. It may take a second.
    ///
    /// # Errors
    /// The store does not have the property. The text contains the expected and the found value.
    pub fn run(&self, store: &StoreHandles) -> Result<(), String> {
        (self.check)(store).map_err(|why| format!("{}: {why}", self.name))
    }
}

impl Debug for StoreCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Outcome of a check: the error text says how the store failed it.
type Checked = Result<(), String>;

/// Creates the rows of [`CHECKS`] from functions of the modules; the name of a function is the name
/// of its check.
macro_rules! checks {
    ($($module:ident::$name:ident,)*) => {
        &[$(StoreCheck { name: stringify!($name), check: $module::$name }),*]
    };
}

/// All checks of properties that a session store must have.
pub const CHECKS: &[StoreCheck] = checks![
    frames::frames_come_back_in_order,
    frames::frames_that_wait_go_before_the_next_one,
    frames::a_sync_writes_the_frames_that_wait,
    frames::dropping_a_journal_writes_the_frames_that_wait,
    frames::a_session_is_read_from_each_position,
    frames::large_and_many_frames_are_kept,
    frames::a_session_that_is_opened_again_goes_on_after_its_last_frame,
    writers::a_session_is_created_once,
    writers::a_session_has_one_writer,
    writers::of_many_that_create_a_session_at_once_one_succeeds,
    writers::of_many_that_open_a_session_at_once_one_succeeds,
    writers::a_session_is_read_while_it_is_written,
    writers::what_is_not_there_is_named,
    values::a_value_is_kept_under_its_hash,
    values::a_name_that_is_no_hash_is_refused,
    values::values_of_one_kind_or_session_are_not_those_of_another,
    lists::sessions_are_listed_in_pages,
    lists::subagents_are_listed_below_their_session,
    lists::a_removed_session_is_gone_with_all_that_it_has,
    lists::a_session_that_is_open_is_not_removed,
    lists::a_fork_has_its_own_lines_values_and_subagents,
    lists::a_fork_replaces_no_session,
    sessions::an_agent_finds_its_session_as_it_left_it,
    sessions::an_interrupted_turn_is_closed_when_it_is_opened,
    sessions::archived_turns_are_found_below_their_session,
    sessions::a_session_of_an_agent_is_forked_at_an_entry,
];

/// Parses the address of a session that a check uses.
fn parse_session_address(text: &str) -> Result<SessionAddress, String> {
    SessionAddress::parse(text).ok_or_else(|| format!("`{text}` is no address"))
}

/// Returns the value of a successful result, or a description of the error that names the operation
/// `what`.
fn name_failed_operation<T>(what: &str, result: Result<T, Error>) -> Result<T, String> {
    result.map_err(|error| format!("cannot {what}: {}", format_error_chain(&error)))
}

/// Checks that two values are equal; `what` names the value in the error.
fn check_equal<T: PartialEq + Debug>(what: &str, found: &T, expected: &T) -> Checked {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: expected {expected:?}, found {found:?}"))
}

/// Checks that an operation failed with an error of the expected kind.
fn check_refused<T>(
    what: &str,
    result: Result<T, Error>,
    is_expected: fn(&Error) -> bool,
) -> Checked {
    match result {
        Err(error) if is_expected(&error) => Ok(()),
        Err(error) => Err(format!("{what}: another error was expected, not `{error}`")),
        Ok(_) => Err(format!("{what}: this call must fail, but it succeeded")),
    }
}

fn is_unknown_session_error(error: &Error) -> bool {
    matches!(error, Error::Unknown { .. })
}

fn is_locked_session_error(error: &Error) -> bool {
    matches!(error, Error::Locked { .. })
}

fn is_existing_session_error(error: &Error) -> bool {
    matches!(error, Error::Exists { .. })
}

/// Creates a session, appends `frames` to its journal, and closes it.
fn write_session(
    store: &dyn Sessions,
    at: &str,
    frames: &[&str],
) -> Result<SessionAddress, String> {
    let at = parse_session_address(at)?;
    let mut journal = name_failed_operation("create a session", store.create(&at))?;
    append_all_frames(&mut *journal, frames)?;
    name_failed_operation("sync", journal.sync())?;
    Ok(at)
}

fn append_all_frames(journal: &mut dyn Journal, frames: &[&str]) -> Checked {
    for frame in frames {
        name_failed_operation("append a frame", journal.append(frame.as_bytes()))?;
    }
    Ok(())
}

/// Returns all stored lines of a session as one text.
fn read_session_text(store: &dyn Sessions, at: &SessionAddress) -> Result<String, String> {
    let bytes = name_failed_operation("read a session", store.read(at, FramePosition::START))?;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
