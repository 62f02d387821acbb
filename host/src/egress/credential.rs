//! Headers that contain secrets, which are filled in right before a request is sent.
//!
//! This module owns the syntax of templates and their expansion. Secrets come from the operator
//! through [`SecretStore`] and are stored in [`Secret`], which cannot be displayed. Plugins get
//! neither the secrets nor the filled-in headers. Start from [`CredentialTemplate`].

use std::fmt;

use reqwest::header::{HeaderName, HeaderValue};

use super::error::{EgressErrorKind, Error};
use super::target::RequestTarget;
use crate::grant::{Credential, GrantedCapabilities};

/// Minimum length of a secret, in bytes. A shorter text would also occur by chance in responses,
/// which masking would then damage.
const MIN_SECRET_BYTES: usize = 8;

/// Maximum length of a secret that can be sent in a header, in bytes.
const MAX_SECRET_BYTES: usize = 8 << 10;

/// Maximum number of placeholders for secrets in one header template.
const MAX_SECRET_PLACEHOLDERS_PER_HEADER: usize = 8;

/// Maximum length of the name of a secret, in bytes.
const MAX_SECRET_NAME_BYTES: usize = 64;

/// A secret. It can be sent but not shown: `Debug` hides it, and there is no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret from `text` without surrounding white space, which copying often adds.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.trim().to_owned())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Store of the operator's secrets, such as the environment or a command.
pub trait SecretStore: Send + Sync {
    /// Returns the secret of this name, which consists of `A-Z`, `0-9` and `_`. Called for every
    /// request that needs the secret.
    fn get(&self, name: &str) -> Option<Secret>;
}

/// Secret store that contains no secrets.
#[derive(Clone, Copy, Debug, Default)]
pub struct EmptySecretStore;

impl SecretStore for EmptySecretStore {
    fn get(&self, _name: &str) -> Option<Secret> {
        None
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CredentialTemplatePart {
    Text(String),
    Secret(String),
}

/// Value of a request header in which `{NAME}` stands for the secret of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialTemplate(Vec<CredentialTemplatePart>);

impl CredentialTemplate {
    /// Parses a template such as `Bearer {TOKEN}`. The text of an error continues a sentence such
    /// as "the credential for `a.example` …".
    ///
    /// For example:
    ///
    /// ```text
    /// Bearer {TOKEN}       one secret
    /// {USER}:{PASSWORD}    two secrets
    /// Bearer               error: has no placeholder like `{TOKEN}` for a secret
    /// {token}              error: names begin with a letter of A-Z
    /// ```
    ///
    /// # Errors
    /// There is no placeholder or too many, a name does not match `[A-Z][A-Z0-9_]*`, a brace is
    /// unbalanced, or the text is not valid in a header.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut n_secrets = 0;
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("has a `{` without `}`")?;
            if !is_secret_name(name) {
                return Err(format!(
                    "has the placeholder `{{{}}}`; the name of a secret is made of A-Z, 0-9 and `_` and begins with a letter",
                    name.escape_debug()
                ));
            }
            n_secrets += 1;
            parts.push(CredentialTemplatePart::Text(before.to_owned()));
            parts.push(CredentialTemplatePart::Secret(name.to_owned()));
            rest = after;
        }
        parts.push(CredentialTemplatePart::Text(rest.to_owned()));
        if n_secrets == 0 {
            return Err("has no placeholder like `{TOKEN}` for a secret".to_owned());
        }
        if n_secrets > MAX_SECRET_PLACEHOLDERS_PER_HEADER {
            return Err(format!(
                "has {n_secrets} placeholders, more than the maximum of {MAX_SECRET_PLACEHOLDERS_PER_HEADER}"
            ));
        }
        let is_plain = |part: &CredentialTemplatePart| match part {
            CredentialTemplatePart::Text(text) => {
                !text.contains('}') && text.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
            }
            CredentialTemplatePart::Secret(_) => true,
        };
        if !parts.iter().all(is_plain) {
            return Err("has a `}` without `{`, or a character that no header carries".to_owned());
        }
        Ok(Self(parts))
    }
}

