//! Defines patterns of hosts that a plugin may connect to, such as `api.github.com`,
//! `*.example.com:8443`, `http://127.0.0.1:8080` and `*`.
//!
//! Matching works on parsed scheme, name and port, never on the text of a URL. Start from
//! [`HostPattern`].

use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Scheme of the requests that a host pattern allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UrlScheme {
    /// HTTPS, the scheme of a pattern that names none.
    Https,
    /// HTTP, the scheme of a pattern that begins with `http://`.
    Http,
}

impl UrlScheme {
    /// Returns the scheme as written in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
        }
    }

    /// Returns the port that URLs with this scheme use by default.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Self::Https => 443,
            Self::Http => 80,
        }
    }
}

/// Part of a host pattern that selects the host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum HostNamePattern {
    /// `*`: any name or address.
    Any,
    /// `*.example.com`: any subdomain, but not the domain itself.
    Below(String),
    /// Single host name, in lower case, without a trailing dot.
    Exact(String),
    Address(IpAddr),
}

/// A pattern of hosts: scheme, host and port. The default scheme is `https`, and the default port
/// is that of the scheme.
///
/// For example:
///
/// ```text
/// api.github.com         https://API.github.com     matches: names have no case
/// api.github.com         http://api.github.com      no: the scheme is https
/// *.github.com           https://a.b.github.com     matches
/// *.github.com           https://github.com         no: only subdomains
/// http://127.0.0.1:81    http://127.0.0.1:82        no: another port
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPattern {
    scheme: UrlScheme,
    name: HostNamePattern,
    port: u16,
}

impl HostPattern {
    /// Whether the pattern matches a request to this host. `host` is a name in upper or lower case,
    /// or an address; an IPv6 address may have brackets.
    #[must_use]
    pub fn matches(&self, scheme: UrlScheme, host: &str, port: u16) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let name = host
            .parse()
            .map(HostNamePattern::Address)
            .unwrap_or_else(|_| {
                let host = host.strip_suffix('.').unwrap_or(host);
                HostNamePattern::Exact(host.to_ascii_lowercase())
            });
        self.covers(&Self { scheme, name, port })
    }

    /// Whether this pattern matches every request that `other` matches.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let is_below = |name: &str, above: &str| {
            let rest = name.strip_suffix(above);
            rest.is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
        };
        (self.scheme, self.port) == (other.scheme, other.port)
            && match (&self.name, &other.name) {
                (HostNamePattern::Any, _) => true,
                (HostNamePattern::Below(own), HostNamePattern::Below(name)) => {
                    own == name || is_below(name, own)
                }
                (HostNamePattern::Below(own), HostNamePattern::Exact(name)) => is_below(name, own),
                (own, name) => own == name,
            }
    }

    /// Formats the pattern with its scheme, for users. The `Display` form omits `https`.
    #[must_use]
    pub fn text_with_scheme(&self) -> String {
        match self.scheme {
            UrlScheme::Https => format!("https://{self}"),
            UrlScheme::Http => self.to_string(),
        }
    }

    /// Whether the pattern would match a request that differs only in the scheme.
    #[must_use]
    pub fn matches_except_for_scheme(&self, scheme: UrlScheme, host: &str, port: u16) -> bool {
        let mut other = self.clone();
        other.scheme = scheme;
        if self.port == self.scheme.default_port() {
            other.port = scheme.default_port();
        }
        scheme != self.scheme && other.matches(scheme, host, port)
    }

    /// Returns the scheme of the requests that the pattern allows.
    #[must_use]
    pub fn scheme(&self) -> UrlScheme {
        self.scheme
    }

    /// Returns the port to which the pattern allows requests.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the IP address if the pattern is for a single IP address.
    #[must_use]
    pub fn ip_address(&self) -> Option<IpAddr> {
        match self.name {
            HostNamePattern::Address(address) => Some(address),
            _ => None,
        }
    }

    /// Whether the pattern is `*`.
    #[must_use]
    pub fn matches_every_host(&self) -> bool {
        self.name == HostNamePattern::Any
    }

    /// Whether the pattern is `localhost` or a subdomain of it, which RFC 6761 reserves for
    /// loopback.
    #[must_use]
    pub fn is_localhost(&self) -> bool {
        match &self.name {
            HostNamePattern::Exact(name) | HostNamePattern::Below(name) => {
                name == "localhost" || name.ends_with(".localhost")
            }
            HostNamePattern::Any | HostNamePattern::Address(_) => false,
        }
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refuse = |why: &str| format!("`{}` is not a host: {why}", text.escape_debug());
        let (scheme, rest) = match text.split_once("://") {
            None => (UrlScheme::Https, text),
            Some(("https", rest)) => (UrlScheme::Https, rest),
            Some(("http", rest)) => (UrlScheme::Http, rest),
            Some(_) => return Err(refuse("the schemes are https and http")),
        };
        let (host, port) = split_port(rest).map_err(refuse)?;
        let port = match port {
            None => scheme.default_port(),
            Some(port) => match port.parse::<u16>() {
                Ok(port) if port > 0 => port,
                _ => return Err(refuse("a port is a number from 1 to 65535")),
            },
        };
        Ok(Self {
            scheme,
            name: parse_host_name(host).map_err(refuse)?,
            port,
        })
    }
}

/// Splits a text such as `[::1]:80` or `a.b:80` into host and port; the port may be absent.
fn split_port(text: &str) -> Result<(&str, Option<&str>), &'static str> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("a `[` has no `]`")?;
        host.parse::<Ipv6Addr>()
            .map_err(|_| "brackets must contain an IPv6 address")?;
        return match after.strip_prefix(':') {
            Some(port) => Ok((host, Some(port))),
            None if after.is_empty() => Ok((host, None)),
            None => Err("only a port may follow `]`"),
        };
    }
    match text.split_once(':') {
        Some((_, port)) if port.contains(':') => Err("an IPv6 address must be in brackets"),
        Some((host, port)) => Ok((host, Some(port))),
        None => Ok((text, None)),
    }
}

