//! The end of a login in a browser: a page on loopback to which the browser is led back.
//!
//! The page needs no token, because the browser has none. Any program and any website can send it
//! addresses, so the caller must check each for the secret `state` of its login.
//!
//! Start from [`receive_redirects`].

use std::io;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use maud::{DOCTYPE, html};
use tokio_util::sync::CancellationToken;

use crate::connections::{ApiListener, serve_connections};

/// Answer to a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectPage {
    /// Whether the login succeeded.
    pub is_done: bool,
    /// Sentence for the person.
    pub text: String,
}

/// Answers `GET` requests to one path with the pages that a function makes of path and query, until
/// `cancel` is set.
///
/// # Errors
/// Connections cannot be accepted any more.
pub async fn receive_redirects<F, A>(
    listener: ApiListener,
    path: &str,
    answer: F,
    cancel: &CancellationToken,
) -> io::Result<()>
where
    F: Fn(String) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = RedirectPage> + Send + 'static,
{
    let port = listener.port();
    let answer = move |request: Request| {
        let host = request.headers().get(header::HOST).cloned();
        let own = port.map(|port| format!("127.0.0.1:{port}"));
        // Accept only the server's own host name: a website could make its name resolve to
        // loopback.
        let is_own =
            host.is_some_and(|host| Some(host.as_bytes()) == own.as_deref().map(str::as_bytes));
        let target = request.uri().path_and_query().map(ToString::to_string);
        let answered = is_own.then(|| answer(target.unwrap_or_default()));
        async move {
            match answered {
                Some(answered) => page_response(&answered.await),
                None => StatusCode::FORBIDDEN.into_response(),
            }
        }
    };
    let router = axum::Router::new().route(path, axum::routing::get(answer));
    serve_connections(listener, router, cancel).await
}

fn page_response(page: &RedirectPage) -> Response {
    let status = match page.is_done {
        true => StatusCode::OK,
        false => StatusCode::BAD_REQUEST,
    };
    let body = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "Rind" } }
            body { p { (page.text) } }
        }
    };
    // The address of the page has a code in it, which must not go elsewhere.
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
    ];
    (status, headers, body).into_response()
}
