//! Parses the URL of a request once, and checks its host and addresses against the grants.
//!
//! There is only one URL parser. Patterns, lookup, connection, request line and `host` header all
//! use its result, so spellings that two parsers would read differently cannot bypass a check.
//! Start from [`RequestTarget`].

use std::net::IpAddr;

use reqwest::Url;

use super::address::{self, IpAddressClass};
use super::error::{EgressErrorKind, Error};
use super::resolve::HostNameResolver;
use crate::grant::{GrantedCapabilities, UrlScheme};
use crate::text::escape_and_truncate_line;

/// Maximum length of a URL, in bytes, as accepted by common servers.
const MAX_URL_BYTES: usize = 8 << 10;

/// Maximum number of addresses of one host. A host with more is refused.
const MAX_ADDRESSES_PER_HOST: usize = 64;

/// Maximum length, in bytes, of the text with which a record or an error names a target.
const MAX_DISPLAYED_TARGET_BYTES: usize = 300;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RequestTarget {
    /// URL without user, password, fragment, and trailing dot of the host.
    pub(super) url: Url,
    pub(super) scheme: UrlScheme,
    /// Host name in lower case, or IP address without brackets.
    pub(super) host: String,
    pub(super) port: u16,
}

/// Whether a plugin may connect to public and to private addresses of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AllowedAddressClasses {
    public: bool,
    private: bool,
}

fn invalid_url_error(text: impl Into<String>) -> Error {
    Error::new(EgressErrorKind::Url, text)
}

impl RequestTarget {
    /// Parses a URL. Errors do not quote it, because it may contain a password.
    pub(super) fn parse_target(text: &str) -> Result<Self, Error> {
        if text.len() > MAX_URL_BYTES {
            return Err(invalid_url_error(format!(
                "the URL has {} bytes, at most {MAX_URL_BYTES} are allowed",
                text.len()
            )));
        }
        if text.chars().any(char::is_control) {
            return Err(invalid_url_error("the URL contains control characters"));
        }
        let url =
            Url::parse(text).map_err(|e| invalid_url_error(format!("this is not a URL: {e}")))?;
        Self::new(url)
    }

    /// Parses the URL of a WebSocket. `ws` and `wss` become `http` and `https`, the schemes under
    /// which hosts are granted.
    pub(super) fn parse_socket_target(text: &str) -> Result<Self, Error> {
        let with = |scheme: &str, rest: &str| format!("{scheme}:{rest}");
        let text = match text.split_once(':') {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => with("https", rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => with("http", rest),
            _ => {
                return Err(invalid_url_error(
                    "the URL of a WebSocket begins with wss:// or ws://",
                ));
            }
        };
        Self::parse_target(&text)
    }

    /// Returns the URL of the target with the scheme `ws` or `wss`.
    pub(super) fn socket_url(&self) -> String {
        self.url.as_str().replacen("http", "ws", 1)
    }

    /// Formats the target of a WebSocket for records, like
    /// [`RequestTarget::format_target_for_records`] but with the scheme `ws` or `wss`.
    pub(super) fn format_websocket_target(&self, verb: &str) -> String {
        let name = format!(
            "{}{}",
            self.origin().replacen("http", "ws", 1),
            self.url.path()
        );
        escape_and_truncate_line(&format!("{verb} {name}"), MAX_DISPLAYED_TARGET_BYTES)
    }

    /// Checks a parsed URL, and removes the fragment and a trailing dot of the host.
    pub(super) fn new(mut url: Url) -> Result<Self, Error> {
        let scheme = match url.scheme() {
            "https" => UrlScheme::Https,
            "http" => UrlScheme::Http,
            other => {
                return Err(invalid_url_error(format!(
                    "the scheme `{}` is not supported; use https or http",
                    escape_and_truncate_line(other, 32)
                )));
            }
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid_url_error(
                "a URL must not contain a user or a password; list a credential under [[network.credentials]]",
            ));
        }
        url.set_fragment(None);
        let name = url.host_str().unwrap_or_default();
        if let Some(name) = name.strip_suffix('.').map(str::to_owned) {
            url.set_host(Some(&name))
                .map_err(|e| invalid_url_error(format!("the host of the URL is invalid: {e}")))?;
        }
        let name = url.host_str().unwrap_or_default();
        let host = name.trim_start_matches('[').trim_end_matches(']');
        if host.parse::<IpAddr>().is_err() && host.split('.').any(str::is_empty) {
            return Err(invalid_url_error("the host of the URL has an empty label"));
        }
        let port = url.port_or_known_default().unwrap_or_default();
        if port == 0 {
            return Err(invalid_url_error("port 0 cannot be requested"));
        }
        Ok(Self {
            scheme,
            host: host.to_owned(),
            port,
            url,
        })
    }

