//! Prints the turns of a session as text. Control characters are escaped in every text of the
//! session; long texts are truncated with a note.

use super::super::render::{
    self, BOLD_STYLE, DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    format_bytes, format_count_with_noun, print_stdout_line, printable_text, style_text,
    truncate_to_one_line,
};
use rind_lib::message::Role;
use rind_lib::session::{
    CallView, Decision, SessionView, TurnEventContent, TurnEventView, TurnView,
};

/// Indentation of continuation rows, as wide as the line numbers.
const CONTINUATION_ROW_INDENT: &str = "        ";

/// Maximum length of a name, folder or reason within a line, in characters.
const MAX_LINE_FIELD_CHARS: usize = 240;

pub(super) fn print_session_header(view: &SessionView) {
    let title = view
        .title
        .as_deref()
        .map(|title| truncate_to_one_line(title, MAX_LINE_FIELD_CHARS));
    let title = title.map(|title| format!(" {title}")).unwrap_or_default();
    print_stdout_line(format_args!(
        "session {}{title}",
        style_text(
            BOLD_STYLE,
            truncate_to_one_line(&view.id, MAX_LINE_FIELD_CHARS)
        )
    ));
    let mut about = vec![
        format!("began {}", format_utc_time_ms(view.created)),
        format!(
            "in {}",
            truncate_to_one_line(&view.workspace, MAX_LINE_FIELD_CHARS)
        ),
        format!(
            "with {}/{}",
            truncate_to_one_line(&view.provider, MAX_LINE_FIELD_CHARS),
            truncate_to_one_line(&view.model, MAX_LINE_FIELD_CHARS)
        ),
    ];
    let from = view.forked_from.iter();
    about.extend(from.map(|id| {
        format!(
            "forked from {}",
            truncate_to_one_line(id, MAX_LINE_FIELD_CHARS)
        )
    }));
    print_stdout_line(style_text(DIM_STYLE, about.join(" · ")));
    if view.turns.is_empty() {
        print_stdout_line("this session has no turn yet");
    }
}

/// Formats milliseconds since 1970 as a time in UTC.
pub(super) fn format_utc_time_ms(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| ms.to_string(), |time| format!("{time:.0}"))
}

/// Returns the facts that are shown next to the number of a turn.
pub(super) fn describe_turn_time_and_outcome(turn: &TurnView) -> String {
    let mut about = vec![format_utc_time_ms(turn.started)];
    about.push(match &turn.stop {
        Some(stop) => truncate_to_one_line(stop, 40),
        None => "open".to_owned(),
    });
    if turn.steps > 0 {
        about.push(format_count_with_noun(u64::from(turn.steps), "step"));
    }
    let (input, output) = (turn.usage.input_tokens, turn.usage.output_tokens);
    if input > 0 || output > 0 {
        let estimated = render::estimated_usage_mark(&turn.usage);
        about.push(format!("{input} tokens in, {output} out{estimated}"));
    }
    about.extend(render::format_dollars(turn.cost_usd));
    if turn.source != "terminal" && !turn.source.is_empty() {
        about.push(format!(
            "from {}",
            truncate_to_one_line(&turn.source, MAX_LINE_FIELD_CHARS)
        ));
    }
    if let Some(command) = &turn.command {
        about.push(format!(
            "command {}",
            truncate_to_one_line(command, MAX_LINE_FIELD_CHARS)
        ));
    }
    if let Some(set) = &turn.plugins {
        let digits = set.get(..12).unwrap_or(set);
        about.push(format!(
            "set of plugins {}",
            truncate_to_one_line(digits, MAX_LINE_FIELD_CHARS)
        ));
    }
    if let Some(holder) = &turn.archived_in {
        about.push(format!(
            "archived in {}",
            truncate_to_one_line(holder, MAX_LINE_FIELD_CHARS)
        ));
    }
    if turn.is_undone {
        about.push("taken back".to_owned());
    }
    about.join(" · ")
}

pub(super) fn print_turn(turn: &TurnView, limit: usize) {
    if turn.turn > 0 || turn.started > 0 {
        let number = style_text(BOLD_STYLE, format_args!("turn {}", turn.turn));
        print_stdout_line(format_args!(
            "\n{number} {}",
            style_text(DIM_STYLE, describe_turn_time_and_outcome(turn))
        ));
        print_indented_truncated_text("> ", &turn.input, limit);
    }
    for item in &turn.items {
        print_turn_item(item, turn, limit);
    }
}

