//! Sends the HTTP requests of logins. The egress of each request allows only the host of its URL,
//! so a redirect to another host is refused.
//!
//! A server that is not trusted yet supplies these URLs, so they must not lead into the operator's
//! network. They must be `https` URLs of public addresses. Exceptions are the server's own host,
//! loopback if the server itself is on loopback, and private addresses if the setting `private` is
//! on.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};

use crate::http::access_record_origin;
use crate::names::mcp_tool_source_name;
use crate::server::host_pattern_of_url;
use rind_lib::egress::{
    EgressErrorKind, EgressOptions, EgressRequest, EgressRequestBody, EgressResponse, Error,
    MAX_REQUESTS_PER_SESSION_SETTING, PluginRequestTimeouts, SharedPluginEgress,
};
use rind_lib::grant::{Capability, GrantedCapabilities, HostPattern, UrlScheme};
use rind_lib::lock::lock_ignoring_poison;
use rind_lib::point::handle::AgentHandle;

/// Maximum size of an answer, in bytes. Metadata and tokens take a few kilobytes.
const MAX_HTTP_RESPONSE_BYTES: usize = 256 << 10;

/// Timeout of each HTTP request of a login.
const HTTP_REQUEST_TIMEOUT: Duration = Duration::from_secs(20);

/// HTTP client for the login at one MCP server.
pub(super) struct LoginHttpClient {
    name: String,
    server: HostPattern,
    is_private: bool,
    handle: Arc<dyn AgentHandle>,
    /// Error of the last failed request, kept because the protocol's library does not always return
    /// it.
    failure: Mutex<Option<String>>,
}

impl LoginHttpClient {
    /// Creates the HTTP client for the login at the server with this URL.
    ///
    /// # Errors
    /// The URL is invalid; the error is a sentence.
    pub(super) fn new(
        name: &str,
        url: &str,
        is_private: bool,
        handle: Arc<dyn AgentHandle>,
    ) -> Result<Arc<Self>, String> {
        Ok(Arc::new(Self {
            name: name.to_owned(),
            server: host_pattern_of_url(url)?,
            is_private,
            handle,
            failure: Mutex::default(),
        }))
    }

    /// Returns and clears the error of the last request of a login that failed.
    pub(super) fn take_last_request_error(&self) -> Option<String> {
        lock_ignoring_poison(&self.failure).take()
    }

    /// Checks a URL from the server's metadata. Returns the network permissions for a request to
    /// it.
    ///
    /// # Errors
    /// The URL is refused; the error is a sentence with the reason.
    pub(super) fn egress_permissions_for_login_url(
        &self,
        url: &str,
    ) -> Result<Vec<Capability>, String> {
        let host = host_pattern_of_url(url)?;
        let is_own = host == self.server;
        let is_beside = is_loopback(&host) && is_loopback(&self.server);
        if host.scheme() == UrlScheme::Http && !is_own && !is_beside {
            return Err(format!(
                "the login would use {}, which is not encrypted; the URLs of a login must begin with `https://`",
                host.text_with_scheme()
            ));
        }
        let is_literal = host.ip_address().is_some() || host.is_localhost();
        let mut allowed = vec![Capability::Network(host.clone())];
        if self.is_private || is_beside || (is_own && is_literal) {
            allowed.push(Capability::PrivateNetwork(host));
        }
        Ok(allowed)
    }

    /// Sends a request of the login, which can reach only the host of its URL.
    pub(super) async fn send(&self, request: EgressRequest) -> Result<EgressResponse, Error> {
        let sent = self.send_login_request(request).await;
        if let Err(error) = &sent {
            *lock_ignoring_poison(&self.failure) = Some(error.to_string());
        }
        sent
    }

