//! Runs the OAuth flow of a login, and renews tokens.
//!
//! Start from [`PendingBrowserLogin::begin`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig,
};
use url::Url;

use super::egress::LoginHttpClient;
use super::file::{LoginCredentialStore, StoredLogin};
use super::revoke::revocation_endpoint;
use super::{MAX_QUOTED_SERVER_TEXT_BYTES, header_value_text};
use crate::probe::SessionlessAgentHandle;
use rind_lib::disk::acquire_file_lock;
use rind_lib::egress::{EgressRequest, EgressRequestBody, PluginRequestTimeouts};
use rind_lib::text::escape_and_truncate_line;

/// Client name, which the authorization server shows on its page.
const OAUTH_CLIENT_NAME: &str = "Rind";

/// PKCE challenge method, which the authorization server must support.
const PKCE_METHOD: &str = "S256";

/// First message of an MCP client. A server that requires a login answers it with a
/// `www-authenticate` challenge.
const INITIALIZE_REQUEST_JSON: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"rind","version":"0"}}}"#;

/// Parameters of a login at an MCP server that is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct McpLoginParameters<'a> {
    /// Name of the MCP server in the settings.
    pub name: &'a str,
    /// URL of the MCP server.
    pub url: &'a str,
    /// Whether the host names of the servers may resolve to private addresses.
    pub is_private: bool,
    /// File in which the tokens of the login are stored.
    pub file: &'a Path,
    /// Loopback URL to which the authorization server redirects the browser.
    pub redirect: &'a str,
    /// Scopes to request; if empty, the scopes that the server names.
    pub scopes: &'a [String],
    /// Id of a client that the operator registered; without one, a new client is registered.
    pub client_id: Option<&'a str>,
    /// Secret of the client `client_id`; `None` for a client without a secret.
    pub client_secret: Option<&'a str>,
}

/// Outcome of [`PendingBrowserLogin::finish_login`], for a redirect of the browser.
#[derive(Debug)]
pub enum LoginOutcome {
    /// The URL does not belong to this login, which continues; contains the reason.
    Other(String),
    /// The login failed; contains the reason, phrased to follow "the login".
    Failed(String),
    /// The login succeeded, and its tokens are stored in the file.
    Done(Box<StoredLogin>),
}

/// A login that waits for the user's approval in the browser.
pub struct PendingBrowserLogin {
    manager: AuthorizationManager,
    egress: Arc<LoginHttpClient>,
    file: PathBuf,
    url: String,
    state: String,
    issuer: String,
    redirect: Url,
    scopes: Vec<String>,
    store: LoginCredentialStore,
}

impl std::fmt::Debug for PendingBrowserLogin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingBrowserLogin")
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}

impl PendingBrowserLogin {
    /// Discovers the authorization server, registers a client unless one is given, and prepares the
    /// URL for the browser.
    ///
    /// # Errors
    /// Reason, phrased to follow "the login".
    pub async fn begin(request: McpLoginParameters<'_>) -> Result<Self, String> {
        let McpLoginParameters { name, url, .. } = request;
        let egress = LoginHttpClient::new(
            name,
            url,
            request.is_private,
            Arc::new(SessionlessAgentHandle),
        )?;
        let redirect = Url::parse(request.redirect).map_err(|e| e.to_string())?;
        let mut manager = create_authorization_manager(url, &egress).await?;
        let challenge = request_auth_challenge(&egress, url).await?;
        let metadata =
            discover_authorization_metadata(&manager, &egress, challenge.as_deref()).await?;
        let issuer = metadata.issuer.clone().unwrap_or_default();
        let can_register = metadata.registration_endpoint.is_some();
        let reads_documents = supports_client_id_documents(&metadata);
        manager.set_metadata(metadata);
        let scopes = match request.scopes {
            [] => manager.select_initial_scopes(&[]).await,
            own => own.to_vec(),
        };
        let words: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let secret = match request.client_id {
            // The client id is the URL of a document about the client, which the authorization
            // server would have to fetch.
            Some(id) if is_client_metadata_document_url(id) && !reads_documents => {
                return Err(format!(
                    "needs another client id: {} does not declare that it accepts a URL as client id, such as {}; set `client_id` in [mcp.{name}] to the id of a client that is registered there, or remove `client_id`",
                    escape_and_truncate_line(&issuer, MAX_QUOTED_SERVER_TEXT_BYTES),
                    escape_and_truncate_line(id, MAX_QUOTED_SERVER_TEXT_BYTES)
                ));
            }
            Some(id) => {
                let mut config = OAuthClientConfig::new(id, request.redirect);
                if let Some(secret) = request.client_secret {
                    config = config.with_client_secret(secret);
                }
                let secret = config.client_secret.clone();
                let configured = manager.configure_client(config);
                configured.map_err(|error| auth_error_text(&error, &egress))?;
                secret
            }
            None if !can_register => {
                return Err(format!(
                    "needs a client id: {} does not let programs register themselves as clients; register a client there with the redirect address {} and any port, and set `client_id` in [mcp.{name}]",
                    escape_and_truncate_line(&issuer, MAX_QUOTED_SERVER_TEXT_BYTES),
                    request.redirect
                ));
            }
            None => {
                let registered =
                    manager.register_client(OAUTH_CLIENT_NAME, request.redirect, &words);
                let registered = registered.await;
                registered
                    .map_err(|error| auth_error_text(&error, &egress))?
                    .client_secret
            }
        };
        let page = manager.get_authorization_url(&words).await;
        let page = page.map_err(|error| auth_error_text(&error, &egress))?;
        let login = StoredLogin::new(url, &issuer, request.redirect, secret);
        let store = LoginCredentialStore::new(request.file, login);
        manager.set_credential_store(store.clone());
        Ok(Self {
            manager,
            egress,
            file: request.file.to_owned(),
            state: unique_query_parameter(&Url::parse(&page).map_err(|e| e.to_string())?, "state")
                .unwrap_or_default()
                .unwrap_or_default(),
            url: page,
            issuer,
            redirect,
            scopes,
            store,
        })
    }

