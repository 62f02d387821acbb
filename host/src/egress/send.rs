//! Sends one request and follows its redirects, from the first check to the masked response.
//!
//! Each redirect counts as a request of its own: it is checked, charged and recorded separately.
//! Start from [`PluginSessionEgress::send`].

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, LOCATION};

use super::budget::ConcurrentRequestPermit;
use super::credential;
use super::error::{EgressErrorKind, Error};
use super::headers;
use super::mask::CredentialMasker;
use super::options::OutgoingRequest;
use super::record::UnwrittenAccessRecord;
use super::redirect::{self, MAX_REDIRECTS};
use super::resolve::PinnedHostAddresses;
use super::target::RequestTarget;
use super::{
    EgressRequest, EgressRequestBody, EgressResponse, MAX_REQUEST_BODY_BYTES,
    MAX_RESPONSE_BODY_BYTES, PluginRequestTimeouts, PluginSessionEgress,
};
use crate::grant::UrlScheme;
use crate::point::trace::Origin;
use crate::provider::install_crypto_provider;
use crate::secret::run_blocking_scan;
use crate::text::escape_and_truncate_line;

/// Timeout for connecting to a host, including the TLS handshake.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of response headers. Their total size is limited to 64 KiB.
const MAX_RESPONSE_HEADERS: usize = 2_000;

/// Maximum length of the cause of a failed connection, in bytes.
const MAX_CONNECT_ERROR_CAUSE_BYTES: usize = 300;

/// A request of the plugin, or one of its redirects, before its addresses are checked.
struct UncheckedPluginRequest {
    target: RequestTarget,
    method: Method,
    headers: HeaderMap,
    body: Bytes,
    timeouts: PluginRequestTimeouts,
}

impl PluginSessionEgress {
    /// Sends a request, follows redirects, and waits for the complete response. Records every
    /// request, sent or refused. Dropping the future closes the connection.
    ///
    /// # Errors
    /// A rule refused the request, or sending it failed. The text contains no secret.
    pub async fn send(
        &self,
        request: EgressRequest,
        origin: Origin,
    ) -> Result<EgressResponse, Error> {
        let mut record = self.start_request(&request, origin)?;
        let mut mask = CredentialMasker::default();
        let reading = async {
            let reached = self
                .follow_redirects(request, &mut record, &mut mask)
                .await?;
            reached.read_response(&mask).await
        };
        let answer = self.await_within_request_deadline(reading).await;
        let answer = answer.map_err(|error| mask.mask_error(error));
        record.write_record(answer.as_ref().err());
        answer
    }

    /// Starts the access record of a request, and counts the request toward the session's maximum
    /// number of requests.
    pub(super) fn start_request(
        &self,
        request: &EgressRequest,
        origin: Origin,
    ) -> Result<UnwrittenAccessRecord, Error> {
        let mut record = UnwrittenAccessRecord::start_record(self, origin, &request.method);
        self.count_request_against_budget(&mut record, || {
            let target = RequestTarget::parse_target(&request.url).ok()?;
            Some(target.format_target_for_records(&escape_and_truncate_line(&request.method, 16)))
        })?;
        Ok(record)
    }

    /// Waits until a request is sent and answered, and fails if this takes longer than the
    /// deadline.
    pub(super) async fn await_within_request_deadline<T>(
        &self,
        sending: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let deadline = self.shared.options.deadline;
        let sent = tokio::time::timeout(deadline, sending).await;
        sent.unwrap_or_else(|_| {
            Err(Error::new(
                EgressErrorKind::Timeout,
                format!("the request took longer than {deadline:?}"),
            ))
        })
    }

    /// Subtracts a request from the budget of the session, or refuses it if the budget is spent.
    /// Only the first refusal is recorded, with the target that `name` returns.
    pub(super) fn count_request_against_budget(
        &self,
        record: &mut UnwrittenAccessRecord,
        name: impl FnOnce() -> Option<String>,
    ) -> Result<(), Error> {
        let Err(spent) = self.budget.consume_request_budget() else {
            return Ok(());
        };
        if spent.is_first {
            if let Some(name) = name() {
                record.set_target(name);
            }
            record.write_record(Some(&spent.error));
        }
        record.discard_record();
        Err(spent.error)
    }