    /// Whether both targets have the same scheme, host and port.
    pub(super) fn is_same_origin(&self, other: &Self) -> bool {
        (self.scheme, &self.host, self.port) == (other.scheme, &other.host, other.port)
    }

    /// Formats the target for records: method, scheme, host, port and path. The query is left out,
    /// because it may hold secrets. Unprintable characters are replaced, and a long text is cut.
    ///
    /// For example:
    ///
    /// ```text
    /// GET https://a.example/items?token=1    ->  GET https://a.example:443/items
    /// ```
    pub(super) fn format_target_for_records(&self, method: &str) -> String {
        let text = format!("{method} {}{}", self.origin(), self.url.path());
        escape_and_truncate_line(&text, MAX_DISPLAYED_TARGET_BYTES)
    }

    /// Returns the origin of the target: scheme, host and port.
    fn origin(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        format!("{}://{host}:{}", self.scheme.as_str(), self.port)
    }

    /// Returns the classes of addresses to which the plugin may connect for this target. Refuses
    /// the target if it is not granted.
    ///
    /// For example, if the first pattern is granted under `hosts` and the second under `private`:
    ///
    /// ```text
    /// granted hosts           URL                            result
    /// https://a.example       https://a.example/             public addresses
    /// http://127.0.0.1:81     http://127.0.0.1:82/           refused: not among the hosts
    /// ```
    pub(super) fn determine_allowed_addresses(
        &self,
        granted: &GrantedCapabilities,
    ) -> Result<AllowedAddressClasses, Error> {
        let is_it = |pattern: &&crate::grant::HostPattern| {
            pattern.matches(self.scheme, &self.host, self.port)
        };
        let allowed = AllowedAddressClasses {
            public: granted.public_hosts().any(|pattern| is_it(&pattern)),
            // `*` does not grant private hosts.
            private: granted
                .private_hosts()
                .any(|pattern| !pattern.matches_every_host() && is_it(&pattern)),
        };
        if allowed.public || allowed.private {
            return Ok(allowed);
        }
        let listed = || granted.public_hosts().chain(granted.private_hosts());
        let names: Vec<String> = listed()
            .map(|pattern| format!("`{}`", pattern.text_with_scheme()))
            .collect();
        let differs = listed()
            .any(|pattern| pattern.matches_except_for_scheme(self.scheme, &self.host, self.port));
        let hint = if differs {
            "; a host without a scheme in plugin.toml means https, the other is written `http://HOST`"
        } else {
            ""
        };
        let text = format!(
            "`{}` is not among the hosts that the plugin was granted: {}{hint}",
            escape_and_truncate_line(&self.origin(), MAX_DISPLAYED_TARGET_BYTES),
            escape_and_truncate_line(&names.join(", "), MAX_DISPLAYED_TARGET_BYTES)
        );
        Err(Error::new(EgressErrorKind::Host, text))
    }

