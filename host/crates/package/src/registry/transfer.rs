//! Sends requests to one repository of an OCI registry, with limits on size and time. Redirects are
//! followed only for the download of a layer, to the storage server that the registry names.
//!
//! The registry is not trusted: each response is limited in size while it is read, slow transfers
//! are aborted, and credentials are sent only to the registry and its token server.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION, WWW_AUTHENTICATE,
};
use reqwest::redirect::Policy;
use reqwest::{Client, ClientBuilder, Method, RequestBuilder, Response, Url};
use serde::Deserialize;

use super::reference::{ArtifactReference, is_loopback_host};
use super::{RegistryCredentials, RegistryCredentialsLookup, auth};
use rind_lib::provider::install_crypto_provider;
use rind_lib::text::escape_and_truncate_line;

/// Timeouts for connecting, and for the time between two chunks of a response.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const RESPONSE_CHUNK_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Timeout per request, and for all requests of an operation together. Downloading the maximum of
/// 256 MiB in this time needs 450 KB/s.
const REQUEST_AND_OPERATION_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of response headers: content delivery networks send more than the HTTP library's
/// default of 100.
const MAX_RESPONSE_HEADERS: usize = 2_000;
/// Timeout for the status and headers of the response to a request without a body.
const RESPONSE_HEADERS_TIMEOUT: Duration = Duration::from_secs(30);

/// Minimum average speed over a `TRANSFER_SPEED_MEASURING_PERIOD`. Without it, a transfer of one
/// byte at a time would never exceed `RESPONSE_CHUNK_IDLE_TIMEOUT` and could last up to
/// `REQUEST_AND_OPERATION_TIMEOUT`.
const MIN_TRANSFER_BYTES_PER_SECOND: u64 = 1024;
const TRANSFER_SPEED_MEASURING_PERIOD: Duration = Duration::from_secs(30);

/// Maximum number of redirects to the storage server of a layer. Registries usually send one.
const MAX_LAYER_STORAGE_REDIRECTS: usize = 3;

/// Maximum size of a registry's error response, in bytes.
const MAX_ERROR_RESPONSE_BYTES: u64 = 16 << 10;

pub(super) struct RegistryRequest {
    pub(super) method: Method,
    /// Path and query of the request, relative to the repository's URL.
    pub(super) path: String,
    pub(super) accept: Option<&'static str>,
    /// Media type and content of the request body; `None` for an empty body.
    pub(super) body: Option<(&'static str, Bytes)>,
    /// Absolute URL in the registry to which the request is sent instead of to `path`.
    pub(super) url: Option<Url>,
}

impl RegistryRequest {
    pub(super) fn new(method: Method, path: String) -> Self {
        Self {
            method,
            path,
            accept: None,
            body: None,
            url: None,
        }
    }
}

/// Connection to a repository, with the authorization that the registry accepted.
pub(super) struct RegistryRepositoryConnection {
    client: Client,
    base: Url,
    reference: ArtifactReference,
    credentials: RegistryCredentialsLookup,
    authorization: Option<HeaderValue>,
    /// Time at which the whole operation, of which the requests are parts, is given up.
    until: Instant,
    /// Whether the tokens that are requested from the token server must allow pushing.
    pub(super) may_push: bool,
}

impl RegistryRepositoryConnection {
    pub(super) fn new(
        reference: &ArtifactReference,
        credentials: RegistryCredentialsLookup,
    ) -> anyhow::Result<Self> {
        let is_local = reference.is_loopback();
        let client = registry_client_builder(is_local);
        let scheme = if is_local { "http" } else { "https" };
        let base = format!("{scheme}://{}/v2/{}/", reference.host, reference.path);
        Ok(Self {
            client: client.build().context("cannot make an HTTP client")?,
            base: Url::parse(&base).context("no valid URL can be built from the reference")?,
            reference: reference.clone(),
            credentials,
            authorization: None,
            until: Instant::now() + REQUEST_AND_OPERATION_TIMEOUT,
            may_push: false,
        })
    }

    /// Sends a request. If the registry asks for credentials, authenticates and sends the request
    /// again.
    pub(super) async fn send_authenticated(
        &mut self,
        ask: &RegistryRequest,
    ) -> anyhow::Result<Response> {
        let answer = self.send_single_request(ask).await?;
        if answer.status().as_u16() != 401 {
            return Ok(answer);
        }
        let challenges = answer.headers().get_all(WWW_AUTHENTICATE).iter();
        let challenges: Vec<&str> = challenges.filter_map(|value| value.to_str().ok()).collect();
        let challenges = challenges.join(", ");
        let (host, path) = (&self.reference.host, &self.reference.path);
        let credentials = (self.credentials)(host)?;
        let actions = if self.may_push { "pull,push" } else { "pull" };
        let scope = format!("repository:{path}:{actions}");
        let is_local = self.reference.is_loopback();
        let header =
            auth::answer_auth_challenge(&self.client, &challenges, &credentials, &scope, is_local)
                .await?;
        let todo = match credentials {
            RegistryCredentials::Anonymous => format!("log in with `docker login {host}`"),
            RegistryCredentials::Password { .. } => {
                format!(
                    "the credentials that `docker login {host}` stored do not allow this request"
                )
            }
        };
        ensure!(header.is_some(), "{host} asks for credentials: {todo}");
        self.authorization = header;
        let answer = self.send_single_request(ask).await?;
        ensure!(
            answer.status().as_u16() != 401,
            "{host} refuses access to {path}: {todo}"
        );
        Ok(answer)
    }

