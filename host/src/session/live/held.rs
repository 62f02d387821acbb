//! Holds entries in memory that could not be written and must not be lost, such as a paid answer of
//! the model.
//!
//! Held entries are already part of the conversation. They are written, in order, before the next
//! entry. Start from [`Session::append_or_keep_in_memory`].

use super::{OpenSessionState, Session};
use crate::session::Error;
use crate::session::entry::Body;

/// Maximum number of held lines. A turn ends soon after its first held line. If the maximum is
/// reached, further entries fail: if a line were dropped instead, the next entry would lack its
/// parent.
const MAX_UNWRITTEN_LINES: usize = 1000;

/// Lines that could not be written yet, oldest first. They must be written before any new line.
#[derive(Default)]
pub(super) struct UnwrittenSessionLines(Vec<Vec<u8>>);

impl UnwrittenSessionLines {
    fn has_room_for_line(&self) -> bool {
        self.0.len() < MAX_UNWRITTEN_LINES
    }
}

impl Session {
    /// Appends an entry that must not be lost: if it cannot be written, it is still applied, kept
    /// in memory, and written before the next entry.
    ///
    /// # Errors
    /// The entry is not in the file yet. It is neither applied nor kept if the maximum number of
    /// unwritten lines is already in memory.
    pub(crate) fn append_or_keep_in_memory(&self, body: Body) -> Result<(), Error> {
        let mut inner = self.lock_state();
        let entry = inner.create_next_entry(body);
        let line = entry.to_json_line()?;
        let written = match inner.retry_unwritten_lines() {
            Ok(()) => inner.journal.append(&line),
            Err(error) => Err(error),
        };
        if written.is_err() {
            if !inner.held.has_room_for_line() {
                return written;
            }
            inner.held.0.push(line);
        }
        inner.write_and_apply_entry(entry)?;
        written
    }
}

impl OpenSessionState {
    /// Writes the lines that could not be written earlier, oldest first.
    pub(super) fn retry_unwritten_lines(&mut self) -> Result<(), Error> {
        while let Some(line) = self.held.0.first() {
            self.journal.append(line)?;
            self.held.0.remove(0);
        }
        Ok(())
    }

    /// Passes a line to the journal, which writes it together with the next entry. If there are
    /// held lines, adds the line to them instead, so that it is written after them. Writes the held
    /// lines now only if there is no room for a further one.
    pub(super) fn buffer_line_until_next_entry(&mut self, line: Vec<u8>) -> Result<(), Error> {
        if !self.held.has_room_for_line() {
            self.retry_unwritten_lines()?;
        }
        if self.held.0.is_empty() {
            return self.journal.append_with_next(&line);
        }
        self.held.0.push(line);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_for_held_lines_ends() {
        let mut held = UnwrittenSessionLines::default();
        held.0.resize(MAX_UNWRITTEN_LINES - 1, Vec::new());
        assert!(held.has_room_for_line());
        held.0.push(Vec::new());
        assert!(!held.has_room_for_line());
    }
}