fn is_secret_name(name: &str) -> bool {
    let is_fine = |b: u8| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_';
    name.len() <= MAX_SECRET_NAME_BYTES
        && name.starts_with(|c: char| c.is_ascii_uppercase())
        && name.bytes().all(is_fine)
}

/// A secret that was sent in a request and is to be masked in the response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SentSecret {
    /// Name of the secret; for a complete header value, the names of all secrets in it.
    pub(super) name: String,
    /// Value of the secret, or the complete value of the header.
    pub(super) secret: Secret,
    /// Whether this is the complete header value, including a scheme such as `Bearer`.
    pub(super) is_whole: bool,
}

type CredentialHeaders = Vec<(HeaderName, HeaderValue)>;

/// Whether a credential sets this header in requests to the target.
pub(super) fn is_header_set_by_credential(
    granted: &GrantedCapabilities,
    target: &RequestTarget,
    header: &str,
) -> bool {
    credentials_matching_target(granted, target).any(|credential| credential.header == header)
}

/// Whether a granted credential sets this header for at least one host.
pub(super) fn any_credential_sets_header(granted: &GrantedCapabilities, header: &str) -> bool {
    granted.credentials().any(|own| own.header == header)
}

fn credentials_matching_target<'a>(
    granted: &'a GrantedCapabilities,
    target: &'a RequestTarget,
) -> impl Iterator<Item = &'a Credential> {
    let is_for = |credential: &&Credential| {
        let host = &credential.host;
        host.matches(target.scheme, &target.host, target.port)
    };
    granted.credentials().filter(is_for)
}

/// Returns the headers that credentials set in a request to the target, and the secrets in these
/// headers. If two credentials set the same header, the one whose host pattern is narrower applies.
pub(super) fn fill_credentials(
    granted: &GrantedCapabilities,
    target: &RequestTarget,
    secrets: &dyn SecretStore,
) -> Result<(CredentialHeaders, Vec<SentSecret>), Error> {
    let mut headers = CredentialHeaders::new();
    let mut used = Vec::new();
    let mut credentials: Vec<&Credential> = credentials_matching_target(granted, target).collect();
    // Credentials with the host pattern `*` are sorted before those with a single host, so reverse
    // the order.
    credentials.reverse();
    for credential in credentials {
        let at = format!("the credential for `{}`", credential.host);
        let refuse = |text: String| Error::new(EgressErrorKind::Credential, text);
        let name = HeaderName::from_bytes(credential.header.as_bytes())
            .map_err(|_| refuse(format!("{at} names no header")))?;
        if headers.iter().any(|(set, _)| *set == name) {
            continue;
        }
        let template = CredentialTemplate::parse(&credential.value)
            .map_err(|why| refuse(format!("{at} {why}")))?;
        let (value, new) = template.fill_template(secrets, &at)?;
        let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| {
            let names: Vec<&str> = new.iter().map(|used| used.name.as_str()).collect();
            refuse(format!(
                "{at}: the value of the secret `{}` contains characters that are not allowed in a header",
                names.join("` or `")
            ))
        })?;
        value.set_sensitive(true);
        headers.push((name, value));
        used.extend(new);
    }
    Ok((headers, used))
}

