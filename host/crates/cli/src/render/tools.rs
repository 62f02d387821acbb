//! Prints the tools that the model may call.

use super::{
    BAD, BOLD, DIM, GOOD, PLUGIN, WARN, answer_line, one_line, print_answer, printable_prose,
    style_text,
};
use crate::tools::DescribedTool;
use rind_lib::tool::policy::Rule;

/// Maximum length of a description in a list, in characters.
const WIDTH: usize = 100;

pub(in super::super) fn list_tools(tools: &[DescribedTool]) {
    for tool in tools {
        answer_line(format_tool_heading(tool));
        answer_line(format_args!(
            "  {}",
            one_line(&tool.spec.description, WIDTH)
        ));
    }
}

pub(in super::super) fn print_tool(tool: &DescribedTool) -> anyhow::Result<()> {
    answer_line(format_tool_heading(tool));
    for rule in &tool.policy.narrower {
        answer_line(format_args!(
            "  {}: {}",
            rule_display_name(rule.decision),
            rule.rule
        ));
    }
    print_answer(format_args!(
        "\n{}\n\n",
        printable_prose(&tool.spec.description)
    ));
    super::print_json(&tool.spec.parameters)
}

fn format_tool_heading(tool: &DescribedTool) -> String {
    let spec = &tool.spec;
    let origin = match &spec.plugin {
        Some(plugin) => style_text(PLUGIN, one_line(plugin, WIDTH)),
        None => style_text(DIM, "built in"),
    };
    let policy = &tool.policy;
    let some = match policy.narrower.len() {
        0 => String::new(),
        n => format!(
            "; {} for some of its calls",
            super::format_count(n as u64, "rule")
        ),
    };
    format!(
        "{} {} {origin}  {} {}",
        style_text(BOLD, one_line(&spec.name, WIDTH)),
        style_text(DIM, format_args!("({})", spec.effect_class)),
        rule_display_name(policy.decision),
        style_text(DIM, format_args!("by {}{some}", policy.by)),
    )
}

fn rule_display_name(decision: Rule) -> String {
    match decision {
        Rule::Allow => style_text(GOOD, "allow"),
        Rule::Ask => style_text(WARN, "ask"),
        Rule::Deny => style_text(BAD, "deny"),
    }
}
