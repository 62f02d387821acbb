//! Events that are one line for people, whatever came before them.

use super::{BAD, DIM, PLUGIN, WARN, count, millis, one_line, printable, steps, styled};
use crate::event::Event;
use crate::point::outcome::Level;
use crate::point::payload::Decision;

/// The session that is open.
pub(super) fn session(event: &Event) -> Option<String> {
    let Event::SessionOpened {
        id,
        resumed,
        messages,
        ..
    } = event
    else {
        return None;
    };
    let what = if *resumed {
        format!("resumed with {}", count(u64::from(*messages), "message"))
    } else {
        "new".to_owned()
    };
    Some(styled(DIM, format_args!("session {id} ({what})")))
}

/// Formats the assessment of an input.
pub(super) fn assessed(event: &Event) -> Option<String> {
    let Event::Assessed {
        decision,
        confidence,
        reasons,
    } = event
    else {
        return None;
    };
    let word = serde_json::to_value(decision)
        .ok()
        .and_then(|v| v.as_str().map(str::to_owned))
        .unwrap_or_default();
    Some(format!(
        "assessed as {word} ({confidence:.2}): {}",
        one_line(&reasons.join(", "), 160)
    ))
}

/// A text whose lines after the first begin with a mark: none of them can look like a line of the program.
fn quoted_lines(text: &str) -> String {
    printable(text).trim_end().replace('\n', "\n  │ ")
}

/// The line for an event, if it has one.
pub(super) fn line(event: &Event) -> Option<String> {
    match event {
        Event::SessionOpened { .. } => session(event),
        Event::Assessed { decision, .. } if *decision != Decision::Direct => {
            assessed(event).map(|text| styled(DIM, text))
        }
        Event::Retry {
            attempt,
            delay_ms,
            reason,
        } => {
            let wait = millis(*delay_ms);
            Some(styled(
                WARN,
                format_args!("attempt {attempt} in {wait}: {}", one_line(reason, 160)),
            ))
        }
        Event::ToolStart {
            call, plugin, by, ..
        } => Some(steps::tool_start(call, plugin.as_deref(), by.as_deref())),
        Event::CompactEnd {
            messages,
            summary,
            is_built_in,
            refused,
        } => Some(steps::compact_end(
            *messages,
            summary.as_deref(),
            *is_built_in,
            refused.as_deref(),
        )),
        Event::ArchiveEnd {
            messages,
            holder,
            summary,
            refused,
        } => Some(steps::archive_end(
            *messages,
            holder.as_deref().zip(summary.as_deref()),
            refused.as_deref(),
        )),
        Event::SubagentStart {
            subagent: agent,
            plugin,
            task,
            ..
        } => Some(steps::subagent_start(agent, plugin.as_deref(), task)),
        Event::SubagentEnd {
            subagent: agent,
            answer,
            is_error,
            usage,
        } => Some(steps::subagent_end(agent, answer, *is_error, *usage)),
        Event::Notice {
            level,
            plugin,
            text,
        } => {
            let style = match level {
                Level::Debug | Level::Info => DIM,
                Level::Warn => WARN,
                Level::Error => BAD,
            };
            let who = plugin
                .as_deref()
                .map(|plugin| format!("{} ", styled(PLUGIN, plugin)))
                .unwrap_or_default();
            Some(format!(
                "{} {who}{}",
                styled(style, "▲"),
                styled(style, quoted_lines(text))
            ))
        }
        Event::Error { place, message } => Some(format!(
            "{} {}",
            styled(BAD, format_args!("{place}:")),
            quoted_lines(message)
        )),
        _ => None,
    }
}
