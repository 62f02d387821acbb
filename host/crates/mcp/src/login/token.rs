//! Provides the access token for requests: reads it before the first request, renews it before it
//! expires, and renews it once if the server rejects it.
//!
//! Only the egress gets the token, as a secret named [`ACCESS_TOKEN_SECRET_NAME`]: the egress adds
//! it to requests to the server's host and masks it in answers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio::sync::Mutex as AsyncMutex;

use super::egress::LoginHttpClient;
use super::file::StoredLogin;
use super::flow::renew_stored_login_tokens;
use rind_lib::disk::acquire_file_lock;
use rind_lib::egress::{Secret, SecretStore};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::handle::AgentHandle;

/// Name of the access token among the secrets of the server's egress.
pub(crate) const ACCESS_TOKEN_SECRET_NAME: &str = "MCP_LOGIN_TOKEN";

type SharedAccessToken = Arc<Mutex<Option<Secret>>>;

/// Secrets for the egress of one server: the operator's secrets and the server's access token.
pub(crate) struct ServerSecretsWithAccessToken {
    others: Arc<dyn SecretStore>,
    token: SharedAccessToken,
}

impl SecretStore for ServerSecretsWithAccessToken {
    fn get(&self, name: &str) -> Option<Secret> {
        match name == ACCESS_TOKEN_SECRET_NAME {
            true => lock_ignoring_poison(&self.token).clone(),
            false => self.others.get(name),
        }
    }
}

/// Login at one MCP server with its current access token, which all sessions share.
pub(crate) struct SharedServerLogin {
    name: String,
    url: String,
    is_private: bool,
    path: PathBuf,
    token: SharedAccessToken,
    /// Time from which the token must be renewed, in seconds since 1970. The lock is held during a
    /// renewal.
    renew_at: AsyncMutex<Option<u64>>,
}

impl std::fmt::Debug for SharedServerLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedServerLogin")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl SharedServerLogin {
    /// Creates the login from the file at `path`. Also returns the secrets for the server's egress,
    /// which add the token to `others`.
    pub(crate) fn new(
        name: &str,
        url: &str,
        is_private: bool,
        path: &Path,
        others: Arc<dyn SecretStore>,
    ) -> (Arc<Self>, Arc<ServerSecretsWithAccessToken>) {
        let token = SharedAccessToken::default();
        let login = Self {
            name: name.to_owned(),
            url: url.to_owned(),
            is_private,
            path: path.to_owned(),
            token: token.clone(),
            renew_at: AsyncMutex::default(),
        };
        (
            Arc::new(login),
            Arc::new(ServerSecretsWithAccessToken { others, token }),
        )
    }

    /// Returns the access token for a request, and renews it if necessary.
    ///
    /// # Errors
    /// Reason, as a sentence.
    pub(crate) async fn valid_access_token(
        &self,
        handle: &Arc<dyn AgentHandle>,
    ) -> Result<Secret, String> {
        let mut renew_at = self.renew_at.lock().await;
        let token = lock_ignoring_poison(&self.token).clone();
        match token {
            Some(token) if renew_at.is_none_or(|at| unix_now_seconds() < at) => Ok(token),
            _ => {
                *renew_at = self.load_or_renew_token(handle, false).await?;
                self.require_access_token()
            }
        }
    }

    /// Renews a token that the server rejected, unless the token was already renewed since the
    /// request with the token `sent`.
    ///
    /// # Errors
    /// Reason, as a sentence.
    pub(crate) async fn renew_rejected_token(
        &self,
        handle: &Arc<dyn AgentHandle>,
        sent: &Secret,
    ) -> Result<(), String> {
        let mut renew_at = self.renew_at.lock().await;
        if lock_ignoring_poison(&self.token).as_ref() == Some(sent) {
            *renew_at = self.load_or_renew_token(handle, true).await?;
        }
        Ok(())
    }

    fn require_access_token(&self) -> Result<Secret, String> {
        let token = lock_ignoring_poison(&self.token).clone();
        token.ok_or_else(|| self.no_login_message())
    }

    fn no_login_message(&self) -> String {
        format!(
            "no login for it is stored any more; run `rind mcp login {}`",
            self.name
        )
    }

    /// Loads the token from the file if it is still usable there, because another process may have
    /// renewed it; otherwise renews it. A token that was refused is not usable. Returns the time
    /// from which the token must be renewed again.
    async fn load_or_renew_token(
        &self,
        handle: &Arc<dyn AgentHandle>,
        is_refused: bool,
    ) -> Result<Option<u64>, String> {
        let path = self.path.clone();
        let locked = tokio::task::spawn_blocking(move || acquire_file_lock(&path, || {})).await;
        let failed = |why: String| format!("the file of its login cannot be locked: {why}");
        let _lock = locked
            .map_err(|e| failed(e.to_string()))?
            .map_err(|e| failed(e.to_string()))?;
        let login = StoredLogin::read(&self.path)?.filter(|login| login.url == self.url);
        let login = login.ok_or_else(|| self.no_login_message())?;
        let stored = login.access_token()?;
        let secret = Secret::new(&stored.text);
        let is_known = lock_ignoring_poison(&self.token).as_ref() == Some(&secret);
        let is_fresh = stored.renew_at.is_none_or(|at| unix_now_seconds() < at);
        if is_fresh && !(is_refused && is_known) {
            *lock_ignoring_poison(&self.token) = Some(secret);
            return Ok(stored.renew_at);
        }
        let egress = LoginHttpClient::new(&self.name, &self.url, self.is_private, handle.clone())?;
        let renewed = renew_stored_login_tokens(&self.name, &egress, &self.path, login).await?;
        let stored = renewed.access_token()?;
        *lock_ignoring_poison(&self.token) = Some(Secret::new(&stored.text));
        Ok(stored.renew_at)
    }
}

fn unix_now_seconds() -> u64 {
    u64::try_from(rind_lib::clock::now_ms() / 1000).unwrap_or_default()
}
