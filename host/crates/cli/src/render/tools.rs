//! Prints the tools that the model may call.

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    escape_prose_for_display, print_stdout_line, print_to_stdout, style_text, truncate_to_one_line,
};
use crate::tools::ToolSpecWithPolicy;
use rind_lib::tool::policy::RuleDecision;

/// Maximum length of a description in a list, in characters.
const MAX_TOOL_DESCRIPTION_CHARS: usize = 100;

pub(in super::super) fn print_tools(tools: &[ToolSpecWithPolicy]) {
    for tool in tools {
        print_stdout_line(format_tool_heading(tool));
        print_stdout_line(format_args!(
            "  {}",
            truncate_to_one_line(&tool.spec.description, MAX_TOOL_DESCRIPTION_CHARS)
        ));
    }
}

pub(in super::super) fn print_tool(tool: &ToolSpecWithPolicy) -> anyhow::Result<()> {
    print_stdout_line(format_tool_heading(tool));
    for rule in &tool.policy.narrower {
        print_stdout_line(format_args!(
            "  {}: {}",
            rule_display_name(rule.decision),
            rule.rule
        ));
    }
    print_to_stdout(format_args!(
        "\n{}\n\n",
        escape_prose_for_display(&tool.spec.description)
    ));
    super::print_json(&tool.spec.parameters)
}

fn format_tool_heading(tool: &ToolSpecWithPolicy) -> String {
    let spec = &tool.spec;
    let origin = match &spec.plugin {
        Some(plugin) => style_text(
            PLUGIN_NAME_STYLE,
            truncate_to_one_line(plugin, MAX_TOOL_DESCRIPTION_CHARS),
        ),
        None => style_text(DIM_STYLE, "built in"),
    };
    let policy = &tool.policy;
    let some = match policy.narrower.len() {
        0 => String::new(),
        n => format!(
            "; {} for some of its calls",
            super::format_count_with_noun(n as u64, "rule")
        ),
    };
    format!(
        "{} {} {origin}  {} {}",
        style_text(
            BOLD_STYLE,
            truncate_to_one_line(&spec.name, MAX_TOOL_DESCRIPTION_CHARS)
        ),
        style_text(DIM_STYLE, format_args!("({})", spec.effect_class)),
        rule_display_name(policy.decision),
        style_text(DIM_STYLE, format_args!("by {}{some}", policy.by)),
    )
}

fn rule_display_name(decision: RuleDecision) -> String {
    match decision {
        RuleDecision::Allow => style_text(SUCCESS_STYLE, "allow"),
        RuleDecision::Ask => style_text(WARNING_STYLE, "ask"),
        RuleDecision::Deny => style_text(ERROR_STYLE, "deny"),
    }
}
