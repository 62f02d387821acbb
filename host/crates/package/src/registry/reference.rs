//! Parses references to artifacts in OCI registries: `oci://HOST/REPOSITORY:TAG`, optionally pinned
//! by `@sha256:…`.
//!
//! Every part must match the grammar of the OCI specification, so that no part can change the
//! structure of a URL that contains it.
//!
//! For example:
//!
//! ```text
//! oci://localhost:5000/hello
//! oci://registry.example/team/hello_x:0.1.0
//! oci://registry.example/team/hello:v1@sha256:…64 hexadecimal digits…
//! ```

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use semver::Version;

/// Scheme with which references to artifacts in OCI registries begin.
pub(crate) const OCI_REFERENCE_SCHEME: &str = "oci://";

/// Maximum length of a reference in bytes. The path of a repository has at most 255.
const MAX_OCI_REFERENCE_BYTES: usize = 512;

/// Reference to an artifact. Every part matches the grammar of the OCI specification, so that no
/// part can change the structure of a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactReference {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) tag: Option<String>,
    pub digest: Option<String>,
}

impl ArtifactReference {
    /// Returns the text of the reference without tag and digest.
    pub(crate) fn text_without_tag_or_digest(&self) -> String {
        format!("{OCI_REFERENCE_SCHEME}{}/{}", self.host, self.path)
    }

    /// Returns a reference to another tag in the same repository.
    pub(crate) fn with_tag(&self, tag: String) -> Self {
        Self {
            tag: Some(tag),
            digest: None,
            ..self.clone()
        }
    }

    pub(crate) fn is_same_repository(&self, other: &Self) -> bool {
        (&self.host, &self.path) == (&other.host, &other.path)
    }

    /// Whether the registry runs on this machine. Registries on other machines are accessed only
    /// with TLS.
    pub(super) fn is_loopback(&self) -> bool {
        is_loopback_host(strip_port(&self.host))
    }
}

/// Whether a host (without port) is this machine, by name or address.
pub(crate) fn is_loopback_host(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let is_address = |address: IpAddr| address.to_canonical().is_loopback();
    name == "localhost" || address.parse().is_ok_and(is_address)
}

/// Removes the port from `HOST:PORT`.
fn strip_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
}

impl fmt::Display for ArtifactReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.text_without_tag_or_digest())?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        if let Some(digest) = &self.digest {
            write!(f, "@{digest}")?;
        }
        Ok(())
    }
}

impl FromStr for ArtifactReference {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let refuse = |why: &str| {
            let shown = text
                .chars()
                .take(MAX_OCI_REFERENCE_BYTES)
                .collect::<String>();
            let shown = shown.escape_debug();
            anyhow::anyhow!(
                "`{shown}` is not a reference: {why}; the form is {OCI_REFERENCE_SCHEME}HOST/REPOSITORY:TAG"
            )
        };
        let rest = text.strip_prefix(OCI_REFERENCE_SCHEME);
        let rest = rest.ok_or_else(|| refuse("it does not begin with oci://"))?;
        if text.len() > MAX_OCI_REFERENCE_BYTES {
            return Err(refuse("it is too long"));
        }
        let (host, rest) = rest
            .split_once('/')
            .ok_or_else(|| refuse("it names no repository"))?;
        if !is_valid_registry_host(host) {
            return Err(refuse("the host is none"));
        }
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest)),
            None => (rest, None),
        };
        if !digest.is_none_or(is_valid_digest) {
            return Err(refuse(
                "the digest is not `sha256:` and 64 digits of 0-9 and a-f",
            ));
        }
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (rest, None),
        };
        if !tag.is_none_or(is_valid_tag) {
            return Err(refuse("the tag is none"));
        }
        if !path.split('/').all(is_repository_path_part) {
            return Err(refuse(
                "the repository is not made of a-z, 0-9 and single `.`, `_` and `-` between them",
            ));
        }
        Ok(Self {
            host: host.to_owned(),
            path: path.to_owned(),
            tag: tag.map(str::to_owned),
            digest: digest.map(str::to_owned),
        })
    }
}

