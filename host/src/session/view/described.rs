//! Formats entries and messages of a session as text for its view.

use serde_json::Value;

use super::TurnEventContent;
use crate::message::{Content, Message};
use crate::session::entry::Body;

/// Returns the JSON form of a value, a text without quotes.
pub(super) fn to_json_text_without_quotes(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).map_or_else(
        |_| String::new(),
        |value| crate::json::format_value_for_display(&value),
    )
}

pub(super) fn message_to_view_item(message: &Message) -> TurnEventContent {
    let reasoning = message.content.iter().filter_map(|part| match part {
        Content::Thinking { text, .. } if !text.is_empty() => Some(text.clone()),
        _ => None,
    });
    let plugin = message.plugin.as_ref().map(|name| format!("plugin {name}"));
    TurnEventContent::Said {
        role: message.role,
        by: plugin.or_else(|| message.origin.as_ref().map(to_json_text_without_quotes)),
        text: message.joined_text(),
        reasoning: reasoning.collect(),
        blobs: message.blobs().map(ToString::to_string).collect(),
        attachments: message.blobs().cloned().collect(),
    }
}

/// Describes an entry that the view shows as a note ([`TurnEventContent::Note`]); `None` if users
/// need not see it.
pub(super) fn describe_entry_as_note(body: &Body) -> Option<String> {
    Some(match body {
        Body::Command {
            plugin,
            command,
            outcome,
            reason,
            ..
        } => {
            let outcome = to_json_text_without_quotes(outcome);
            let why = reason.as_ref().map(|why| format!(": {why}"));
            format!(
                "command /{command} of {plugin}: {outcome}{}",
                why.unwrap_or_default()
            )
        }
        Body::LoopRun {
            plugin,
            outcome,
            reason,
            ..
        } => {
            let outcome = to_json_text_without_quotes(outcome);
            let why = reason.as_ref().map(|why| format!(": {why}"));
            format!(
                "the loop of plugin {plugin} ended with {outcome}{}",
                why.unwrap_or_default()
            )
        }
        Body::Asked { plugin, model, .. } => format!("{plugin} asked the model {model}"),
        Body::HostAsked { about, model, .. } => {
            format!("Rind asked the model {model} for its own purpose `{about}`")
        }
        Body::Unanswered { model, reason, .. } => {
            format!("the model {model} did not answer: {reason}")
        }
        Body::Access { record } => {
            let text = |key: &str| record[key].as_str().unwrap_or_default();
            if text("outcome") == "done" && text("reached") != "secret" {
                return None;
            }
            let (plugin, target) = (text("plugin"), text("target"));
            format!("{plugin}: {} {target} {}", text("outcome"), text("reason"))
        }
        Body::AuditGap { point, reason, .. } => {
            format!("the audit log has a gap at {point}: {reason}")
        }
        Body::Corrected { shown, text } => {
            format!("text that was shown was corrected: {shown:?}, now {text:?}")
        }
        Body::Injected { plugin, text, keep } => {
            let how = if *keep { "" } else { ", for one request" };
            format!("{plugin} injected a message{how}: {text}")
        }
        Body::Allowed { tool, covers, .. } => {
            format!("a person allowed {tool} for the session: {covers}")
        }
        Body::SkillActivated { skill, by, .. } => {
            format!("skill {skill} became active, started by {by}")
        }
        Body::SkillEnded { skill, reason } => format!("skill {skill} ended: {reason}"),
        Body::Aside { by } => format!("`rind {by}` opened the session for its own use"),
        Body::Archival {
            turn,
            reason,
            tries,
            is_over,
        } => match is_over {
            true => format!(
                "the archiving of turn {turn} has ended, with or without success ({reason})"
            ),
            false => format!("turn {turn} is due to be archived ({reason}), {tries} tries so far"),
        },
        Body::Unknown { fields } => {
            let kind = fields
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or_default();
            format!("an entry of the type `{kind}`, which this version does not know")
        }
        _ => return None,
    })
}
