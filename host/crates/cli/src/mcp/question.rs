//! Asks the person whether to start an MCP server, and whether to use its tools. All texts that
//! describe the tools are untrusted claims of the server.

use futures_util::future::BoxFuture;

use crate::question::{QuestionScreenContent, TerminalQuestionLine};
use crate::render::{
    BOLD_STYLE, DIM_STYLE, PLUGIN_NAME_STYLE, WARNING_STYLE, format_count_with_noun,
};
use rind_mcp::{
    ChangeSinceServerApproval, McpServerApprovalQuestion, McpServerConnectionSpec, OfferedTool,
    ServerApprovalAsker, ServerToolsAndPrompts,
};

/// Asks the person at the terminal whether to approve the tools of MCP servers.
pub(in super::super) struct TerminalMcpServerApprovalAsker;

impl ServerApprovalAsker for TerminalMcpServerApprovalAsker {
    fn ask_before_starting<'a>(
        &'a self,
        server: &'a McpServerConnectionSpec,
        place: &'a str,
    ) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let screen = build_server_start_question(server, place);
            let answer = screen.ask_approval(parse_yes_or_no, |is_yes| !is_yes);
            answer.await.unwrap_or(false)
        })
    }

    fn ask<'a>(&'a self, question: McpServerApprovalQuestion<'a>) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let screen = build_server_tools_screen(question);
            let answer = screen.ask_approval(parse_yes_or_no, |is_yes| !is_yes);
            answer.await.unwrap_or(false)
        })
    }
}

fn parse_yes_or_no(line: &str) -> Option<bool> {
    match line.to_lowercase().as_str() {
        "y" | "yes" => Some(true),
        "n" | "no" => Some(false),
        _ => None,
    }
}