    /// Sends a request for a layer, and follows redirects to the storage server that has the layer.
    pub(super) async fn follow_redirects(
        &mut self,
        ask: &RegistryRequest,
    ) -> anyhow::Result<Response> {
        let mut answer = self.send_authenticated(ask).await?;
        for _ in 0..=MAX_LAYER_STORAGE_REDIRECTS {
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            let url = self.location_url(&answer)?;
            let is_own = url.origin() == self.base.origin();
            let is_local = self.reference.is_loopback();
            let host = url.host_str().unwrap_or_default().to_owned();
            ensure!(
                is_own || (url.scheme() == "https" && (is_local || !is_loopback_host(&host))),
                "{} redirects the request for the layer to `{}`, which is not a public address with https",
                self.reference.host,
                escape_and_truncate_line(url.as_str(), 200)
            );
            // Send no credentials to the storage server: the URL itself contains any authorization
            // that the server needs. The layer is checked against its digest.
            answer = send_request(self.with_remaining_timeout(self.client.get(url)), &host).await?;
        }
        bail!(
            "{} redirects the request for the layer too often",
            self.reference.host
        )
    }

    /// Returns the URL in a response's `Location` header, which is the target of a redirect or of
    /// an upload.
    pub(super) fn location_url(&self, answer: &Response) -> anyhow::Result<Url> {
        let location = answer.headers().get(LOCATION);
        let location = location.and_then(|value| value.to_str().ok());
        let location =
            location.context("the answer of the registry has no valid `Location` header")?;
        let url = answer.url().join(location);
        let url = url.map_err(|_| {
            anyhow::anyhow!("the `Location` header in the answer of the registry is not a URL")
        })?;
        ensure!(
            ["http", "https"].contains(&url.scheme())
                && url.username().is_empty()
                && url.password().is_none(),
            "the `Location` header in the answer of the registry has a URL that is not http or https, or has credentials"
        );
        Ok(url)
    }

