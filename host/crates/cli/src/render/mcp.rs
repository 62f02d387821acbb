//! Prints MCP servers: what one server offers, and the list of servers.

use super::{
    BOLD_STYLE, DIM_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE, format_count_with_noun, print_note,
    print_stdout_line, style_text,
};
use crate::mcp::{McpListEntry, ServerApprovalState};
use rind_lib::text::escape_to_one_line;
use rind_mcp::{ChangeSinceServerApproval, McpServerConnectionSpec, ServerToolsAndPrompts};

/// Maximum length of a tool description in a list, in bytes.
const MAX_TOOL_DESCRIPTION_BYTES: usize = 100;

/// Prints what a server offers: its name, protocol version and tools.
pub(in super::super) fn print_server_offer(
    server: &McpServerConnectionSpec,
    offer: &ServerToolsAndPrompts,
) {
    print_stdout_line(format_args!(
        "{} {} {}",
        style_text(PLUGIN_NAME_STYLE, escape_to_one_line(&server.name)),
        style_text(DIM_STYLE, escape_to_one_line(&offer.server)),
        style_text(
            DIM_STYLE,
            format_args!("protocol {}", escape_to_one_line(&offer.protocol))
        ),
    ));
    for tool in &offer.tools {
        let mut text = escape_to_one_line(&tool.description);
        if text.len() > MAX_TOOL_DESCRIPTION_BYTES {
            text.truncate(text.floor_char_boundary(MAX_TOOL_DESCRIPTION_BYTES));
            text.push('…');
        }
        print_stdout_line(format_args!(
            "  {}  {}",
            style_text(BOLD_STYLE, escape_to_one_line(&tool.name)),
            style_text(DIM_STYLE, text)
        ));
    }
    for prompt in &offer.prompts {
        let mut text = escape_to_one_line(&prompt.description);
        if text.len() > MAX_TOOL_DESCRIPTION_BYTES {
            text.truncate(text.floor_char_boundary(MAX_TOOL_DESCRIPTION_BYTES));
            text.push('…');
        }
        let name = format!("/{}:{}", server.name, prompt.slash_command_name());
        print_stdout_line(format_args!(
            "  {}  {}",
            style_text(BOLD_STYLE, escape_to_one_line(&name)),
            style_text(DIM_STYLE, text)
        ));
    }
    for why in &offer.refused {
        print_stdout_line(format_args!(
            "  {} {}",
            style_text(WARNING_STYLE, "not used:"),
            escape_to_one_line(why)
        ));
    }
}

/// Prints the changes since the operator approved the server's offer.
pub(in super::super) fn print_changes_since_approval(changes: &[ChangeSinceServerApproval]) {
    for change in changes {
        let change = escape_to_one_line(&change.to_string());
        print_stdout_line(format_args!(
            "  {} {change}",
            style_text(WARNING_STYLE, "changed:")
        ));
    }
}

/// Prints the MCP servers that the settings configure.
pub(in super::super) fn print_servers(servers: &[McpListEntry<'_>]) {
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
                format_count_with_noun(server.tools.len() as u64, "tool")
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
        print_stdout_line(format_args!(
            "{}  {}  {}",
            style_text(PLUGIN_NAME_STYLE, escape_to_one_line(server.name)),
            escape_to_one_line(&target),
            style_text(DIM_STYLE, escape_to_one_line(&standing)),
        ));
    }
}
