//! Renders the turns of a session as a waterfall: every request, call and decision of a hook, at
//! its time in the turn. The page of the server and the exported file both use it.
//!
//! Every text is masked and escaped here, so that neither the page nor the file can omit it.

use maud::{Markup, html};
use rind_lib::message::{Blob, Role};
use rind_lib::secret::Scanner;
use rind_lib::session::{CallView, Decision, Item, ItemView, SessionView, TurnView};
use rind_lib::text::{format_count, printable_text};

use super::layout::{format_time, format_usd};

/// Maximum length of an item's text on the page, in bytes. A longer text is cut, with a note.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// Returns the title of a session, or the first line of its first input if it has none.
pub(super) fn title_of(view: &SessionView) -> String {
    let first = view.turns.iter().find(|turn| turn.turn > 0);
    let first = first.and_then(|turn| turn.input.lines().next());
    clean(view.title.as_deref().or(first).unwrap_or(&view.id))
}

/// Renders the line below the title: id, model, folder and time.
pub(super) fn about_part(view: &SessionView) -> Markup {
    html! {
        p {
            small {
                code { (view.id) } " · " (printable_text(&view.provider)) "/" (printable_text(&view.model)) " · "
                (printable_text(&view.workspace)) " · " (format_time(view.created))
            }
        }
        @for notice in &view.notices { p.bad { (printable_text(notice)) } }
    }
}

/// Masks secrets in a text, escapes deceptive characters, and cuts the text.
pub(super) fn clean(text: &str) -> String {
    let text = Scanner::shared().masked(text);
    if text.len() <= MAX_TEXT_BYTES {
        return printable_text(&text);
    }
    let end = text.floor_char_boundary(MAX_TEXT_BYTES);
    let left = text.len() - end;
    let shown = printable_text(&text[..end]);
    format!("{shown}\n… {left} more bytes; the API and `rind session show` have the whole text")
}

/// Renders the last `most` turns. `address` is the path of the session's page, below which entries
/// and images are linked; `None` renders no links and no images.
pub(super) fn turns_part(view: &SessionView, most: usize, address: Option<&str>) -> Markup {
    let n_left = view.turns.len().saturating_sub(most);
    html! {
        // The filter works by CSS alone, so that it needs no script and works in the exported file.
        label.filter { input #only-errors type="checkbox"; " show only what failed, was refused or changed" }
        div #turns {
            @if n_left > 0 {
                p { (n_left) " earlier turns are not shown here; `rind session show` has them." }
            }
            @for turn in view.turns.iter().skip(n_left) { (turn_part(turn, address)) }
        }
    }
}

fn turn_part(turn: &TurnView, address: Option<&str>) -> Markup {
    let end = turn.items.iter().map(end_of).max().unwrap_or(turn.started);
    let length = (end - turn.started).max(1);
    html! {
        section.turn aria-label={ "Turn " (turn.turn) } {
            h2 {
                @if turn.turn == 0 { "Before the first turn" } @else { "Turn " (turn.turn) }
                @if turn.is_undone { small { " taken back" } }
            }
            p {
                small {
                    (format_time(turn.started)) " · "
                    @match &turn.stop { Some(stop) => { (stop) }, None => { "not ended" } }
                    " · " (format_count(u64::from(turn.steps), "step")) " · " (seconds(length)) " " (format_usd(turn.cost_usd))
                    @if let Some(set) = &turn.plugins { " · set of plugins " code { (set) } }
                    @if let Some(holder) = &turn.archived_in { " · archived: " code { (holder) } }
                }
            }
            ol.items {
                @for item in &turn.items { (item_part(item, turn.started, length, address)) }
            }
        }
    }
}

/// Returns the end time of an item. A call ends at its start plus its duration.
fn end_of(item: &ItemView) -> i64 {
    let taken = match &item.item {
        Item::Call(call) => call.duration_ms.unwrap_or(0),
        _ => 0,
    };
    item.time.saturating_add(i64::try_from(taken).unwrap_or(0))
}

fn seconds(ms: i64) -> String {
    format!("{:.2} s", ms as f64 / 1000.0)
}