fn build_server_start_question(
    server: &McpServerConnectionSpec,
    place: &str,
) -> QuestionScreenContent {
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text("start the MCP server ")
        .with_escaped_text(PLUGIN_NAME_STYLE, &server.name)
        .with_text(" of ")
        .with_escaped_text(DIM_STYLE, place)
        .with_text(" to list its tools?");
    let rights = server.describe_permissions();
    let rights = rights
        .iter()
        .map(|right| TerminalQuestionLine::new("  it may: ").with_escaped_text(BOLD_STYLE, right));
    QuestionScreenContent {
        parts: vec![vec![head], rights.collect()],
        covers: vec![TerminalQuestionLine::new("  ").with_styled_text(
            DIM_STYLE,
            "its tools are asked about next; a change of the file asks again",
        )],
        keys: "[y]es, or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    }
}

/// Returns the question whether to start an MCP server as one line of text, for another program
/// that shows it.
pub(in super::super) fn server_start_question(
    server: &McpServerConnectionSpec,
    place: &str,
) -> String {
    let text = format!(
        "Start the MCP server {} of {place} to list its tools? Its permissions: {}",
        server.name,
        server.describe_permissions().join("; ")
    );
    rind_lib::text::escape_to_one_line(&text)
}

/// Returns the question whether to use a server's tools as text, for a program that shows it.
pub(in super::super) fn server_tools_question(question: &McpServerApprovalQuestion<'_>) -> String {
    let McpServerApprovalQuestion {
        server,
        offer,
        changes,
    } = question;
    let offered = format_tool_and_prompt_counts(offer);
    let mut lines = vec![
        format!(
            "Use the tools of the MCP server {}? It offers {offered}.",
            server.name
        ),
        format!(
            "Its permissions: {}",
            server.describe_permissions().join("; ")
        ),
        format!(
            "The server calls itself {} and uses version {} of the protocol",
            offer.server, offer.protocol
        ),
    ];
    let changed = changes.unwrap_or_default().iter();
    lines.extend(changed.map(|change| format!("Changed since you approved it: {change}")));
    let tools = offer.tools.iter();
    for tool in tools {
        lines.push(format!("Tool {}: {}", tool.name, tool.description));
        let texts = tool.texts_in_argument_schema().into_iter();
        lines.extend(
            texts.map(|(place, text)| {
                format!("Text about the argument {place} of this tool: {text}")
            }),
        );
    }
    let prompts = offer.prompts.iter();
    lines.extend(prompts.map(|own| format!("Prompt {}: {}", own.name, own.description)));
    let refused = offer.refused.iter();
    lines.extend(refused.map(|why| format!("Not used: {why}")));
    lines.push(
        "Each call asks first, like a command; tools that change later are withheld.".to_owned(),
    );
    // Put each text of the server on one line and escape deceptive characters in it.
    let lines: Vec<String> = lines
        .iter()
        .map(|line| rind_lib::text::escape_to_one_line(line))
        .collect();
    lines.join("\n")
}

fn build_server_tools_screen(question: McpServerApprovalQuestion<'_>) -> QuestionScreenContent {
    let McpServerApprovalQuestion {
        server,
        offer,
        changes,
    } = question;
    let offered = format_tool_and_prompt_counts(offer);
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text("use the tools of the MCP server ")
        .with_escaped_text(PLUGIN_NAME_STYLE, &server.name)
        .with_text(&format!("? It offers {offered}"));
    let mut about = vec![
        TerminalQuestionLine::new("  it may: ")
            .with_escaped_text(BOLD_STYLE, &server.describe_permissions().join("; ")),
        TerminalQuestionLine::new("  it calls itself ")
            .with_escaped_text(DIM_STYLE, &offer.server)
            .with_text(", protocol ")
            .with_escaped_text(DIM_STYLE, &offer.protocol),
    ];
    about.extend(changes.filter(|changes| !changes.is_empty()).map(|_| {
        TerminalQuestionLine::new("  ")
            .with_styled_text(WARNING_STYLE, "changed since you approved it:")
    }));
    let changed = changes.unwrap_or_default().iter();
    let changed = changed.map(|change: &ChangeSinceServerApproval| {
        TerminalQuestionLine::new("    • ").with_escaped_text(WARNING_STYLE, &change.to_string())
    });
    let mut tools: Vec<TerminalQuestionLine> =
        offer.tools.iter().flat_map(build_tool_lines).collect();
    tools.extend(offer.prompts.iter().map(|prompt| {
        TerminalQuestionLine::new("  prompt ")
            .with_escaped_text(
                BOLD_STYLE,
                &format!("/{}:{}", server.name, prompt.slash_command_name()),
            )
            .with_text(": ")
            .with_escaped_text(DIM_STYLE, &prompt.description)
    }));
    tools.extend(
        offer
            .refused
            .iter()
            .map(|why| TerminalQuestionLine::new("  not used: ").with_escaped_text(DIM_STYLE, why)),
    );
    QuestionScreenContent {
        parts: vec![vec![head], about, changed.collect(), tools],
        covers: vec![TerminalQuestionLine::new("  ").with_styled_text(
            DIM_STYLE,
            "each call asks first, like a command; tools that change later are withheld",
        )],
        keys: "[y]es, or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    }
}

/// Describes how many tools and prompts an MCP server offers.
pub(in super::super) fn format_tool_and_prompt_counts(offer: &ServerToolsAndPrompts) -> String {
    let tools = format_count_with_noun(offer.tools.len() as u64, "tool");
    match offer.prompts.len() as u64 {
        0 => tools,
        n => format!("{tools} and {}", format_count_with_noun(n, "prompt")),
    }
}

fn build_tool_lines(tool: &OfferedTool) -> Vec<TerminalQuestionLine> {
    let line = TerminalQuestionLine::new("  tool ")
        .with_escaped_text(BOLD_STYLE, &tool.name)
        .with_text(": ")
        .with_escaped_text(DIM_STYLE, &tool.description);
    let line = match &tool.annotations {
        None => line,
        Some(claims) => line
            .with_text(" claims ")
            .with_escaped_text(DIM_STYLE, &claims.to_string()),
    };
    let texts = tool
        .texts_in_argument_schema()
        .into_iter()
        .map(|(place, text)| {
            TerminalQuestionLine::new("    argument text ")
                .with_escaped_text(BOLD_STYLE, &place)
                .with_text(": ")
                .with_escaped_text(DIM_STYLE, &text)
        });
    std::iter::once(line).chain(texts).collect()
}
