//! Cache of the names and arguments of tool calls as changed by hooks for observers. Later events
//! about the same call reuse them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::lock::lock_ignoring_poison;

/// Maximum total length in bytes of the texts of a call that is cached.
const MAX_CACHED_CALL_BYTES: usize = 16 << 10;

/// Maximum number of tool calls of a turn that are cached.
const MAX_CACHED_TOOL_CALLS: usize = 32;

/// Cached call. The same call is in several events, and the hooks change it for observers only
/// once.
struct CachedEventToolCall {
    /// Text that hooks judged: the name and all texts of the call. It is the key of the cache.
    text: String,
    /// Plugins whose code caused the call, directly or through others.
    chain: Vec<Arc<str>>,
    /// Name and arguments of the call as observers see them.
    shown: (String, Value),
}

/// The latest cached calls of a turn, newest first.
#[derive(Default)]
pub(super) struct EventToolCallCache(Mutex<VecDeque<CachedEventToolCall>>);

impl EventToolCallCache {
    /// Returns the name and arguments that observers see of a call, if the cache contains the same
    /// call with the same chain of calling plugins. The chain matters because some hooks are not
    /// called for some callers.
    pub(super) fn find_cached_observer_call(
        &self,
        text: &str,
        chain: &[Arc<str>],
    ) -> Option<(String, Value)> {
        let calls = lock_ignoring_poison(&self.0);
        let mut same = calls
            .iter()
            .filter(|call| call.text == text && call.chain == chain);
        same.next().map(|call| call.shown.clone())
    }

    /// Adds a call to the cache, and removes the oldest one if the cache is full.
    pub(super) fn insert_call(&self, text: String, chain: &[Arc<str>], shown: &(String, Value)) {
        if text.len() > MAX_CACHED_CALL_BYTES {
            return;
        }
        let mut calls = lock_ignoring_poison(&self.0);
        calls.truncate(MAX_CACHED_TOOL_CALLS - 1);
        calls.push_front(CachedEventToolCall {
            text,
            chain: chain.to_vec(),
            shown: shown.clone(),
        });
    }
}