    /// Returns the URL that the user opens in the browser.
    #[must_use]
    pub fn authorization_url(&self) -> &str {
        &self.url
    }

    /// Returns the authorization server that will issue the tokens.
    #[must_use]
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Returns the OAuth scopes that the login requests.
    #[must_use]
    pub fn scopes(&self) -> &[String] {
        &self.scopes
    }

    /// Completes the login with the URL to which the browser was redirected.
    pub async fn finish_login(&self, redirected: &str) -> LoginOutcome {
        let answer = match self.parse_redirect_answer(redirected) {
            Ok(answer) => answer,
            Err(outcome) => return outcome,
        };
        let file = self.file.clone();
        let locked = tokio::task::spawn_blocking(move || acquire_file_lock(&file, || {})).await;
        let _lock = match locked {
            Ok(Ok(lock)) => lock,
            Ok(Err(error)) => {
                return LoginOutcome::Failed(format!(
                    "cannot be stored, because its file cannot be locked: {error}"
                ));
            }
            Err(error) => return LoginOutcome::Failed(format!("cannot be stored: {error}")),
        };
        let exchanged = self.manager.exchange_code_for_token_with_issuer(
            &answer.code,
            &self.state,
            answer.issuer.as_deref(),
        );
        match exchanged.await {
            Ok(_) => LoginOutcome::Done(Box::new(self.store.stored_login())),
            Err(error) => LoginOutcome::Failed(auth_error_text(&error, &self.egress)),
        }
    }

    /// Reads the authorization server's answer from a redirect URL.
    fn parse_redirect_answer(
        &self,
        redirected: &str,
    ) -> Result<AuthorizationRedirectParameters, LoginOutcome> {
        let other = |why: &str| {
            LoginOutcome::Other(format!(
                "this address is not the answer of the authorization server to the login: {why}"
            ))
        };
        let url = Url::parse(redirected.trim()).map_err(|_| other("it is no address"))?;
        let is_ours = url.origin() == self.redirect.origin() && url.path() == self.redirect.path();
        if !is_ours {
            return Err(other(&format!("it does not begin with {}", self.redirect)));
        }
        let one = |name: &str| {
            let found = unique_query_parameter(&url, name);
            found.map_err(|()| other(&format!("it has `{name}` twice")))
        };
        if one("state")?.as_deref() != Some(&*self.state) || self.state.is_empty() {
            return Err(other("its `state` does not match the request"));
        }
        let issuer = one("iss")?;
        if let Some(issuer) = issuer.as_deref().filter(|issuer| *issuer != self.issuer) {
            return Err(LoginOutcome::Failed(format!(
                "was answered by {} and not by {}: the answer may have been mixed up with that of another login",
                escape_and_truncate_line(issuer, MAX_QUOTED_SERVER_TEXT_BYTES),
                escape_and_truncate_line(&self.issuer, MAX_QUOTED_SERVER_TEXT_BYTES)
            )));
        }
        if let Some(error) = one("error")? {
            let about = one("error_description")?.unwrap_or_default();
            let text = format!("was refused by the authorization server: {error} {about}");
            return Err(LoginOutcome::Failed(escape_and_truncate_line(
                text.trim(),
                MAX_QUOTED_SERVER_TEXT_BYTES,
            )));
        }
        let code = one("code")?.filter(|code| !code.is_empty());
        let code = code.ok_or_else(|| other("it has no `code`"))?;
        Ok(AuthorizationRedirectParameters { code, issuer })
    }
}

