//! Shows the plan of an import, and reports its result.

use std::path::Path;

use super::{
    BOLD, DIM, GOOD, WARN, answer_line, format_count, one_line, printable_text, style_text,
};
use rind_import::{ImportPlan, ImportedFileKind, SettingNotImported};

/// Width of the column with names from the other agent, in characters.
const NAME_COLUMN: usize = 34;

/// Maximum length of a name or text that is printed on a line, in characters.
const TEXT: usize = 200;

/// Prints the plan: what is written, files that are used where they are, and what is lost.
pub(in super::super) fn print_import_plan(plan: &ImportPlan) {
    for path in &plan.read {
        answer_line(style_text(DIM, format_args!("read {}", display_path(path))));
    }
    let rules = plan.rules.iter();
    print_import_plan_part(
        "rules for tool calls",
        rules.map(|rule| (rule.from.clone(), rule.rule.to_string())),
    );
    let servers = plan.servers.iter().map(|server| {
        let settings = &server.settings;
        let program = settings.command.iter().chain(&settings.args);
        let words: Vec<&str> = settings
            .url
            .iter()
            .chain(program)
            .map(String::as_str)
            .collect();
        (server.name.clone(), words.join(" "))
    });
    print_import_plan_part(
        "MCP servers, each asked about before its first use",
        servers,
    );
    let files = |kind: ImportedFileKind| {
        let own = plan.files.iter().filter(move |file| file.kind == kind);
        own.map(|file| (file.name.clone(), display_path(&file.from)))
    };
    print_import_plan_part("slash commands", files(ImportedFileKind::Template));
    print_import_plan_part("presets of subagents", files(ImportedFileKind::Preset));
    let hooks = plan
        .hooks
        .iter()
        .map(|path| (display_path(path), String::new()));
    print_import_plan_part(
        "hooks: programs that run at tool calls, as in the other agent",
        hooks,
    );
    let used = plan.used.iter();
    print_import_plan_part(
        "used where it is",
        used.map(|used| (display_path(&used.path), used.how.to_owned())),
    );
    if plan.losses.is_empty() {
        return;
    }
    answer_line(style_text(WARN, "not imported, or only in part"));
    for (why, losses) in losses_by_reason(plan) {
        for loss in losses {
            let place = format!(
                "{}: {}",
                display_path(&loss.path),
                one_line(&loss.what, TEXT)
            );
            answer_line(format_args!("  {place}"));
        }
        answer_line(style_text(DIM, format_args!("    {}", one_line(why, TEXT))));
    }
}

/// Groups losses by reason. Lost denials come first, because calls that the other agent denied may
/// now run.
fn losses_by_reason(plan: &ImportPlan) -> Vec<(&str, Vec<&SettingNotImported>)> {
    let (denials, others): (Vec<&SettingNotImported>, Vec<&SettingNotImported>) =
        plan.losses.iter().partition(|loss| loss.is_denial);
    let mut groups: Vec<(&str, Vec<&SettingNotImported>)> = Vec::new();
    for loss in denials.into_iter().chain(others) {
        let same = |(why, all): &&mut (&str, Vec<&SettingNotImported>)| {
            *why == loss.why
                && all
                    .first()
                    .is_some_and(|first| first.is_denial == loss.is_denial)
        };
        match groups.iter_mut().find(same) {
            Some((_, all)) => all.push(loss),
            None => groups.push((&loss.why, vec![loss])),
        }
    }
    groups
}

fn print_import_plan_part(head: &str, rows: impl Iterator<Item = (String, String)>) {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return;
    }
    answer_line(style_text(BOLD, head));
    for (name, text) in rows {
        let name = one_line(&name, TEXT);
        answer_line(match one_line(&text, TEXT) {
            none if none.is_empty() => format!("  {name}"),
            text => format!("  {name:<NAME_COLUMN$} {}", style_text(DIM, text)),
        });
    }
}

/// Prints what was written and the next step.
pub(in super::super) fn print_import_result(plan: &ImportPlan, settings: &Path) {
    let counts = [
        (plan.rules.len(), "rule"),
        (plan.servers.len(), "MCP server"),
        (plan.files.len(), "file"),
        (plan.hooks.len(), "list of hooks"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(n, _)| *n > 0)
        .map(|(n, what)| format_count(n as u64, what))
        .collect();
    answer_line(format_args!(
        "{} wrote {} ({})",
        style_text(GOOD, "✓"),
        counts.join(", "),
        display_path(settings)
    ));
    if let Some(server) = plan.servers.first() {
        super::print_note(&format!(
            "`rind mcp test {}` starts a server and asks about its tools",
            server.name
        ));
    }
}

fn display_path(path: &Path) -> String {
    printable_text(&path.display().to_string())
}
