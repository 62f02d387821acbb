//! Serves the page with which a login in a browser ends: a page on loopback, to which the login
//! site redirects the browser.
//!
//! No token is required for the page, because the browser has none. Any program and any website can
//! request the page, so the caller must compare the `state` of each request with the secret of its
//! login.
//!
//! Start from [`serve_login_redirects`].

use std::io;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use maud::{DOCTYPE, html};
use tokio_util::sync::CancellationToken;

use crate::connections::{ApiListener, serve_connections};

/// Content of the page to which a browser is redirected at the end of a login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRedirectPage {
    /// Whether the login succeeded.
    pub is_done: bool,
    /// Sentence about the result of the login that the page shows.
    pub text: String,
}

/// Answers `GET` requests to `path` until `cancel` is cancelled. `answer` gets the path and query
/// of a request and returns the page.
///
/// # Errors
/// Connections cannot be accepted any more.
pub async fn serve_login_redirects<F, A>(
    listener: ApiListener,
    path: &str,
    answer: F,
    cancel: &CancellationToken,
) -> io::Result<()>
where
    F: Fn(String) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = LoginRedirectPage> + Send + 'static,
{
    let port = listener.port();
    let answer = move |request: Request| {
        let host = request.headers().get(header::HOST).cloned();
        let own = port.map(|port| format!("127.0.0.1:{port}"));
        // Accept only the server's own host name, because a website could make its own host name
        // resolve to loopback.
        let is_own =
            host.is_some_and(|host| Some(host.as_bytes()) == own.as_deref().map(str::as_bytes));
        let target = request.uri().path_and_query().map(ToString::to_string);
        let answered = is_own.then(|| answer(target.unwrap_or_default()));
        async move {
            match answered {
                Some(answered) => redirect_page_response(&answered.await),
                None => StatusCode::FORBIDDEN.into_response(),
            }
        }
    };
    let router = axum::Router::new().route(path, axum::routing::get(answer));
    serve_connections(listener, router, cancel).await
}

fn redirect_page_response(page: &LoginRedirectPage) -> Response {
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
    // The address of the page contains the login's code, which must not leak through caches or the
    // `Referer` header.
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'"),
    ];
    (status, headers, body).into_response()
}
