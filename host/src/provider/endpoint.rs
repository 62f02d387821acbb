//! Address and key of a model API, and the names of the variables or settings that set them.
//!
//! Owns keys, and keeps them out of logs and errors: a key has no `Display`, its header value is
//! marked sensitive, and the key is removed from text of the server before the text is displayed.
//! The module must not read the environment (`select` passes values in) nor send anything.
//!
//! Start from [`ModelApiEndpoint`].

use std::fmt;

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};

use super::error::Error;
use super::server_text::SanitizedServerText;

/// Minimum length, in characters, of a key that is replaced by `[key]` in texts. Real keys have at
/// least 20 characters; shorter texts are dummies such as `none`, which may occur in a text by
/// chance.
const MIN_MASKABLE_API_KEY_CHARS: usize = 8;

/// Key of a model API. It can be sent but not displayed: `Debug` hides it, and there is no
/// `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct ApiKey(String);

impl ApiKey {
    /// Creates a key from a text, without surrounding white space, which is often copied by
    /// mistake; `None` if the text has no other characters.
    #[must_use]
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        (!key.is_empty()).then(|| Self(key.to_owned()))
    }

    /// Whether the key is long enough to be a secret. For servers without a key, users often set a
    /// dummy such as `k`, `none` or `ollama`, which may occur in a message by chance.
    fn is_real_key(&self) -> bool {
        self.0.chars().count() >= MIN_MASKABLE_API_KEY_CHARS
    }

    /// Replaces the key in a text with `[key]`. A dummy key is not replaced.
    fn replace_key_in(&self, text: &str) -> String {
        if self.is_real_key() {
            text.replace(&self.0, "[key]")
        } else {
            text.to_owned()
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// Address and key of a model API. There is no `Debug` impl, because a URL may contain a password.
#[derive(Clone)]
pub struct ModelApiEndpoint {
    /// Name of the provider.
    pub provider: String,
    /// Base URL of the API, as the user wrote it.
    pub url: Url,
    /// Environment variable or setting of the base URL, for messages.
    pub url_env: String,
    /// API key; `None` for a server that needs no key.
    pub key: Option<ApiKey>,
    /// Name of the environment variable or setting that contains the key, for messages.
    pub key_env: String,
    /// Advice for the user if the server is unreachable, as the second half of a sentence.
    pub advice: String,
    /// Additional headers of every request. They override headers of the same name that the wire
    /// format sets.
    pub headers: HeaderMap,
    /// Header that carries the API key; `None` for the header that the wire format defines.
    pub key_in: Option<HeaderName>,
}

impl ModelApiEndpoint {
    /// Parses and checks a base URL. `setting` is the variable or setting that it comes from, for
    /// errors.
    pub fn parse_url(provider: &str, setting: &str, url: &str) -> Result<Url, Error> {
        let bad = |what: String| Error::BadSetting {
            provider: provider.to_owned(),
            setting: setting.to_owned(),
            what,
        };
        let no_url =
            |error| format!("it is not a URL ({error}); write it as http://127.0.0.1:11434/v1");
        let parsed = Url::parse(url.trim()).map_err(|error| bad(no_url(error)))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(bad(format!(
                "the scheme of the URL is `{}`, not http or https",
                parsed.scheme()
            )));
        }
        Ok(parsed)
    }

    /// Returns the header value that consists of `prefix` and the key, marked sensitive so that
    /// HTTP libraries do not log it; `None` without a key, or if [`key_in`](Self::key_in) names
    /// another header.
    pub(crate) fn key_header_with_prefix(
        &self,
        prefix: &str,
    ) -> Result<Option<HeaderValue>, Error> {
        match &self.key_in {
            Some(_) => Ok(None),
            None => self.build_key_header_value(prefix),
        }
    }

    /// Sets the header [`key_in`](Self::key_in) to the key, with the prefix `Bearer` for
    /// `authorization`.
    pub(super) fn set_key_header(&mut self) -> Result<(), Error> {
        let Some(name) = self.key_in.clone() else {
            return Ok(());
        };
        let prefix = if name == AUTHORIZATION { "Bearer " } else { "" };
        if let Some(value) = self.build_key_header_value(prefix)? {
            self.headers.insert(name, value);
        }
        Ok(())
    }

    fn build_key_header_value(&self, prefix: &str) -> Result<Option<HeaderValue>, Error> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.0)).map_err(|_| {
            Error::BadSetting {
                provider: self.provider.clone(),
                setting: self.key_env.clone(),
                what: "the key has characters that are not allowed in an HTTP header".to_owned(),
            }
        })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// Returns the base URL for display, without user name, password, query and fragment.
    #[must_use]
    pub fn display_url(&self) -> String {
        let host = self.url.host_str().unwrap_or_default();
        let port = self.url.port().map(|port| format!(":{port}"));
        let (scheme, port) = (self.url.scheme(), port.unwrap_or_default());
        let path = self.url.path().trim_end_matches('/');
        format!("{scheme}://{host}{port}{path}")
    }

    /// Returns the URL of `path` below the base URL for display, without user name and password.
    pub(crate) fn url_of_path_without_credentials(&self, path: &str) -> String {
        format!("{}/{path}", self.display_url())
    }

    /// Returns the URL of `path` below the base URL.
    pub(crate) fn join(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        let base = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{base}/{path}"));
        url
    }

    /// Returns the URL of `path` below the base URL without the suffix `/v1`, for APIs of the
    /// server that do not belong to the wire.
    pub(crate) fn join_server_root(&self, path: &str) -> Url {
        let mut root = self.clone();
        let base = root.url.path().trim_end_matches('/');
        let base = base.strip_suffix("/v1").unwrap_or(base).to_owned();
        root.url.set_path(&base);
        root.join(path)
    }

    /// Whether the server is on this machine, so that proxies do not apply.
    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let address = host.parse::<std::net::IpAddr>();
        host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// Sanitizes text from the server for an error. First replaces the key and the values of
    /// configured headers, because some servers repeat them.
    pub(crate) fn sanitize_server_text(&self, text: &str) -> SanitizedServerText {
        let headers = self
            .headers
            .values()
            .filter_map(|value| value.to_str().ok());
        let headers = headers.filter_map(ApiKey::new);
        let secrets = self.key.iter().cloned().chain(headers);
        let text = secrets.fold(text.to_owned(), |text, secret| secret.replace_key_in(&text));
        SanitizedServerText::new(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl ModelApiEndpoint {
        pub(in crate::provider) fn for_test(url: &str, key: Option<&str>) -> Self {
            Self {
                provider: "openai".to_owned(),
                url: Self::parse_url("openai", "OPENAI_BASE_URL", url).unwrap(),
                url_env: "OPENAI_BASE_URL".to_owned(),
                key: key.and_then(ApiKey::new),
                key_env: "OPENAI_API_KEY".to_owned(),
                advice: String::new(),
                headers: HeaderMap::new(),
                key_in: None,
            }
        }
    }

    fn endpoint(url: &str) -> ModelApiEndpoint {
        ModelApiEndpoint::for_test(url, Some(" sk-secret\n"))
    }

    #[test]
    fn keys_are_trimmed_and_never_shown() {
        let endpoint = endpoint("http://user:pw@localhost:1/v1/?q=1#f");
        assert_eq!(ApiKey::new(" \n"), None);
        assert_eq!(format!("{:?}", endpoint.key), "Some(ApiKey(…))");
        let said = endpoint
            .sanitize_server_text("no such key: sk-secret")
            .to_string();
        assert_eq!(said, "\"no such key: [key]\"");
        assert_eq!(endpoint.display_url(), "http://localhost:1/v1");
    }

    #[test]
    fn a_dummy_of_a_few_letters_is_no_secret_within_words() {
        for (key, hidden) in [
            ("k", false),
            ("none", false),
            ("ollama", false),
            ("12345678", true),
        ] {
            let endpoint = ModelApiEndpoint::for_test("http://h", Some(key));
            let text = format!("thinking of none, said ollama about {key}.");
            let said = endpoint.sanitize_server_text(&text);
            assert_eq!(said.as_str() != text, hidden, "{key}: {said}");
        }
    }

    #[test]
    fn another_header_may_carry_the_key() {
        for (name, expected) in [
            ("api-key", "sk-secret"),
            ("authorization", "Bearer sk-secret"),
        ] {
            let mut endpoint = endpoint("http://h");
            endpoint.key_in = Some(HeaderName::from_static(name));
            endpoint.set_key_header().unwrap();
            assert_eq!(endpoint.key_header_with_prefix("Bearer ").unwrap(), None);
            assert_eq!(endpoint.headers[name], expected);
            assert!(endpoint.headers[name].is_sensitive());
        }
    }

    #[test]
    fn a_key_that_is_no_header_is_refused_without_showing_it() {
        let mut endpoint = endpoint("http://h");
        let header = endpoint.key_header_with_prefix("Bearer ").unwrap().unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer sk-secret");
        assert!(header.is_sensitive());
        endpoint.key = ApiKey::new("two\nlines");
        assert_eq!(
            endpoint.key_header_with_prefix("").unwrap_err().to_string(),
            "OPENAI_API_KEY of openai cannot be used: the key has characters that are not allowed in an HTTP header"
        );
        endpoint.key = None;
        assert_eq!(endpoint.key_header_with_prefix("").unwrap(), None);
    }

    #[test]
    fn values_of_headers_that_a_server_repeats_are_hidden() {
        let mut endpoint = endpoint("http://h/v1");
        for (name, value) in [("x-token", "secret-of-a-header"), ("x-team", "ab")] {
            let value = HeaderValue::from_static(value);
            endpoint.headers.insert(name, value);
        }
        let said = endpoint
            .sanitize_server_text("no ab may use secret-of-a-header")
            .to_string();
        assert_eq!(said, "\"no ab may use [key]\"");
    }

    #[test]
    fn paths_are_joined_under_the_base_url() {
        for (base, joined) in [
            ("http://h/v1", "http://h/v1/chat"),
            ("http://h/v1/", "http://h/v1/chat"),
            ("https://h", "https://h/chat"),
            ("https://h/a/b?key=1", "https://h/a/b/chat?key=1"),
        ] {
            assert_eq!(endpoint(base).join("chat").as_str(), joined);
        }
        for (base, root) in [
            ("http://h/v1", "http://h/api/show"),
            ("http://h/v1/", "http://h/api/show"),
            ("http://h", "http://h/api/show"),
            ("http://h/a/v1?q=1", "http://h/a/api/show?q=1"),
        ] {
            assert_eq!(endpoint(base).join_server_root("api/show").as_str(), root);
        }
    }

    #[test]
    fn loopback_is_told_from_other_hosts() {
        for (url, expected) in [
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost", true),
            ("http://10.0.0.1", false),
            ("https://api.openai.com/v1", false),
        ] {
            assert_eq!(endpoint(url).is_loopback(), expected, "{url}");
        }
    }

    #[test]
    fn what_is_no_http_url_is_refused_by_name() {
        for url in ["localhost:11434", "ftp://h", "nonsense"] {
            let error = ModelApiEndpoint::parse_url("ollama", "OPENAI_BASE_URL", url).unwrap_err();
            let text = error.to_string();
            let expected = "OPENAI_BASE_URL of ollama cannot be used";
            assert!(text.starts_with(expected), "{text}");
        }
    }
}