    pub(super) fn is_registry_url(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    async fn send_single_request(&self, ask: &RegistryRequest) -> anyhow::Result<Response> {
        let url = match &ask.url {
            Some(url) => url.clone(),
            None => self
                .base
                .join(&ask.path)
                .context("no valid URL can be built from the path")?,
        };
        ensure!(
            self.is_registry_url(&url),
            "the request would go to another host than the registry"
        );
        let mut request = self.client.request(ask.method.clone(), url);
        if let Some(accept) = ask.accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let host = &self.reference.host;
        request = self.with_remaining_timeout(request);
        if let Some((media_type, bytes)) = &ask.body {
            let request = request
                .header(CONTENT_TYPE, *media_type)
                .body(bytes.clone());
            let sent = request.send().await;
            return sent.map_err(|error| convert_http_error(&error, host));
        }
        send_request(request, host).await
    }

    /// Limits a request to the remaining time of the operation.
    fn with_remaining_timeout(&self, request: RequestBuilder) -> RequestBuilder {
        request.timeout(self.until.saturating_duration_since(Instant::now()))
    }
}

/// Returns the HTTP client options for registries. `is_local` selects those for a registry on this
/// machine.
pub(super) fn registry_client_builder(is_local: bool) -> ClientBuilder {
    install_crypto_provider();
    let client = Client::builder()
        .user_agent(concat!("rind/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(RESPONSE_CHUNK_IDLE_TIMEOUT)
        .timeout(REQUEST_AND_OPERATION_TIMEOUT)
        // The library must not follow redirects, because it could send the credentials to another
        // host.
        .redirect(Policy::none())
        .referer(false)
        .http1_max_headers(MAX_RESPONSE_HEADERS)
        // Digests are computed over the bytes as transferred, so the library must not decompress
        // them.
        .no_gzip();
    if !is_local {
        return client;
    }
    // A registry on this machine is accessed without TLS and without a proxy. Therefore no
    // certificates are loaded, and connections are not reused, because a new one is cheap.
    client
        .no_proxy()
        .tls_certs_only([])
        .pool_max_idle_per_host(0)
}

/// Sends a request without a body, and waits for the headers of the response.
pub(super) async fn send_request(request: RequestBuilder, host: &str) -> anyhow::Result<Response> {
    let Ok(sent) = tokio::time::timeout(RESPONSE_HEADERS_TIMEOUT, request.send()).await else {
        bail!(
            "{host}: no answer within {} s; try again later",
            RESPONSE_HEADERS_TIMEOUT.as_secs()
        );
    };
    sent.map_err(|error| convert_http_error(&error, host))
}

/// Number of bytes of a transfer in the current period, to measure its speed.
struct TransferSpeedMeter {
    since: Instant,
    n_bytes: u64,
}

impl TransferSpeedMeter {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            n_bytes: 0,
        }
    }

    /// Adds received bytes. At the end of a period, returns true if fewer bytes arrived in it than
    /// the minimum speed requires; otherwise returns false.
    fn is_transfer_too_slow(&mut self, n_bytes: u64, now: Instant) -> bool {
        self.n_bytes += n_bytes;
        let took = now.saturating_duration_since(self.since);
        if took < TRANSFER_SPEED_MEASURING_PERIOD {
            return false;
        }
        let is_slow = self.n_bytes < took.as_secs() * MIN_TRANSFER_BYTES_PER_SECOND;
        *self = Self::new(now);
        is_slow
    }
}

/// Reads the body of a response, at most `limit` bytes. `what` names the content in error messages.
pub(super) async fn read_response_body(
    mut answer: Response,
    limit: u64,
    what: &str,
) -> anyhow::Result<Vec<u8>> {
    let host = answer.url().host_str().unwrap_or_default().to_owned();
    let too_large = || anyhow::anyhow!("{what} that {host} sends has more than {limit} bytes");
    if answer.content_length().is_some_and(|length| length > limit) {
        return Err(too_large());
    }
    let mut bytes = Vec::new();
    let mut pace = TransferSpeedMeter::new(Instant::now());
    while let Some(piece) = answer
        .chunk()
        .await
        .map_err(|error| convert_http_error(&error, &host))?
    {
        if (bytes.len() + piece.len()) as u64 > limit {
            return Err(too_large());
        }
        bytes.extend_from_slice(&piece);
        ensure!(
            !pace.is_transfer_too_slow(piece.len() as u64, Instant::now()),
            "{host} sends {what} too slowly: fewer than {MIN_TRANSFER_BYTES_PER_SECOND} bytes a second for {} s; try again later",
            TRANSFER_SPEED_MEASURING_PERIOD.as_secs()
        );
    }
    Ok(bytes)
}

/// Refuses a response whose status is not `status`. The error quotes the first error in the body;
/// `what` names the requested content in messages.
pub(super) async fn require_response_status(
    answer: Response,
    status: u16,
    what: &str,
) -> anyhow::Result<Response> {
    let found = answer.status();
    if found.as_u16() == status {
        return Ok(answer);
    }
    let host = answer.url().host_str().unwrap_or_default().to_owned();
    if found.is_redirection() {
        bail!("{host} redirects from {what} to another address, which is not followed");
    }
    let body = read_response_body(answer, MAX_ERROR_RESPONSE_BYTES, "the error")
        .await
        .unwrap_or_default();
    let why = first_error_message(&body).map(|message| format!(": {message}"));
    let why = why.unwrap_or_default();
    match found.as_u16() {
        404 => bail!("{host} has no {what}{why}"),
        403 => bail!("{host} refuses access to {what}{why}"),
        _ => bail!("{host} answered {found} for {what}{why}"),
    }
}

/// Returns the message of the first error in a registry's error response, or the error's code if it
/// has no message.
fn first_error_message(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct RegistryErrorBody {
        errors: Vec<RegistryErrorEntry>,
    }
    #[derive(Deserialize)]
    struct RegistryErrorEntry {
        code: String,
        #[serde(default)]
        message: String,
    }
    let errors: RegistryErrorBody = serde_json::from_slice(body).ok()?;
    let first = errors.errors.first()?;
    let text = if first.message.is_empty() {
        &first.code
    } else {
        &first.message
    };
    Some(escape_and_truncate_line(text, 200))
}

/// Converts an error of the HTTP library to a message without the URL, which may contain a token.
fn convert_http_error(error: &reqwest::Error, host: &str) -> anyhow::Error {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let what = if error.is_timeout() {
        "the transfer took too long"
    } else if error.is_connect() {
        "the connection failed"
    } else {
        "the answer broke off or is not HTTP"
    };
    let cause = if std::ptr::addr_eq(cause, error) {
        String::new()
    } else {
        format!(": {}", escape_and_truncate_line(&cause.to_string(), 200))
    };
    anyhow::anyhow!("{host}: {what}{cause}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_that_sends_a_byte_a_second_is_cut_off_and_a_slow_line_is_not() {
        let start = Instant::now();
        let ends = |bytes_per_second: u64, first: u64| {
            let mut pace = TransferSpeedMeter::new(start);
            pace.is_transfer_too_slow(first, start);
            (1..300).find(|second| {
                pace.is_transfer_too_slow(bytes_per_second, start + Duration::from_secs(*second))
            })
        };
        assert_eq!(ends(1, 0), Some(30));
        assert_eq!(ends(1023, 0), Some(30));
        assert_eq!(ends(1024, 0), None);
        // A fast start does not compensate for a slow period later.
        assert_eq!(ends(1, 1 << 20), Some(60));
    }
}
