//! Confinement whose setup has failed. Each call tries the setup again.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::Mutex;

use super::super::process::confine::{ConfinementFailureReason, ConfinementPermissions};

/// Function that sets up the confinement and returns it, or the reason why the setup failed.
type ConfinementSetupFn = dyn Fn() -> BoxFuture<'static, Result<ConfinementPermissions, ConfinementFailureReason>>
    + Send
    + Sync;

/// A confinement that each call tries to set up until one succeeds. Clones share the result.
#[derive(Clone)]
pub struct RetriedConfinementSetup {
    wanted: Arc<ConfinementPermissions>,
    detect: Arc<ConfinementSetupFn>,
    found: Arc<Mutex<Option<ConfinementPermissions>>>,
}

impl RetriedConfinementSetup {
    /// Creates a confinement that calls `detect` at each call until it succeeds. `wanted` describes
    /// the permissions of commands after that; the mechanism that `detect` finds may differ from
    /// the one in `wanted`.
    pub fn new(
        wanted: ConfinementPermissions,
        detect: impl Fn()
            -> BoxFuture<'static, Result<ConfinementPermissions, ConfinementFailureReason>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self {
            wanted: Arc::new(wanted),
            detect: Arc::new(detect),
            found: Arc::default(),
        }
    }

    pub(super) fn configured_confinement(&self) -> &ConfinementPermissions {
        &self.wanted
    }

    /// Returns the confinement, which is detected at the first call that succeeds, or the reason
    /// why this call failed too.
    pub(super) async fn get_or_detect_confinement(
        &self,
    ) -> Result<ConfinementPermissions, ConfinementFailureReason> {
        let mut found = self.found.lock().await;
        if let Some(confinement) = &*found {
            return Ok(confinement.clone());
        }
        let confinement = (self.detect)().await?;
        Ok(found.insert(confinement).clone())
    }
}

impl fmt::Debug for RetriedConfinementSetup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RetryingConfinement")
    }
}
