//! Renders the turns of a session as a waterfall diagram: every request, tool call and decision of
//! a hook, at its time in the turn. The page of the server and the exported file both use it.
//!
//! Secrets are masked and text is escaped in this module, so that neither the page nor the file can
//! omit it.

use maud::{Markup, html};
use rind_lib::message::{Blob, Role};
use rind_lib::secret::SecretScanner;
use rind_lib::session::{
    CallView, Decision, SessionView, TurnEventContent, TurnEventView, TurnView,
};
use rind_lib::text::{format_count_with_noun, printable_text};

use super::layout::{format_usd, format_utc_time};

/// Maximum length of an item's text on the page, in bytes. A longer text is truncated, with a note.
const MAX_ITEM_TEXT_BYTES: usize = 64 << 10;

/// Returns the title of a session, or the first line of its first input if it has none.
pub(super) fn session_title(view: &SessionView) -> String {
    let first = view.turns.iter().find(|turn| turn.turn > 0);
    let first = first.and_then(|turn| turn.input.lines().next());
    mask_and_escape_text(view.title.as_deref().or(first).unwrap_or(&view.id))
}

/// Renders the line below the title of a session: its id, model, folder and time.
pub(super) fn render_session_summary_line(view: &SessionView) -> Markup {
    html! {
        p {
            small {
                code { (view.id) } " · " (printable_text(&view.provider)) "/" (printable_text(&view.model)) " · "
                (printable_text(&view.workspace)) " · " (format_utc_time(view.created))
            }
        }
        @for notice in &view.notices { p.bad { (printable_text(notice)) } }
    }
}

/// Masks secrets in a text, escapes deceptive characters, and truncates a text that is too long.
pub(super) fn mask_and_escape_text(text: &str) -> String {
    let text = SecretScanner::shared().to_masked_text(text);
    if text.len() <= MAX_ITEM_TEXT_BYTES {
        return printable_text(&text);
    }
    let end = text.floor_char_boundary(MAX_ITEM_TEXT_BYTES);
    let left = text.len() - end;
    let shown = printable_text(&text[..end]);
    format!("{shown}\n… {left} more bytes; the API and `rind session show` have the whole text")
}

/// Renders the last `most` turns. `address` is the path of the session's page, below which entries
/// and images are linked; `None` renders no links and no images.
pub(super) fn render_turns(view: &SessionView, most: usize, address: Option<&str>) -> Markup {
    let n_left = view.turns.len().saturating_sub(most);
    html! {
        // The filter is implemented in CSS, so it needs no script and also works in the exported
        // file.
        label.filter { input #only-errors type="checkbox"; " show only what failed, was refused or changed" }
        div #turns {
            @if n_left > 0 {
                p { (n_left) " earlier turns are not shown here; `rind session show` has them." }
            }
            @for turn in view.turns.iter().skip(n_left) { (render_turn(turn, address)) }
        }
    }
}

fn render_turn(turn: &TurnView, address: Option<&str>) -> Markup {
    let end = turn
        .items
        .iter()
        .map(item_end_time)
        .max()
        .unwrap_or(turn.started);
    let length = (end - turn.started).max(1);
    html! {
        section.turn aria-label={ "Turn " (turn.turn) } {
            h2 {
                @if turn.turn == 0 { "Before the first turn" } @else { "Turn " (turn.turn) }
                @if turn.is_undone { small { " taken back" } }
            }
            p {
                small {
                    (format_utc_time(turn.started)) " · "
                    @match &turn.stop { Some(stop) => { (stop) }, None => { "not ended" } }
                    " · " (format_count_with_noun(u64::from(turn.steps), "step")) " · " (format_seconds(length)) " " (format_usd(turn.cost_usd))
                    @if let Some(set) = &turn.plugins { " · set of plugins " code { (set) } }
                    @if let Some(holder) = &turn.archived_in { " · archived: " code { (holder) } }
                }
            }
            ol.items {
                @for item in &turn.items { (render_turn_item(item, turn.started, length, address)) }
            }
        }
    }
}

/// Returns the end time of an item in the session. A call ends at its start plus its duration.
fn item_end_time(item: &TurnEventView) -> i64 {
    let taken = match &item.item {
        TurnEventContent::Call(call) => call.duration_ms.unwrap_or(0),
        _ => 0,
    };
    item.time.saturating_add(i64::try_from(taken).unwrap_or(0))
}

fn format_seconds(ms: i64) -> String {
    format!("{:.2} s", ms as f64 / 1000.0)
}

fn render_turn_item(
    item: &TurnEventView,
    start: i64,
    length: i64,
    address: Option<&str>,
) -> Markup {
    let offset = (item.time - start).max(0);
    // Draw the bar as SVG, whose attributes can set the width, because the content security policy
    // of the page forbids inline styles.
    let share = |ms: i64| (ms as f64 * 100.0 / length as f64).clamp(0.0, 100.0);
    let (x, width) = (
        share(offset),
        share(item_end_time(item) - item.time).max(0.5),
    );
    html! {
        li class=[does_item_need_attention(&item.item).then_some("wrong")] {
            div.when {
                small { "+" (format_seconds(offset)) }
                small.line {
                    @match address {
                        Some(address) => { a href={ (address) "/entries/" (item.line) } { "entry " (item.line) } },
                        None => { "entry " (item.line) },
                    }
                }
                svg.bar viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true" {
                    rect x=(x.min(99.5)) y="0" width=(width) height="4" {}
                }
            }
            (render_item_text(&item.item, address))
        }
    }
}

