//! Stores logins: one private file per server, changed only under a lock.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use rmcp::transport::auth::{AuthError, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use rind_lib::disk::{acquire_file_lock, open_if_present, replace_private_file};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::paths::RindPaths;

/// Name of the folder with the login files, in Rind's data folder.
const LOGINS_FOLDER_NAME: &str = "mcp-logins";

/// Version of the format of a login file.
const LOGIN_FILE_FORMAT_VERSION: u32 = 1;

/// Maximum size of a file with the tokens of a login, in bytes.
const MAX_LOGIN_FILE_BYTES: u64 = 1 << 20;

/// Returns the path of the file with the login at a server. `name` must be a validated server name,
/// because it becomes part of the path.
#[must_use]
pub fn login_file_path(paths: &RindPaths, name: &str) -> PathBuf {
    paths
        .data
        .join(LOGINS_FOLDER_NAME)
        .join(format!("{name}.json"))
}

/// Removes a login. Returns whether it existed.
///
/// # Errors
/// The file cannot be removed.
pub fn remove_login(path: &Path) -> io::Result<bool> {
    if path.symlink_metadata().is_err() {
        return Ok(false);
    }
    let _lock = acquire_file_lock(path, || {})?;
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Login at one MCP server, with its tokens, as stored in a file.
#[derive(Clone, Serialize, Deserialize)]
pub struct StoredLogin {
    version: u32,
    /// URL of the server for which the tokens are valid.
    pub url: String,
    /// URL of the authorization server that issued the tokens.
    pub issuer: String,
    /// Time at which the user logged in, as RFC 3339.
    pub given: String,
    /// Client secret, if the authorization server issued one or the settings name one.
    pub(super) client_secret: Option<String>,
    pub(super) redirect: String,
    pub(super) credentials: Option<StoredCredentials>,
}

impl std::fmt::Debug for StoredLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StoredLogin")
            .field("url", &self.url)
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

/// Access token of a login, with the time of its renewal.
pub(super) struct AccessToken {
    pub(super) text: String,
    /// Time from which the token must be renewed, in seconds since 1970; `None` if the token does
    /// not expire.
    pub(super) renew_at: Option<u64>,
}

impl StoredLogin {
    /// Creates a login that has no tokens yet.
    pub(super) fn new(
        url: &str,
        issuer: &str,
        redirect: &str,
        client_secret: Option<String>,
    ) -> Self {
        Self {
            version: LOGIN_FILE_FORMAT_VERSION,
            url: url.to_owned(),
            issuer: issuer.to_owned(),
            given: rind_lib::clock::format_current_time(),
            client_secret,
            redirect: redirect.to_owned(),
            credentials: None,
        }
    }

    /// Reads a login; `None` if the file does not exist.
    ///
    /// # Errors
    /// The file is damaged, others can read it, or a newer version wrote it.
    pub fn read(path: &Path) -> Result<Option<Self>, String> {
        let wrong = |why: String| {
            format!(
                "its login in {} is not used: {why}; `rind mcp login` replaces it",
                path.display()
            )
        };
        let Some(file) = open_if_present(path).map_err(|e| wrong(e.to_string()))? else {
            return Ok(None);
        };
        let about = file.metadata().map_err(|e| wrong(e.to_string()))?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&about.permissions());
        if mode & 0o077 != 0 {
            return Err(wrong("other users can read or change it".to_owned()));
        }
        // The parser's message is dropped, because it could contain a token.
        let login: Self =
            serde_json::from_reader(std::io::BufReader::new(file.take(MAX_LOGIN_FILE_BYTES)))
                .map_err(|_| wrong("it is damaged".to_owned()))?;
        if login.version > LOGIN_FILE_FORMAT_VERSION {
            return Err(wrong("a newer version wrote it".to_owned()));
        }
        Ok(Some(login))
    }

    /// Writes the login atomically to the file `path`. The caller must hold the lock of that file.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let bytes = serde_json::to_vec_pretty(self).map_err(io::Error::other)?;
        replace_private_file(path, &bytes)
    }

    /// Returns the id of the OAuth client with which the login was made.
    pub(super) fn client_id(&self) -> Option<String> {
        Some(self.credentials.as_ref()?.client_id.clone())
    }

    /// Returns the scopes of the login's tokens, as far as the authorization server reported them.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        let credentials = self.credentials.as_ref();
        credentials.map_or(&[], |own| &own.granted_scopes)
    }

    /// Returns the tokens with their kinds, the refresh token first.
    pub(super) fn tokens_with_kinds(&self) -> Vec<(&'static str, String)> {
        let tokens = self.credentials.as_ref();
        let tokens = tokens.and_then(|own| serde_json::to_value(own.token_response.as_ref()?).ok());
        let tokens = tokens.unwrap_or_default();
        let token = |kind: &'static str| {
            let text = tokens.get(kind)?.as_str()?;
            (!text.is_empty()).then(|| (kind, text.to_owned()))
        };
        ["refresh_token", "access_token"]
            .into_iter()
            .filter_map(token)
            .collect()
    }

    /// Returns the access token.
    ///
    /// # Errors
    /// The login has no token, or its token type is not `Bearer`.
    pub(super) fn access_token(&self) -> Result<AccessToken, String> {
        let none = || "its login has no token; log in again".to_owned();
        let credentials = self.credentials.as_ref().ok_or_else(none)?;
        let tokens = credentials.token_response.as_ref().ok_or_else(none)?;
        let tokens = serde_json::to_value(tokens).map_err(|_| none())?;
        let text = tokens.get("access_token").and_then(Value::as_str);
        let text = text.filter(|text| !text.is_empty()).ok_or_else(none)?;
        let kind = tokens.get("token_type").and_then(Value::as_str);
        if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("bearer")) {
            return Err("the stored token is not of the type `Bearer`".to_owned());
        }
        let lifetime = tokens.get("expires_in").and_then(Value::as_u64);
        let ends = lifetime.zip(credentials.token_received_at);
        Ok(AccessToken {
            text: text.to_owned(),
            renew_at: ends.map(|(lifetime, received)| {
                received.saturating_add(lifetime - (lifetime / 2).min(TOKEN_RENEWAL_MARGIN_SECONDS))
            }),
        })
    }
}

