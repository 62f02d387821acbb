//! The page of a session, with its turns, open questions and forms; the page of a raw entry; and
//! the page that compares two turns.

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use http::header;
use maud::{Markup, html};
use rind_lib::message::Blob;
use rind_lib::session::{self, SessionView};
use serde::Deserialize;

use super::input_form::images_field;
use super::layout::{PageError, page};
use super::question_form;
use super::turn_diff::diff_part;
use super::waterfall::{about_part, clean, title_of, turns_part};
use crate::ApiState;
use crate::error::ApiError;
use crate::routes::RequestQuery;
use crate::routes::in_background;
use crate::routes::sessions::{read_entry, read_view};

/// Maximum number of turns on the page; older ones are left out.
const MAX_TURNS: usize = 50;

pub(super) async fn show_session(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Markup, PageError> {
    let view = read_view(&state, &id).await?;
    let live = state.sessions.opened(&id).await;
    let is_running = live.as_ref().is_some_and(|live| live.is_running());
    let after = live.as_ref().map(|live| live.events().last_number());
    let questions = state.sessions.board().open_questions(Some(&id));
    let back = format!("/sessions/{id}");
    let last = view.turns.last();
    let is_interrupted =
        !is_running && last.is_some_and(|turn| turn.turn > 0 && turn.stop.is_none());
    let content = html! {
        h1 { (title_of(&view)) }
        (about_part(&view))
        (turns_part(&view, MAX_TURNS, Some(&back)))
        // Filled by the script with the output of running calls, and emptied when the calls end.
        section #outputs aria-label="Output of running calls" {}
        (compare_form(&view, &back))
        div #live data-session=[after.map(|_| &id)] data-after=[after] data-running[is_running] aria-live="polite" {}
        div #questions { @for question in &questions { (question_form(question, &back)) } }
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
            (images_field())
            div.row {
                button { "Send" }
                label { input type="checkbox" name="follow_up" value="true"; " only when the turn would end" }
            }
        }
        span #end {}
    };
    Ok(page(&state, "Session", &content))
}

/// Numbers of two turns.
#[derive(Deserialize)]
pub(super) struct TwoTurns {
    from: u32,
    to: u32,
}

/// Renders the form that selects two turns to compare; empty if the session has fewer than two.
fn compare_form(view: &SessionView, back: &str) -> Markup {
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

pub(super) async fn show_diff(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    RequestQuery(wanted): RequestQuery<TwoTurns>,
) -> Result<Markup, PageError> {
    let view = read_view(&state, &id).await?;
    let find = |n: u32| {
        let found = view.turns.iter().find(|turn| turn.turn == n);
        found.ok_or_else(|| ApiError::not_found(format!("the session has no turn {n}")))
    };
    let (from, to) = (find(wanted.from)?, find(wanted.to)?);
    let content = html! {
        h1 { "Turn " (from.turn) " and turn " (to.turn) " of " a href={ "/sessions/" (id) } { (title_of(&view)) } }
        (diff_part(from, to))
    };
    Ok(page(&state, "Two turns", &content))
}

pub(super) async fn show_entry(
    State(state): State<ApiState>,
    Path((id, line)): Path<(String, u64)>,
) -> Result<Markup, PageError> {
    let entry = read_entry(&state, &id, line).await?;
    let content = html! {
        h1 { "Entry " (line) " of " a href={ "/sessions/" (id) } { (id) } }
        pre tabindex="0" { (clean(&entry)) }
    };
    Ok(page(&state, "Entry", &content))
}

/// Shows an image of the session. The media type is detected from the bytes, not read from the
/// session, and files that are not images are refused: a browser would execute some types.
pub(super) async fn show_image(
    State(state): State<ApiState>,
    Path((id, image)): Path<(String, String)>,
) -> Result<impl IntoResponse, PageError> {
    // The id becomes a file name, so it must be a digest.
    if image.len() != 64 || !image.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(no_image().into());
    }
    let store = state.sessions.store().clone();
    let bytes = in_background(move || {
        store.read_bytes(&id, &image).map_err(|error| match error {
            // The file of the image is missing or its content has changed.
            session::Error::Read { .. } | session::Error::Blob { .. } => no_image(),
            other => other.into(),
        })
    });
    let bytes = bytes.await?;
    let blob = Blob::of(&bytes, "");
    if !blob.is_image() {
        return Err(no_image().into());
    }
    let headers = [
        (header::CONTENT_TYPE, blob.media_type),
        // The image may be opened as a document of its own; this policy then forbids it to load or
        // run anything.
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

fn no_image() -> ApiError {
    ApiError::not_found("the session has no image with this id")
}
