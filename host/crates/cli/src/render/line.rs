//! Events that are one line for people, independent of earlier events.

use anstyle::Style;

use super::row::Row;
use super::steps::{self, WHY_WIDTH};
use super::{BAD, DIM, WARN, count, millis, one_line, printable, styled};
use rind_lib::event::Event;
use rind_lib::point::payload::Decision;

pub(super) fn assessed(decision: Decision, confidence: f64, reasons: &[String]) -> String {
    let word = serde_json::to_value(decision).unwrap_or_default();
    let word = word.as_str().unwrap_or_default();
    let reasons = one_line(&reasons.join(", "), 160);
    format!("assessed as {word} ({confidence:.2}): {reasons}")
}

/// A text whose lines after the first begin with a mark: none of them can look like a line of the
/// program.
fn quoted_lines(text: &str) -> String {
    printable(text).trim_end().replace('\n', "\n  │ ")
}

pub(super) fn line(event: &Event) -> Option<String> {
    match event {
        Event::SessionOpened {
            id,
            resumed,
            messages,
            ..
        } => {
            let what = match resumed {
                true => format!("resumed with {}", count(u64::from(*messages), "message")),
                false => "new".to_owned(),
            };
            Some(styled(DIM, format_args!("session {id} ({what})")))
        }
        Event::Assessed {
            decision,
            confidence,
            reasons,
        } if *decision != Decision::Direct => {
            Some(styled(DIM, assessed(*decision, *confidence, reasons)))
        }
        Event::Retry {
            attempt,
            delay_ms,
            reason,
        } => {
            let (wait, reason) = (millis(*delay_ms), one_line(reason, 160));
            let what = format_args!("attempt {attempt} in {wait}: {reason}");
            Some(styled(WARN, what))
        }
        Event::ToolStart {
            call, plugin, by, ..
        } => {
            let row = steps::tool_call(0, call, plugin, by);
            Some(row.then(DIM, &steps::arguments(call)).line())
        }
        Event::Status { plugin, text } if !text.is_empty() => {
            let plugin = styled(super::PLUGIN, one_line(plugin, 64));
            Some(format!(
                "{} {plugin} {}",
                styled(DIM, "▪"),
                styled(DIM, one_line(text, 80))
            ))
        }
        Event::CompactEnd { .. } | Event::ArchiveEnd { .. } => {
            let (shorter, same) = match event {
                Event::CompactEnd { .. } => (
                    "the conversation was shortened",
                    "the conversation is too long and stays so",
                ),
                _ => (
                    "an earlier turn was archived",
                    "an earlier turn is not archived",
                ),
            };
            Some(match steps::shortened(event) {
                Ok(what) => styled(DIM, format_args!("≡ {shorter}: {what}")),
                Err(why) => {
                    let why = one_line(why, WHY_WIDTH);
                    styled(WARN, format_args!("≡ {same}: {why}"))
                }
            })
        }
        Event::SubagentStart {
            subagent,
            plugin,
            task,
            ..
        } => {
            let row = steps::subagent(0, subagent, plugin);
            Some(row.then(DIM, &one_line(task, 100)).line())
        }
        Event::SubagentEnd {
            subagent,
            answer,
            is_error,
            usage,
        } => {
            let (style, word, width) = match is_error {
                true => (WARN, "failed", WHY_WIDTH),
                false => (DIM, "answered", 100),
            };
            let row = Row::at(1).add(style, &format!("└ {subagent} {word}:"));
            let row = row.then(Style::new(), &one_line(answer, width));
            let tokens = format!("{} tokens", usage.total());
            Some(row.then(DIM, &tokens).line())
        }
        Event::SkillActivated {
            skill,
            by,
            is_conversational,
            allow,
            deny,
            ..
        } => {
            let mut words = vec![format!("by {by}")];
            if *is_conversational {
                words.push("until /done".to_owned());
            }
            words.extend(
                allow
                    .as_ref()
                    .map(|names| format!("only {}", names.join(", "))),
            );
            if !deny.is_empty() {
                words.push(format!("not {}", deny.join(", ")));
            }
            let row = Row::at(0).add(super::PLUGIN, &format!("skill {}", one_line(skill, 64)));
            Some(row.then(DIM, &one_line(&words.join("; "), 160)).line())
        }
        Event::SkillEnded { skill, reason } if reason != "turn" => {
            let row = Row::at(0).add(super::PLUGIN, &format!("skill {}", one_line(skill, 64)));
            Some(row.then(DIM, "ended").line())
        }
        Event::Notice {
            level,
            plugin,
            text,
        } => {
            let (row, style) = steps::notice(0, *level, plugin);
            Some(row.then(style, &quoted_lines(text)).line())
        }
        Event::Error { place, message } => {
            let row = Row::at(0).add(BAD, &format!("{place}:"));
            Some(row.then(Style::new(), &quoted_lines(message)).line())
        }
        _ => None,
    }
}
