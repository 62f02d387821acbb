//! Follows redirects: computes the next target, method and body.
//!
//! This module only reads the response. `send` checks the new target like that of any other
//! request.

use reqwest::Method;

use super::error::{EgressErrorKind, Error};
use super::target::RequestTarget;
use crate::grant::UrlScheme;

/// Maximum number of redirects that are followed for one request.
pub(super) const MAX_REDIRECTS: u32 = 5;

/// Request that is sent because of a redirect.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RedirectedRequest {
    pub(super) target: RequestTarget,
    pub(super) method: Method,
    pub(super) keeps_body: bool,
}

fn redirect_error(text: impl Into<String>) -> Error {
    Error::new(EgressErrorKind::Redirect, text)
}

/// Returns the request that follows the redirect; `None` if the response is not a redirect.
pub(super) fn request_after_redirect(
    status: u16,
    location: Option<&[u8]>,
    from: &RequestTarget,
    method: &Method,
) -> Result<Option<RedirectedRequest>, Error> {
    let (method, keeps_body) = match status {
        303 if *method != Method::HEAD => (Method::GET, false),
        301 | 302 if *method == Method::POST => (Method::GET, false),
        301 | 302 | 303 | 307 | 308 => (method.clone(), true),
        _ => return Ok(None),
    };
    let Some(location) = location else {
        return Ok(None);
    };
    let location = std::str::from_utf8(location)
        .ok()
        .filter(|text| !text.chars().any(char::is_control))
        .ok_or_else(|| redirect_error("the answer redirects to an invalid URL"))?;
    let url = from
        .url
        .join(location)
        .map_err(|e| redirect_error(format!("the answer redirects to an invalid URL: {e}")))?;
    let target = RequestTarget::new(url).map_err(|e| {
        redirect_error(format!(
            "the answer redirects to a URL that is not allowed: {e}"
        ))
    })?;
    if from.scheme == UrlScheme::Https && target.scheme == UrlScheme::Http {
        return Err(redirect_error(format!(
            "`{}` redirects from https to http, which is not followed",
            from.host
        )));
    }
    Ok(Some(RedirectedRequest {
        target,
        method,
        keeps_body,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn go(
        status: u16,
        location: &str,
        method: &str,
    ) -> Result<Option<(String, String, bool)>, Error> {
        let from = RequestTarget::parse_target("https://a.example/p/q?r").unwrap();
        let method: Method = method.parse().unwrap();
        let next = request_after_redirect(status, Some(location.as_bytes()), &from, &method)?;
        Ok(next.map(|next| {
            (
                next.method.to_string(),
                next.target.url.to_string(),
                next.keeps_body,
            )
        }))
    }

    #[test]
    fn methods_and_bodies_follow_as_http_says() {
        let table = [
            (301, "POST", Some(("GET", false))),
            (302, "POST", Some(("GET", false))),
            (303, "POST", Some(("GET", false))),
            (303, "PUT", Some(("GET", false))),
            (303, "HEAD", Some(("HEAD", true))),
            (301, "PUT", Some(("PUT", true))),
            (302, "GET", Some(("GET", true))),
            (307, "POST", Some(("POST", true))),
            (308, "PATCH", Some(("PATCH", true))),
            (300, "GET", None),
            (304, "GET", None),
            (200, "GET", None),
        ];
        for (status, method, expected) in table {
            let expected = expected
                .map(|(method, body)| (method.to_owned(), "https://a.example/x".to_owned(), body));
            assert_eq!(
                go(status, "/x", method).unwrap(),
                expected,
                "{status} {method}"
            );
        }
    }

    #[test]
    fn a_location_is_read_against_the_url_it_came_from() {
        for (location, expected) in [
            ("x", "https://a.example/p/x"),
            ("//b.example:8443", "https://b.example:8443/"),
            ("?s#t", "https://a.example/p/q?s"),
            ("https://127.1/", "https://127.0.0.1/"),
        ] {
            assert_eq!(go(302, location, "GET").unwrap().unwrap().1, expected);
        }
        let from = RequestTarget::parse_target("https://a.example/").unwrap();
        assert_eq!(
            request_after_redirect(302, None, &from, &Method::GET).unwrap(),
            None
        );
    }

    #[test]
    fn downgrades_other_schemes_and_users_are_refused() {
        for location in [
            "http://a.example/",
            "ftp://a.example/",
            "file:///etc/passwd",
            "https://user:hunter2@a.example/",
            "https://",
            "/a\u{7f}",
        ] {
            let error = go(302, location, "GET").unwrap_err();
            assert_eq!(error.kind, EgressErrorKind::Redirect, "{location}");
            assert!(!error.text.contains("hunter2"), "{error}");
        }
    }
}