fn item_part(item: &ItemView, start: i64, length: i64, address: Option<&str>) -> Markup {
    let offset = (item.time - start).max(0);
    // Drawn as SVG, whose attributes set the width: the policy of the page forbids inline styles.
    let share = |ms: i64| (ms as f64 * 100.0 / length as f64).clamp(0.0, 100.0);
    let (x, width) = (share(offset), share(end_of(item) - item.time).max(0.5));
    html! {
        li class=[is_wrong(&item.item).then_some("wrong")] {
            div.when {
                small { "+" (seconds(offset)) }
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
            (item_text(&item.item, address))
        }
    }
}

/// Whether an item needs attention: a failure, a refusal, or a change by a hook.
fn is_wrong(item: &Item) -> bool {
    match item {
        Item::Call(call) => {
            call.is_error || call.refused_by.is_some() || !call.decisions.is_empty()
        }
        Item::Decision(_) => true,
        Item::Subagent { is_error, .. } => *is_error,
        _ => false,
    }
}

fn item_text(item: &Item, address: Option<&str>) -> Markup {
    match item {
        Item::Said {
            role,
            by,
            text,
            reasoning,
            blobs,
            attachments,
        } => html! {
            div class={ "said " (role_class(*role)) } {
                strong { @match by { Some(by) => { (clean(by)) }, None => { (role_class(*role)) } } }
                @for thought in reasoning { details { summary { "reasoning" } pre tabindex="0" { (clean(thought)) } } }
                @if !text.is_empty() { pre.text { (clean(text)) } }
                @for blob in blobs { p { small { (clean(blob)) } } }
                (images(attachments, address))
            }
        },
        Item::Call(call) => call_text(call, address),
        Item::Decision(decision) => decision_text(decision),
        Item::Step {
            step,
            model,
            usage,
            cost_usd,
            aside,
        } => html! {
            div.step {
                small {
                    "request " (step) " · " (clean(model)) " · " (usage.input_tokens) " tokens in, " (usage.output_tokens) " out "
                    (format_usd(cost_usd.unwrap_or(0.0)))
                    @if let Some(by) = aside { " · aside by " (clean(by)) }
                }
            }
        },
        Item::Subagent {
            agent,
            task,
            answer,
            is_error,
            ..
        } => html! {
            details.call {
                summary { "subagent " code { (clean(agent)) } @if *is_error { span.bad { " failed" } } }
                pre tabindex="0" { (clean(task)) }
                @if let Some(answer) = answer { pre tabindex="0" { (clean(answer)) } }
            }
        },
        Item::Replaced {
            reason,
            removed,
            summary,
            holder,
        } => html! {
            details.call {
                summary {
                    (removed) " messages replaced: " (clean(reason))
                    @if let Some(holder) = holder { " [archived: " (clean(holder)) "]" }
                }
                pre tabindex="0" { (clean(summary)) }
            }
        },
        Item::Prompt { parts } => html! {
            div.step { small { "system prompt of " (parts.len()) " parts" } }
        },
        Item::Note { text } => html! { div.step { small { (clean(text)) } } },
    }
}

fn role_class(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn call_text(call: &CallView, address: Option<&str>) -> Markup {
    let arguments = call.ran_with.as_ref().unwrap_or(&call.arguments);
    let arguments = serde_json::to_string_pretty(arguments).unwrap_or_default();
    html! {
        details.call open[call.is_error] {
            summary {
                code { (clean(&call.tool)) }
                @if let Some(by) = &call.by { " by " (clean(by)) }
                @match (&call.refused_by, call.duration_ms, call.is_error) {
                    (Some(by), ..) => { span.bad { " refused by " (clean(by)) } },
                    (None, Some(ms), true) => { span.bad { " failed" } " after " (ms) " ms" },
                    (None, Some(ms), false) => { " " (ms) " ms" },
                    (None, None, _) => { " no result" },
                }
            }
            pre tabindex="0" { (clean(&arguments)) }
            @if call.ran_with.is_some() { p { small { "hooks changed the arguments" } } }
            @for decision in &call.decisions { (decision_text(decision)) }
            @if let Some(result) = &call.result { pre tabindex="0" { (clean(result)) } }
            (images(&call.attachments, address))
        }
    }
}

/// Renders the images among these attachments; the browser loads them lazily. Empty if `address` is
/// `None`.
fn images(attachments: &[Blob], address: Option<&str>) -> Markup {
    html! {
        @if let Some(address) = address {
            @for blob in attachments.iter().filter(|blob| blob.is_image()) {
                img.attached src={ (address) "/images/" (blob.id) } alt={ "Attached image " (blob) } loading="lazy";
            }
        }
    }
}

fn decision_text(decision: &Decision) -> Markup {
    html! {
        div.decision {
            small {
                code { (clean(&decision.plugin)) } " at " (clean(&decision.point)) ": " (clean(&decision.outcome))
                @if !decision.changed.is_empty() { " changed " (clean(&decision.changed.join(", "))) }
                @if let Some(reason) = &decision.reason { " — " (clean(reason)) }
                " (" (format_args!("{:.1}", decision.micros / 1000.0)) " ms)"
            }
        }
    }
}