fn print_turn_item(view: &TurnEventView, turn: &TurnView, limit: usize) {
    let line = |text: String| {
        let number = style_text(DIM_STYLE, format_args!("{:>7}", view.line));
        print_stdout_line(format_args!("{number} {text}"));
    };
    match &view.item {
        // The input is already printed in the header of the turn.
        TurnEventContent::Said {
            role: Role::User,
            by: None,
            text,
            blobs,
            ..
        } if *text == turn.input && blobs.is_empty() => {}
        TurnEventContent::Said {
            role,
            by,
            text,
            reasoning,
            blobs,
            ..
        } => {
            let role = match role {
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::Tool => "tool",
            };
            let by = by
                .as_deref()
                .map(|by| format!(" ({})", truncate_to_one_line(by, MAX_LINE_FIELD_CHARS)));
            line(style_text(
                BOLD_STYLE,
                format!("{role}{}", by.unwrap_or_default()),
            ));
            for text in reasoning {
                print_indented_truncated_text("(reasoning) ", text, limit);
            }
            print_indented_truncated_text("", text, limit);
            for blob in blobs {
                print_stdout_line(format_args!(
                    "{CONTINUATION_ROW_INDENT}[{}]",
                    truncate_to_one_line(blob, MAX_LINE_FIELD_CHARS)
                ));
            }
        }
        TurnEventContent::Call(call) => print_tool_call(call, &line, limit),
        TurnEventContent::Decision(decision) => line(describe_hook_decision(decision)),
        TurnEventContent::Step {
            step,
            model,
            usage,
            cost_usd,
            aside,
        } => {
            let aside = aside
                .as_deref()
                .map(|by| truncate_to_one_line(by, MAX_LINE_FIELD_CHARS));
            let aside = aside.map(|by| format!(" · aside by {by}"));
            let usd = cost_usd.and_then(render::format_dollars);
            let usd = usd.map(|usd| format!(" · {usd}")).unwrap_or_default();
            line(style_text(
                DIM_STYLE,
                format!(
                    "step {step} · {} · {} tokens in, {} out{usd}{}",
                    truncate_to_one_line(model, MAX_LINE_FIELD_CHARS),
                    usage.input_tokens,
                    usage.output_tokens,
                    aside.unwrap_or_default()
                ),
            ));
        }
        TurnEventContent::Subagent {
            agent,
            plugin,
            task,
            answer,
            is_error,
            preset,
            is_continued,
            state,
            steps,
            cost_usd,
            usage,
        } => {
            let by = plugin
                .as_deref()
                .map(|name| format!(" of {}", truncate_to_one_line(name, MAX_LINE_FIELD_CHARS)));
            let mut about = vec![by.unwrap_or_default()];
            about.extend(
                preset
                    .iter()
                    .map(|name| format!(" · {}", truncate_to_one_line(name, 64))),
            );
            if let Some(state) = state {
                let work = render::steps::describe_subagent_work(*steps, usage.total(), *cost_usd);
                about.push(format!(" · {state} · {work}"));
            }
            line(format!(
                "subagent {}{}",
                style_text(PLUGIN_NAME_STYLE, truncate_to_one_line(agent, 64)),
                style_text(DIM_STYLE, about.concat())
            ));
            let what = if *is_continued {
                "continued: "
            } else {
                "task: "
            };
            print_indented_truncated_text(what, task, limit);
            match answer {
                Some(answer) if *is_error => {
                    print_indented_truncated_text("failed: ", answer, limit)
                }
                Some(answer) => print_indented_truncated_text("answer: ", answer, limit),
                None => print_indented_truncated_text("", "it has not ended", limit),
            }
        }
        TurnEventContent::Replaced {
            reason,
            removed,
            summary,
            holder,
        } => {
            let what = format!(
                "{} replaced ({})",
                format_count_with_noun(*removed as u64, "message"),
                truncate_to_one_line(reason, MAX_LINE_FIELD_CHARS)
            );
            line(match holder {
                Some(id) => format!("[archived: {}] {what}", truncate_to_one_line(id, 64)),
                None => format!("≡ {what}"),
            });
            if !summary.is_empty() {
                print_indented_truncated_text("", summary, limit);
            }
        }
        TurnEventContent::Prompt { parts } => {
            line(style_text(
                DIM_STYLE,
                format!(
                    "system prompt, {}",
                    format_count_with_noun(parts.len() as u64, "part")
                ),
            ));
            for part in parts {
                print_stdout_line(style_text(
                    DIM_STYLE,
                    format!(
                        "{CONTINUATION_ROW_INDENT}{} of {} · {} · {} tokens · {}",
                        truncate_to_one_line(&part.key, MAX_LINE_FIELD_CHARS),
                        truncate_to_one_line(&part.source, MAX_LINE_FIELD_CHARS),
                        format_bytes(part.bytes as u64),
                        part.tokens,
                        truncate_to_one_line(&part.hash, 64),
                    ),
                ));
            }
        }
        TurnEventContent::Note { text } => line(style_text(
            DIM_STYLE,
            truncate_to_one_line(text, 4 * MAX_LINE_FIELD_CHARS),
        )),
    }
}

