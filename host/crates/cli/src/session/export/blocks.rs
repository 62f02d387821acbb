//! Converts a session to blocks of text, from which every export for people is rendered.
//!
//! Masks secrets and escapes deceptive characters. The kind of a block marks
//! its text as untrusted; the renderers decide how to escape it for their format.

use crate::render::{format_count_with_noun, printable_text, strip_styles, truncate_to_one_line};
use crate::session::turns::{
    caller_kind_prefix, describe_hook_decision, describe_turn_time_and_outcome, format_utc_time_ms,
};
use rind_lib::event::SubagentState;
use rind_lib::message::{Blob, Role};
use rind_lib::secret::SecretScanner;
use rind_lib::session::{CallView, SessionView, TurnEventContent, TurnView};

/// Maximum length of a name within a line, in characters.
const MAX_NAME_CHARS: usize = 240;

/// Part of a page to which sessions are exported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExportPageBlock {
    /// Header of a session or a subagent, with facts about it.
    Session(String, Vec<String>),
    /// Header of a turn: its heading, and a line of facts about it.
    Turn(String, String),
    /// Text of the session, with its author or kind as heading.
    Text(String, String),
    /// Line of text without a heading.
    Line(String),
    /// Image or other binary data of the session.
    Blob {
        /// Reference to the stored data.
        blob: Blob,
        /// Description of the image for readers who cannot see it.
        words: String,
        /// Whether the text before the data already contains `words`.
        is_in_text: bool,
    },
}

/// Masks secrets in a text, and escapes deceptive characters.
fn mask_secrets_and_escape(text: &str) -> String {
    printable_text(&SecretScanner::shared().to_masked_text(text))
}

fn mask_and_join_lines(text: &str) -> String {
    truncate_to_one_line(&mask_secrets_and_escape(text), 4 * MAX_NAME_CHARS)
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
        true => view
            .map(|view| mask_and_join_lines(&view.id))
            .unwrap_or_default(),
        false => truncate_to_one_line(&mask_secrets_and_escape(&text), 120),
    }
}

/// Returns the parts of the page that show this session.
pub(super) fn build_session_page_blocks(view: &SessionView) -> Vec<ExportPageBlock> {
    let mut facts = vec![
        format!("began {}", format_utc_time_ms(view.created)),
        format!("folder {}", mask_and_join_lines(&view.workspace)),
        format!(
            "model {}/{}",
            mask_and_join_lines(&view.provider),
            mask_and_join_lines(&view.model)
        ),
    ];
    let from = view.forked_from.iter();
    facts.extend(from.map(|id| format!("forked from {}", mask_and_join_lines(id))));
    facts.extend(
        view.notices
            .iter()
            .map(|notice| mask_and_join_lines(notice)),
    );
    let mut blocks = vec![ExportPageBlock::Session(
        mask_and_join_lines(&view.id),
        facts,
    )];
    for turn in &view.turns {
        add_turn_blocks(turn, &mut blocks);
    }
    blocks
}

