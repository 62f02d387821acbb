//! Prints the tools that the model may call.

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, PLUGIN_NAME_STYLE, SUCCESS_STYLE, WARNING_STYLE,
    escape_natural_language_text, print_stdout_line, print_to_stdout, style_text,
    truncate_to_one_line,
};
use crate::tools::DescribedTool;
use rind_lib::tool::policy::Rule;

/// Maximum length of a description in a list, in characters.
const MAX_TOOL_DESCRIPTION_CHARS: usize = 100;

pub(in super::super) fn print_tools(tools: &[DescribedTool]) {
    for tool in tools {
        print_stdout_line(format_tool_heading(tool));
        print_stdout_line(format_args!(
            "  {}",
            truncate_to_one_line(&tool.spec.description, MAX_TOOL_DESCRIPTION_CHARS)
        ));
    }
}

pub(in super::super) fn print_tool(tool: &DescribedTool) -> anyhow::Result<()> {
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
        escape_natural_language_text(&tool.spec.description)
    ));
    super::print_json(&tool.spec.parameters)
}

fn format_tool_heading(tool: &DescribedTool) -> String {
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

fn rule_display_name(decision: Rule) -> String {
    match decision {
        Rule::Allow => style_text(SUCCESS_STYLE, "allow"),
        Rule::Ask => style_text(WARNING_STYLE, "ask"),
        Rule::Deny => style_text(ERROR_STYLE, "deny"),
    }
}
