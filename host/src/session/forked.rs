//! Copies a session, completely or up to an entry.
//!
//! Ensures that a copy has exactly the blobs that its entries refer to. Start from
//! [`SessionStore::fork`].

use std::collections::BTreeSet;

use super::children;
use super::entry::{Body, Entry};
use super::named::ReferencedBlobNames;
use super::storage::{BlobKind, SessionAddress};
use super::store::parse_new_session_id;
use super::{Error, Session, SessionSpec, SessionStore};

impl SessionStore {
    /// Creates a session that starts with the entries of the session `id`: with all of them, or
    /// with those up to and including the entry `until`. The original session is not changed and
    /// may be open.
    pub fn fork(
        &self,
        id: &str,
        until: Option<&str>,
        spec: &SessionSpec,
    ) -> Result<Session, Error> {
        let (mut entries, _) = self.read_entries(id)?;
        if let Some(until) = until {
            let at = entries.iter().position(|entry| entry.id == until);
            let at = at.ok_or_else(|| self.session_not_found_error(&format!("{id}/{until}")))?;
            entries.truncate(at + 1);
        }
        let mut lines = Vec::new();
        for entry in &entries {
            lines.extend(entry.to_json_line()?);
        }
        let new = parse_new_session_id(&crate::clock::new_session_id())?;
        let agents = children::recorded_agent_ids(&entries);
        self.session_backend()
            .fork(&self.session_address(id)?, &new, &lines, &agents)?;
        let lost = self.release_unreferenced_blobs(&new, &entries)?;
        let session = Session::open(new, self.session_backend().clone(), spec)?;
        session.append(Body::Forked {
            from: id.to_owned(),
        })?;
        for (plugin, key) in lost {
            session.state_set(&plugin, &key, None)?;
        }
        session.sync()?;
        Ok(session)
    }

    /// Removes the blobs of the copied session to which neither `entries` nor the entries of its
    /// subagents refer. Returns the plugin and the key of each state value whose blob is missing,
    /// because the original session replaced the value after the last of `entries`.
    fn release_unreferenced_blobs(
        &self,
        copy: &SessionAddress,
        entries: &[Entry],
    ) -> Result<Vec<(String, String)>, Error> {
        let mut named = ReferencedBlobNames::default();
        for entry in entries {
            named.add_entry_blobs(&entry.body);
        }
        let content = self.session_backend().blobs(copy, BlobKind::Content);
        let mut ahead = self.session_agent_ids(copy.as_str())?;
        while let Some(agent) = ahead.pop() {
            // Include the blobs to which messages of subagents refer, which belong to the root
            // session.
            let mut own = ReferencedBlobNames::default();
            let (entries, _) = self.read_entries(&agent)?;
            for entry in &entries {
                own.add_entry_blobs(&entry.body);
            }
            named.content.extend(own.content);
            named.prompts.extend(own.prompts);
            ahead.extend(self.session_agent_ids(&agent)?);
        }
        for name in content.names()? {
            if !named.content.contains(&name) && !named.prompts.contains(&name) {
                content.release(&name);
            }
        }
        let state = self.session_backend().blobs(copy, BlobKind::State);
        let kept: BTreeSet<&String> = named.state.values().collect();
        for name in state.names()? {
            if !kept.contains(&name) {
                state.release(&name);
            }
        }
        let lost = named.state.into_iter();
        let lost = lost.filter(|(_, blob)| state.length(blob).is_none());
        Ok(lost.map(|(key, _)| key).collect())
    }
}
