//! Renders the parts that all pages share, and formats times and sums of money.

use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use maud::{DOCTYPE, Markup, html};

use crate::ApiState;
use crate::error::ApiError;

/// Renders a complete HTML page with this title and content, and the common header.
pub(super) fn render_page(state: &ApiState, title: &str, content: &Markup) -> Markup {
    let n_questions = state
        .sessions
        .pending_questions()
        .unanswered_questions(None)
        .len();
    render_page_frame(title, n_questions, content)
}

fn render_page_frame(title: &str, n_questions: usize, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) " · Rind" }
                // Empty icon. Without it, browsers would request `/favicon.ico`.
                link rel="icon" href="data:,";
                link rel="stylesheet" href="/style.css";
                script src="/page.js" defer {}
            }
            body {
                a.skip href="#main" { "Skip to content" }
                header {
                    nav aria-label="Pages" {
                        a href="/" { "Sessions" }
                        a href="/questions" { "Questions" @if n_questions > 0 { " (" (n_questions) ")" } }
                        a href="/plugins" { "Plugins" }
                        a href="/costs" { "Costs" }
                    }
                }
                main #main { (content) }
            }
        }
    }
}

/// Error that is answered with an HTML page instead of JSON.
pub(crate) struct HtmlPageError(pub(crate) ApiError);

impl From<ApiError> for HtmlPageError {
    fn from(error: ApiError) -> Self {
        Self(error)
    }
}

impl IntoResponse for HtmlPageError {
    fn into_response(self) -> Response {
        let content = html! {
            h1 { "That did not work" }
            p { (self.0.message) }
            p { a href="/" { "All sessions" } }
        };
        (self.0.status, render_page_frame("Error", 0, &content)).into_response()
    }
}

/// Formats a time in milliseconds since 1970 as date and time in UTC.
pub(super) fn format_utc_time(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => "unknown".to_owned(),
    }
}

/// Formats a sum in US dollars; zero becomes an empty text.
pub(super) fn format_usd(usd: f64) -> String {
    if usd == 0.0 {
        String::new()
    } else {
        format!("${usd:.4}")
    }
}

/// Renders a table that can be scrolled if it is wider than the page. Screen readers announce the
/// table by `name`.
pub(super) fn render_table(name: &str, heads: &[&str], rows: &Markup) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label=(name) {
            table {
                thead { tr { @for head in heads { th { (head) } } } }
                tbody { (rows) }
            }
        }
    }
}
