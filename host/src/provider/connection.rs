//! Builds the HTTP client of a model API: connection timeout, proxies, certificates.
//!
//! Proxies come from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), which
//! `reqwest` reads itself, and are never used for a server on this machine. Certificates are
//! checked against the system's store or, if `SSL_CERT_FILE` or `SSL_CERT_DIR` is set, against
//! those instead; the setting `ca_file` adds authorities. Start from [`build_http_client`].

use std::path::Path;
use std::time::Duration;

use reqwest::Certificate;
use reqwest::redirect::Policy;

use super::Error;
use super::endpoint::ModelApiEndpoint;
use super::http::{HttpConfig, install_crypto_provider};

/// Maximum size of a file with certificates, in bytes; the store of a whole system has about 250
/// KiB.
const MAX_CA_CERTIFICATES_FILE_BYTES: u64 = 4 << 20;

/// Builds the HTTP client for the server at `endpoint`.
pub(super) fn build_http_client(
    endpoint: &ModelApiEndpoint,
    config: &HttpConfig,
) -> Result<reqwest::Client, Error> {
    install_crypto_provider();
    let mut client = reqwest::Client::builder()
        .user_agent(concat!("rind/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(Duration::from_millis(config.connect_timeout_ms))
        // Follow no redirects: a redirect could send the key to another host.
        .redirect(Policy::none())
        // Disable retries of the library: only `ModelApiConnectionPool` retries, so that it counts
        // all attempts.
        .retry(reqwest::retry::never());
    if endpoint.is_loopback() {
        client = client.no_proxy();
    }
    if let Some(path) = &config.ca_file {
        let certificates = read_ca_certificates(path).map_err(|what| Error::BadSetting {
            provider: endpoint.provider.clone(),
            setting: "http.ca_file".to_owned(),
            what: format!("{}: {what}", path.display()),
        })?;
        client = client.tls_certs_merge(certificates);
    }
    client.build().map_err(Error::Client)
}

/// Reads the certificates of a PEM file, which must contain at least one.
fn read_ca_certificates(path: &Path) -> Result<Vec<Certificate>, String> {
    let size = std::fs::metadata(path)
        .map_err(|error| error.to_string())?
        .len();
    if size > MAX_CA_CERTIFICATES_FILE_BYTES {
        return Err(format!(
            "the file has {size} bytes, more than the maximum of {MAX_CA_CERTIFICATES_FILE_BYTES}"
        ));
    }
    let pem = std::fs::read(path).map_err(|error| error.to_string())?;
    let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("the file contains no certificate in PEM format".to_owned());
    }
    Ok(certificates)
}
