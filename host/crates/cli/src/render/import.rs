//! Shows the plan of an import, and reports its result.

use std::path::Path;

use super::{
    BOLD_STYLE, DIM_STYLE, SUCCESS_STYLE, WARNING_STYLE, format_count_with_noun, print_stdout_line,
    printable_text, style_text, truncate_to_one_line,
};
use rind_import::{ImportPlan, ImportedFileKind, SettingNotImported};

/// Width of the column with names from the other agent, in characters.
const NAME_COLUMN_CHARS: usize = 34;

/// Maximum length of a name or text that is printed on a line, in characters.
const MAX_LINE_TEXT_CHARS: usize = 200;

/// Prints the plan: what is written, files that are used where they are, and what is lost.
pub(in super::super) fn print_import_plan(plan: &ImportPlan) {
    for path in &plan.read {
        print_stdout_line(style_text(
            DIM_STYLE,
            format_args!("read {}", display_path(path)),
        ));
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
    print_stdout_line(style_text(WARNING_STYLE, "not imported, or only in part"));
    for (why, losses) in group_import_losses_by_reason(plan) {
        for loss in losses {
            let place = format!(
                "{}: {}",
                display_path(&loss.path),
                truncate_to_one_line(&loss.what, MAX_LINE_TEXT_CHARS)
            );
            print_stdout_line(format_args!("  {place}"));
        }
        print_stdout_line(style_text(
            DIM_STYLE,
            format_args!("    {}", truncate_to_one_line(why, MAX_LINE_TEXT_CHARS)),
        ));
    }
}

/// Groups losses by reason. Lost denials come first, because calls that the other agent denied may
/// now run.
fn group_import_losses_by_reason(plan: &ImportPlan) -> Vec<(&str, Vec<&SettingNotImported>)> {
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
    print_stdout_line(style_text(BOLD_STYLE, head));
    for (name, text) in rows {
        let name = truncate_to_one_line(&name, MAX_LINE_TEXT_CHARS);
        print_stdout_line(match truncate_to_one_line(&text, MAX_LINE_TEXT_CHARS) {
            none if none.is_empty() => format!("  {name}"),
            text => format!(
                "  {name:<NAME_COLUMN_CHARS$} {}",
                style_text(DIM_STYLE, text)
            ),
        });
    }
}

/// Prints what the import has written, and the user's next step.
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
        .map(|(n, what)| format_count_with_noun(n as u64, what))
        .collect();
    print_stdout_line(format_args!(
        "{} wrote {} ({})",
        style_text(SUCCESS_STYLE, "✓"),
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