impl CredentialTemplate {
    /// Returns the header value with its secrets filled in, and the texts to mask in the response:
    /// each secret, and the complete value.
    fn fill_template(
        &self,
        secrets: &dyn SecretStore,
        at: &str,
    ) -> Result<(Secret, Vec<SentSecret>), Error> {
        let refuse = |text: String| Error::new(EgressErrorKind::Credential, text);
        let mut whole = String::new();
        let mut used: Vec<SentSecret> = Vec::new();
        for part in &self.0 {
            let name = match part {
                CredentialTemplatePart::Text(text) => {
                    whole.push_str(text);
                    continue;
                }
                CredentialTemplatePart::Secret(name) => name,
            };
            let Some(secret) = secrets.get(name) else {
                return Err(refuse(format!(
                    "{at} needs the secret `{name}`, which the operator has not set: set the environment variable `{name}`, \
                     or write `{name} = \"…\"` into secrets.toml in the config folder"
                )));
            };
            if !(MIN_SECRET_BYTES..=MAX_SECRET_BYTES).contains(&secret.0.len()) {
                return Err(refuse(format!(
                    "{at}: the secret `{name}` has less than {MIN_SECRET_BYTES} or more than {MAX_SECRET_BYTES} bytes and cannot be masked in answers, so it is not sent"
                )));
            }
            whole.push_str(secret.reveal());
            if !used.iter().any(|other| other.name == *name) {
                used.push(SentSecret {
                    name: name.clone(),
                    secret,
                    is_whole: false,
                });
            }
        }
        let names: Vec<&str> = used.iter().map(|used| used.name.as_str()).collect();
        let all = SentSecret {
            name: names.join(", "),
            secret: Secret(whole.clone()),
            is_whole: true,
        };
        used.push(all);
        Ok((Secret(whole), used))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::Capability;

    struct One;

    impl SecretStore for One {
        fn get(&self, name: &str) -> Option<Secret> {
            match name {
                "TOKEN" => Some(Secret::new(" tok-123456789\n")),
                "SHORT" => Some(Secret::new("1234567")),
                "LINES" => Some(Secret::new("12345678\nx-other: y")),
                _ => None,
            }
        }
    }

    fn granted(credentials: &[(&str, &str, &str)]) -> GrantedCapabilities {
        let one = |(host, header, value): &(&str, &str, &str)| {
            Capability::Credential(Credential {
                host: host.parse().unwrap(),
                header: (*header).to_owned(),
                value: (*value).to_owned(),
            })
        };
        GrantedCapabilities::new(credentials.iter().map(one).collect())
    }

    fn filled(credentials: &[(&str, &str, &str)]) -> Result<Vec<(String, String)>, Error> {
        let target = RequestTarget::parse_target("https://a.example/").unwrap();
        let (headers, _) = fill_credentials(&granted(credentials), &target, &One)?;
        let plain = |(name, value): &(HeaderName, HeaderValue)| {
            assert!(value.is_sensitive());
            (name.to_string(), value.to_str().unwrap().to_owned())
        };
        Ok(headers.iter().map(plain).collect())
    }

    #[test]
    fn a_template_names_secrets_in_braces() {
        for text in ["{A}", "Bearer {TOKEN_2}", "{A}:{B}", "a{B}c"] {
            assert!(CredentialTemplate::parse(text).is_ok(), "{text}");
        }
        for text in [
            "",
            "Bearer x",
            "{a}",
            "{}",
            "{1A}",
            "{A",
            "A}",
            "{A}}",
            "{{A}}",
            "{A B}",
            "{A}\r\nx: y",
            "é{A}",
            "{A}{A}{A}{A}{A}{A}{A}{A}{A}",
        ] {
            assert!(CredentialTemplate::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_credential_goes_to_its_host_only_and_the_narrower_one_counts() {
        let wide = ("*", "authorization", "wide {TOKEN}");
        let narrow = ("a.example", "authorization", "Bearer {TOKEN}");
        let other = ("b.example", "x-key", "{MISSING}");
        let bearer = (
            "authorization".to_owned(),
            "Bearer tok-123456789".to_owned(),
        );
        assert_eq!(filled(&[wide, narrow, other]).unwrap(), [bearer]);
        let plain = ("http://a.example", "authorization", "{TOKEN}");
        assert_eq!(filled(&[plain]).unwrap(), []);
    }

    #[test]
    fn a_secret_that_is_missing_or_unfit_refuses_the_request_by_name_without_its_value() {
        for (value, expected) in [
            (
                "{MISSING}",
                "needs the secret `MISSING`, which the operator has not set",
            ),
            ("{SHORT}", "the secret `SHORT` has less than 8"),
            ("{LINES}", "the value of the secret `LINES`"),
        ] {
            let error = filled(&[("a.example", "authorization", value)]).unwrap_err();
            assert_eq!(error.kind, EgressErrorKind::Credential);
            assert!(error.text.contains(expected), "{error}");
            assert!(!error.text.contains("1234567"), "{error}");
        }
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "Secret(…)");
    }
}