fn add_turn_blocks(turn: &TurnView, blocks: &mut Vec<ExportPageBlock>) {
    if turn.turn > 0 || turn.started > 0 {
        blocks.push(ExportPageBlock::Turn(
            format!("Turn {}", turn.turn),
            mask_and_join_lines(&describe_turn_time_and_outcome(turn)),
        ));
        blocks.push(ExportPageBlock::Text(
            "Input".to_owned(),
            mask_secrets_and_escape(&turn.input),
        ));
    }
    for view in &turn.items {
        match &view.item {
            TurnEventContent::Said {
                role: Role::User,
                by: None,
                text,
                attachments,
                ..
            } if *text == turn.input => add_blob_blocks(attachments, false, blocks),
            TurnEventContent::Said {
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
                let by = by
                    .as_deref()
                    .map(|by| format!(" ({})", mask_and_join_lines(by)));
                let who = format!("{who}{}", by.unwrap_or_default());
                let reasoning = reasoning.iter().map(|text| mask_secrets_and_escape(text));
                blocks.extend(
                    reasoning.map(|text| ExportPageBlock::Text("Reasoning".to_owned(), text)),
                );
                if !text.is_empty() {
                    blocks.push(ExportPageBlock::Text(who, mask_secrets_and_escape(text)));
                }
                add_blob_blocks(attachments, false, blocks);
            }
            TurnEventContent::Call(own) => add_call_blocks(own, blocks),
            TurnEventContent::Decision(decision) => blocks.push(ExportPageBlock::Line(
                mask_and_join_lines(&strip_styles(&describe_hook_decision(decision))),
            )),
            TurnEventContent::Step { .. } => {}
            TurnEventContent::Subagent {
                agent,
                task,
                answer,
                is_error,
                state,
                ..
            } => {
                let agent = mask_and_join_lines(agent);
                blocks.push(ExportPageBlock::Text(
                    format!("Task of subagent {agent}"),
                    mask_secrets_and_escape(task),
                ));
                let what = if *is_error { "Failure" } else { "Answer" };
                let state = state.filter(|state| *state != SubagentState::Answered);
                let state = state.map(|state| format!(", {state}")).unwrap_or_default();
                let head = format!("{what} of {agent}{state}");
                let answer = answer.iter().map(|text| mask_secrets_and_escape(text));
                blocks.extend(answer.map(|text| ExportPageBlock::Text(head.clone(), text)));
            }
            TurnEventContent::Replaced {
                reason,
                removed,
                summary,
                holder,
            } => {
                let holder = holder
                    .as_deref()
                    .map(|id| format!("[archived: {}] ", mask_and_join_lines(id)));
                let what = format!(
                    "{}{} replaced ({})",
                    holder.unwrap_or_default(),
                    format_count_with_noun(*removed as u64, "message"),
                    mask_and_join_lines(reason)
                );
                blocks.push(ExportPageBlock::Text(
                    what,
                    mask_secrets_and_escape(summary),
                ));
            }
            TurnEventContent::Prompt { parts } => {
                let keys: Vec<String> = parts
                    .iter()
                    .map(|part| mask_and_join_lines(&part.key))
                    .collect();
                let text = format!("System prompt: {}", keys.join(", "));
                blocks.push(ExportPageBlock::Line(text));
            }
            TurnEventContent::Note { text } => {
                blocks.push(ExportPageBlock::Line(mask_and_join_lines(text)))
            }
        }
    }
}

fn add_blob_blocks(blobs: &[Blob], is_in_text: bool, blocks: &mut Vec<ExportPageBlock>) {
    blocks.extend(blobs.iter().map(|blob| ExportPageBlock::Blob {
        blob: blob.clone(),
        words: mask_and_join_lines(&blob.to_string()),
        is_in_text,
    }));
}

fn add_call_blocks(call: &CallView, blocks: &mut Vec<ExportPageBlock>) {
    let by = call
        .by
        .as_deref()
        .map(|by| format!(" by {}{}", caller_kind_prefix(by), mask_and_join_lines(by)));
    let name = format!(
        "Call {}{}",
        mask_and_join_lines(&call.tool),
        by.unwrap_or_default()
    );
    let json = |value: &serde_json::Value| {
        let mut value = value.clone();
        rind_lib::secret::mask_secrets_in_json(&mut value, &mut std::collections::BTreeSet::new());
        mask_secrets_and_escape(&serde_json::to_string_pretty(&value).unwrap_or_default())
    };
    blocks.push(ExportPageBlock::Text(name, json(&call.arguments)));
    let decisions = call.decisions.iter();
    blocks.extend(decisions.map(|own| {
        ExportPageBlock::Line(mask_and_join_lines(&strip_styles(&describe_hook_decision(
            own,
        ))))
    }));
    if let Some(arguments) = &call.ran_with {
        blocks.push(ExportPageBlock::Text(
            "Ran with".to_owned(),
            json(arguments),
        ));
    }
    let what = match (&call.refused_by, call.is_error) {
        (Some(by), _) => format!("Refused by {}", mask_and_join_lines(by)),
        (None, true) => "Failure".to_owned(),
        (None, false) => "Result".to_owned(),
    };
    match &call.result {
        Some(text) => blocks.push(ExportPageBlock::Text(what, mask_secrets_and_escape(text))),
        None if call.refused_by.is_some() => blocks.push(ExportPageBlock::Line(what)),
        None if call.duration_ms.is_some() => {}
        None => blocks.push(ExportPageBlock::Line("No result".to_owned())),
    }
    // The text of a result already describes its blobs.
    add_blob_blocks(&call.attachments, true, blocks);
}
