//! Sanitizes all text that leaves the sandbox, before the host displays it, stores it or sends it
//! to a model.
//!
//! This module ensures that secrets are masked, that lines are short and free of control
//! characters, and that each masking is recorded. It must not interpret a text. Other guest output
//! (files, requests) does not pass through here: requests with a secret are refused at egress, and
//! files stay where the plugin may write.
//!
//! Start from [`GuestTextSanitizer`].

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use serde::de::IgnoredAny;
use serde_json::Value;

use super::host::{HostState, SharedPluginState};
use crate::point::caller::Caller;
use crate::point::handle::HostFunctionError;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::secret::{MaskedText, SecretScanner, mask_secrets_in_json, run_blocking_scan};
use crate::text::escape_and_truncate_line;

/// Number of bytes of a text that are scanned to produce one short line. The scanned part is much
/// longer than the line, so that a secret at the end of the line is recognized completely and no
/// part of it remains.
const MAX_SCANNED_BYTES_PER_LINE: usize = 1 << 20;

/// Maximum number of recorded maskings per plugin and step. Further secrets are masked too, but not
/// recorded.
const MAX_RECORDED_MASKINGS_PER_STEP: usize = 32;

/// Maskings that were reported for a plugin in the current step, by target and rule. A guest that
/// repeats the same text a thousand times leaves one record.
#[derive(Debug, Default)]
pub(super) struct ReportedSecretMaskings {
    turn: u32,
    step: u32,
    seen: BTreeSet<(String, Arc<str>)>,
}

impl ReportedSecretMaskings {
    /// Records that `rules` found secrets in `target` during the turn and step `at`. Returns the
    /// rules for which this was not recorded before.
    fn record_secret_rule_matches(
        &mut self,
        at: (u32, u32),
        target: &str,
        rules: &BTreeSet<Arc<str>>,
    ) -> Vec<Arc<str>> {
        if (self.turn, self.step) != at {
            (self.turn, self.step) = at;
            self.seen.clear();
        }
        let mut fresh = Vec::new();
        for rule in rules {
            let report = (target.to_owned(), rule.clone());
            if self.seen.len() < MAX_RECORDED_MASKINGS_PER_STEP && self.seen.insert(report) {
                fresh.push(rule.clone());
            }
        }
        fresh
    }
}

/// Sanitizer of the texts that a plugin gives out during one call, such as a hook's answer.
#[derive(Clone, Copy)]
pub(super) struct GuestTextSanitizer<'a> {
    backing: &'a SharedPluginState,
    caller: &'a Caller,
    /// Origin of the text: the name of a point, `tool`, or the name of an import.
    place: &'a str,
    /// Whether `place` is a point, because a hook is being called.
    is_hook: bool,
    /// Text of the payload that the guest received; a guest that returns it unchanged needs no
    /// check.
    given: Option<&'a str>,
}

impl<'a> GuestTextSanitizer<'a> {
    pub(super) fn new(backing: &'a SharedPluginState, caller: &'a Caller, place: &'a str) -> Self {
        Self {
            backing,
            caller,
            place,
            is_hook: false,
            given: None,
        }
    }

    /// Creates a sanitizer for the answer of a hook at `point`.
    pub(super) fn for_hook(
        backing: &'a SharedPluginState,
        caller: &'a Caller,
        point: &'a str,
    ) -> Self {
        Self {
            is_hook: true,
            ..Self::new(backing, caller, point)
        }
    }

    /// Sets the text that the guest received as payload; returned unchanged, it needs no check.
    pub(super) fn with_received_payload_text(self, given: Option<&'a str>) -> Self {
        Self { given, ..self }
    }

    /// Creates a sanitizer for the call that an instance is running.
    pub(super) fn for_current_guest_call(state: &'a HostState, place: &'a str) -> Self {
        Self::new(&state.backing, &state.call.caller, place)
    }

    /// Sanitizes a text of any length and any number of lines.
    pub(super) fn text(&self, what: &str, text: String) -> String {
        match run_blocking_scan(text.len(), || SecretScanner::shared().mask_secrets(&text)) {
            None => text,
            Some(masked) => self.record_and_unwrap_masked_text(what, masked),
        }
    }

    /// Sanitizes a replacement for the payload text. If the guest returns the payload text itself,
    /// the result is `None`, and the text is not scanned again.
    pub(super) fn sanitize_payload_replacement(&self, what: &str, text: String) -> Option<String> {
        (self.given != Some(text.as_str())).then(|| self.text(what, text))
    }

