//! Copies a session with its values and subagents to another address.
//!
//! Subagents and values are written before the lines, because a session exists once it has lines:
//! a reader finds the complete copy or none. Start from [`NatsSessions::fork_session_tree`].

use std::collections::BTreeSet;

use rind_lib::session::{BlobKind, Error, SessionAddress, Sessions};

use super::NatsSessions;

impl NatsSessions {
    /// Creates a copy of `from` at `to`, with these lines and with the subagents `agents`. Removes
    /// what was written if an error occurs, except if a session already exists at `to`.
    pub(super) fn fork_session_tree(
        &self,
        from: &SessionAddress,
        to: &SessionAddress,
        lines: &[u8],
        agents: &BTreeSet<String>,
    ) -> Result<(), Error> {
        if !self.exists(from)? {
            return Err(self.unknown_session_error(from));
        }
        let lease = self
            .acquire_lease(to)?
            .ok_or_else(|| to.already_exists_error())?;
        let forked = match self.exists(to) {
            Err(error) => Err(error),
            Ok(true) => Err(to.already_exists_error()),
            // Remove the remains of an interrupted copy under this address.
            Ok(false) => self.remove_session_tree(to).and_then(|()| {
                self.copy_session_blobs(from, to)?;
                for agent in agents {
                    self.copy_subagent_tree(from, to, agent)?;
                }
                // Write the lines last: a session exists once it has lines.
                self.write_complete_session(to, lines)
            }),
        };
        if forked.is_err() && !matches!(forked, Err(Error::Exists { .. })) {
            let _ = self.remove_session_tree(to);
        }
        self.release_lease(lease);
        forked
    }

    /// Copies the values that are stored for one session to another session.
    fn copy_session_blobs(&self, from: &SessionAddress, to: &SessionAddress) -> Result<(), Error> {
        for kind in [BlobKind::Content, BlobKind::State] {
            let (old, new) = (self.blobs(from, kind), self.blobs(to, kind));
            for name in old.names()? {
                new.put(&name, &old.get(&name)?)?;
            }
        }
        Ok(())
    }

    /// Copies the session of a subagent, and the sessions of the subagents below that subagent.
    fn copy_subagent_tree(
        &self,
        from: &SessionAddress,
        to: &SessionAddress,
        agent: &str,
    ) -> Result<(), Error> {
        let (Some(from), Some(to)) = (from.subagent_address(agent), to.subagent_address(agent))
        else {
            return Ok(());
        };
        let lines = match self.read_session_from_boundary_before(&from, 0) {
            Ok(read) => read.bytes,
            // Skip a subagent that was removed but that entries of its parent still mention.
            Err(Error::Unknown { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        self.copy_session_blobs(&from, &to)?;
        for below in self.children(&from)? {
            self.copy_subagent_tree(&from, &to, &below)?;
        }
        self.write_complete_session(&to, &lines)
    }

    pub(super) fn write_complete_session(
        &self,
        at: &SessionAddress,
        lines: &[u8],
    ) -> Result<(), Error> {
        let (subject, lines) = (self.subject(at), lines.to_vec());
        let written = self.block_on(async move {
            if subject.create_session_with_content(&lines).await? {
                return Ok(true);
            }
            if subject.last_message().await?.is_some() {
                return Ok(false);
            }
            // Remove the remains of an interrupted copy: some lines, but no complete session.
            subject.remove_messages().await?;
            subject.create_session_with_content(&lines).await
        });
        match written? {
            true => Ok(()),
            false => Err(at.already_exists_error()),
        }
    }
}