    /// Sends a request and follows its redirects until the headers of the last response arrive.
    pub(super) async fn follow_redirects(
        &self,
        request: EgressRequest,
        record: &mut UnwrittenAccessRecord,
        mask: &mut CredentialMasker,
    ) -> Result<UnreadResponse, Error> {
        let granted = &*self.shared.granted;
        let target = RequestTarget::parse_target(&request.url)?;
        record.set_target(
            target.format_target_for_records(&escape_and_truncate_line(&request.method, 16)),
        );
        let place = ConcurrentRequestPermit::acquire_request_slot(&self.shared.at_once)?;
        let method = headers::parse_method(&request.method)?;
        target.determine_allowed_addresses(granted)?;
        let is_own = |name: &str| credential::is_header_set_by_credential(granted, &target, name);
        let headers = headers::check_plugin_request_headers(request.headers, is_own)?;
        let body = match request.body {
            EgressRequestBody::Whole(body) => body,
            EgressRequestBody::Later(body) => body.await?,
        };
        if body.len() > MAX_REQUEST_BODY_BYTES {
            return Err(Error::request_too_long_error());
        }
        let mut hop = UncheckedPluginRequest {
            target,
            method,
            headers,
            body: Bytes::from(body),
            timeouts: request.timeouts,
        };
        let mut n_redirects = 0;
        loop {
            let answer = self.send_single_request(&hop, mask).await?;
            let location = answer.headers().get(LOCATION).map(HeaderValue::as_bytes);
            let status = answer.status().as_u16();
            let Some(next) =
                redirect::request_after_redirect(status, location, &hop.target, &hop.method)?
            else {
                return Ok(UnreadResponse {
                    answer,
                    method: hop.method,
                    timeouts: hop.timeouts,
                    place,
                });
            };
            let refuse = |text: String| Err(Error::new(EgressErrorKind::Redirect, text));
            if let Some(name) = mask.first_secret_name(location.unwrap_or_default()) {
                return refuse(format!(
                    "the answer redirects to a URL with the secret `{name}`"
                ));
            }
            n_redirects += 1;
            if n_redirects > MAX_REDIRECTS {
                return refuse(format!(
                    "the request was redirected more than {MAX_REDIRECTS} times"
                ));
            }
            // Give each redirect a record of its own, because it is a separate request.
            record.write_record(None);
            record.set_target(
                mask.mask_text(&next.target.format_target_for_records(next.method.as_str())),
            );
            self.budget
                .consume_request_budget()
                .map_err(|spent| spent.error)?;
            if !next.target.is_same_origin(&hop.target) {
                let is_own = |name: &str| credential::any_credential_sets_header(granted, name);
                headers::remove_identity_headers(&mut hop.headers, is_own);
            }
            if !next.keeps_body {
                hop.body = Bytes::new();
                headers::remove_body_headers(&mut hop.headers);
            }
            hop.target = next.target;
            hop.method = next.method;
        }
    }