    /// Sanitizes a text for terminals and models: one line, at most `limit` bytes.
    pub(super) fn sanitize_line(&self, what: &str, text: &str, limit: usize) -> String {
        let text = text.trim_start();
        let text = truncate_line_before_scan(text);
        match run_blocking_scan(text.len(), || SecretScanner::shared().mask_secrets(text)) {
            None => escape_and_truncate_line(text, limit),
            Some(masked) => {
                escape_and_truncate_line(&self.record_and_unwrap_masked_text(what, masked), limit)
            }
        }
    }

    /// Sanitizes JSON text so that it stays valid JSON. Text that is not JSON is sanitized as plain
    /// text; the caller that parses it reports the error.
    pub(super) fn json(&self, what: &str, text: String) -> String {
        run_blocking_scan(text.len(), || self.mask_secrets_in_json_text(what, text))
    }

    fn mask_secrets_in_json_text(&self, what: &str, text: String) -> String {
        let scanner = SecretScanner::shared();
        // Scan the raw text first, because the name of a key may show that its value is a secret.
        let mut text = match scanner.mask_secrets(&text) {
            None => text,
            Some(masked) if is_valid_json(&masked.text) || !is_valid_json(&text) => {
                self.record_and_unwrap_masked_text(what, masked)
            }
            Some(_) => self.mask_secrets_in_json_strings(what, text),
        };
        // Also scan the strings without escapes, because a secret with escaped characters appears
        // when the JSON is parsed.
        if text.contains("\\u") || text.contains("\\/") {
            text = self.mask_secrets_in_json_strings(what, text);
        }
        text
    }

    /// Checks a name under which a value is stored. A name that contains a secret is refused, not
    /// masked, because masking could make two names equal.
    pub(super) fn reject_name_with_secret(
        &self,
        what: &str,
        name: &str,
    ) -> Result<(), HostFunctionError> {
        let found = run_blocking_scan(name.len(), || SecretScanner::shared().find_secrets(name));
        if found.is_empty() {
            return Ok(());
        }
        let rules: BTreeSet<_> = found.into_iter().map(|finding| finding.rule).collect();
        let listed = join_rule_names(&rules);
        self.record_secret_masking(what, &rules, AccessOutcome::Denied);
        Err(HostFunctionError::Denied(format!(
            "the {what} contains what looks like a secret ({listed}); remove it"
        )))
    }

    /// Masks secrets in each string of a JSON text separately. Text that is not JSON is not
    /// changed.
    fn mask_secrets_in_json_strings(&self, what: &str, text: String) -> String {
        let Ok(mut value) = serde_json::from_str::<Value>(&text) else {
            return text;
        };
        let mut rules = BTreeSet::new();
        mask_secrets_in_json(&mut value, &mut rules);
        if rules.is_empty() {
            return text;
        }
        self.record_secret_masking(what, &rules, AccessOutcome::Masked);
        value.to_string()
    }

    fn record_and_unwrap_masked_text(&self, what: &str, masked: MaskedText) -> String {
        self.record_secret_masking(what, &masked.rules, AccessOutcome::Masked);
        masked.text
    }

    /// Records a masking. The record names the rules, never the matched text.
    fn record_secret_masking(
        &self,
        what: &str,
        rules: &BTreeSet<Arc<str>>,
        outcome: AccessOutcome,
    ) {
        let target = format!("{} {what}", self.place);
        let context = &self.caller.context;
        let at = (context.turn, context.step);
        let fresh = {
            let reported = self.backing.reported.lock();
            let mut reported = reported.unwrap_or_else(PoisonError::into_inner);
            reported.record_secret_rule_matches(at, &target, rules)
        };
        if fresh.is_empty() {
            return;
        }
        let mut origin = self.caller.action_origin();
        if self.is_hook {
            origin.point = Some(self.place.to_owned().into());
        }
        self.backing.handle.record_access(AccessRecord {
            plugin: self.backing.plugin.clone(),
            reached: Reached::Secret,
            target,
            outcome,
            reason: Some(join_rule_names(&fresh)),
            origin,
        });
    }
}

/// Truncates a text to the part that is scanned to produce a line. Also drops the last, incomplete
/// word: it may be part of a secret, and masking may shorten the text so much that the word would
/// appear in the line.
fn truncate_line_before_scan(text: &str) -> &str {
    let end = text.floor_char_boundary(MAX_SCANNED_BYTES_PER_LINE);
    match text.split_at_checked(end) {
        Some((head, "")) => head,
        Some((head, _)) => {
            let blank = head.rfind(char::is_whitespace);
            blank.and_then(|at| head.get(..at)).unwrap_or_default()
        }
        None => text,
    }
}

fn join_rule_names<'a>(rules: impl IntoIterator<Item = &'a Arc<str>>) -> String {
    let rules: Vec<&str> = rules.into_iter().map(|rule| &**rule).collect();
    rules.join(", ")
}

fn is_valid_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}
