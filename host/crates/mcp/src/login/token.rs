//! The access token of a login in use: read before the first request, renewed before it expires,
//! and renewed once if the server rejects it.
//!
//! Only the egress gets the token, as a secret named [`TOKEN_NAME`]: the egress adds it to requests
//! to the server's host and masks it in answers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::Mutex as AsyncMutex;

use super::egress::LoginEgress;
use super::file::StoredLogin;
use super::flow::renew_login;
use rind_lib::disk::lock_beside;
use rind_lib::egress::{Secret, Secrets};
use rind_lib::lock::lock;
use rind_lib::point::handle::AgentHandle;

/// Name of the access token among the secrets of the server's egress.
pub(crate) const TOKEN_NAME: &str = "MCP_LOGIN_TOKEN";

type SharedToken = Arc<Mutex<Option<Secret>>>;

/// The operator's secrets, plus the access token of one server.
pub(crate) struct LoginSecrets {
    others: Arc<dyn Secrets>,
    token: SharedToken,
}

impl Secrets for LoginSecrets {
    fn get(&self, name: &str) -> Option<Secret> {
        match name == TOKEN_NAME {
            true => lock(&self.token).clone(),
            false => self.others.get(name),
        }
    }
}

/// A login in use, shared by all sessions.
pub(crate) struct ServerLogin {
    name: String,
    url: String,
    is_private: bool,
    path: PathBuf,
    token: SharedToken,
    /// Time from which the token must be renewed, in seconds since 1970. The lock is held during a
    /// renewal.
    renew_at: AsyncMutex<Option<u64>>,
}

impl std::fmt::Debug for ServerLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerLogin")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl ServerLogin {
    /// Creates the login from the file at `path`. Also returns the secrets for the server's egress,
    /// which add the token to `others`.
    pub(crate) fn new(
        name: &str,
        url: &str,
        is_private: bool,
        path: &Path,
        others: Arc<dyn Secrets>,
    ) -> (Arc<Self>, Arc<LoginSecrets>) {
        let token = SharedToken::default();
        let login = Self {
            name: name.to_owned(),
            url: url.to_owned(),
            is_private,
            path: path.to_owned(),
            token: token.clone(),
            renew_at: AsyncMutex::default(),
        };
        (Arc::new(login), Arc::new(LoginSecrets { others, token }))
    }

    /// Returns the access token for a request, and renews it if necessary.
    ///
    /// # Errors
    /// Reason, as a sentence.
    pub(crate) async fn ready_token(
        &self,
        handle: &Arc<dyn AgentHandle>,
    ) -> Result<Secret, String> {
        let mut renew_at = self.renew_at.lock().await;
        let token = lock(&self.token).clone();
        match token {
            Some(token) if renew_at.is_none_or(|at| now_seconds() < at) => Ok(token),
            _ => {
                *renew_at = self.renew(handle, false).await?;
                self.known_token()
            }
        }
    }

    /// Renews a token that the server rejected, unless it was already renewed after `sent` was
    /// sent.
    ///
    /// # Errors
    /// Reason, as a sentence.
    pub(crate) async fn renew_refused(
        &self,
        handle: &Arc<dyn AgentHandle>,
        sent: &Secret,
    ) -> Result<(), String> {
        let mut renew_at = self.renew_at.lock().await;
        if lock(&self.token).as_ref() == Some(sent) {
            *renew_at = self.renew(handle, true).await?;
        }
        Ok(())
    }

    fn known_token(&self) -> Result<Secret, String> {
        let token = lock(&self.token).clone();
        token.ok_or_else(|| self.no_login())
    }

    fn no_login(&self) -> String {
        format!(
            "there is no login any more; run `rind mcp login {}`",
            self.name
        )
    }

    /// Reloads the token from the file, because another process may have renewed it; otherwise
    /// renews it. Returns the time from which it must be renewed again.
    async fn renew(
        &self,
        handle: &Arc<dyn AgentHandle>,
        is_refused: bool,
    ) -> Result<Option<u64>, String> {
        let path = self.path.clone();
        let locked = tokio::task::spawn_blocking(move || lock_beside(&path, || {})).await;
        let failed = |why: String| format!("its login cannot be locked: {why}");
        let _lock = locked
            .map_err(|e| failed(e.to_string()))?
            .map_err(|e| failed(e.to_string()))?;
        let login = StoredLogin::read(&self.path)?.filter(|login| login.url == self.url);
        let login = login.ok_or_else(|| self.no_login())?;
        let stored = login.access_token()?;
        let secret = Secret::new(&stored.text);
        let is_known = lock(&self.token).as_ref() == Some(&secret);
        let is_fresh = stored.renew_at.is_none_or(|at| now_seconds() < at);
        if is_fresh && !(is_refused && is_known) {
            *lock(&self.token) = Some(secret);
            return Ok(stored.renew_at);
        }
        let egress = LoginEgress::new(&self.name, &self.url, self.is_private, handle.clone())?;
        let renewed = renew_login(&self.name, &egress, &self.path, login).await?;
        let stored = renewed.access_token()?;
        *lock(&self.token) = Some(Secret::new(&stored.text));
        Ok(stored.renew_at)
    }
}

fn now_seconds() -> u64 {
    u64::try_from(rind_lib::clock::now_ms() / 1000).unwrap_or_default()
}