fn is_valid_registry_host(host: &str) -> bool {
    let name = strip_port(host);
    let port = host.strip_prefix(name).unwrap_or_default();
    let is_port = port.is_empty() || port[1..].parse::<u16>().is_ok_and(|port| port > 0);
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
    let inner = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'));
    let is_name = match inner {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => !name.is_empty() && name.chars().all(is_plain) && !name.starts_with(['.', '-']),
    };
    is_name && is_port
}

fn is_repository_path_part(part: &str) -> bool {
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_known = |c: char| is_letter(c) || "._-".contains(c);
    let ends = [part.chars().next(), part.chars().next_back()];
    ends.iter().all(|end| end.is_some_and(is_letter))
        && part.chars().all(is_known)
        && !part.contains("..")
}

pub(super) fn is_valid_tag(tag: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_known = |c: char| is_word(c) || ".-".contains(c);
    tag.len() <= 128 && tag.starts_with(is_word) && tag.chars().all(is_known)
}

pub(super) fn is_valid_digest(digest: &str) -> bool {
    let hex = digest.strip_prefix("sha256:").unwrap_or_default();
    let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    hex.len() == 64 && hex.chars().all(is_hex)
}

/// Parses the version in a tag such as `0.1.0` or `v0.1.0`. Tags cannot contain the `+` before
/// build metadata, so a tag has `_` instead.
///
/// For example:
///
/// ```text
/// 0.1.0          ->  0.1.0
/// v0.1.0         ->  0.1.0
/// 1.0.0_linux    ->  1.0.0+linux
/// latest         ->  none
/// ```
pub(crate) fn parse_version_tag(tag: &str) -> Option<Version> {
    let tag = tag.strip_prefix('v').unwrap_or(tag);
    Version::parse(&tag.replacen('_', "+", 1)).ok()
}

pub(super) fn format_version_tag(version: &Version) -> String {
    version.to_string().replacen('+', "_", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_written_the_same() {
        let digest = format!("sha256:{}", "0a".repeat(32));
        for text in [
            "oci://localhost:5000/hello".to_owned(),
            "oci://a.example/team/hello_x:0.1.0".to_owned(),
            format!("oci://[::1]:5000/hello:v1@{digest}"),
            format!("oci://[::1]/hello@{digest}"),
        ] {
            assert_eq!(text.parse::<ArtifactReference>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_would_change_a_url_is_refused() {
        for text in [
            "hello:1",
            "https://a.example/hello",
            "oci://",
            "oci://a.example",
            "oci:///hello",
            "oci://a.example/",
            "oci://user@a.example/hello",
            "oci://user:pw@a.example/hello",
            "oci://a.example:0/hello",
            "oci://a.example:x/hello",
            "oci://A.example/hello",
            "oci://[zz]/hello",
            "oci://a.example/../hello",
            "oci://a.example/a/../../hello",
            "oci://a.example/a//b",
            "oci://a.example/hello?x",
            "oci://a.example/hello#x",
            "oci://a.example/hel%2flo",
            "oci://a.example/hello:",
            "oci://a.example/hello:a/b",
            "oci://a.example/hello:1?x=y",
            "oci://a.example/hello@sha256:12",
            "oci://a.example/hello@md5:0",
            "oci://a.example/hello\n",
            "oci://a.example\\@b.example/hello",
        ] {
            assert!(text.parse::<ArtifactReference>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_this_machine_is_loopback() {
        for (host, expected) in [
            ("localhost:5000", true),
            ("127.0.0.1", true),
            ("127.9.9.9:1", true),
            ("[::1]:5000", true),
            ("localhost.a.example", false),
            ("127.0.0.1.a.example", false),
            ("10.0.0.1:5000", false),
            ("a.example", false),
        ] {
            let reference: ArtifactReference = format!("oci://{host}/a").parse().unwrap();
            assert_eq!(reference.is_loopback(), expected, "{host}");
        }
    }

    #[test]
    fn tags_are_versions_and_versions_tags() {
        let built = Version::parse("1.2.3-rc.1+build").unwrap();
        assert_eq!(format_version_tag(&built), "1.2.3-rc.1_build");
        assert_eq!(parse_version_tag("1.2.3-rc.1_build"), Some(built));
        assert_eq!(parse_version_tag("v0.1.0"), Some(Version::new(0, 1, 0)));
        assert_eq!(parse_version_tag("latest"), None);
        assert_eq!(parse_version_tag("1.2"), None);
    }
}