/// Number of seconds before its expiry at which a token is renewed. For a short-lived token, half
/// of its lifetime is used instead.
const TOKEN_RENEWAL_MARGIN_SECONDS: u64 = 60;

/// Credential store that the MCP library uses during a login or a renewal. The caller must hold the
/// lock of the login's file.
#[derive(Clone)]
pub(super) struct LoginCredentialStore {
    path: PathBuf,
    login: Arc<Mutex<StoredLogin>>,
}

impl LoginCredentialStore {
    pub(super) fn new(path: &Path, login: StoredLogin) -> Self {
        Self {
            path: path.to_owned(),
            login: Arc::new(Mutex::new(login)),
        }
    }

    pub(super) fn stored_login(&self) -> StoredLogin {
        lock_ignoring_poison(&self.login).clone()
    }
}

#[async_trait]
impl CredentialStore for LoginCredentialStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(lock_ignoring_poison(&self.login).credentials.clone())
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        let mut login = lock_ignoring_poison(&self.login);
        let mut changed = login.clone();
        changed.credentials = Some(credentials);
        // Reject an unusable token before it replaces the stored token.
        changed
            .access_token()
            .map_err(AuthError::InvalidTokenType)?;
        let written = changed.write(&self.path);
        written.map_err(|e| AuthError::CredentialStoreError(e.to_string()))?;
        *login = changed;
        Ok(())
    }

    /// Does nothing: a stored login is removed only at the user's command, never by the OAuth
    /// library.
    async fn clear(&self) -> Result<(), AuthError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn login(tokens: &Value) -> StoredLogin {
        let mut login = StoredLogin::new(
            "https://a.example/mcp",
            "https://i.example",
            "http://x",
            None,
        );
        let credentials = json!({
            "client_id": "c", "token_response": tokens, "token_received_at": 1000,
        });
        login.credentials = Some(serde_json::from_value(credentials).unwrap());
        login
    }

    #[test]
    fn a_token_is_renewed_before_its_end() {
        for (lifetime, expected) in [
            (Some(3600), Some(4540)),
            (Some(60), Some(1030)),
            (None, None),
        ] {
            let mut tokens = json!({"access_token": "abcdefgh", "token_type": "Bearer"});
            if let Some(lifetime) = lifetime {
                tokens["expires_in"] = json!(lifetime);
            }
            let token = login(&tokens).access_token().unwrap();
            assert_eq!(
                (token.text.as_str(), token.renew_at),
                ("abcdefgh", expected)
            );
        }
        let mac = json!({"access_token": "abcdefgh", "token_type": "mac"});
        assert!(login(&mac).access_token().is_err());
    }

    #[test]
    fn the_file_is_its_owners_alone_and_shows_no_token_in_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("docs.json");
        let stored = login(&json!({"access_token": "tok-hunter2", "token_type": "bearer"}));
        assert!(!format!("{stored:?}").contains("hunter2"));
        assert!(StoredLogin::read(&path).unwrap().is_none());
        stored.write(&path).unwrap();
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let again = StoredLogin::read(&path).unwrap().unwrap();
        assert_eq!(again.access_token().unwrap().text, "tok-hunter2");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(
            StoredLogin::read(&path)
                .unwrap_err()
                .contains("other users")
        );
        std::fs::remove_file(&path).unwrap();
        replace_private_file(&path, b"{\"access_token\": \"hunter2\"").unwrap();
        let why = StoredLogin::read(&path).unwrap_err();
        assert!(why.contains("damaged") && !why.contains("hunter2"), "{why}");
        assert!(remove_login(&path).unwrap() && !remove_login(&path).unwrap());
    }
}
