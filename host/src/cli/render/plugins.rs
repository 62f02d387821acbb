//! Plugins as lists and reports.

use super::{BAD, BOLD, DIM, GOOD, WARN, answer_line, bytes, printable, say, styled};
use crate::plugin::inspect::Report;
use crate::plugin::load::{LeftOut, Why};

/// One line for a plugin that runs.
pub(in super::super) fn row(report: &Report) {
    let mut parts: Vec<&str> = report.hooks.iter().map(|hook| hook.point.as_str()).collect();
    let tools: Vec<String> = report.tools.iter().map(|tool| format!("{}()", tool.name)).collect();
    parts.extend(tools.iter().map(String::as_str));
    answer_line(format_args!(
        "{} {:<22} {:<8} {:<8} {}",
        styled(GOOD, "✓"),
        styled(BOLD, format_args!("{:<22}", report.name)).trim_end(),
        report.version,
        report.trust,
        styled(DIM, parts.join(", ")),
    ));
}

/// One line, and why, for a plugin that does not run.
pub(in super::super) fn left_out(left: &LeftOut) {
    let (mark, why) = reason(left);
    answer_line(format_args!("{mark} {} {:<8} {}", styled(BOLD, format_args!("{:<22}", printable(&left.name))), left.found.trust, printable(&why)));
}

/// The same on standard error, for a turn that goes on without it.
pub(in super::super) fn warn_left_out(left: &LeftOut) {
    if let Why::Failed(error) = &left.why {
        say(format_args!("{} plugin {} is left out: {}", styled(WARN, "▲"), styled(BOLD, printable(&left.name)), printable(&error.to_string())));
    }
}

fn reason(left: &LeftOut) -> (String, String) {
    match &left.why {
        Why::Failed(error) => (styled(BAD, "✗"), error.to_string()),
        Why::Shadowed { by } => (styled(WARN, "○"), format!("shadowed by {}", by.display())),
        Why::Disabled => (styled(DIM, "○"), "disabled in config.toml".to_owned()),
    }
}

/// Everything about a plugin.
pub(in super::super) fn report(report: &Report) {
    let line = |name: &str, value: String| answer_line(format_args!("{} {value}", styled(DIM, format_args!("{name:<13}"))));
    answer_line(format_args!("{} {}", styled(BOLD, &report.name), report.version));
    answer_line(printable(&report.description));
    line("trust", report.trust.to_string());
    line("folder", report.folder.clone());
    line("digest", or_none(&report.digest));
    let effects: Vec<String> = report.side_effects.iter().map(ToString::to_string).collect();
    line("side effects", or_none(&effects.join(", ")));
    for hook in &report.hooks {
        let wait = if hook.is_async { ", async" } else { "" };
        let failure = match hook.on_failure {
            crate::point::failure::OnFailure::Block => "blocks when it fails",
            crate::point::failure::OnFailure::Skip => "is skipped when it fails",
        };
        line("hook", format!("{:<24} {:<8} priority {}, {} ms, {failure}{wait}", hook.point, hook.kind, hook.priority, hook.deadline_ms));
    }
    for tool in &report.tools {
        line("tool", format!("{:<24} {:<8} {}", tool.name, tool.effect_class, printable(&tool.description)));
    }
    for name in &report.other_exports {
        line("exports", name.clone());
    }
    for name in &report.points {
        line("defines", format!("{}.{name}", report.name));
    }
    for name in &report.implements {
        line("implements", name.clone());
    }
    for import in &report.imports {
        line("import", format!("{:<40} {}", import.interface, styled(DIM, import.gives)));
    }
    line("memory", format!("at most {}", bytes(report.memory_limit)));
    let from = if report.was_cached { "from the cache" } else { "compiled" };
    line("loaded in", format!("{:.1} ms, {from}", report.load_ms));
}

fn or_none(text: &str) -> String {
    if text.is_empty() { "none".to_owned() } else { text.to_owned() }
}
