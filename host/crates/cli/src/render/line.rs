//! Formats an event as one line for people. The line depends on this event alone.

use anstyle::Style;

use super::row::OutputRowBuilder;
use super::steps::{self, MAX_OUTCOME_REASON_CHARS};
use super::{
    DIM_STYLE, ERROR_STYLE, WARNING_STYLE, format_count_with_noun, format_duration_ms,
    printable_text, style_text, truncate_to_one_line,
};
use rind_lib::event::{Event, SubagentState};
use rind_lib::point::payload::Decision;

pub(super) fn format_user_input_assessment(
    decision: Decision,
    confidence: f64,
    reasons: &[String],
) -> String {
    let word = serde_json::to_value(decision).unwrap_or_default();
    let word = word.as_str().unwrap_or_default();
    let reasons = truncate_to_one_line(&reasons.join(", "), 160);
    format!("assessed as {word} ({confidence:.2}): {reasons}")
}

/// Marks all lines of a text but the first, so that none of them can imitate a line of the program.
fn escape_and_mark_continuation_lines(text: &str) -> String {
    printable_text(text).trim_end().replace('\n', "\n  │ ")
}

pub(super) fn format_event_line(event: &Event) -> Option<String> {
    match event {
        Event::SessionOpened {
            id,
            resumed,
            messages,
            ..
        } => {
            let what = match resumed {
                true => format!(
                    "resumed with {}",
                    format_count_with_noun(u64::from(*messages), "message")
                ),
                false => "new".to_owned(),
            };
            Some(style_text(DIM_STYLE, format_args!("session {id} ({what})")))
        }
        Event::Assessed {
            decision,
            confidence,
            reasons,
        } if *decision != Decision::Direct => Some(style_text(
            DIM_STYLE,
            format_user_input_assessment(*decision, *confidence, reasons),
        )),
        Event::Retry {
            attempt,
            delay_ms,
            reason,
        } => {
            let (wait, reason) = (
                format_duration_ms(*delay_ms),
                truncate_to_one_line(reason, 160),
            );
            let what = format_args!("attempt {attempt} in {wait}: {reason}");
            Some(style_text(WARNING_STYLE, what))
        }
        Event::ToolStart {
            call, plugin, by, ..
        } => {
            let row = steps::tool_call_row(0, call, plugin, by);
            Some(
                row.with_space_and_styled_text(DIM_STYLE, &steps::summarize_call_arguments(call))
                    .into_line(),
            )
        }
        Event::Status { plugin, text } if !text.is_empty() => {
            let plugin = style_text(super::PLUGIN_NAME_STYLE, truncate_to_one_line(plugin, 64));
            Some(format!(
                "{} {plugin} {}",
                style_text(DIM_STYLE, "▪"),
                style_text(DIM_STYLE, truncate_to_one_line(text, 80))
            ))
        }
        Event::CompactEnd { .. } | Event::ArchiveEnd { .. } => {
            let (shorter, same) = match event {
                Event::CompactEnd { .. } => (
                    "the conversation was shortened",
                    "the conversation is still too long",
                ),
                _ => (
                    "an earlier turn was archived",
                    "an earlier turn is not archived",
                ),
            };
            Some(match steps::describe_compaction_result(event) {
                Ok(what) => style_text(DIM_STYLE, format_args!("≡ {shorter}: {what}")),
                Err(why) => {
                    let why = truncate_to_one_line(why, MAX_OUTCOME_REASON_CHARS);
                    style_text(WARNING_STYLE, format_args!("≡ {same}: {why}"))
                }
            })
        }
        Event::SubagentStart {
            subagent,
            plugin,
            task,
            preset,
            ..
        } => {
            let row = steps::subagent_row(0, subagent, plugin, preset);
            Some(
                row.with_space_and_styled_text(DIM_STYLE, &truncate_to_one_line(task, 100))
                    .into_line(),
            )
        }
        Event::SubagentEnd {
            subagent,
            answer,
            usage,
            state,
            steps: n_steps,
            cost_usd,
            ..
        } => {
            let (style, word) = steps::subagent_state_style(*state);
            let width = if *state == SubagentState::Answered {
                100
            } else {
                MAX_OUTCOME_REASON_CHARS
            };
            let row = OutputRowBuilder::with_indent_level(1)
                .with_styled_text(style, &format!("└ {subagent} {word}:"));
            let row =
                row.with_space_and_styled_text(Style::new(), &truncate_to_one_line(answer, width));
            let work = steps::describe_subagent_work(*n_steps, usage.total(), *cost_usd);
            Some(row.with_space_and_styled_text(DIM_STYLE, &work).into_line())
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
            let row = OutputRowBuilder::with_indent_level(0).with_styled_text(
                super::PLUGIN_NAME_STYLE,
                &format!("skill {}", truncate_to_one_line(skill, 64)),
            );
            Some(
                row.with_space_and_styled_text(
                    DIM_STYLE,
                    &truncate_to_one_line(&words.join("; "), 160),
                )
                .into_line(),
            )
        }
        Event::SkillEnded { skill, reason } if reason != "turn" => {
            let row = OutputRowBuilder::with_indent_level(0).with_styled_text(
                super::PLUGIN_NAME_STYLE,
                &format!("skill {}", truncate_to_one_line(skill, 64)),
            );
            Some(
                row.with_space_and_styled_text(DIM_STYLE, "ended")
                    .into_line(),
            )
        }
        Event::Notice {
            level,
            plugin,
            text,
        } => {
            let (row, style) = steps::plugin_notice_row_and_style(0, *level, plugin);
            Some(
                row.with_space_and_styled_text(style, &escape_and_mark_continuation_lines(text))
                    .into_line(),
            )
        }
        Event::Error { place, message } => {
            let row = OutputRowBuilder::with_indent_level(0)
                .with_styled_text(ERROR_STYLE, &format!("{place}:"));
            Some(
                row.with_space_and_styled_text(
                    Style::new(),
                    &escape_and_mark_continuation_lines(message),
                )
                .into_line(),
            )
        }
        _ => None,
    }
}
