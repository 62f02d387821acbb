//! Appends entries to the file of an open session, and applies them to the in-memory state.

use super::OpenSessionState;
use crate::message::{Message, ToolCall};
use crate::session::Error;
use crate::session::entry::{
    Body, Entry, PluginActionReport, PluginActionReportLine, encode_entry_line,
};

impl OpenSessionState {
    pub(super) fn append_entry_with_body(&mut self, body: Body) -> Result<(), Error> {
        if let Body::TurnEnd { .. } | Body::Command { .. } | Body::LoopRun { .. } = body {
            self.write_changed_plugin_statuses()?;
        }
        let entry = self.create_next_entry(body);
        self.write_entry(entry)
    }

    pub(super) fn create_next_entry(&self, body: Body) -> Entry {
        Entry {
            id: crate::clock::new_uuid_v7(),
            parent: self.last_entry.clone(),
            time: crate::clock::now_ms(),
            body,
        }
    }

    pub(super) fn write_entry(&mut self, entry: Entry) -> Result<(), Error> {
        let line = entry.to_json_line()?;
        self.retry_unwritten_lines()?;
        self.journal.append(&line)?;
        self.write_and_apply_entry(entry)
    }

    pub(super) fn write_and_apply_entry(&mut self, entry: Entry) -> Result<(), Error> {
        let unused = self.apply_entry_in_memory(&entry.body);
        self.last_entry = Some(entry.id);
        if let Some(blob) = unused {
            // Sync before removing the old blob: a power failure must not lose both the new value
            // and the old one.
            self.journal.sync()?;
            self.states.remove_blob(&blob);
        }
        Ok(())
    }

    pub(super) fn defer_write_error(&mut self, written: Result<(), Error>) {
        if let Err(error) = written {
            self.deferred.get_or_insert(error);
        }
    }

    /// Appends a report on a plugin's action without applying it, because neither conversation nor
    /// state depend on reports.
    pub(super) fn append_plugin_action_report(
        &mut self,
        report: &PluginActionReport<'_>,
    ) -> Result<(), Error> {
        let id = crate::clock::new_uuid_v7();
        let line = encode_entry_line(&PluginActionReportLine {
            id: id.clone(),
            parent: self.last_entry.as_deref(),
            time: crate::clock::now_ms(),
            entry_type: report.entry_type(),
            record: report,
        })?;
        self.buffer_line_until_next_entry(line)?;
        self.last_entry = Some(id);
        Ok(())
    }

    /// Appends a result for each tool call that has none: its result in `known`, or else an error
    /// result with the text that `unknown` returns for the call.
    pub(super) fn append_missing_results<'t>(
        &mut self,
        known: &[Message],
        why: &str,
        unknown: impl Fn(&ToolCall) -> &'t str,
    ) -> Result<Vec<Message>, Error> {
        let open = self.transcript.calls_without_result();
        self.append_entry_with_body(Body::Cut {
            turn: self.transcript.turn,
            reason: why.to_owned(),
            calls: open.iter().map(|call| call.id.clone()).collect(),
        })?;
        let mut added = Vec::with_capacity(open.len());
        for call in &open {
            let is_of_call =
                |message: &&Message| message.tool_results().any(|own| own.call_id == call.id);
            let message = known.iter().find(is_of_call).cloned();
            let message = message.unwrap_or_else(|| {
                Message::from_tool_result(call.create_result(unknown(call), true))
            });
            self.append_entry_with_body(Body::Message {
                message: message.clone(),
            })?;
            added.push(message);
        }
        Ok(added)
    }

    pub(super) fn apply_entry_in_memory(&mut self, body: &Body) -> Option<String> {
        self.transcript.apply_entry_body(body);
        self.states.apply_state_change(body)
    }
}
