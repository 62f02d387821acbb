//! Extracts the texts of an entry that a search covers, each with its author or origin.

use std::borrow::Cow;

use crate::message::{Content, Message, Role, ToolResult};
use crate::session::entry::Body;

/// Author or origin of a text, as in [`SearchMatch::role`](super::SearchMatch::role), and the text.
type RoleAndText<'a> = (String, Cow<'a, str>);

/// Returns the texts of an entry that a search covers. Omits the output of a turn, because the last
/// message of the turn has the same text.
pub(super) fn searchable_texts(body: &Body) -> Vec<RoleAndText<'_>> {
    let one = |role: &str, text: &str| vec![(role.to_owned(), Cow::Owned(text.to_owned()))];
    match body {
        Body::TurnStart { input, .. } => one("user", input),
        Body::Message { message } => message_search_texts(message),
        Body::Title { title } => one("title", title),
        Body::SubagentStart { agent, task, .. } => one(&format!("task of {agent}"), task),
        Body::SubagentEnd { agent, answer, .. } => one(&format!("answer of {agent}"), answer),
        Body::ToolStart {
            name,
            arguments: Some(arguments),
            ..
        } => one(&format!("call {name}"), &arguments.to_string()),
        Body::ToolEnd {
            result: Some(result),
            ..
        } => vec![tool_result_search_text(result)],
        Body::Injected { plugin, text, .. } => one(&format!("plugin {plugin}"), text),
        Body::HostAsked { about, text, .. } => one(about, text),
        Body::Replaced { messages, .. } => messages.iter().flat_map(message_search_texts).collect(),
        Body::Custom { plugin, value, .. } => one(&format!("plugin {plugin}"), &value.to_string()),
        _ => Vec::new(),
    }
}

fn message_search_texts(message: &Message) -> Vec<RoleAndText<'_>> {
    let role = match (&message.plugin, message.role) {
        (Some(plugin), _) => format!("plugin {plugin}"),
        (None, Role::User) => "user".to_owned(),
        (None, Role::Assistant) => "assistant".to_owned(),
        (None, Role::Tool) => "tool".to_owned(),
    };
    let parts = message.content.iter().filter_map(|part| match part {
        Content::Text { text } => Some((role.clone(), Cow::Borrowed(text.as_str()))),
        Content::Thinking { text, .. } => {
            Some(("reasoning".to_owned(), Cow::Borrowed(text.as_str())))
        }
        Content::ToolCall(call) => Some((
            format!("call {}", call.name),
            Cow::Owned(call.arguments.to_string()),
        )),
        Content::ToolResult(result) => Some(tool_result_search_text(result)),
        Content::Blob(_) => None,
    });
    parts.collect()
}

fn tool_result_search_text(result: &ToolResult) -> RoleAndText<'_> {
    (format!("result {}", result.name), result.content.text())
}
