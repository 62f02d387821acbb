//! The pages of the server: sessions, one session, questions, plugins, costs. They work without
//! scripts. The only script follows the events of a session and reloads parts of the page.
//!
//! Every text goes through the templates of `maud`, which escape HTML, and deceptive characters are
//! replaced by visible escapes. Forms need no CSRF token, because the access check compares the
//! `Origin` of every request.

mod costs_page;
mod input_form;
mod layout;
mod plugins_page;
pub(crate) mod session_file;
mod session_page;
mod turn_diff;
mod waterfall;

use axum::Router;
use axum::extract::{Form, Path, Query, State};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use http::{HeaderValue, header};
use maud::{Markup, html};
use rind_lib::point::payload::Source;
use rind_lib::text::printable_text;
use serde::Deserialize;

use crate::ApiState;
use crate::error::ApiError;
use crate::forward::list_open_questions;
use crate::questions::{AnswerBody, OpenQuestion, QuestionKind};
use crate::queued::{check_or_create_session_id, enqueue_turn_input};
use crate::routes::sessions::{SessionRow, list_sessions};
use input_form::{TurnInputForm, render_image_upload_field};
pub(crate) use layout::HtmlPageError;
use layout::{format_usd, format_utc_time, render_page, render_table};

/// Maximum number of sessions that the first page lists.
const MAX_SESSIONS_ON_FIRST_PAGE: usize = 200;

pub(crate) fn router() -> Router<ApiState> {
    Router::new()
        .route("/", get(show_sessions_page))
        .route("/login", get(sign_in_browser))
        .route("/style.css", get(get_stylesheet))
        .route("/page.js", get(get_page_script))
        .route("/new", post(create_session_from_form))
        .route("/sessions/{id}", get(session_page::show_session_page))
        .route(
            "/sessions/{id}/diff",
            get(session_page::show_turn_diff_page),
        )
        .route(
            "/sessions/{id}/entries/{line}",
            get(session_page::show_session_entry),
        )
        .route(
            "/sessions/{id}/images/{image}",
            get(session_page::show_session_image),
        )
        .route("/sessions/{id}/say", post(steer_or_start_turn))
        .route("/sessions/{id}/interrupt", post(interrupt_turn))
        .route("/sessions/{id}/continue", post(continue_turn))
        .route("/questions", get(show_questions_page))
        .route("/questions/{id}", post(post_question_answer))
        .route("/plugins", get(plugins_page::show_plugins_page))
        .route("/costs", get(costs_page::show_costs_page))
}

async fn get_stylesheet() -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/css; charset=utf-8")];
    (kind, include_str!("style.css"))
}

async fn get_page_script() -> impl IntoResponse {
    let kind = [(header::CONTENT_TYPE, "text/javascript; charset=utf-8")];
    (kind, include_str!("page.js"))
}

#[derive(Deserialize)]
struct LoginQuery {
    #[serde(default)]
    code: String,
}

async fn sign_in_browser(
    State(state): State<ApiState>,
    Query(query): Query<LoginQuery>,
) -> Response {
    let cookie = state.access.create_login_cookie(&query.code);
    let Some(cookie) = cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) else {
        let error = ApiError::forbidden(
            "the code belongs to an earlier run of the server: open the address that the running `rind serve` printed",
        );
        return HtmlPageError(error).into_response();
    };
    ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
}

async fn show_sessions_page(State(state): State<ApiState>) -> Result<Markup, HtmlPageError> {
    let list = list_sessions(&state, MAX_SESSIONS_ON_FIRST_PAGE, None).await?;
    let rows = html! {
        @for row in &list.sessions {
            tr {
                td { a href={ "/sessions/" (row.id) } {
                    (printable_text(if row.title.is_empty() { &row.id } else { &row.title }))
                } }
                td { (session_state_text(row)) }
                td.number { (row.turns) }
                td.number { (format_usd(row.cost_usd)) }
                td { (format_utc_time(row.updated)) }
                td { (printable_text(&row.workspace)) }
            }
        }
    };
    let content = html! {
        h1 { "Sessions" }
        form method="post" action="/new" enctype="multipart/form-data" {
            label for="text" { "New session" }
            textarea id="text" name="text" rows="3" required placeholder="What is to be done?" {}
            (render_image_upload_field())
            (render_workspace_field(&state.sessions.workspaces().folders()))
            button { "Start" }
        }
        (render_table("Sessions", &["Session", "State", "Turns", "Cost", "Changed", "Folder"], &rows))
        @if list.sessions.is_empty() { p { "There is no session yet." } }
    };
    Ok(render_page(&state, "Sessions", &content))
}

/// Renders the form field that selects a folder; empty if the server has only one.
fn render_workspace_field(folders: &[String]) -> Markup {
    html! {
        @if folders.len() > 1 {
            label {
                "Folder "
                select name="workspace" {
                    @for folder in folders { option value=(folder) { (printable_text(folder)) } }
                }
            }
        }
    }
}

/// Milliseconds without an event after which a running turn counts as stalled on the page. A model
/// that reasons for a long time still sends an event every few seconds.
const TURN_STALL_THRESHOLD_MS: u64 = 30_000;

fn session_state_text(row: &SessionRow) -> String {
    match (row.quiet_ms, row.is_open, &*row.state) {
        (Some(_), ..) if row.is_waiting => "waits for an answer".to_owned(),
        (Some(quiet), ..) if quiet >= TURN_STALL_THRESHOLD_MS => {
            format!("running, no event for {} s", quiet / 1000)
        }
        (Some(_), ..) => "running".to_owned(),
        (None, true, _) => "ready".to_owned(),
        (None, false, "open" | "waiting") => "interrupted, or runs elsewhere".to_owned(),
        _ => "closed".to_owned(),
    }
}

