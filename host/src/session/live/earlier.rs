//! Facts that outlast a run: status lines of plugins, answers that ended with the run, skills, the
//! title, and the cost of the session.

use std::collections::BTreeMap;

use super::{Session, SessionState};
use crate::session::Error;
use crate::session::entry::{AllowedPart, Body, LastingSkill, RememberedSkill};

impl Session {
    /// Takes a plugin's line of status. A plugin may change it hundreds of times in a turn, so the
    /// last one is recorded at the end of the turn, command or run.
    pub(crate) fn set_status(&self, plugin: &str, text: &str) {
        let mut inner = self.lock();
        inner.statuses.insert(plugin.to_owned(), text.to_owned());
    }

    /// Records the status lines that changed since the last turn. An error is deferred as in
    /// [`Session::append_or_defer`].
    pub(crate) fn record_statuses(&self) {
        let mut inner = self.lock();
        let written = inner.write_statuses();
        inner.defer_error(written);
    }

    /// Returns the status lines of plugins, by plugin.
    pub(crate) fn statuses(&self) -> BTreeMap<String, String> {
        self.lock().transcript.statuses.clone()
    }

    /// Returns the calls that a person had allowed for the run before this one, as text.
    pub(crate) fn ended_answers(&self) -> Vec<String> {
        self.lock().transcript.ended_answers.clone()
    }

    /// Returns the calls that a person allowed for whichever program continues the session, each with its
    /// tool.
    pub(crate) fn kept_answers(&self) -> Vec<(String, AllowedPart)> {
        self.lock().transcript.kept_answers.clone()
    }

    /// Returns the skills that stay active from turn to turn, oldest first.
    #[must_use]
    pub fn lasting_skills(&self) -> Vec<LastingSkill> {
        self.lock().transcript.skills.clone()
    }

    /// Returns the facts that the session remembers about skills, oldest first.
    #[must_use]
    pub fn remembered_skills(&self) -> Vec<RememberedSkill> {
        self.lock().transcript.remembered.clone()
    }

    /// Returns the title that a person gave the session.
    #[must_use]
    pub fn title(&self) -> Option<String> {
        self.lock().transcript.title.clone()
    }

    /// Returns the cost of the turns, commands and loops so far in US dollars, as far as it is known.
    #[must_use]
    pub fn cost_usd(&self) -> f64 {
        self.lock().transcript.cost_usd
    }
}

impl SessionState {
    /// Records the status lines that differ from the recorded ones.
    pub(super) fn write_statuses(&mut self) -> Result<(), Error> {
        for (plugin, text) in std::mem::take(&mut self.statuses) {
            let known = self.transcript.statuses.get(&plugin);
            if known.map_or("", String::as_str) != text {
                self.append_body(Body::Status { plugin, text })?;
            }
        }
        Ok(())
    }
}
