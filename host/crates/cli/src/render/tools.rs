//! Tools that the model may call.

use super::{BAD, BOLD, DIM, GOOD, PLUGIN, WARN, answer, answer_line, one_line, prose, styled};
use crate::tools::Described;
use rind_lib::tool::policy::Rule;

/// Longest description in a list, in characters.
const WIDTH: usize = 100;

pub(in super::super) fn list(tools: &[Described]) {
    for tool in tools {
        answer_line(head(tool));
        answer_line(format_args!(
            "  {}",
            one_line(&tool.spec.description, WIDTH)
        ));
    }
}

pub(in super::super) fn one(tool: &Described) -> anyhow::Result<()> {
    answer_line(head(tool));
    for rule in &tool.policy.narrower {
        answer_line(format_args!("  {}: {}", word(rule.decision), rule.rule));
    }
    answer(format_args!("\n{}\n\n", prose(&tool.spec.description)));
    super::json(&tool.spec.parameters)
}

fn head(tool: &Described) -> String {
    let spec = &tool.spec;
    let origin = match &spec.plugin {
        Some(plugin) => styled(PLUGIN, one_line(plugin, WIDTH)),
        None => styled(DIM, "built in"),
    };
    let policy = &tool.policy;
    let some = match policy.narrower.len() {
        0 => String::new(),
        n => format!("; {} on some of its calls", super::count(n as u64, "rule")),
    };
    format!(
        "{} {} {origin}  {} {}",
        styled(BOLD, one_line(&spec.name, WIDTH)),
        styled(DIM, format_args!("({})", spec.effect_class)),
        word(policy.decision),
        styled(DIM, format_args!("by {}{some}", policy.by)),
    )
}

fn word(decision: Rule) -> String {
    match decision {
        Rule::Allow => styled(GOOD, "allow"),
        Rule::Ask => styled(WARN, "ask"),
        Rule::Deny => styled(BAD, "deny"),
    }
}