    /// Completes the checks of one request, adds credentials and sends it.
    async fn send_single_request(
        &self,
        hop: &UncheckedPluginRequest,
        mask: &mut CredentialMasker,
    ) -> Result<reqwest::Response, Error> {
        let shared = &*self.shared;
        let allowed = hop.target.determine_allowed_addresses(&shared.granted)?;
        if let Some(inspect) = &shared.options.inspect {
            let outgoing = OutgoingRequest {
                plugin: &shared.plugin,
                method: hop.method.as_str(),
                url: hop.target.url.as_str(),
                headers: &hop.headers,
                body: &hop.body,
            };
            let bytes = outgoing.url.len() + outgoing.body.len();
            run_blocking_scan(bytes, || inspect(&outgoing))
                .map_err(|why| Error::new(EgressErrorKind::Content, why))?;
        }
        let resolver = &*shared.options.resolver;
        let addresses = hop.target.resolve_addresses(allowed, resolver).await?;
        let secrets = &*shared.options.secrets;
        let (credentials, used) =
            credential::fill_credentials(&shared.granted, &hop.target, secrets)?;
        mask.add_secrets(used)?;
        let mut headers = hop.headers.clone();
        let has_credentials = !credentials.is_empty();
        for (name, value) in credentials {
            headers.insert(name, value);
        }
        let answer = match &shared.options.canned {
            Some(canned) => {
                let outgoing = OutgoingRequest {
                    plugin: &shared.plugin,
                    method: hop.method.as_str(),
                    url: hop.target.url.as_str(),
                    headers: &headers,
                    body: &hop.body,
                };
                let answer =
                    canned(&outgoing).map_err(|why| Error::new(EgressErrorKind::Connect, why));
                reqwest::Response::from(answer?)
            }
            None => {
                // RFC 9110, 8.6: a method that defines a meaning for a body should send
                // content-length even if the body is empty. Some servers answer 411 otherwise, and
                // the plugin must not set the header itself.
                let is_sent = [Method::POST, Method::PUT, Method::PATCH].contains(&hop.method);
                if is_sent && hop.body.is_empty() {
                    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
                }
                let client = build_client(&hop.target, &addresses, &hop.timeouts)?;
                let sending = client
                    .request(hop.method.clone(), hop.target.url.clone())
                    .headers(headers)
                    .body(hop.body.clone())
                    .send();
                await_with_plugin_timeout(hop.timeouts.first_byte, sending).await?
            }
        };
        // Drop the response if it is from an address that was not checked, although the client can
        // only connect to checked ones.
        let peer = answer.remote_addr().map(|peer| peer.ip().to_canonical());
        if peer.is_some_and(|peer| !addresses.iter().any(|own| own.to_canonical() == peer)) {
            let text = "the answer came from an address that was not checked";
            return Err(Error::new(EgressErrorKind::Address, text));
        }
        // Refuse partial content: a plugin could request ranges to receive an echoed secret in
        // pieces that are too short to be masked.
        if has_credentials && answer.status() == StatusCode::PARTIAL_CONTENT {
            let text = "the answer is only a part of the content, and a secret that its ends cut would not be found; \
             send no header `range` where a credential is sent";
            return Err(Error::new(EgressErrorKind::Response, text));
        }
        Ok(answer)
    }
}

