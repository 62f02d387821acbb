//! Reads and records facts that remain valid when the session is resumed in another run of the
//! program: status lines of plugins, approval answers, skills, the title, and the cost.

use std::collections::BTreeMap;

use super::{OpenSessionState, Session};
use crate::session::Error;
use crate::session::entry::{ActivatedSkill, AllowedPart, Body, UsedOrApprovedSkill};

impl Session {
    /// Sets the status line of a plugin. A plugin may change it hundreds of times in a turn, so
    /// only the last one is recorded, at the end of the turn, command or run.
    pub(crate) fn set_plugin_status_line(&self, plugin: &str, text: &str) {
        let mut inner = self.lock_state();
        inner.statuses.insert(plugin.to_owned(), text.to_owned());
    }

    /// Records the status lines that changed since they were last recorded. An error is deferred as
    /// in [`Session::append_or_defer_error`].
    pub(crate) fn record_changed_plugin_statuses(&self) {
        let mut inner = self.lock_state();
        let written = inner.write_changed_plugin_statuses();
        inner.defer_write_error(written);
    }

    /// Returns the status lines of plugins, by plugin.
    pub(crate) fn plugin_status_lines(&self) -> BTreeMap<String, String> {
        self.lock_state().transcript.statuses.clone()
    }

    /// Returns texts that describe the calls that a person had allowed for the previous run of the
    /// program only.
    pub(crate) fn approvals_of_previous_run(&self) -> Vec<String> {
        self.lock_state().transcript.ended_answers.clone()
    }

    /// Returns the calls that a person allowed for the rest of the session, in any run, each with
    /// the name of its tool.
    pub(crate) fn session_approvals(&self) -> Vec<(String, AllowedPart)> {
        self.lock_state().transcript.kept_answers.clone()
    }

    /// Returns the skills that stay active from turn to turn, oldest first.
    #[must_use]
    pub fn skills_active_across_turns(&self) -> Vec<ActivatedSkill> {
        self.lock_state().transcript.skills.clone()
    }

    /// Returns the facts that the session remembers about skills, oldest first.
    #[must_use]
    pub fn used_or_approved_skills(&self) -> Vec<UsedOrApprovedSkill> {
        self.lock_state().transcript.remembered.clone()
    }

    /// Returns the title that a person gave the session.
    #[must_use]
    pub fn title(&self) -> Option<String> {
        self.lock_state().transcript.title.clone()
    }

    /// Returns the total cost of the turns, commands and loops so far, in US dollars, as far as
    /// prices are known.
    #[must_use]
    pub fn cost_usd(&self) -> f64 {
        self.lock_state().transcript.cost_usd
    }
}

impl OpenSessionState {
    /// Appends entries for the status lines that differ from the last recorded ones.
    pub(super) fn write_changed_plugin_statuses(&mut self) -> Result<(), Error> {
        for (plugin, text) in std::mem::take(&mut self.statuses) {
            let known = self.transcript.statuses.get(&plugin);
            if known.map_or("", String::as_str) != text {
                self.append_entry_with_body(Body::Status { plugin, text })?;
            }
        }
        Ok(())
    }
}