fn parse_host_name(host: &str) -> Result<HostNamePattern, &'static str> {
    if host == "*" {
        return Ok(HostNamePattern::Any);
    }
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(HostNamePattern::Address(address));
    }
    let (is_below, host) = match host.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, host),
    };
    let host = host.to_ascii_lowercase();
    let is_label = |label: &str| {
        let is_fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        (1..=63).contains(&label.len()) && label.bytes().all(is_fine) && !label.starts_with('-')
    };
    if host.len() > 253 || !host.split('.').all(is_label) {
        return Err(
            "a host name has labels of letters, digits and `-` (international names as `xn--`); `*.` in front stands for all names below",
        );
    }
    // Refuse spellings of an address that only URL parsers accept (`0x7f.1`, `2130706433`). They
    // are never names of hosts.
    let last = host.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") {
        return Err("an IPv4 address is written as four numbers");
    }
    Ok(if is_below {
        HostNamePattern::Below(host)
    } else {
        HostNamePattern::Exact(host)
    })
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.scheme == UrlScheme::Http {
            f.write_str("http://")?;
        }
        match &self.name {
            HostNamePattern::Any => f.write_str("*")?,
            HostNamePattern::Below(name) => write!(f, "*.{name}")?,
            HostNamePattern::Exact(name) => f.write_str(name)?,
            HostNamePattern::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
            HostNamePattern::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
        }
        if self.port != self.scheme.default_port() {
            write!(f, ":{}", self.port)?;
        }
        Ok(())
    }
}

serde_as_text!(HostPattern);

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        text.parse().unwrap()
    }

    #[test]
    fn a_pattern_is_a_scheme_a_host_and_a_port() {
        use UrlScheme::{Http, Https};
        for (text, scheme, host, port, expected) in [
            ("api.github.com", Https, "API.github.com.", 443, true),
            ("api.github.com", Http, "api.github.com", 80, false),
            ("api.github.com", Https, "api.github.com", 8443, false),
            ("api.github.com", Https, "xapi.github.com", 443, false),
            ("*.github.com", Https, "api.github.com", 443, true),
            ("*.github.com", Https, "a.b.github.com", 443, true),
            ("*.github.com", Https, "github.com", 443, false),
            ("*.github.com", Https, ".github.com", 443, false),
            ("*.github.com", Https, "evilgithub.com", 443, false),
            ("http://127.0.0.1:81", Http, "127.0.0.1", 81, true),
            ("http://127.0.0.1:81", Http, "127.0.0.1", 82, false),
            ("http://[::1]:81", Http, "[::1]", 81, true),
            ("http://[::1]:81", Http, "0:0::1", 81, true),
            ("*", Https, "anything.example", 443, true),
            ("*", Http, "anything.example", 80, false),
        ] {
            let is_match = pattern(text).matches(scheme, host, port);
            assert_eq!(is_match, expected, "{text} {host}:{port}");
        }
    }

    #[test]
    fn a_pattern_reads_back_as_it_is_written() {
        let all = "a.b *.a.b:8443 http://a.b http://[::1]:81 10.0.0.1 * http://*:8080";
        for text in all.split(' ') {
            assert_eq!(pattern(text).to_string(), text);
        }
        assert_eq!(pattern("https://A.b:443").to_string(), "a.b");
        for (text, whole) in [
            ("a.b", "https://a.b"),
            ("*.a.b:8443", "https://*.a.b:8443"),
            ("http://10.0.0.1:80", "http://10.0.0.1"),
        ] {
            assert_eq!(pattern(text).text_with_scheme(), whole);
        }
    }

    #[test]
    fn a_pattern_of_the_other_scheme_is_recognized() {
        for (text, scheme, port, expected) in [
            ("a.b", UrlScheme::Http, 80, true),
            ("a.b:8080", UrlScheme::Http, 8080, true),
            ("http://a.b", UrlScheme::Https, 443, true),
            ("a.b", UrlScheme::Https, 443, false),
            ("a.b:8080", UrlScheme::Http, 8081, false),
            ("c.b", UrlScheme::Http, 80, false),
        ] {
            let is_it = pattern(text).matches_except_for_scheme(scheme, "a.b", port);
            assert_eq!(is_it, expected, "{text} {port}");
        }
    }

    #[test]
    fn a_pattern_covers_what_is_all_within_it() {
        for (wide, narrow, expected) in [
            ("*", "a.b", true),
            ("*", "*", true),
            ("*", "http://a.b", false),
            ("a.b", "*", false),
            ("a.b", "A.b:443", true),
            ("*.b", "a.b", true),
            ("*.b", "*.b", true),
            ("*.b", "*.a.b", true),
            ("*.a.b", "*.b", false),
            ("*.b", "b", false),
            ("*.b", "ab", false),
            ("a.b", "a.b:8443", false),
            ("10.0.0.1", "10.0.0.1", true),
        ] {
            let covers = pattern(wide).covers(&pattern(narrow));
            assert_eq!(covers, expected, "{wide} {narrow}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        let all = "|a b|a..b|*.*|a*.b|a.b/path|u@a.b|a.b:0|a.b:70000|a.b:x|ftp://a.b|::1|[::1|[::1]x|2130706433|0x7f.1|127.1|\
                   -a.b|ä.b";
        for text in all.split('|') {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
    }
}
