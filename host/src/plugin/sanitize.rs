//! The way out of the sandbox for text: what a guest says passes here, whoever reads it next.
//!
//! Owns that secrets are masked, that lines are clean and short, and that a masking is on record. It must not know what a
//! text means. Anything else that a guest gives out (files, requests) is not text in this sense: requests with a secret are
//! refused where they leave, files stay where the plugin may write.
//!
//! Start from [`Sanitizer`].

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use serde::de::IgnoredAny;
use serde_json::Value;

use super::host::{Backing, HostState};
use crate::point::caller::Caller;
use crate::point::handle::HandleError;
use crate::point::trace::{AccessOutcome, AccessRecord, Reached};
use crate::secret::{Masked, Scanner, aside, mask_leaves};
use crate::text::clean;

/// Bytes of a text that are read to make a short line of it: far more than a line, so that a secret at its end is seen whole
/// and no half of it stays.
const MAX_LINE_SOURCE_BYTES: usize = 1 << 20;

/// Most maskings on record for one plugin in one step. What is masked is masked; this bounds what is said of it.
const MAX_REPORTS: usize = 32;

/// Reports of a plugin in the current step: what was masked, and the rule. A guest that says one thing a thousand times leaves
/// one record of it.
#[derive(Debug, Default)]
pub(super) struct Reported {
    turn: u32,
    step: u32,
    seen: BTreeSet<(String, Arc<str>)>,
}

impl Reported {
    /// Adds a report, and returns the rules that were not reported of this target yet.
    fn add(&mut self, at: (u32, u32), target: &str, rules: &BTreeSet<Arc<str>>) -> Vec<Arc<str>> {
        if (self.turn, self.step) != at {
            (self.turn, self.step) = at;
            self.seen.clear();
        }
        let mut fresh = Vec::new();
        for rule in rules {
            let report = (target.to_owned(), rule.clone());
            if self.seen.len() < MAX_REPORTS && self.seen.insert(report) {
                fresh.push(rule.clone());
            }
        }
        fresh
    }
}

/// The way out for one call of one plugin.
#[derive(Clone, Copy)]
pub(super) struct Sanitizer<'a> {
    backing: &'a Backing,
    caller: &'a Caller,
    /// Place of the call: the name of a point, `tool`, the name of an import.
    place: &'a str,
    /// Whether the place is a point, and the call one of its hook.
    is_hook: bool,
    /// The text that the guest was handed.
    given: Option<&'a str>,
}

impl<'a> Sanitizer<'a> {
    pub(super) fn new(backing: &'a Backing, caller: &'a Caller, place: &'a str) -> Self {
        Self {
            backing,
            caller,
            place,
            is_hook: false,
            given: None,
        }
    }

    /// The way out for what a hook answers.
    pub(super) fn of_hook(backing: &'a Backing, caller: &'a Caller, point: &'a str) -> Self {
        Self {
            is_hook: true,
            ..Self::new(backing, caller, point)
        }
    }

    /// Names the text that the guest was handed.
    pub(super) fn with_given(self, given: Option<&'a str>) -> Self {
        Self { given, ..self }
    }

    /// The way out for the call that an instance runs now.
    pub(super) fn of(state: &'a HostState, place: &'a str) -> Self {
        Self::new(&state.backing, &state.call.caller, place)
    }

    /// A text of any length and any number of lines.
    pub(super) fn text(&self, what: &str, text: String) -> String {
        match aside(text.len(), || Scanner::shared().mask(&text)) {
            None => text,
            Some(masked) => self.masked(what, masked),
        }
    }

    /// Sanitizes the text that takes the place of the one that was handed in. The same text again changes nothing, and is none:
    /// it is neither scanned nor compared once more.
    pub(super) fn replacement(&self, what: &str, text: String) -> Option<String> {
        (self.given != Some(text.as_str())).then(|| self.text(what, text))
    }

