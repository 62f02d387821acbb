//! Downloads from package registries. The registries are not trusted: documents and files are
//! limited in size and time, and redirects may lead only to the registry itself or to public
//! addresses over https.
//!
//! Start from [`PackageDownloadClient::fetch_following_redirects`].

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use reqwest::dns::{Addrs, Name, Resolving};
use reqwest::header::{ACCEPT, AUTHORIZATION, HeaderValue, LOCATION};
use reqwest::{Client, ClientBuilder, NoProxy, Proxy, Response, Url};

use super::auth::sensitive_header_value;
use super::reference::is_loopback_host;
use super::transfer::{self, registry_client_builder};
use rind_lib::egress::address::{self, IpAddressClass};
use rind_lib::egress::{HostNameResolver as _, SystemDnsResolver};
use rind_lib::text::escape_and_truncate_line;

/// Timeout for all requests of one operation together.
const TOTAL_DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(600);

/// Maximum number of redirects of one request. Registries use one or two.
const MAX_REDIRECTS_PER_REQUEST: usize = 5;

/// Address of a package registry, with the credentials for it.
pub(crate) struct RegistryAddress {
    /// URL of the registry, which ends with `/` and contains no credentials.
    pub(crate) base: Url,
    /// Value of the header `Authorization` for the registry; `None` without credentials.
    pub(crate) authorization: Option<String>,
    /// Name of the setting that contains the registry's address, for messages.
    pub(crate) setting: String,
    /// Advice for the user on how to configure credentials, for the case that the registry requires
    /// them.
    pub(crate) login: &'static str,
    /// Proxy in the settings of the client; `None` if the shared variables such as `HTTPS_PROXY`
    /// apply.
    pub(crate) proxy: Option<RegistryProxy>,
    /// Hosts of all configured proxies. Their IP addresses may be private.
    pub(crate) proxies: Vec<String>,
}

/// Proxy for the requests to a registry.
#[derive(Clone)]
pub(crate) struct RegistryProxy {
    /// URL of the proxy, including the credentials for it.
    pub(crate) url: Url,
    /// Name of the setting that contains the proxy's address, for messages.
    pub(crate) setting: String,
    /// Hosts that are reached without the proxy; `None` if the hosts in `NO_PROXY` apply.
    pub(crate) exceptions: Option<String>,
}

impl RegistryProxy {
    fn to_reqwest_proxy(&self) -> anyhow::Result<Proxy> {
        let exceptions = match &self.exceptions {
            Some(text) => NoProxy::from_string(text),
            None => NoProxy::from_env(),
        };
        // Drop the error, because it could quote the URL, which may contain a password.
        let proxy = Proxy::all(self.url.clone()).ok();
        let proxy = proxy.with_context(|| format!("{} cannot be used as a proxy", self.setting))?;
        Ok(proxy.no_proxy(exceptions))
    }
}

/// Request to a package registry for a document or file.
#[derive(Clone, Copy)]
pub(crate) struct RegistryDownloadRequest<'a> {
    pub(crate) url: &'a Url,
    /// Media types for the header `Accept`; `None` to send no such header.
    pub(crate) accept: Option<&'static str>,
    /// Maximum size of the document or file in bytes.
    pub(crate) limit: u64,
    /// Noun that denotes the requested document or file in error messages.
    pub(crate) noun: &'a str,
}

/// HTTP client for one package registry.
pub(crate) struct PackageDownloadClient {
    /// HTTP client for the registry itself, whose address the operator configured.
    own: Client,
    /// DNS resolver for the other hosts that the registry's answers name.
    resolver: Arc<PublicOnlyDnsResolver>,
    base: Url,
    authorization: Option<HeaderValue>,
    login: &'static str,
    proxy: Option<RegistryProxy>,
    until: Instant,
}

