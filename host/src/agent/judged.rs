//! Calls whose arguments hooks have judged for observers, kept for the next event about the same
//! call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::lock::lock;

/// Maximum total length of the texts of a call whose judgement is kept for the next event about the
/// call.
const MAX_KEPT_BYTES: usize = 16 << 10;

/// Maximum number of calls whose judgement is kept.
const MAX_KEPT_CALLS: usize = 32;

/// A call that hooks have judged. It is in several events, and is judged for the first of them
/// alone.
struct JudgedCall {
    /// Text that was judged: the name and all texts.
    text: String,
    /// Plugins whose code caused the call.
    chain: Vec<Arc<str>>,
    /// Shown name and arguments.
    shown: (String, Value),
}

/// The latest judged calls of a turn, newest first.
#[derive(Default)]
pub(super) struct JudgedCalls(Mutex<VecDeque<JudgedCall>>);

impl JudgedCalls {
    /// Returns the name and arguments that are shown of a call, if it was judged for the same
    /// plugins: not every hook is called for every caller.
    pub(super) fn find_judged(&self, text: &str, chain: &[Arc<str>]) -> Option<(String, Value)> {
        let calls = lock(&self.0);
        let mut same = calls
            .iter()
            .filter(|call| call.text == text && call.chain == chain);
        same.next().map(|call| call.shown.clone())
    }

    /// Keeps a judgement, instead of the oldest one where there are too many.
    pub(super) fn keep_judged(&self, text: String, chain: &[Arc<str>], shown: &(String, Value)) {
        if text.len() > MAX_KEPT_BYTES {
            return;
        }
        let mut calls = lock(&self.0);
        calls.truncate(MAX_KEPT_CALLS - 1);
        calls.push_front(JudgedCall {
            text,
            chain: chain.to_vec(),
            shown: shown.clone(),
        });
    }
}