    /// A text that is shown on terminals and to models: one line, at most `limit` bytes.
    pub(super) fn line(&self, what: &str, text: &str, limit: usize) -> String {
        let text = text.trim_start();
        let text = cut(text);
        match aside(text.len(), || Scanner::shared().mask(text)) {
            None => clean(text, limit),
            Some(masked) => clean(&self.masked(what, masked), limit),
        }
    }

    /// JSON text, which it still is when secrets are masked. What is no JSON passes as text; whoever parses it says so.
    pub(super) fn json(&self, what: &str, text: String) -> String {
        aside(text.len(), || self.masked_json(what, text))
    }

    fn masked_json(&self, what: &str, text: String) -> String {
        let scanner = Scanner::shared();
        // As it stands, because the name of a key may say what its value is.
        let mut text = match scanner.mask(&text) {
            None => text,
            Some(masked) if is_json(&masked.text) || !is_json(&text) => self.masked(what, masked),
            Some(_) => self.leaves(what, text),
        };
        // Escaped letters hide nothing from whoever parses it.
        if text.contains("\\u") || text.contains("\\/") {
            text = self.leaves(what, text);
        }
        text
    }

    /// A name under which something is kept. It cannot be masked, two names could become one; it is refused.
    pub(super) fn name(&self, what: &str, name: &str) -> Result<(), HandleError> {
        let found = aside(name.len(), || Scanner::shared().scan(name));
        if found.is_empty() {
            return Ok(());
        }
        let rules: BTreeSet<_> = found.into_iter().map(|finding| finding.rule).collect();
        let listed = list(&rules);
        self.report(what, &rules, AccessOutcome::Denied);
        Err(HandleError::Denied(format!(
            "the {what} contains what looks like a secret ({listed}); remove it"
        )))
    }

    /// JSON text with its strings masked one by one.
    fn leaves(&self, what: &str, text: String) -> String {
        let Ok(mut value) = serde_json::from_str::<Value>(&text) else {
            return text;
        };
        let mut rules = BTreeSet::new();
        mask_leaves(&mut value, &mut rules);
        if rules.is_empty() {
            return text;
        }
        self.report(what, &rules, AccessOutcome::Masked);
        value.to_string()
    }

    fn masked(&self, what: &str, masked: Masked) -> String {
        self.report(what, &masked.rules, AccessOutcome::Masked);
        masked.text
    }

    /// Leaves a record, which names rules and never what they found.
    fn report(&self, what: &str, rules: &BTreeSet<Arc<str>>, outcome: AccessOutcome) {
        let target = format!("{} {what}", self.place);
        let context = &self.caller.context;
        let at = (context.turn, context.step);
        let fresh = {
            let reported = self.backing.reported.lock();
            let mut reported = reported.unwrap_or_else(PoisonError::into_inner);
            reported.add(at, &target, rules)
        };
        if fresh.is_empty() {
            return;
        }
        let mut origin = self.caller.origin();
        if self.is_hook {
            origin.point = Some(self.place.to_owned().into());
        }
        self.backing.handle.access(AccessRecord {
            plugin: self.backing.plugin.clone(),
            reached: Reached::Secret,
            target,
            outcome,
            reason: Some(list(&fresh)),
            origin,
        });
    }
}

/// Cuts a text to what is read to make a line of it. What is cut off takes its word along: half a word may be half a secret,
/// and what was masked before it may be so much shorter that the line reaches this far.
fn cut(text: &str) -> &str {
    let end = text.floor_char_boundary(MAX_LINE_SOURCE_BYTES);
    match text.split_at_checked(end) {
        Some((head, "")) => head,
        Some((head, _)) => {
            let blank = head.rfind(char::is_whitespace);
            blank.and_then(|at| head.get(..at)).unwrap_or_default()
        }
        None => text,
    }
}

fn list<'a>(rules: impl IntoIterator<Item = &'a Arc<str>>) -> String {
    let rules: Vec<&str> = rules.into_iter().map(|rule| &**rule).collect();
    rules.join(", ")
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}