impl PackageDownloadClient {
    /// Creates a client for a registry. Sends no request yet.
    pub(crate) fn new(registry: &RegistryAddress) -> anyhow::Result<Self> {
        let is_local = is_loopback_host(registry.base.host_str().unwrap_or_default());
        let authorization = registry.authorization.as_deref();
        Ok(Self {
            own: build_http_client(
                registry_client_builder(is_local),
                registry.proxy.as_ref().filter(|_| !is_local),
            )?,
            resolver: Arc::new(PublicOnlyDnsResolver {
                proxies: registry.proxies.clone(),
            }),
            base: registry.base.clone(),
            authorization: authorization.map(sensitive_header_value).transpose()?,
            login: registry.login,
            proxy: registry.proxy.clone(),
            until: Instant::now() + TOTAL_DOWNLOAD_TIMEOUT,
        })
    }

    /// Returns the URL of the registry, which ends with `/`.
    pub(crate) fn base_url(&self) -> &Url {
        &self.base
    }

    /// Downloads a document or a file from a registry, following redirects.
    pub(crate) async fn fetch_following_redirects(
        &self,
        ask: RegistryDownloadRequest<'_>,
    ) -> anyhow::Result<Vec<u8>> {
        let mut url = ask.url.clone();
        for _ in 0..=MAX_REDIRECTS_PER_REQUEST {
            self.check_download_target(&url, ask.noun)?;
            let answer = self.send_single_request(&url, ask).await?;
            if !answer.status().is_redirection() {
                self.check_download_status(&answer, ask.noun)?;
                return transfer::read_response_body(answer, ask.limit, ask.noun).await;
            }
            url = read_redirect_target(&answer)?;
        }
        bail!(
            "{} redirects the request for {} more than {MAX_REDIRECTS_PER_REQUEST} times",
            self.registry_host(),
            ask.noun
        )
    }

    fn registry_host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    fn is_registry_url(&self, url: &Url) -> bool {
        url.origin() == self.base.origin()
    }

    /// Refuses a URL unless its host is the registry itself or, over https, a public address.
    /// Otherwise a registry could make this program send requests to servers in a private network.
    fn check_download_target(&self, url: &Url, noun: &str) -> anyhow::Result<()> {
        let is_plain = url.username().is_empty() && url.password().is_none();
        let is_safe = self.is_registry_url(url) || (url.scheme() == "https" && is_public_host(url));
        ensure!(
            is_plain && is_safe,
            "{} redirects from {noun} to `{}`, which is not a public address with https",
            self.registry_host(),
            escape_and_truncate_line(url.as_str(), 200)
        );
        Ok(())
    }

    /// Creates a client that connects only to public addresses, for files that the registry keeps
    /// on other hosts.
    fn create_public_network_client(&self) -> anyhow::Result<Client> {
        let client = registry_client_builder(false).dns_resolver(self.resolver.clone());
        build_http_client(client, self.proxy.as_ref())
    }

