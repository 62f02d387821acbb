//! Reads and records facts that remain valid when the session is resumed in another run of the
//! program: status lines of plugins, approval answers, skills, the title, and the cost.

use std::collections::BTreeMap;

use super::{Session, SessionState};
use crate::session::Error;
use crate::session::entry::{AllowedPart, Body, LastingSkill, RememberedSkill};

impl Session {
    /// Sets the status line of a plugin. A plugin may change it hundreds of times in a turn, so
    /// only the last one is recorded, at the end of the turn, command or run.
    pub(crate) fn set_status(&self, plugin: &str, text: &str) {
        let mut inner = self.lock();
        inner.statuses.insert(plugin.to_owned(), text.to_owned());
    }

    /// Records the status lines that changed since they were last recorded. An error is deferred as
    /// in [`Session::append_or_defer`].
    pub(crate) fn record_changed_statuses(&self) {
        let mut inner = self.lock();
        let written = inner.write_statuses();
        inner.defer_write_error(written);
    }

    /// Returns the status lines of plugins, by plugin.
    pub(crate) fn plugin_status_lines(&self) -> BTreeMap<String, String> {
        self.lock().transcript.statuses.clone()
    }

    /// Returns texts that describe the calls that a person had allowed for the previous run of the
    /// program only.
    pub(crate) fn approvals_of_previous_run(&self) -> Vec<String> {
        self.lock().transcript.ended_answers.clone()
    }

    /// Returns the calls that a person allowed for the rest of the session, in any run, each with
    /// the name of its tool.
    pub(crate) fn session_approvals(&self) -> Vec<(String, AllowedPart)> {
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

    /// Returns the total cost of the turns, commands and loops so far, in US dollars, as far as
    /// prices are known.
    #[must_use]
    pub fn cost_usd(&self) -> f64 {
        self.lock().transcript.cost_usd
    }
}

impl SessionState {
    /// Appends entries for the status lines that differ from the last recorded ones.
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
