//! Limits on the number of network requests of plugins, per session and concurrent. Requests over a
//! limit are refused, not queued.
//!
//! Start from [`ConcurrentRequestPermit`] and `PluginRequestBudget`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use super::error::{EgressErrorKind, Error};

/// Default maximum number of requests of one plugin in one session.
pub const DEFAULT_MAX_REQUESTS_PER_SESSION: u32 = 100;

/// Upper bound for the maximum number of requests that a manifest sets.
pub const MAX_REQUESTS_PER_SESSION_SETTING: u32 = 1000;

/// Maximum number of concurrent requests of one plugin. A request counts until its response has
/// been read to the end or dropped.
pub(super) const MAX_CONCURRENT_REQUESTS_PER_PLUGIN: usize = 8;

/// Maximum number of concurrent requests of all plugins. With responses of 10 MiB they need at most
/// 640 MiB of memory.
const MAX_CONCURRENT_REQUESTS_OF_ALL_PLUGINS: usize = 64;

/// Maximum number of open WebSocket connections of one plugin.
pub const MAX_WEBSOCKETS_PER_PLUGIN: usize = 4;

/// Maximum number of open WebSocket connections of all plugins. With full queues they need at most
/// 320 MiB of memory. They do not count as concurrent requests, because they can be open for days.
const MAX_WEBSOCKETS_OF_ALL_PLUGINS: usize = 64;

static ALL_PLUGINS_REQUEST_SEMAPHORE: Semaphore =
    Semaphore::const_new(MAX_CONCURRENT_REQUESTS_OF_ALL_PLUGINS);

static ALL_PLUGINS_WEBSOCKET_SEMAPHORE: Semaphore =
    Semaphore::const_new(MAX_WEBSOCKETS_OF_ALL_PLUGINS);

/// Number of requests that a plugin can still make in a session.
#[derive(Debug)]
pub(super) struct PluginRequestBudget {
    left: AtomicU32,
    limit: u32,
    is_told: AtomicBool,
}

/// Refusal of a request because the budget of requests is used up.
#[derive(Debug)]
pub(super) struct RequestBudgetExceededError {
    pub(super) error: Error,
    /// Whether this is the first refused request since the budget was reset. Later ones are not
    /// recorded, because a loop would fill the session file with them.
    pub(super) is_first: bool,
}

impl PluginRequestBudget {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            left: AtomicU32::new(limit),
            limit,
            is_told: AtomicBool::new(false),
        }
    }

    /// Restores the full number of requests that the plugin may send.
    pub(super) fn reset_budget(&self) {
        self.left.store(self.limit, Ordering::Relaxed);
        self.is_told.store(false, Ordering::Relaxed);
    }

    /// Subtracts one request from the budget. A request that is refused later counts too, because
    /// each one is recorded.
    pub(super) fn consume_request_budget(&self) -> Result<(), RequestBudgetExceededError> {
        let less = |left: u32| left.checked_sub(1);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        if taken.is_ok() {
            return Ok(());
        }
        let text = format!(
            "the plugin has used its {} requests of this session; `[limits] requests` raises the limit, up to {MAX_REQUESTS_PER_SESSION_SETTING}",
            self.limit
        );
        Err(RequestBudgetExceededError {
            error: Error::new(EgressErrorKind::Requests, text),
            is_first: !self.is_told.swap(true, Ordering::Relaxed),
        })
    }
}

/// Permit for one concurrent request or connection. A request keeps it until its response is
/// dropped.
#[derive(Debug)]
pub struct ConcurrentRequestPermit {
    _own: OwnedSemaphorePermit,
    _all: SemaphorePermit<'static>,
}

impl ConcurrentRequestPermit {
    /// Takes a permit for a request, or fails if none is free.
    pub(super) fn acquire_request_slot(own: &Arc<Semaphore>) -> Result<Self, Error> {
        let of_plugin = format!(
            "{MAX_CONCURRENT_REQUESTS_PER_PLUGIN} requests in progress, including those whose answers were not read to the end"
        );
        let of_all = format!("{MAX_CONCURRENT_REQUESTS_OF_ALL_PLUGINS} requests in progress");
        Self::acquire_plugin_and_global_permits(
            own,
            &ALL_PLUGINS_REQUEST_SEMAPHORE,
            &of_plugin,
            &of_all,
        )
    }

    /// Takes one permit from the plugin's semaphore and one from the semaphore of all plugins.
    /// `of_plugin` and `of_all` describe the two limits in errors.
    fn acquire_plugin_and_global_permits(
        own: &Arc<Semaphore>,
        all: &'static Semaphore,
        of_plugin: &str,
        of_all: &str,
    ) -> Result<Self, Error> {
        let refuse = |text: String| Error::new(EgressErrorKind::Requests, text);
        let own = own.clone().try_acquire_owned();
        let own = own.map_err(|_| refuse(format!("the plugin already has {of_plugin}")))?;
        let all = all.try_acquire();
        let all = all.map_err(|_| refuse(format!("all plugins together already have {of_all}")))?;
        Ok(Self {
            _own: own,
            _all: all,
        })
    }

    /// Takes a permit for a WebSocket connection, or fails if none is free.
    pub(super) fn acquire_connection_slot(own: &Arc<Semaphore>) -> Result<Self, Error> {
        let of_plugin =
            format!("{MAX_WEBSOCKETS_PER_PLUGIN} WebSocket connections; close one first");
        let of_all = format!("{MAX_WEBSOCKETS_OF_ALL_PLUGINS} WebSocket connections");
        Self::acquire_plugin_and_global_permits(
            own,
            &ALL_PLUGINS_WEBSOCKET_SEMAPHORE,
            &of_plugin,
            &of_all,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_budget_is_told_once() {
        let budget = PluginRequestBudget::new(2);
        assert!(budget.consume_request_budget().is_ok() && budget.consume_request_budget().is_ok());
        let first = budget.consume_request_budget().unwrap_err();
        assert!(first.is_first && first.error.text.contains("its 2 requests"));
        assert!(!budget.consume_request_budget().unwrap_err().is_first);
        budget.reset_budget();
        assert!(budget.consume_request_budget().is_ok() && budget.consume_request_budget().is_ok());
        assert!(budget.consume_request_budget().unwrap_err().is_first);
        assert!(
            PluginRequestBudget::new(0)
                .consume_request_budget()
                .is_err()
        );
    }

    #[test]
    fn a_place_is_free_again_once_it_is_dropped() {
        let own = Arc::new(Semaphore::new(1));
        let place = ConcurrentRequestPermit::acquire_request_slot(&own).unwrap();
        assert_eq!(
            ConcurrentRequestPermit::acquire_request_slot(&own)
                .unwrap_err()
                .kind,
            EgressErrorKind::Requests
        );
        drop(place);
        assert!(ConcurrentRequestPermit::acquire_request_slot(&own).is_ok());
    }
}
