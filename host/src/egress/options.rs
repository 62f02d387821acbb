//! Options that the embedder of the host sets for requests of plugins.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName};

use super::credential::{EmptySecretStore, SecretStore};
use super::resolve::{HostNameResolver, SystemDnsResolver};
use crate::secret::check_request_for_secrets;

/// A plugin's request before credentials are added.
#[derive(Clone, Copy, Debug)]
pub struct OutgoingRequest<'a> {
    /// Name of the plugin that sends the request.
    pub plugin: &'a str,
    /// HTTP method, such as `GET` or `POST`.
    pub method: &'a str,
    /// Absolute URL to which the request is sent.
    pub url: &'a str,
    /// Headers that the plugin set.
    pub headers: &'a HeaderMap,
    /// Body of the request, as sent.
    pub body: &'a [u8],
}

/// Function that inspects every request and every redirect. If it returns an error, the request is
/// refused; the plugin and the access record get the text of the error.
pub type RequestInspectorFn = Arc<dyn Fn(&OutgoingRequest<'_>) -> Result<(), String> + Send + Sync>;

/// Returns the canned response to a request, which has passed all checks and is not sent. The
/// headers of the request include credentials.
pub type CannedResponseFn =
    Arc<dyn Fn(&OutgoingRequest<'_>) -> Result<http::Response<Vec<u8>>, String> + Send + Sync>;

/// Returns the canned messages of the WebSocket with this URL, instead of connecting. Messages of
/// the plugin are accepted and never answered.
pub type CannedWebSocketFn = Arc<dyn Fn(&str) -> Result<Vec<String>, String> + Send + Sync>;

/// Options that apply to the network requests of all plugins.
#[derive(Clone)]
pub struct EgressOptions {
    /// Source of secrets for credentials. Default: none.
    pub secrets: Arc<dyn SecretStore>,
    /// Resolver of host names. Default: that of the operating system.
    pub resolver: Arc<dyn HostNameResolver>,
    /// Deadline of a request with all its redirects, to the last byte. Default: 30 s.
    pub deadline: Duration,
    /// Function that inspects outgoing requests. The default refuses a request that contains a
    /// secret.
    pub inspect: Option<RequestInspectorFn>,
    /// Replacement for the network in tests of plugins. Default: none.
    pub canned: Option<CannedResponseFn>,
    /// Replacement for WebSockets in tests of plugins. Default: none.
    pub canned_sockets: Option<CannedWebSocketFn>,
}

/// Refuses a request in which the plugin itself put a text that looks like a secret: only the host
/// adds credentials.
fn refuse_secrets_in_request(outgoing: &OutgoingRequest<'_>) -> Result<(), String> {
    let spellings: Vec<String> = outgoing
        .headers
        .keys()
        .flat_map(header_name_spellings)
        .collect();
    let of_names = spellings
        .iter()
        .map(|text| ("name of a header", text.as_bytes()));
    // Names are checked first, because an error about a value shows the name of its header.
    check_request_for_secrets(&of_names.collect::<Vec<_>>())?;
    let values: Vec<(String, &[u8])> = outgoing
        .headers
        .iter()
        .map(|(name, value)| (format!("header {name}"), value.as_bytes()))
        .collect();
    let mut parts = vec![("URL", outgoing.url.as_bytes()), ("body", outgoing.body)];
    parts.extend(values.iter().map(|(name, value)| (name.as_str(), *value)));
    check_request_for_secrets(&parts)
}

/// Returns each suffix of a header name that begins at a word, both in lower and in upper case: the
/// secret scanner recognizes a token only at a word boundary, and a [`HeaderName`] is always in
/// lower case.
fn header_name_spellings(name: &HeaderName) -> impl Iterator<Item = String> {
    let name = name.as_str();
    let words = name
        .match_indices('-')
        .filter_map(|(at, _)| name.get(at + 1..));
    let from_each_word = std::iter::once(name).chain(words);
    from_each_word.flat_map(|text| [text.to_owned(), text.to_ascii_uppercase()])
}

impl Default for EgressOptions {
    fn default() -> Self {
        Self {
            secrets: Arc::new(EmptySecretStore),
            resolver: Arc::new(SystemDnsResolver),
            deadline: Duration::from_secs(30),
            inspect: Some(Arc::new(refuse_secrets_in_request)),
            canned: None,
            canned_sockets: None,
        }
    }
}

impl_partial_debug!(
    EgressOptions,
    self,
    deadline = self.deadline,
    is_inspected = self.inspect.is_some()
);