struct AuthorizationRedirectParameters {
    code: String,
    issuer: Option<String>,
}

/// Returns a query parameter of a URL; fails if the parameter occurs twice.
fn unique_query_parameter(url: &Url, name: &str) -> Result<Option<String>, ()> {
    let mut found = url.query_pairs().filter(|(key, _)| key == name);
    let value = found.next().map(|(_, value)| value.into_owned());
    match found.next() {
        None => Ok(value),
        Some(_) => Err(()),
    }
}

pub(super) async fn create_authorization_manager(
    url: &str,
    egress: &Arc<LoginHttpClient>,
) -> Result<AuthorizationManager, String> {
    let made = AuthorizationManager::new_with_oauth_http_client(url, egress.clone()).await;
    made.map_err(|error| auth_error_text(&error, egress))
}

/// Sends the first MCP message without a token. Returns the `www-authenticate` challenge if the
/// server answers with status 401.
async fn request_auth_challenge(
    egress: &LoginHttpClient,
    url: &str,
) -> Result<Option<String>, String> {
    let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    let request = EgressRequest {
        method: "POST".to_owned(),
        url: url.to_owned(),
        headers: vec![
            header("accept", "application/json, text/event-stream"),
            header("content-type", "application/json"),
        ],
        body: EgressRequestBody::Whole(INITIALIZE_REQUEST_JSON.as_bytes().to_vec()),
        timeouts: PluginRequestTimeouts::default(),
    };
    let response = egress.send(request).await;
    let response = response.map_err(|error| format!("cannot reach the server: {error}"))?;
    let challenge = header_value_text(response.headers.get(http::header::WWW_AUTHENTICATE));
    Ok(Some(challenge).filter(|own| response.status == 401 && !own.is_empty()))
}

/// Discovers the metadata of the authorization server and checks them.
async fn discover_authorization_metadata(
    manager: &AuthorizationManager,
    egress: &LoginHttpClient,
    challenge: Option<&str>,
) -> Result<AuthorizationMetadata, String> {
    let found = manager.resolve_metadata_from_challenge(challenge).await;
    let found = found.map_err(|error| auth_error_text(&error, egress))?;
    if !found.source.is_discovered() {
        return Err(
            "is not offered: the server publishes no metadata about its authorization server"
                .to_owned(),
        );
    }
    check_authorization_metadata(&found.metadata, egress)?;
    Ok(found.metadata)
}

/// Whether a client id is the URL of a document about the client.
fn is_client_metadata_document_url(client_id: &str) -> bool {
    client_id.starts_with("https://")
}

/// Whether an authorization server fetches documents about clients (OAuth Client ID Metadata
/// Document).
fn supports_client_id_documents(metadata: &AuthorizationMetadata) -> bool {
    let field = metadata
        .additional_fields
        .get("client_id_metadata_document_supported");
    field == Some(&serde_json::Value::Bool(true))
}

/// Refuses unencrypted URLs and authorization servers that do not declare support for PKCE. The
/// specification requires this of clients, but the protocol's library does not check it.
fn check_authorization_metadata(
    metadata: &AuthorizationMetadata,
    egress: &LoginHttpClient,
) -> Result<(), String> {
    let issuer = metadata.issuer.as_deref();
    let issuer = issuer.ok_or("has an authorization server that does not name its issuer")?;
    let endpoints = [&metadata.authorization_endpoint, &metadata.token_endpoint];
    let endpoints = endpoints.into_iter().chain(&metadata.registration_endpoint);
    let endpoints = endpoints.map(String::as_str);
    let endpoints = endpoints.chain(revocation_endpoint(metadata));
    for url in endpoints.chain([issuer]) {
        let checked = egress.egress_permissions_for_login_url(url);
        checked.map_err(|why| {
            format!("has an authorization server with a URL that is not allowed: {why}")
        })?;
    }
    let methods = metadata.code_challenge_methods_supported.as_deref();
    let has_pkce = methods.is_some_and(|all| all.iter().any(|own| own == PKCE_METHOD));
    if !has_pkce {
        return Err(format!(
            "is not safe: {} does not declare support for PKCE with {PKCE_METHOD}",
            escape_and_truncate_line(issuer, MAX_QUOTED_SERVER_TEXT_BYTES)
        ));
    }
    Ok(())
}

