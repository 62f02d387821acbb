//! The page of a session, with its turns, open questions and forms; the page of a raw entry; and
//! the page that compares two turns.

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use http::header;
use maud::{Markup, html};
use rind_lib::message::Blob;
use rind_lib::session::{self, SessionView};
use serde::Deserialize;

use super::input_form::render_image_upload_field;
use super::layout::{HtmlPageError, render_page};
use super::render_question_form;
use super::turn_diff::render_turn_diff;
use super::waterfall::{
    mask_and_escape_text, render_session_summary_line, render_turns, session_title,
};
use crate::ApiState;
use crate::error::ApiError;
use crate::routes::RequestQueryExtractor;
use crate::routes::run_blocking;
use crate::routes::sessions::{read_session_entry_json, read_session_view};

/// Maximum number of turns on the page; older ones are left out.
const MAX_TURNS_PER_PAGE: usize = 50;

pub(super) async fn show_session_page(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Markup, HtmlPageError> {
    let view = read_session_view(&state, &id).await?;
    let live = state.sessions.find_open_session(&id).await;
    let is_running = live.as_ref().is_some_and(|live| live.has_running_turn());
    let after = live
        .as_ref()
        .map(|live| live.event_log().last_event_number());
    let questions = state
        .sessions
        .pending_questions()
        .unanswered_questions(Some(&id));
    let back = format!("/sessions/{id}");
    let last = view.turns.last();
    let is_interrupted =
        !is_running && last.is_some_and(|turn| turn.turn > 0 && turn.stop.is_none());
    let content = html! {
        h1 { (session_title(&view)) }
        (render_session_summary_line(&view))
        (render_turns(&view, MAX_TURNS_PER_PAGE, Some(&back)))
        // The page's script fills this section with the output of running calls, and empties it
        // when the calls end.
        section #outputs aria-label="Output of running calls" {}
        (render_turn_compare_form(&view, &back))
        div #live data-session=[after.map(|_| &id)] data-after=[after] data-running[is_running] aria-live="polite" {}
        div #questions { @for question in &questions { (render_question_form(question, &back)) } }
        div #controls {
            @if is_running {
                form method="post" action={ (back) "/interrupt" } { button { "Interrupt" } }
            }
            @if is_interrupted {
                form method="post" action={ (back) "/continue" } {
                    p { "The last turn was interrupted, or runs in another process." }
                    button { "Go on with it" }
                }
            }
        }
        form #say method="post" action={ (back) "/say" } enctype="multipart/form-data" {
            label for="text" { @if is_running { "Say something to the running turn" } @else { "Next input" } }
            textarea id="text" name="text" rows="3" required {}
            (render_image_upload_field())
            div.row {
                button { "Send" }
                label { input type="checkbox" name="follow_up" value="true"; " only when the turn would end" }
            }
        }
        span #end {}
    };
    Ok(render_page(&state, "Session", &content))
}

/// Numbers of the two turns that the page compares.
#[derive(Deserialize)]
pub(super) struct TurnDiffQueryParameters {
    from: u32,
    to: u32,
}

/// Renders the form with which the user selects two turns to compare. Empty if the session has
/// fewer than two turns.
fn render_turn_compare_form(view: &SessionView, back: &str) -> Markup {
    let mut numbers = view.turns.iter().map(|turn| turn.turn).filter(|n| *n > 0);
    let last = numbers.next_back();
    let before = numbers.next_back();
    html! {
        @if let (Some(before), Some(last)) = (before, last) {
            form method="get" action={ (back) "/diff" } {
                div.row {
                    label { "Compare turn " input.few type="number" name="from" min="1" value=(before); }
                    label { "with turn " input.few type="number" name="to" min="1" value=(last); }
                    button { "Compare" }
                }
            }
        }
    }
}

pub(super) async fn show_turn_diff_page(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    RequestQueryExtractor(wanted): RequestQueryExtractor<TurnDiffQueryParameters>,
) -> Result<Markup, HtmlPageError> {
    let view = read_session_view(&state, &id).await?;
    let find = |n: u32| {
        let found = view.turns.iter().find(|turn| turn.turn == n);
        found.ok_or_else(|| ApiError::not_found(format!("the session has no turn {n}")))
    };
    let (from, to) = (find(wanted.from)?, find(wanted.to)?);
    let content = html! {
        h1 { "Turn " (from.turn) " and turn " (to.turn) " of " a href={ "/sessions/" (id) } { (session_title(&view)) } }
        (render_turn_diff(from, to))
    };
    Ok(render_page(&state, "Two turns", &content))
}

pub(super) async fn show_session_entry(
    State(state): State<ApiState>,
    Path((id, line)): Path<(String, u64)>,
) -> Result<Markup, HtmlPageError> {
    let entry = read_session_entry_json(&state, &id, line).await?;
    let content = html! {
        h1 { "Entry " (line) " of " a href={ "/sessions/" (id) } { (id) } }
        pre tabindex="0" { (mask_and_escape_text(&entry)) }
    };
    Ok(render_page(&state, "Entry", &content))
}

/// Shows an image of the session. The media type is detected from the bytes, not read from the
/// session, and files that are not images are refused, because a browser would execute some of them
/// as scripts.
pub(super) async fn show_session_image(
    State(state): State<ApiState>,
    Path((id, image)): Path<(String, String)>,
) -> Result<impl IntoResponse, HtmlPageError> {
    // The id becomes a file name, so accept only a digest.
    if image.len() != 64 || !image.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(image_not_found_error().into());
    }
    let store = state.sessions.session_store().clone();
    let bytes = run_blocking(move || {
        store
            .read_binary_blob(&id, &image)
            .map_err(|error| match error {
                // The file of the image is missing, or its content has changed.
                session::Error::Read { .. } | session::Error::Blob { .. } => {
                    image_not_found_error()
                }
                other => other.into(),
            })
    });
    let bytes = bytes.await?;
    let blob = Blob::from_bytes(&bytes, "");
    if !blob.is_image() {
        return Err(image_not_found_error().into());
    }
    let headers = [
        (header::CONTENT_TYPE, blob.media_type),
        // A user may open the image as a document of its own. In this case, this policy prevents
        // the browser from loading or executing anything for it.
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; sandbox".to_owned(),
        ),
        (
            http::HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin".to_owned(),
        ),
    ];
    Ok((headers, bytes))
}

fn image_not_found_error() -> ApiError {
    ApiError::not_found("the session has no image with this id")
}