    async fn send_login_request(&self, request: EgressRequest) -> Result<EgressResponse, Error> {
        let allowed = self.egress_permissions_for_login_url(&request.url);
        let allowed = allowed.map_err(|why| Error::new(EgressErrorKind::Host, why))?;
        let options = EgressOptions {
            deadline: HTTP_REQUEST_TIMEOUT,
            // Disable the secret scan, because a login must send codes and tokens.
            inspect: None,
            ..EgressOptions::default()
        };
        let granted = Arc::new(GrantedCapabilities::new(allowed));
        let plugin = mcp_tool_source_name(&self.name).into();
        let egress = SharedPluginEgress::new(
            options,
            plugin,
            granted,
            Some(MAX_REQUESTS_PER_SESSION_SETTING),
        );
        let response = egress
            .open_for_session(self.handle.clone())
            .send(request, access_record_origin())
            .await?;
        if response.body.len() > MAX_HTTP_RESPONSE_BYTES {
            let text = format!(
                "an answer to a request of the login has {} bytes, at most {MAX_HTTP_RESPONSE_BYTES} are read",
                response.body.len()
            );
            return Err(Error::new(EgressErrorKind::ResponseSize, text));
        }
        Ok(response)
    }
}

/// Whether a host is a loopback address or a name that RFC 6761 reserves for loopback.
fn is_loopback(host: &HostPattern) -> bool {
    host.is_localhost()
        || host
            .ip_address()
            .is_some_and(|own| own.to_canonical().is_loopback())
}

impl OAuthHttpClient for LoginHttpClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let (parts, body) = request.request.into_parts();
            let headers = parts.headers.iter();
            let headers = headers
                .filter(|(name, _)| *name != http::header::CONTENT_LENGTH)
                .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
            let request = EgressRequest {
                method: parts.method.to_string(),
                url: parts.uri.to_string(),
                headers: headers.collect(),
                body: EgressRequestBody::Whole(body),
                timeouts: PluginRequestTimeouts::default(),
            };
            let boxed = |error| Box::new(error) as OAuthHttpClientError;
            let response = self.send(request).await.map_err(boxed)?;
            let mut answer = http::Response::new(response.body);
            *answer.status_mut() = http::StatusCode::from_u16(response.status)
                .map_err(|e| Box::new(e) as OAuthHttpClientError)?;
            *answer.headers_mut() = response.headers;
            Ok(answer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::SessionlessAgentHandle;

    fn check(server: &str, is_private: bool, url: &str) -> Result<bool, String> {
        let egress =
            LoginHttpClient::new("s", server, is_private, Arc::new(SessionlessAgentHandle))
                .unwrap();
        let allowed = egress.egress_permissions_for_login_url(url)?;
        Ok(allowed
            .iter()
            .any(|own| matches!(own, Capability::PrivateNetwork(_))))
    }

    #[test]
    fn addresses_of_a_login_are_encrypted_and_public_unless_the_operator_says_otherwise() {
        let (remote, local) = ("https://mcp.example/mcp", "http://127.0.0.1:81/mcp");
        for (server, is_private, url, expected) in [
            (remote, false, "https://auth.example/token", Ok(false)),
            (
                remote,
                false,
                "http://auth.example/token",
                Err("not encrypted"),
            ),
            (
                remote,
                false,
                "http://127.0.0.1:9/token",
                Err("not encrypted"),
            ),
            // The URL passes this check; the egress refuses the private address when it connects.
            (remote, false, "https://10.0.0.1/token", Ok(false)),
            (remote, false, "https://localhost/token", Ok(false)),
            (remote, true, "https://auth.internal/token", Ok(true)),
            (
                remote,
                true,
                "http://auth.internal/token",
                Err("not encrypted"),
            ),
            (local, false, "http://127.0.0.1:82/token", Ok(true)),
            (local, false, "http://localhost:82/token", Ok(true)),
            (local, false, "http://10.0.0.1/token", Err("not encrypted")),
            (local, false, "https://auth.example/token", Ok(false)),
            (
                remote,
                false,
                "file:///etc/passwd",
                Err("is not an address"),
            ),
            (
                remote,
                false,
                "https://u:p@auth.example/",
                Err("name or password"),
            ),
            (remote, false, "https://*/", Err("")),
        ] {
            match (check(server, is_private, url), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{server} {url}"),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{url}: {why}"),
                (found, _) => panic!("{server} {url}: {found:?}"),
            }
        }
    }
}