    async fn send_single_request(
        &self,
        url: &Url,
        ask: RegistryDownloadRequest<'_>,
    ) -> anyhow::Result<Response> {
        let host = url.host_str().unwrap_or_default().to_owned();
        let is_own = self.is_registry_url(url);
        let client = match is_own {
            true => self.own.clone(),
            false => self.create_public_network_client()?,
        };
        let left = self.until.saturating_duration_since(Instant::now());
        let mut request = client.get(url.clone()).timeout(left);
        if let Some(accept) = ask.accept {
            request = request.header(ACCEPT, accept);
        }
        if let Some(authorization) = self.authorization.as_ref().filter(|_| is_own) {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        let sent = transfer::send_request(request, &host).await;
        match &self.proxy {
            Some(proxy) => sent.with_context(|| {
                format!(
                    "the request went through the proxy that is set in {}",
                    proxy.setting
                )
            }),
            None => sent,
        }
    }

    fn check_download_status(&self, answer: &Response, noun: &str) -> anyhow::Result<()> {
        let host = answer.url().host_str().unwrap_or_default();
        match (answer.status().as_u16(), &self.authorization) {
            (200, _) => Ok(()),
            (401 | 403, None) => {
                bail!("{host} asks for credentials: {}", self.login)
            }
            (401 | 403, Some(_)) => {
                bail!("{host} refuses access to {noun} with the configured credentials")
            }
            (404 | 410, _) => bail!("{host} has no {noun}"),
            (429, _) => bail!("{host} limits the rate of requests; try again later"),
            _ => bail!("{host} answered {} for {noun}", answer.status()),
        }
    }
}

fn build_http_client(
    client: ClientBuilder,
    proxy: Option<&RegistryProxy>,
) -> anyhow::Result<Client> {
    let client = match proxy {
        Some(proxy) => client.proxy(proxy.to_reqwest_proxy()?),
        None => client,
    };
    client.build().context("cannot make an HTTP client")
}

/// Whether the host of a URL is a public IP address or a host name other than `localhost`. The IP
/// addresses of a host name are checked later, by [`PublicOnlyDnsResolver`].
fn is_public_host(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    match address.parse::<IpAddr>() {
        Ok(address) => address::classify_address(address).class == IpAddressClass::Public,
        Err(_) => {
            let name = host.trim_end_matches('.');
            !name.is_empty() && name != "localhost" && !name.ends_with(".localhost")
        }
    }
}

/// Returns the URL to which a registry's redirect leads.
fn read_redirect_target(answer: &Response) -> anyhow::Result<Url> {
    let host = answer.url().host_str().unwrap_or_default();
    let location = answer.headers().get(LOCATION);
    let location = location.and_then(|value| value.to_str().ok());
    let location = location
        .with_context(|| format!("{host} answered with a redirect that names no target"))?;
    let target = answer.url().join(location).ok();
    target.with_context(|| format!("{host} redirects to an address that is not a URL"))
}

/// Parses an absolute URL.
pub(crate) fn parse_url(text: &str) -> anyhow::Result<Url> {
    Ok(Url::parse(text)?)
}

/// DNS resolver for the hosts that a registry's answers name. It refuses host names with a private
/// IP address.
struct PublicOnlyDnsResolver {
    /// Host names of the configured proxies, which may have private addresses.
    proxies: Vec<String>,
}

impl PublicOnlyDnsResolver {
    async fn resolve_to_public_addresses(
        name: &str,
        is_proxy: bool,
    ) -> Result<Addrs, DnsResolveError> {
        let found = SystemDnsResolver.resolve(name).await?;
        for address in found.iter().filter(|_| !is_proxy) {
            let kind = address::classify_address(*address);
            if kind.class != IpAddressClass::Public {
                let shown = escape_and_truncate_line(name, 200);
                return Err(format!(
                    "`{shown}` has the address {address}, which is {}",
                    kind.name
                )
                .into());
            }
        }
        let found = found.into_iter();
        Ok(Box::new(found.map(|address| SocketAddr::new(address, 0))))
    }
}

type DnsResolveError = Box<dyn std::error::Error + Send + Sync>;

impl reqwest::dns::Resolve for PublicOnlyDnsResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let is_it = |proxy: &String| proxy.eq_ignore_ascii_case(name.as_str());
        let is_proxy = self.proxies.iter().any(is_it);
        Box::pin(async move { Self::resolve_to_public_addresses(name.as_str(), is_proxy).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_no_targets_however_they_are_written() {
        for (url, expected) in [
            ("https://a.example/x", true),
            ("https://8.8.8.8/x", true),
            ("https://10.0.0.1/x", false),
            ("https://169.254.169.254/x", false),
            ("https://127.1/x", false),
            ("https://0x7f000001/x", false),
            ("https://2130706433/x", false),
            ("https://[::1]/x", false),
            ("https://[::ffff:10.0.0.1]/x", false),
            ("https://localhost/x", false),
            ("https://localhost./x", false),
            ("https://a.localhost/x", false),
        ] {
            assert_eq!(is_public_host(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[tokio::test]
    async fn names_with_a_private_address_are_not_resolved_unless_they_are_a_proxy() {
        let refused = PublicOnlyDnsResolver::resolve_to_public_addresses("localhost", false).await;
        let error = refused.err().unwrap().to_string();
        assert!(error.contains("`localhost` has the address"), "{error}");
        let proxy = PublicOnlyDnsResolver::resolve_to_public_addresses("localhost", true).await;
        assert!(proxy.unwrap().next().is_some());
    }
}