/// Whether an item needs attention, because it shows a failure, a refusal, or a change by a hook.
fn does_item_need_attention(item: &TurnEventContent) -> bool {
    match item {
        TurnEventContent::Call(call) => {
            call.is_error || call.refused_by.is_some() || !call.decisions.is_empty()
        }
        TurnEventContent::Decision(_) => true,
        TurnEventContent::Subagent { is_error, .. } => *is_error,
        _ => false,
    }
}

fn render_item_text(item: &TurnEventContent, address: Option<&str>) -> Markup {
    match item {
        TurnEventContent::Said {
            role,
            by,
            text,
            reasoning,
            blobs,
            attachments,
        } => html! {
            div class={ "said " (role_css_class(*role)) } {
                strong { @match by { Some(by) => { (mask_and_escape_text(by)) }, None => { (role_css_class(*role)) } } }
                @for thought in reasoning { details { summary { "reasoning" } pre tabindex="0" { (mask_and_escape_text(thought)) } } }
                @if !text.is_empty() { pre.text { (mask_and_escape_text(text)) } }
                @for blob in blobs { p { small { (mask_and_escape_text(blob)) } } }
                (render_images(attachments, address))
            }
        },
        TurnEventContent::Call(call) => render_tool_call(call, address),
        TurnEventContent::Decision(decision) => render_hook_decision(decision),
        TurnEventContent::Step {
            step,
            model,
            usage,
            cost_usd,
            aside,
        } => html! {
            div.step {
                small {
                    "request " (step) " · " (mask_and_escape_text(model)) " · " (usage.input_tokens) " tokens in, " (usage.output_tokens) " out "
                    (format_usd(cost_usd.unwrap_or(0.0)))
                    @if let Some(by) = aside { " · aside by " (mask_and_escape_text(by)) }
                }
            }
        },
        TurnEventContent::Subagent {
            agent,
            task,
            answer,
            is_error,
            ..
        } => html! {
            details.call {
                summary { "subagent " code { (mask_and_escape_text(agent)) } @if *is_error { span.bad { " failed" } } }
                pre tabindex="0" { (mask_and_escape_text(task)) }
                @if let Some(answer) = answer { pre tabindex="0" { (mask_and_escape_text(answer)) } }
            }
        },
        TurnEventContent::Replaced {
            reason,
            removed,
            summary,
            holder,
        } => html! {
            details.call {
                summary {
                    (removed) " messages replaced: " (mask_and_escape_text(reason))
                    @if let Some(holder) = holder { " [archived: " (mask_and_escape_text(holder)) "]" }
                }
                pre tabindex="0" { (mask_and_escape_text(summary)) }
            }
        },
        TurnEventContent::Prompt { parts } => html! {
            div.step { small { "system prompt of " (parts.len()) " parts" } }
        },
        TurnEventContent::Note { text } => {
            html! { div.step { small { (mask_and_escape_text(text)) } } }
        }
    }
}

fn role_css_class(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn render_tool_call(call: &CallView, address: Option<&str>) -> Markup {
    let arguments = call.ran_with.as_ref().unwrap_or(&call.arguments);
    let arguments = serde_json::to_string_pretty(arguments).unwrap_or_default();
    html! {
        details.call open[call.is_error] {
            summary {
                code { (mask_and_escape_text(&call.tool)) }
                @if let Some(by) = &call.by { " by " (mask_and_escape_text(by)) }
                @match (&call.refused_by, call.duration_ms, call.is_error) {
                    (Some(by), ..) => { span.bad { " refused by " (mask_and_escape_text(by)) } },
                    (None, Some(ms), true) => { span.bad { " failed" } " after " (ms) " ms" },
                    (None, Some(ms), false) => { " " (ms) " ms" },
                    (None, None, _) => { " no result" },
                }
            }
            pre tabindex="0" { (mask_and_escape_text(&arguments)) }
            @if call.ran_with.is_some() { p { small { "hooks changed the arguments" } } }
            @for decision in &call.decisions { (render_hook_decision(decision)) }
            @if let Some(result) = &call.result { pre tabindex="0" { (mask_and_escape_text(result)) } }
            (render_images(&call.attachments, address))
        }
    }
}

/// Renders the images among `attachments`; the browser loads each when it becomes visible. Empty if
/// `address` is `None`.
fn render_images(attachments: &[Blob], address: Option<&str>) -> Markup {
    html! {
        @if let Some(address) = address {
            @for blob in attachments.iter().filter(|blob| blob.is_image()) {
                img.attached src={ (address) "/images/" (blob.id) } alt={ "Attached image " (blob) } loading="lazy";
            }
        }
    }
}

fn render_hook_decision(decision: &Decision) -> Markup {
    html! {
        div.decision {
            small {
                code { (mask_and_escape_text(&decision.plugin)) } " at " (mask_and_escape_text(&decision.point)) ": " (mask_and_escape_text(&decision.outcome))
                @if !decision.changed.is_empty() { " changed " (mask_and_escape_text(&decision.changed.join(", "))) }
                @if let Some(reason) = &decision.reason { " — " (mask_and_escape_text(reason)) }
                " (" (format_args!("{:.1}", decision.micros / 1000.0)) " ms)"
            }
        }
    }
}