fn print_tool_call(call: &CallView, line: &dyn Fn(String), limit: usize) {
    let by = call.by.as_deref().map(|by| {
        format!(
            " by {}{}",
            caller_kind_prefix(by),
            truncate_to_one_line(by, MAX_LINE_FIELD_CHARS)
        )
    });
    line(format!(
        "{} {}{}",
        style_text(
            BOLD_STYLE,
            truncate_to_one_line(&call.tool, MAX_LINE_FIELD_CHARS)
        ),
        style_text(DIM_STYLE, truncate_to_one_line(&call.id, 64)),
        by.unwrap_or_default()
    ));
    print_indented_truncated_text("", &call.arguments.to_string(), limit);
    for decision in &call.decisions {
        print_stdout_line(format_args!(
            "{CONTINUATION_ROW_INDENT}{}",
            describe_hook_decision(decision)
        ));
    }
    if let Some(arguments) = &call.ran_with {
        print_indented_truncated_text("ran with ", &arguments.to_string(), limit);
    }
    let refused = call.refused_by.as_deref().map(|by| {
        format!(
            "refused by {}",
            truncate_to_one_line(by, MAX_LINE_FIELD_CHARS)
        )
    });
    let took = call.duration_ms.map(render::format_duration_ms);
    let state = match (refused, &call.result) {
        (Some(refused), _) => style_text(ERROR_STYLE, refused),
        (None, None) if call.duration_ms.is_some() => style_text(DIM_STYLE, "ended"),
        (None, None) if call.has_begun => style_text(WARNING_STYLE, "it began, but has no result"),
        (None, None) => style_text(WARNING_STYLE, "it has not begun"),
        (None, Some(_)) if call.is_error => style_text(ERROR_STYLE, "failed"),
        (None, Some(_)) => style_text(SUCCESS_STYLE, "result"),
    };
    let took = took.filter(|_| call.refused_by.is_none());
    let took = took.map(|took| style_text(DIM_STYLE, format_args!(" · {took}")));
    print_stdout_line(format_args!(
        "{CONTINUATION_ROW_INDENT}{state}{}",
        took.unwrap_or_default()
    ));
    print_indented_truncated_text("", call.result.as_deref().unwrap_or_default(), limit);
}

/// Returns the word to print before the name of a caller: `plugin `, or nothing for a client
/// outside the session, whose name contains its kind.
pub(super) fn caller_kind_prefix(by: &str) -> &'static str {
    if by.contains(':') { "" } else { "plugin " }
}

/// Describes the decision of a hook and its reason.
pub(super) fn describe_hook_decision(decision: &Decision) -> String {
    let Decision {
        plugin,
        point,
        outcome,
        changed,
        reason,
        ..
    } = decision;
    let outcome = match outcome.as_str() {
        "changed" => style_text(WARNING_STYLE, "changed"),
        "asked" => style_text(WARNING_STYLE, "asked"),
        "blocked" => style_text(ERROR_STYLE, "refused"),
        other => style_text(ERROR_STYLE, truncate_to_one_line(other, 40)),
    };
    let changed: Vec<String> = changed
        .iter()
        .map(|name| truncate_to_one_line(name, 60))
        .collect();
    let changed = match changed.is_empty() {
        true => String::new(),
        false => format!(" {}", changed.join(", ")),
    };
    let reason = reason
        .as_deref()
        .map(|why| format!(": {}", truncate_to_one_line(why, 4 * MAX_LINE_FIELD_CHARS)));
    format!(
        "{} at {}: {outcome}{changed}{}",
        style_text(PLUGIN_NAME_STYLE, truncate_to_one_line(plugin, 64)),
        truncate_to_one_line(point, 64),
        reason.unwrap_or_default()
    )
}

/// Prints a text of several lines, indented, and truncated to `limit` bytes.
fn print_indented_truncated_text(mark: &str, text: &str, limit: usize) {
    if text.is_empty() {
        return;
    }
    let end = text.floor_char_boundary(limit);
    let shown = printable_text(text.get(..end).unwrap_or_default());
    for (at, line) in shown.lines().enumerate() {
        let mark = if at == 0 { mark } else { "" };
        print_stdout_line(format_args!("{CONTINUATION_ROW_INDENT}{mark}{line}"));
    }
    if end < text.len() {
        let n_left = (text.len() - end) as u64;
        let note = format!(
            "{CONTINUATION_ROW_INDENT}… {} more; --full shows all",
            format_bytes(n_left)
        );
        print_stdout_line(style_text(DIM_STYLE, note));
    }
}
