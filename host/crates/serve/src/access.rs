//! Controls access to the API: a token in a private file, and checks of the origin of each request.
//!
//! Any website can send requests to loopback from its pages, and its host name can be made to
//! resolve to loopback (DNS rebinding). Therefore the `Host` of a request must be one of the
//! server's own names, and the `Origin`, if the request has one, must be the server itself.
//! Programs send the token as `Authorization: Bearer`. A browser receives a cookie at `/login`. The
//! cookie is accepted only under the host name [`BROWSER_PAGES_HOST_NAME`], because cookies are not
//! bound to a port: under `localhost`, browsers would also send it to other servers of the machine.
//! Names below `localhost` resolve to loopback (RFC 6761, section 6.3).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, Method, header};
use rind_lib::disk;

use crate::connections::ConnectionAuthorizedFlag;
use crate::error::ApiError;
use crate::pages::HtmlPageError;
use crate::routes::MAX_REQUEST_BODY_BYTES;

/// Host name under which browsers open the pages.
pub const BROWSER_PAGES_HOST_NAME: &str = "rind.localhost";

/// Name of the cookie by which the server recognizes a browser that has logged in.
const ACCESS_COOKIE_NAME: &str = "rind";

/// Maximum number of bytes that are read from the body of a refused request, and the time limit for
/// reading them.
const MAX_DRAINED_REQUEST_BODY_BYTES: usize = 64 << 10;
const REQUEST_BODY_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Number of random bytes in a token.
const RANDOM_BYTES_PER_TOKEN: usize = 32;

/// Maximum size of a token file, in bytes.
const MAX_TOKEN_FILE_BYTES: u64 = 1024;

/// Secrets by which the server recognizes clients that may use its API.
pub struct ApiAccessSecrets {
    token: blake3::Hash,
    cookie: String,
    code: String,
    port: Option<u16>,
}

impl ApiAccessSecrets {
    /// Reads the token from a file. If the file is missing, creates it with a new token; only its
    /// owner can read it.
    ///
    /// # Errors
    /// The file cannot be read or written, other users can read it, or it does not contain a token.
    pub fn from_token_file(path: &Path) -> io::Result<Self> {
        let token = match disk::read_if_present(path, MAX_TOKEN_FILE_BYTES)? {
            Some(text) => check_token_file(path, text.trim())?.to_owned(),
            None => {
                let token = generate_random_secret()?;
                disk::replace_private_file(path, format!("{token}\n").as_bytes())?;
                token
            }
        };
        Ok(Self {
            token: blake3::hash(token.as_bytes()),
            cookie: generate_random_secret()?,
            code: generate_random_secret()?,
            port: None,
        })
    }

    /// Creates random secrets that no client knows, for a program that gets only requests that
    /// another server has already checked.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn with_random_secrets() -> io::Result<Self> {
        Ok(Self {
            token: blake3::hash(generate_random_secret()?.as_bytes()),
            cookie: generate_random_secret()?,
            code: generate_random_secret()?,
            port: None,
        })
    }

    /// Sets the port of the server. Without a port, the server listens on a Unix socket, and the
    /// permissions of the socket's file decide who may connect.
    #[must_use]
    pub fn with_server_port(mut self, port: Option<u16>) -> Self {
        self.port = port;
        self
    }

    /// Returns the URL with which the user signs a browser in while this process runs; `None`
    /// without a port.
    #[must_use]
    pub fn login_url(&self) -> Option<String> {
        let port = self.port?;
        Some(format!(
            "http://{BROWSER_PAGES_HOST_NAME}:{port}/login?code={}",
            self.code
        ))
    }

    /// Returns the value of the header `Set-Cookie` if `code` is correct.
    pub(crate) fn create_login_cookie(&self, code: &str) -> Option<String> {
        are_secrets_equal(code, &self.code).then(|| {
            format!(
                "{ACCESS_COOKIE_NAME}={}; HttpOnly; SameSite=Strict; Path=/",
                self.cookie
            )
        })
    }

    /// Whether the header `Host` is one of the server's own names.
    fn is_server_host_name(&self, host: &str) -> bool {
        let Some(port) = self.port else {
            // On a Unix socket, accept every host name: the permissions of the socket's file
            // control who can connect.
            return true;
        };
        let (name, asked) = match host.rsplit_once(':') {
            Some((name, port)) if !name.is_empty() && !port.ends_with(']') => {
                (name, port.parse::<u16>().ok())
            }
            _ => (host, Some(80)),
        };
        asked == Some(port)
            && ["127.0.0.1", "localhost", "[::1]", BROWSER_PAGES_HOST_NAME].contains(&name)
    }

    /// Checks the host name of a request and, if there is one, its origin.
    fn check_host_and_origin(&self, headers: &HeaderMap, host: &str) -> Result<(), ApiError> {
        if !self.is_server_host_name(host) {
            return Err(ApiError::forbidden(
                "the request is for another host name; use 127.0.0.1 or localhost and the server's port",
            ));
        }
        if let Some(origin) = headers.get(header::ORIGIN) {
            let own = format!("http://{host}");
            if origin.as_bytes() != own.as_bytes() {
                return Err(ApiError::forbidden("the request comes from another origin"));
            }
        }
        Ok(())
    }

    /// Whether the request has the token, or the cookie of a signed-in browser.
    fn has_valid_credentials(&self, headers: &HeaderMap, host: &str) -> bool {
        let bearer = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Bearer "));
        if let Some(token) = bearer {
            return blake3::hash(token.trim().as_bytes()) == self.token;
        }
        let is_page_host = host.split(':').next() == Some(BROWSER_PAGES_HOST_NAME);
        is_page_host
            && login_cookie_values(headers).any(|value| are_secrets_equal(value, &self.cookie))
    }
}

