//! Prints the turns of a session as text. Control characters are escaped in every text of the
//! session; long texts are truncated with a note.

use super::super::render::{
    self, BAD, BOLD, DIM, GOOD, PLUGIN, WARN, answer_line, format_bytes, format_count, one_line,
    printable_text, style_text,
};
use rind_lib::message::Role;
use rind_lib::session::{CallView, Decision, Item, ItemView, SessionView, TurnView};

/// Indentation of continuation rows, as wide as the line numbers.
const INDENT: &str = "        ";

/// Maximum length of a name, folder or reason within a line, in characters.
const WIDTH: usize = 240;

pub(super) fn print_session_header(view: &SessionView) {
    let title = view.title.as_deref().map(|title| one_line(title, WIDTH));
    let title = title.map(|title| format!(" {title}")).unwrap_or_default();
    answer_line(format_args!(
        "session {}{title}",
        style_text(BOLD, one_line(&view.id, WIDTH))
    ));
    let mut about = vec![
        format!("began {}", format_time(view.created)),
        format!("in {}", one_line(&view.workspace, WIDTH)),
        format!(
            "with {}/{}",
            one_line(&view.provider, WIDTH),
            one_line(&view.model, WIDTH)
        ),
    ];
    let from = view.forked_from.iter();
    about.extend(from.map(|id| format!("forked from {}", one_line(id, WIDTH))));
    answer_line(style_text(DIM, about.join(" · ")));
    if view.turns.is_empty() {
        answer_line("this session has no turn yet");
    }
}

/// Formats milliseconds since 1970 as a time in UTC.
pub(super) fn format_time(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map_or_else(|_| ms.to_string(), |time| format!("{time:.0}"))
}

/// Returns the facts that are shown next to the number of a turn.
pub(super) fn describe_turn_facts(turn: &TurnView) -> String {
    let mut about = vec![format_time(turn.started)];
    about.push(match &turn.stop {
        Some(stop) => one_line(stop, 40),
        None => "open".to_owned(),
    });
    if turn.steps > 0 {
        about.push(format_count(u64::from(turn.steps), "step"));
    }
    let (input, output) = (turn.usage.input_tokens, turn.usage.output_tokens);
    if input > 0 || output > 0 {
        let estimated = render::estimated_mark(&turn.usage);
        about.push(format!("{input} tokens in, {output} out{estimated}"));
    }
    about.extend(render::format_dollars(turn.cost_usd));
    if turn.source != "terminal" && !turn.source.is_empty() {
        about.push(format!("from {}", one_line(&turn.source, WIDTH)));
    }
    if let Some(command) = &turn.command {
        about.push(format!("command {}", one_line(command, WIDTH)));
    }
    if let Some(set) = &turn.plugins {
        let digits = set.get(..12).unwrap_or(set);
        about.push(format!("set of plugins {}", one_line(digits, WIDTH)));
    }
    if let Some(holder) = &turn.archived_in {
        about.push(format!("archived in {}", one_line(holder, WIDTH)));
    }
    if turn.is_undone {
        about.push("taken back".to_owned());
    }
    about.join(" · ")
}

pub(super) fn print_turn(turn: &TurnView, limit: usize) {
    if turn.turn > 0 || turn.started > 0 {
        let number = style_text(BOLD, format_args!("turn {}", turn.turn));
        answer_line(format_args!(
            "\n{number} {}",
            style_text(DIM, describe_turn_facts(turn))
        ));
        print_text_block("> ", &turn.input, limit);
    }
    for item in &turn.items {
        print_item(item, turn, limit);
    }
}

fn print_item(view: &ItemView, turn: &TurnView, limit: usize) {
    let line = |text: String| {
        let number = style_text(DIM, format_args!("{:>7}", view.line));
        answer_line(format_args!("{number} {text}"));
    };
    match &view.item {
        // The input is already printed in the header of the turn.
        Item::Said {
            role: Role::User,
            by: None,
            text,
            blobs,
            ..
        } if *text == turn.input && blobs.is_empty() => {}
        Item::Said {
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
                .map(|by| format!(" ({})", one_line(by, WIDTH)));
            line(style_text(
                BOLD,
                format!("{role}{}", by.unwrap_or_default()),
            ));
            for text in reasoning {
                print_text_block("(reasoning) ", text, limit);
            }
            print_text_block("", text, limit);
            for blob in blobs {
                answer_line(format_args!("{INDENT}[{}]", one_line(blob, WIDTH)));
            }
        }
        Item::Call(call) => print_call(call, &line, limit),
        Item::Decision(decision) => line(describe_decision(decision)),
        Item::Step {
            step,
            model,
            usage,
            cost_usd,
            aside,
        } => {
            let aside = aside.as_deref().map(|by| one_line(by, WIDTH));
            let aside = aside.map(|by| format!(" · aside by {by}"));
            let usd = cost_usd.and_then(render::format_dollars);
            let usd = usd.map(|usd| format!(" · {usd}")).unwrap_or_default();
            line(style_text(
                DIM,
                format!(
                    "step {step} · {} · {} tokens in, {} out{usd}{}",
                    one_line(model, WIDTH),
                    usage.input_tokens,
                    usage.output_tokens,
                    aside.unwrap_or_default()
                ),
            ));
        }
        Item::Subagent {
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
                .map(|name| format!(" of {}", one_line(name, WIDTH)));
            let mut about = vec![by.unwrap_or_default()];
            about.extend(
                preset
                    .iter()
                    .map(|name| format!(" · {}", one_line(name, 64))),
            );
            if let Some(state) = state {
                let work = render::steps::describe_subagent_work(*steps, usage.total(), *cost_usd);
                about.push(format!(" · {state} · {work}"));
            }
            line(format!(
                "subagent {}{}",
                style_text(PLUGIN, one_line(agent, 64)),
                style_text(DIM, about.concat())
            ));
            let what = if *is_continued {
                "continued: "
            } else {
                "task: "
            };
            print_text_block(what, task, limit);
            match answer {
                Some(answer) if *is_error => print_text_block("failed: ", answer, limit),
                Some(answer) => print_text_block("answer: ", answer, limit),
                None => print_text_block("", "it has not ended", limit),
            }
        }
        Item::Replaced {
            reason,
            removed,
            summary,
            holder,
        } => {
            let what = format!(
                "{} replaced ({})",
                format_count(*removed as u64, "message"),
                one_line(reason, WIDTH)
            );
            line(match holder {
                Some(id) => format!("[archived: {}] {what}", one_line(id, 64)),
                None => format!("≡ {what}"),
            });
            if !summary.is_empty() {
                print_text_block("", summary, limit);
            }
        }
        Item::Prompt { parts } => {
            line(style_text(
                DIM,
                format!(
                    "system prompt, {}",
                    format_count(parts.len() as u64, "part")
                ),
            ));
            for part in parts {
                answer_line(style_text(
                    DIM,
                    format!(
                        "{INDENT}{} of {} · {} · {} tokens · {}",
                        one_line(&part.key, WIDTH),
                        one_line(&part.source, WIDTH),
                        format_bytes(part.bytes as u64),
                        part.tokens,
                        one_line(&part.hash, 64),
                    ),
                ));
            }
        }
        Item::Note { text } => line(style_text(DIM, one_line(text, 4 * WIDTH))),
    }
}

