//! Prints MCP servers: what one server offers, and the list of servers.

use super::{BOLD, DIM, PLUGIN, WARN, answer_line, format_count, print_note, style_text};
use crate::mcp::{McpListEntry, ServerApprovalState};
use rind_lib::text::one_line;
use rind_mcp::{McpServer, ServerOffer, ServerOfferChange};

/// Maximum length of a tool description in a list, in bytes.
const DESCRIPTION: usize = 100;

/// Prints what a server offers: its name, protocol version and tools.
pub(in super::super) fn print_server_offer(server: &McpServer, offer: &ServerOffer) {
    answer_line(format_args!(
        "{} {} {}",
        style_text(PLUGIN, one_line(&server.name)),
        style_text(DIM, one_line(&offer.server)),
        style_text(DIM, format_args!("protocol {}", one_line(&offer.protocol))),
    ));
    for tool in &offer.tools {
        let mut text = one_line(&tool.description);
        if text.len() > DESCRIPTION {
            text.truncate(text.floor_char_boundary(DESCRIPTION));
            text.push('…');
        }
        answer_line(format_args!(
            "  {}  {}",
            style_text(BOLD, one_line(&tool.name)),
            style_text(DIM, text)
        ));
    }
    for prompt in &offer.prompts {
        let mut text = one_line(&prompt.description);
        if text.len() > DESCRIPTION {
            text.truncate(text.floor_char_boundary(DESCRIPTION));
            text.push('…');
        }
        let name = format!("/{}:{}", server.name, prompt.command_name());
        answer_line(format_args!(
            "  {}  {}",
            style_text(BOLD, one_line(&name)),
            style_text(DIM, text)
        ));
    }
    for why in &offer.refused {
        answer_line(format_args!(
            "  {} {}",
            style_text(WARN, "not used:"),
            one_line(why)
        ));
    }
}

/// Prints the changes since the operator approved the server's offer.
pub(in super::super) fn print_offer_changes(changes: &[ServerOfferChange]) {
    for change in changes {
        let change = one_line(&change.to_string());
        answer_line(format_args!("  {} {change}", style_text(WARN, "changed:")));
    }
}

/// Lists the servers that are configured.
pub(in super::super) fn list_servers(servers: &[McpListEntry<'_>]) {
    if servers.is_empty() {
        print_note("there are no MCP servers; `rind mcp add` adds one");
        return;
    }
    for server in servers {
        let day = server.given.unwrap_or_default();
        let day = day.split('T').next().unwrap_or_default();
        let standing = match server.standing {
            ServerApprovalState::Pinned => format!(
                "{}, approved on {day}",
                format_count(server.tools.len() as u64, "tool")
            ),
            ServerApprovalState::OtherSettings => format!(
                "not used: its settings have changed since it was approved on {day}; run `rind mcp test {}`",
                server.name
            ),
            ServerApprovalState::Unknown => format!(
                "not used: its tools are not approved; run `rind mcp test {}`",
                server.name
            ),
            ServerApprovalState::Off => "switched off".to_owned(),
        };
        let settings = server.settings;
        let target = match &settings.url {
            Some(url) => url.clone(),
            None => {
                let command = settings.command.iter();
                let words: Vec<&str> = command.chain(&settings.args).map(String::as_str).collect();
                words.join(" ")
            }
        };
        let standing = match server.origin {
            "settings" => standing,
            place => format!("of {place}: {standing}"),
        };
        let standing = match &server.login {
            Some(issuer) => format!("{standing}, logged in at {issuer}"),
            None => standing,
        };
        answer_line(format_args!(
            "{}  {}  {}",
            style_text(PLUGIN, one_line(server.name)),
            one_line(&target),
            style_text(DIM, one_line(&standing)),
        ));
    }
}