/// Middleware that lets only authorized requests pass, and only from the server's own pages or from
/// a program.
pub(crate) async fn check_access(
    State(access): State<Arc<ApiAccessSecrets>>,
    request: Request,
    next: Next,
) -> Response {
    match request_refusal_error(&access, &request) {
        None => {
            if let Some(access) = request.extensions().get::<ConnectionAuthorizedFlag>() {
                access.mark_authorized();
            }
            next.run(request).await
        }
        Some(error) => refuse_request(request, error).await,
    }
}

/// Returns the reason to refuse a request; `None` if it is allowed.
fn request_refusal_error(access: &ApiAccessSecrets, request: &Request) -> Option<ApiError> {
    let headers = request.headers();
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok());
    let host = host.unwrap_or_default().to_ascii_lowercase();
    if let Err(error) = access.check_host_and_origin(headers, &host) {
        return Some(error);
    }
    let is_login = request.method() == Method::GET && request.uri().path() == "/login";
    if !is_login && !access.has_valid_credentials(headers, &host) {
        return Some(ApiError::unauthorized());
    }
    let length = headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    length
        .is_some_and(|length| length > MAX_REQUEST_BODY_BYTES as u64)
        .then(ApiError::request_body_too_large)
}

/// Responds to a refused request with an error. First reads the request body, within limits on time
/// and size: closing a connection with unread bytes could destroy the response (RFC 9112, section
/// 9.6).
async fn refuse_request(request: Request, error: ApiError) -> Response {
    let accept = request.headers().get(header::ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let wants_page = accept.is_some_and(|accept| accept.contains("text/html"));
    let body = axum::body::to_bytes(request.into_body(), MAX_DRAINED_REQUEST_BODY_BYTES);
    // Ignore the outcome: the response is the same if the body is too long or does not arrive in
    // time.
    let _ = tokio::time::timeout(REQUEST_BODY_DRAIN_TIMEOUT, body).await;
    match wants_page {
        true => HtmlPageError(error).into_response(),
        false => error.into_response(),
    }
}

/// Returns the values of the server's cookie in the headers of a request.
fn login_cookie_values(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .filter_map(|(name, value)| (name == ACCESS_COOKIE_NAME).then_some(value))
}

/// Compares two secrets in constant time.
fn are_secrets_equal(one: &str, other: &str) -> bool {
    blake3::hash(one.as_bytes()) == blake3::hash(other.as_bytes())
}

fn generate_random_secret() -> io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES_PER_TOKEN];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Checks the content of a token file, and that other users cannot read the file.
fn check_token_file<'t>(path: &Path, token: &'t str) -> io::Result<&'t str> {
    use std::os::unix::fs::MetadataExt;
    let mode = std::fs::metadata(path)?.mode();
    if mode & 0o077 != 0 {
        let text = format!(
            "other users can read the token in {}: remove the file to get a new token, or run `chmod 600` on it",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if token.len() < RANDOM_BYTES_PER_TOKEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let text = format!(
            "{} does not contain a token of at least {RANDOM_BYTES_PER_TOKEN} letters and digits; remove the file to get a new token",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(folder: &Path) -> ApiAccessSecrets {
        let access = ApiAccessSecrets::from_token_file(&folder.join("token")).unwrap();
        access.with_server_port(Some(7463))
    }

    #[test]
    fn a_token_is_made_once_and_only_its_owner_reads_it() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let first = access(folder.path());
        let second = access(folder.path());
        assert_eq!(first.token, second.token);
        assert_ne!(first.cookie, second.cookie);
        let path = folder.path().join("token");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = ApiAccessSecrets::from_token_file(&path).err().unwrap();
        assert!(
            refused.to_string().contains("other users can read"),
            "{refused}"
        );
    }

    #[test]
    fn only_the_servers_own_names_and_origins_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let access = access(folder.path());
        for (host, is_own) in [
            ("127.0.0.1:7463", true),
            ("localhost:7463", true),
            ("[::1]:7463", true),
            ("rind.localhost:7463", true),
            ("localhost", false),
            ("localhost:80", false),
            ("attacker.example:7463", false),
            ("rind.localhost.attacker.example:7463", false),
            ("", false),
        ] {
            assert_eq!(access.is_server_host_name(host), is_own, "{host}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::ORIGIN, "http://localhost:3000".parse().unwrap());
        assert!(
            access
                .check_host_and_origin(&headers, "localhost:7463")
                .is_err()
        );
        headers.insert(header::ORIGIN, "null".parse().unwrap());
        assert!(
            access
                .check_host_and_origin(&headers, "localhost:7463")
                .is_err()
        );
        headers.insert(header::ORIGIN, "http://localhost:7463".parse().unwrap());
        assert!(
            access
                .check_host_and_origin(&headers, "localhost:7463")
                .is_ok()
        );
    }

    #[test]
    fn a_cookie_counts_only_under_the_name_of_the_pages() {
        let folder = tempfile::tempdir().unwrap();
        let access = access(folder.path());
        assert_eq!(access.create_login_cookie("wrong"), None);
        let cookie = access.create_login_cookie(&access.code).unwrap();
        let mut headers = HeaderMap::new();
        let pair = cookie.split(';').next().unwrap();
        headers.insert(header::COOKIE, format!("a=b; {pair}").parse().unwrap());
        assert!(access.has_valid_credentials(&headers, "rind.localhost:7463"));
        assert!(!access.has_valid_credentials(&headers, "localhost:7463"));
        headers.insert(header::AUTHORIZATION, "Bearer wrong".parse().unwrap());
        assert!(!access.has_valid_credentials(&headers, "rind.localhost:7463"));
    }
}