fn print_call(call: &CallView, line: &dyn Fn(String), limit: usize) {
    let by = call
        .by
        .as_deref()
        .map(|by| format!(" by {}{}", caller_kind_prefix(by), one_line(by, WIDTH)));
    line(format!(
        "{} {}{}",
        style_text(BOLD, one_line(&call.tool, WIDTH)),
        style_text(DIM, one_line(&call.id, 64)),
        by.unwrap_or_default()
    ));
    print_text_block("", &call.arguments.to_string(), limit);
    for decision in &call.decisions {
        answer_line(format_args!("{INDENT}{}", describe_decision(decision)));
    }
    if let Some(arguments) = &call.ran_with {
        print_text_block("ran with ", &arguments.to_string(), limit);
    }
    let refused = call
        .refused_by
        .as_deref()
        .map(|by| format!("refused by {}", one_line(by, WIDTH)));
    let took = call.duration_ms.map(render::format_millis);
    let state = match (refused, &call.result) {
        (Some(refused), _) => style_text(BAD, refused),
        (None, None) if call.duration_ms.is_some() => style_text(DIM, "ended"),
        (None, None) if call.has_begun => style_text(WARN, "it began, but has no result"),
        (None, None) => style_text(WARN, "it has not begun"),
        (None, Some(_)) if call.is_error => style_text(BAD, "failed"),
        (None, Some(_)) => style_text(GOOD, "result"),
    };
    let took = took.filter(|_| call.refused_by.is_none());
    let took = took.map(|took| style_text(DIM, format_args!(" · {took}")));
    answer_line(format_args!("{INDENT}{state}{}", took.unwrap_or_default()));
    print_text_block("", call.result.as_deref().unwrap_or_default(), limit);
}

/// Returns the word to print before the name of a caller: `plugin `, or nothing for a client
/// outside the session, whose name contains its kind.
pub(super) fn caller_kind_prefix(by: &str) -> &'static str {
    if by.contains(':') { "" } else { "plugin " }
}

/// Describes the decision of a hook and its reason.
pub(super) fn describe_decision(decision: &Decision) -> String {
    let Decision {
        plugin,
        point,
        outcome,
        changed,
        reason,
        ..
    } = decision;
    let outcome = match outcome.as_str() {
        "changed" => style_text(WARN, "changed"),
        "asked" => style_text(WARN, "asked"),
        "blocked" => style_text(BAD, "refused"),
        other => style_text(BAD, one_line(other, 40)),
    };
    let changed: Vec<String> = changed.iter().map(|name| one_line(name, 60)).collect();
    let changed = match changed.is_empty() {
        true => String::new(),
        false => format!(" {}", changed.join(", ")),
    };
    let reason = reason
        .as_deref()
        .map(|why| format!(": {}", one_line(why, 4 * WIDTH)));
    format!(
        "{} at {}: {outcome}{changed}{}",
        style_text(PLUGIN, one_line(plugin, 64)),
        one_line(point, 64),
        reason.unwrap_or_default()
    )
}

/// Prints a text of several lines, indented, and truncated to `limit` bytes.
fn print_text_block(mark: &str, text: &str, limit: usize) {
    if text.is_empty() {
        return;
    }
    let end = text.floor_char_boundary(limit);
    let shown = printable_text(text.get(..end).unwrap_or_default());
    for (at, line) in shown.lines().enumerate() {
        let mark = if at == 0 { mark } else { "" };
        answer_line(format_args!("{INDENT}{mark}{line}"));
    }
    if end < text.len() {
        let n_left = (text.len() - end) as u64;
        let note = format!("{INDENT}… {} more; --full shows all", format_bytes(n_left));
        answer_line(style_text(DIM, note));
    }
}