async fn create_session_from_form(
    State(state): State<ApiState>,
    mut form: TurnInputForm,
) -> Result<Redirect, HtmlPageError> {
    let workspace = form.workspace.take();
    let order = form.into_turn_request()?;
    if let Some(remote) = state.worker_queue() {
        let id = check_or_create_session_id(None)?;
        enqueue_turn_input(remote, &id, order).await?;
        return Ok(Redirect::to(&format!("/sessions/{id}")));
    }
    let id = state.sessions.create_session(None, workspace).await?;
    state.sessions.request_turn(&id, order, true).await?;
    Ok(Redirect::to(&format!("/sessions/{id}")))
}

/// Adds text to the running turn, or starts a turn if none runs. Images cannot be added to a
/// running turn, so an input with images always starts a turn.
async fn steer_or_start_turn(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    form: TurnInputForm,
) -> Result<Redirect, HtmlPageError> {
    let is_follow_up = form.is_follow_up;
    let order = form.into_turn_request()?;
    let live = state.sessions.find_open_session(&id).await;
    let live = live.filter(|_| order.images.is_empty());
    let steered =
        live.and_then(|live| live.steer_turn(order.text.clone(), Source::Http, is_follow_up));
    if let (None, Some(remote)) = (steered, state.worker_queue()) {
        enqueue_turn_input(remote, &id, order).await?;
    } else if steered.is_none() {
        state.sessions.request_turn(&id, order, true).await?;
    }
    Ok(Redirect::to(&format!("/sessions/{id}#end")))
}

async fn interrupt_turn(State(state): State<ApiState>, Path(id): Path<String>) -> Redirect {
    if let Some(live) = state.sessions.find_open_session(&id).await {
        live.interrupt_turn();
    }
    Redirect::to(&format!("/sessions/{id}#end"))
}

async fn continue_turn(
    State(state): State<ApiState>,
    Path(id): Path<String>,
) -> Result<Redirect, HtmlPageError> {
    state.check_turns_run_locally()?;
    state.sessions.request_turn_continuation(&id).await?;
    Ok(Redirect::to(&format!("/sessions/{id}#end")))
}

async fn show_questions_page(State(state): State<ApiState>) -> Result<Markup, HtmlPageError> {
    let questions = list_open_questions(&state, None).await?;
    let content = html! {
        h1 { "Questions" }
        p { "Turns that wait for an answer, of all sessions of this server." }
        div #questions data-poll="/questions" {
            @for question in &questions {
                p { "Session " a href={ "/sessions/" (question.session) } { (question.session) } }
                (render_question_form(question, "/questions"))
            }
            @if questions.is_empty() { p { "No question waits." } }
        }
    };
    Ok(render_page(&state, "Questions", &content))
}

/// Renders a question to the user, with the form for the answer.
fn render_question_form(question: &OpenQuestion, back: &str) -> Markup {
    let action = format!("/questions/{}", question.id);
    html! {
        section.question aria-label="Question" {
            form method="post" action=(action) {
                input type="hidden" name="back" value=(back);
                (render_question_text(&question.about))
            }
        }
    }
}

fn render_question_text(about: &QuestionKind) -> Markup {
    match about {
        QuestionKind::Approval {
            tool,
            effect_class,
            plugin,
            by,
            may,
            arguments,
            reasons,
            always,
            no_always,
        } => html! {
            h3 { "May " code { (tool) } " run? " small { "(" (effect_class) ")" } }
            @if let Some(by) = by { p { "Plugin " code { (by) } " makes the call." } }
            @if let Some(plugin) = plugin {
                p { "The tool belongs to plugin " code { (plugin) } ", which may: " (may.join("; ")) }
            }
            @for reason in reasons { p { code { (reason.plugin) } " asks: " (printable_text(&reason.reason)) } }
            pre tabindex="0" { @for line in arguments { (line.mark) (printable_text(&line.text)) "\n" } }
            label { "Reason for a no, for the model " input name="reason" maxlength="2000"; }
            div.row {
                button name="answer" value="yes" { "Yes" }
                button name="answer" value="no" { "No" }
                @if let Some(always) = always {
                    button name="answer" value="always" { "Always in this session" }
                    small { "covers " (printable_text(always)) }
                }
            }
            @if let Some(why) = no_always { p { small { (printable_text(why)) } } }
        },
        QuestionKind::Plugin {
            plugin,
            text,
            form,
            options,
            default,
        } => html! {
            h3 { "Plugin " code { (plugin) } " asks" }
            p { (printable_text(text)) }
            div.row {
                @match form.as_str() {
                    "confirm" => { button name="answer" value="yes" { "Yes" } button name="answer" value="no" { "No" } }
                    "choose" => { @for (at, option) in options.iter().enumerate() {
                        button name="answer" value=(at) { (printable_text(option)) }
                    } }
                    _ => { input name="answer" value=(default) aria-label="Answer"; button { "Answer" } }
                }
            }
        },
    }
}

#[derive(Deserialize)]
struct QuestionAnswerForm {
    answer: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    back: String,
}

async fn post_question_answer(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Form(form): Form<QuestionAnswerForm>,
) -> Result<Redirect, HtmlPageError> {
    let body = AnswerBody {
        answer: form.answer,
        reason: form.reason.filter(|reason| !reason.trim().is_empty()),
    };
    let answered = state
        .sessions
        .pending_questions()
        .answer_question(&id, &body);
    answered.map_err(ApiError::from)?;
    // Accept only a path of this server: `//host` would redirect to another server.
    let is_own =
        form.back.starts_with('/') && !form.back.starts_with("//") && !form.back.contains('\\');
    Ok(Redirect::to(if is_own { &form.back } else { "/questions" }))
}