/// Creates a client for one request that can only connect to these addresses. Connections are not
/// reused, so that none outlives the check of its address.
fn build_client(
    target: &RequestTarget,
    addresses: &[IpAddr],
    timeouts: &PluginRequestTimeouts,
) -> Result<reqwest::Client, Error> {
    install_crypto_provider();
    let all = addresses.iter().map(|ip| SocketAddr::new(*ip, target.port));
    let pinned = PinnedHostAddresses {
        host: target.host.clone(),
        addresses: all.collect(),
    };
    let connect = timeouts.connect.unwrap_or(CONNECT_TIMEOUT);
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("rind/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect.min(CONNECT_TIMEOUT))
        .dns_resolver(pinned)
        // A proxy would resolve the name itself and could connect anywhere.
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        // The size of the headers is checked after receipt, so only their number is limited here.
        // Sites with many cookies and policies send more than the library's default of 100.
        .http1_max_headers(MAX_RESPONSE_HEADERS)
        .pool_max_idle_per_host(0);
    if target.scheme == UrlScheme::Http {
        // Without TLS, skip loading the system's certificates, which is slow.
        builder = builder.tls_certs_only([]);
    }
    builder.build().map_err(|e| convert_send_error(&e))
}

/// Fails if `doing` takes longer than `limit`, the timeout that the plugin set. The host's deadline
/// for the complete request applies in addition.
async fn await_with_plugin_timeout<T>(
    limit: Option<Duration>,
    doing: impl Future<Output = reqwest::Result<T>>,
) -> Result<T, Error> {
    let done = match limit {
        None => doing.await,
        Some(limit) => tokio::time::timeout(limit, doing).await.map_err(|_| {
            let text = format!("no data arrived for {limit:?}, the timeout that the plugin set");
            Error::new(EgressErrorKind::Timeout, text)
        })?,
    };
    done.map_err(|e| convert_send_error(&e))
}

/// A response of which only the headers have been read.
pub(super) struct UnreadResponse {
    pub(super) answer: reqwest::Response,
    method: Method,
    timeouts: PluginRequestTimeouts,
    pub(super) place: ConcurrentRequestPermit,
}

impl UnreadResponse {
    /// Reads the complete response within the limits and masks secrets.
    pub(super) async fn read_response(
        mut self,
        mask: &CredentialMasker,
    ) -> Result<EgressResponse, Error> {
        self.check_headers(mask)?;
        let status = self.answer.status();
        let has_body = self.method != Method::HEAD
            && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        let mut body = Vec::new();
        if has_body {
            let announced = self.answer.content_length().unwrap_or_default();
            if announced > MAX_RESPONSE_BODY_BYTES as u64 {
                return Err(Error::response_too_long_error());
            }
            while let Some(piece) = self.read_body_piece().await? {
                if body.len() + piece.len() > MAX_RESPONSE_BODY_BYTES {
                    return Err(Error::response_too_long_error());
                }
                body.extend_from_slice(&piece);
            }
        }
        if let Some(masked) = mask.mask_bytes(&body) {
            // Check the length again: a secret is replaced by its name, which may be longer.
            if masked.len() > MAX_RESPONSE_BODY_BYTES {
                return Err(Error::response_too_long_error());
            }
            body = masked;
        }
        Ok(EgressResponse {
            status: status.as_u16(),
            headers: self.masked_headers(mask, body.len()),
            body,
            place: self.place,
        })
    }

    /// Refuses headers that are too long, and an encoded body, because secrets would not be found
    /// in it.
    pub(super) fn check_headers(&self, mask: &CredentialMasker) -> Result<(), Error> {
        if headers::exceeds_header_limit(self.answer.headers()) {
            let text = format!(
                "the headers of the answer have more than {} KiB",
                headers::MAX_TOTAL_HEADER_BYTES >> 10
            );
            return Err(Error::new(EgressErrorKind::ResponseSize, text));
        }
        let is_encoded = |value: &HeaderValue| !value.as_bytes().eq_ignore_ascii_case(b"identity");
        let encoding = self.answer.headers().get(CONTENT_ENCODING);
        if !mask.is_empty() && encoding.is_some_and(is_encoded) {
            let text = "the answer is encoded in a way that was not asked for, so that secrets in it would not be found";
            return Err(Error::new(EgressErrorKind::Response, text));
        }
        Ok(())
    }

    /// Reads the next piece of the body; `None` at its end.
    pub(super) async fn read_body_piece(&mut self) -> Result<Option<Bytes>, Error> {
        await_with_plugin_timeout(self.timeouts.between_bytes, self.answer.chunk()).await
    }

    /// Returns the response headers for the plugin with secrets masked; `n_bytes` is the length of
    /// the body that the plugin receives.
    pub(super) fn masked_headers(&self, mask: &CredentialMasker, n_bytes: usize) -> HeaderMap {
        // The name of a header cannot be masked, so a header with a secret in its name is dropped.
        let is_secret = |name: &str| mask.first_secret_name(name.as_bytes()).is_some();
        let mut headers = headers::filter_response_headers_for_plugin(
            self.answer.headers(),
            &self.method,
            n_bytes,
            is_secret,
        );
        for value in headers.values_mut() {
            if let Some(masked) = mask.mask_bytes(value.as_bytes()) {
                // The mask consists of characters that are valid in a header.
                *value = HeaderValue::from_bytes(&masked)
                    .unwrap_or_else(|_| HeaderValue::from_static("[masked]"));
            }
        }
        headers
    }
}

/// Converts an error of the HTTP library to an error whose text does not contain the URL.
fn convert_send_error(error: &reqwest::Error) -> Error {
    let (kind, what) = if error.is_timeout() {
        (EgressErrorKind::Timeout, "the connection took too long")
    } else if error.is_builder() {
        (EgressErrorKind::Url, "the request cannot be sent")
    } else if error.is_connect() {
        (EgressErrorKind::Connect, "the connection failed")
    } else {
        let what = "the answer broke off or is not HTTP";
        (EgressErrorKind::Response, what)
    };
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = if kind == EgressErrorKind::Timeout || std::ptr::addr_eq(cause, error) {
        what.to_owned()
    } else {
        format!("{what}: {cause}")
    };
    Error::new(
        kind,
        escape_and_truncate_line(&text, MAX_CONNECT_ERROR_CAUSE_BYTES),
    )
}

impl Error {
    /// Creates the error for a response body that exceeds the maximum size.
    pub(super) fn response_too_long_error() -> Self {
        let text = format!(
            "the answer has more than {} MiB, after decoding",
            MAX_RESPONSE_BODY_BYTES >> 20
        );
        Self::new(EgressErrorKind::ResponseSize, text)
    }

    /// Creates the error for a request body that exceeds the maximum size.
    #[must_use]
    pub fn request_too_long_error() -> Self {
        let text = format!(
            "the body of the request has more than {} MiB",
            MAX_REQUEST_BODY_BYTES >> 20
        );
        Self::new(EgressErrorKind::RequestBody, text)
    }
}
