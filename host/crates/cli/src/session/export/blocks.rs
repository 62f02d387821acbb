//! Converts a session to blocks of text, from which every export for people is rendered.
//!
//! Masks secrets and escapes deceptive characters. The kind of a block marks
//! its text as untrusted; the renderers decide how to escape it for their format.

use crate::render::{bare_text, format_count, one_line, printable_text};
use crate::session::turns::{
    caller_kind_prefix, describe_decision, describe_turn_facts, format_time,
};
use rind_lib::event::SubagentState;
use rind_lib::message::{Blob, Role};
use rind_lib::secret::SecretScanner;
use rind_lib::session::{CallView, Item, SessionView, TurnView};

/// Maximum length of a name within a line, in characters.
const WIDTH: usize = 240;

/// Part of an exported page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExportBlock {
    /// Header of a session or a subagent, with facts about it.
    Session(String, Vec<String>),
    /// Header of a turn: its heading and its facts.
    Turn(String, String),
    /// Text with its author or kind.
    Text(String, String),
    /// Line of text.
    Line(String),
    /// Image or other binary data.
    Blob {
        /// Reference to the data.
        blob: Blob,
        /// Description of the image for readers who cannot see it.
        words: String,
        /// Whether the text before the data already contains `words`.
        is_in_text: bool,
    },
}

/// Masks secrets in a text, and escapes deceptive characters.
fn mask_and_escape(text: &str) -> String {
    printable_text(&SecretScanner::shared().masked(text))
}

fn one_line_text(text: &str) -> String {
    one_line(&mask_and_escape(text), 4 * WIDTH)
}

/// Returns the title of the page: the session's title, its first input, or its id.
pub(super) fn page_title(views: &[SessionView]) -> String {
    let view = views.first();
    let given = view.and_then(|view| view.title.clone());
    let first = || {
        let turn = view?.turns.iter().find(|turn| turn.turn > 0)?;
        turn.input.lines().next().map(str::to_owned)
    };
    let text = given.or_else(first).unwrap_or_default();
    match text.trim().is_empty() {
        true => view.map(|view| one_line_text(&view.id)).unwrap_or_default(),
        false => one_line(&mask_and_escape(&text), 120),
    }
}

/// Returns the blocks of a session.
pub(super) fn session_blocks(view: &SessionView) -> Vec<ExportBlock> {
    let mut facts = vec![
        format!("began {}", format_time(view.created)),
        format!("folder {}", one_line_text(&view.workspace)),
        format!(
            "model {}/{}",
            one_line_text(&view.provider),
            one_line_text(&view.model)
        ),
    ];
    let from = view.forked_from.iter();
    facts.extend(from.map(|id| format!("forked from {}", one_line_text(id))));
    facts.extend(view.notices.iter().map(|notice| one_line_text(notice)));
    let mut blocks = vec![ExportBlock::Session(one_line_text(&view.id), facts)];
    for turn in &view.turns {
        add_turn_blocks(turn, &mut blocks);
    }
    blocks
}