    /// Returns the addresses to connect to. The host name is resolved once, and every address that
    /// it has must be allowed.
    pub(super) async fn resolve_addresses(
        &self,
        allowed: AllowedAddressClasses,
        resolver: &dyn HostNameResolver,
    ) -> Result<Vec<IpAddr>, Error> {
        let found = match self.host.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => resolver.resolve(&self.host).await.map_err(|e| {
                let text = format!("`{}` has no address: {e}", self.host);
                Error::new(
                    EgressErrorKind::Resolve,
                    escape_and_truncate_line(&text, MAX_DISPLAYED_TARGET_BYTES),
                )
            })?,
        };
        if found.is_empty() || found.len() > MAX_ADDRESSES_PER_HOST {
            let text = format!(
                "`{}` has {} addresses, 1 to {MAX_ADDRESSES_PER_HOST} are allowed",
                self.host,
                found.len()
            );
            return Err(Error::new(EgressErrorKind::Resolve, text));
        }
        for address in &found {
            self.check_address(*address, allowed)?;
        }
        Ok(found)
    }

    fn check_address(&self, address: IpAddr, allowed: AllowedAddressClasses) -> Result<(), Error> {
        let kind = address::classify_address(address);
        let rule = match kind.class {
            IpAddressClass::Public if allowed.public => return Ok(()),
            IpAddressClass::Private if allowed.private => return Ok(()),
            IpAddressClass::Public => "list it under [network] hosts",
            IpAddressClass::Private => "list it under [network] private",
            IpAddressClass::Never => "no plugin may reach that",
        };
        let text = if self.host.parse::<IpAddr>().is_ok() {
            format!("`{address}` is {}; {rule}", kind.name)
        } else {
            format!(
                "`{}` resolves to {address}, {}; {rule}",
                self.host, kind.name
            )
        };
        Err(Error::new(EgressErrorKind::Address, text))
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;

    use super::*;
    use crate::grant::{Capability, HostPattern};
    use crate::table::parse_table_rows;

    fn granted(hosts: &[&str], private: &[&str]) -> GrantedCapabilities {
        let parse = |text: &&str| text.parse::<HostPattern>().unwrap();
        let public = hosts.iter().map(parse).map(Capability::Network);
        let private = private.iter().map(parse).map(Capability::PrivateNetwork);
        GrantedCapabilities::new(public.chain(private).collect())
    }

    /// Resolver for tests that returns these addresses, separated by blanks, for every name.
    struct Fixed<'a>(&'a str);

    impl HostNameResolver for Fixed<'_> {
        fn resolve<'a>(&'a self, _host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
            let all = self.0.split_whitespace();
            let all = all.map(|text| text.parse().unwrap()).collect();
            Box::pin(async move { Ok(all) })
        }
    }

    fn go(url: &str, granted: &GrantedCapabilities, found: &str) -> Result<(), Error> {
        let target = RequestTarget::parse_target(url)?;
        let allowed = target.determine_allowed_addresses(granted)?;
        let addresses = target
            .resolve_addresses(allowed, &Fixed(found))
            .now_or_never();
        addresses.unwrap().map(drop)
    }

    #[test]
    fn a_url_is_read_once_and_in_one_way() {
        for (text, expected) in [
            ("HTTPS://A.Example/x#y", "https://a.example/x a.example 443"),
            ("http://a.example.:80/", "http://a.example/ a.example 80"),
            ("http://0x7f.1/", "http://127.0.0.1/ 127.0.0.1 80"),
            ("http://2130706433:81/", "http://127.0.0.1:81/ 127.0.0.1 81"),
            ("http://0177.0.0.1/", "http://127.0.0.1/ 127.0.0.1 80"),
            ("http://127.0.0.1./", "http://127.0.0.1/ 127.0.0.1 80"),
            (
                "http://[::FFFF:127.0.0.1]/",
                "http://[::ffff:7f00:1]/ ::ffff:7f00:1 80",
            ),
            ("http://%31%32%37.0.0.1/", "http://127.0.0.1/ 127.0.0.1 80"),
            (
                "https://a.example\\@b.example/",
                "https://a.example/@b.example/ a.example 443",
            ),
            ("https://@a.example/", "https://a.example/ a.example 443"),
        ] {
            let RequestTarget {
                url, host, port, ..
            } = RequestTarget::parse_target(text).unwrap();
            assert_eq!(format!("{url} {host} {port}"), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_url_to_request_is_refused_without_being_repeated() {
        for text in [
            "",
            "a.example/x",
            "/x",
            "ftp://a.example/",
            "file:///etc/passwd",
            "data:text/plain,hunter2",
            "https://user:hunter2@a.example/",
            "https://hunter2@a.example/",
            "https://a.example:0/",
            "https://a.example:99999/",
            "https://a..example/",
            "https://a.example../",
            "https://./",
            "https://a.exam\nple/",
            "https://a.example/\u{0}hunter2",
        ] {
            let error = RequestTarget::parse_target(text).unwrap_err();
            assert_eq!(error.kind, EgressErrorKind::Url, "{text}");
            assert!(!error.text.contains("hunter2"), "{text}: {error}");
        }
        assert!(RequestTarget::parse_target(&format!("https://a/{}", "x".repeat(9000))).is_err());
    }

    /// Granted hosts, a URL, the addresses of its host, and the expected refusal.
    const REACHED: &str = "
public => https://a.example/ => 1.1.1.1 2606:4700::1 =>
public => https://a.example/ => 1.1.1.1 10.0.0.1 => `a.example` resolves to 10.0.0.1, a private address; list it under [network] private
public => https://a.example/ => => `a.example` has 0 addresses
public => https://1.1.1.1/ => =>
public => https://127.1/ => => `127.0.0.1` is a loopback address; list it under [network] private
private => https://[::ffff:a9fe:a9fe]/ => => is an address of cloud metadata; no plugin may reach that
private => http://nas.example:8080/ => 192.168.1.2 =>
private => http://nas.example:8080/ => 8.8.8.8 => `nas.example` resolves to 8.8.8.8, a public address; list it under [network] hosts
private => http://nas.example:8080/ => 192.168.1.2 169.254.169.254 => resolves to 169.254.169.254, an address of cloud metadata
private => http://127.0.0.1:81/ => =>
private => http://127.0.0.1:82/ => => not among the hosts
";

    #[test]
    fn a_host_is_reached_where_it_is_listed_and_its_addresses_are_of_the_kind_listed() {
        let public = granted(&["a.example", "*"], &[]);
        let private = granted(&["*"], &["http://nas.example:8080", "http://127.0.0.1:81"]);
        for [kind, url, found, expected] in parse_table_rows(REACHED) {
            let granted = if kind == "public" { &public } else { &private };
            let done = go(&url, granted, &found);
            match expected.as_str() {
                "" => assert_eq!(done, Ok(()), "{url}"),
                text => {
                    let error = done.unwrap_err();
                    assert!(error.text.contains(text), "{url}: {error}");
                }
            }
        }
        let error = go("http://a.example/", &public, "").unwrap_err();
        let expected = "`http://a.example:80` is not among the hosts that the plugin was granted: `https://*`, \
             `https://a.example`; a host without a scheme";
        assert!(error.text.contains(expected), "{error}");
    }

    #[test]
    fn records_name_a_target_without_its_query() {
        let target =
            RequestTarget::parse_target("https://a.example/p%20q?token=hunter2#f").unwrap();
        assert_eq!(
            target.format_target_for_records("GET"),
            "GET https://a.example:443/p%20q"
        );
        let long =
            RequestTarget::parse_target(&format!("https://a.example/{}", "x".repeat(400))).unwrap();
        assert!(long.format_target_for_records("GET").len() <= MAX_DISPLAYED_TARGET_BYTES);
    }
}