/// Reason why the metadata of an authorization server cannot be used for a login.
pub(super) enum AuthorizationServerMetadataError {
    /// The metadata of the authorization server cannot be fetched.
    Unavailable(AuthError),
    /// The MCP server now names another authorization server.
    OtherIssuer,
    /// The metadata are not acceptable; contains the reason, phrased to follow "the login".
    Refused(String),
}

impl AuthorizationServerMetadataError {
    /// Describes the fault in the authorization server's metadata for the user, in words that
    /// follow "the login".
    pub(super) fn describe(&self, issuer: &str, egress: &LoginHttpClient) -> String {
        match self {
            Self::Unavailable(error) => auth_error_text(error, egress),
            Self::OtherIssuer => format!(
                "was issued by {}, which is no longer the authorization server that the MCP server names",
                escape_and_truncate_line(issuer, MAX_QUOTED_SERVER_TEXT_BYTES)
            ),
            Self::Refused(why) => why.clone(),
        }
    }
}

/// Fetches the metadata of the authorization server. Checks that it names `issuer`, the server that
/// issued the login, that the login may use its URLs, and that it declares support for PKCE.
pub(super) async fn fetch_issuer_metadata(
    manager: &AuthorizationManager,
    egress: &LoginHttpClient,
    issuer: &str,
) -> Result<AuthorizationMetadata, AuthorizationServerMetadataError> {
    let found = manager.resolve_metadata_from_challenge(None).await;
    let found = found.map_err(AuthorizationServerMetadataError::Unavailable)?;
    let is_same = found.metadata.issuer.as_deref() == Some(issuer);
    if !found.source.is_discovered() || !is_same {
        return Err(AuthorizationServerMetadataError::OtherIssuer);
    }
    check_authorization_metadata(&found.metadata, egress)
        .map_err(AuthorizationServerMetadataError::Refused)?;
    Ok(found.metadata)
}

/// Renews the tokens of a login and stores them in the login's file. The caller must hold the lock
/// of that file. The model may see the errors, so they contain no text of the authorization server.
pub(super) async fn renew_stored_login_tokens(
    name: &str,
    egress: &Arc<LoginHttpClient>,
    file: &Path,
    login: StoredLogin,
) -> Result<StoredLogin, String> {
    let late = |egress: &LoginHttpClient| {
        let why = egress.take_last_request_error();
        let why =
            why.unwrap_or_else(|| "the authorization server answered with an error".to_owned());
        format!("its login cannot be renewed now: {why}")
    };
    let again = |why: &str| format!("its login {why}; run `rind mcp login {name}`");
    let Some(credentials) = login.credentials.clone() else {
        return Err(again("has no token"));
    };
    let mut manager = create_authorization_manager(&login.url, egress).await?;
    let metadata = fetch_issuer_metadata(&manager, egress, &login.issuer).await;
    let metadata = metadata.map_err(|fault| match fault {
        AuthorizationServerMetadataError::Unavailable(_) => late(egress),
        AuthorizationServerMetadataError::OtherIssuer => again(
            "was issued by another authorization server than the one that the MCP server names now",
        ),
        AuthorizationServerMetadataError::Refused(why) => again(&why),
    })?;
    manager.set_metadata(metadata);
    let mut config = OAuthClientConfig::new(credentials.client_id, login.redirect.as_str());
    if let Some(secret) = &login.client_secret {
        config = config.with_client_secret(secret.as_str());
    }
    manager.configure_client(config).map_err(|_| late(egress))?;
    let store = LoginCredentialStore::new(file, login);
    manager.set_credential_store(store.clone());
    match manager.refresh_token().await {
        Ok(_) => Ok(store.stored_login()),
        Err(AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_)) => {
            Err(again("has ended"))
        }
        Err(_) => Err(late(egress)),
    }
}

/// Describes an error of the flow for the user, phrased to follow "the login".
fn auth_error_text(error: &AuthError, egress: &LoginHttpClient) -> String {
    let mut text = format!("failed: {error}");
    if let Some(cause) = egress
        .take_last_request_error()
        .filter(|cause| !text.contains(cause))
    {
        text = format!("{text}: {cause}");
    }
    escape_and_truncate_line(&text, MAX_QUOTED_SERVER_TEXT_BYTES)
}