fn add_turn_blocks(turn: &TurnView, blocks: &mut Vec<ExportBlock>) {
    if turn.turn > 0 || turn.started > 0 {
        blocks.push(ExportBlock::Turn(
            format!("Turn {}", turn.turn),
            one_line_text(&describe_turn_facts(turn)),
        ));
        blocks.push(ExportBlock::Text(
            "Input".to_owned(),
            mask_and_escape(&turn.input),
        ));
    }
    for view in &turn.items {
        match &view.item {
            Item::Said {
                role: Role::User,
                by: None,
                text,
                attachments,
                ..
            } if *text == turn.input => add_blob_blocks(attachments, false, blocks),
            Item::Said {
                role,
                by,
                text,
                reasoning,
                attachments,
                ..
            } => {
                let who = match role {
                    Role::User => "User",
                    Role::Assistant => "Assistant",
                    Role::Tool => "Tool",
                };
                let by = by.as_deref().map(|by| format!(" ({})", one_line_text(by)));
                let who = format!("{who}{}", by.unwrap_or_default());
                let reasoning = reasoning.iter().map(|text| mask_and_escape(text));
                blocks
                    .extend(reasoning.map(|text| ExportBlock::Text("Reasoning".to_owned(), text)));
                if !text.is_empty() {
                    blocks.push(ExportBlock::Text(who, mask_and_escape(text)));
                }
                add_blob_blocks(attachments, false, blocks);
            }
            Item::Call(own) => add_call_blocks(own, blocks),
            Item::Decision(decision) => blocks.push(ExportBlock::Line(one_line_text(&bare_text(
                &describe_decision(decision),
            )))),
            Item::Step { .. } => {}
            Item::Subagent {
                agent,
                task,
                answer,
                is_error,
                state,
                ..
            } => {
                let agent = one_line_text(agent);
                blocks.push(ExportBlock::Text(
                    format!("Task of subagent {agent}"),
                    mask_and_escape(task),
                ));
                let what = if *is_error { "Failure" } else { "Answer" };
                let state = state.filter(|state| *state != SubagentState::Answered);
                let state = state.map(|state| format!(", {state}")).unwrap_or_default();
                let head = format!("{what} of {agent}{state}");
                let answer = answer.iter().map(|text| mask_and_escape(text));
                blocks.extend(answer.map(|text| ExportBlock::Text(head.clone(), text)));
            }
            Item::Replaced {
                reason,
                removed,
                summary,
                holder,
            } => {
                let holder = holder
                    .as_deref()
                    .map(|id| format!("[archived: {}] ", one_line_text(id)));
                let what = format!(
                    "{}{} replaced ({})",
                    holder.unwrap_or_default(),
                    format_count(*removed as u64, "message"),
                    one_line_text(reason)
                );
                blocks.push(ExportBlock::Text(what, mask_and_escape(summary)));
            }
            Item::Prompt { parts } => {
                let keys: Vec<String> = parts.iter().map(|part| one_line_text(&part.key)).collect();
                let text = format!("System prompt: {}", keys.join(", "));
                blocks.push(ExportBlock::Line(text));
            }
            Item::Note { text } => blocks.push(ExportBlock::Line(one_line_text(text))),
        }
    }
}

fn add_blob_blocks(blobs: &[Blob], is_in_text: bool, blocks: &mut Vec<ExportBlock>) {
    blocks.extend(blobs.iter().map(|blob| ExportBlock::Blob {
        blob: blob.clone(),
        words: one_line_text(&blob.to_string()),
        is_in_text,
    }));
}

fn add_call_blocks(call: &CallView, blocks: &mut Vec<ExportBlock>) {
    let by = call
        .by
        .as_deref()
        .map(|by| format!(" by {}{}", caller_kind_prefix(by), one_line_text(by)));
    let name = format!(
        "Call {}{}",
        one_line_text(&call.tool),
        by.unwrap_or_default()
    );
    let json = |value: &serde_json::Value| {
        let mut value = value.clone();
        rind_lib::secret::mask_secrets_in_json(&mut value, &mut std::collections::BTreeSet::new());
        mask_and_escape(&serde_json::to_string_pretty(&value).unwrap_or_default())
    };
    blocks.push(ExportBlock::Text(name, json(&call.arguments)));
    let decisions = call.decisions.iter();
    blocks.extend(
        decisions.map(|own| ExportBlock::Line(one_line_text(&bare_text(&describe_decision(own))))),
    );
    if let Some(arguments) = &call.ran_with {
        blocks.push(ExportBlock::Text("Ran with".to_owned(), json(arguments)));
    }
    let what = match (&call.refused_by, call.is_error) {
        (Some(by), _) => format!("Refused by {}", one_line_text(by)),
        (None, true) => "Failure".to_owned(),
        (None, false) => "Result".to_owned(),
    };
    match &call.result {
        Some(text) => blocks.push(ExportBlock::Text(what, mask_and_escape(text))),
        None if call.refused_by.is_some() => blocks.push(ExportBlock::Line(what)),
        None if call.duration_ms.is_some() => {}
        None => blocks.push(ExportBlock::Line("No result".to_owned())),
    }
    // The text of a result already describes its blobs.
    add_blob_blocks(&call.attachments, true, blocks);
}
