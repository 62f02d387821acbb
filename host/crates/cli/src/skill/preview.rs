//! Previews skills before they are installed: their restrictions, the approvals that they request,
//! and their files.

use std::path::Path;

use super::super::question::{QuestionScreenContent, TerminalQuestionLine, parse_yes_or_no};
use super::super::render::{self, BOLD_STYLE, DIM_STYLE, ERROR_STYLE, WARNING_STYLE};
use super::super::terminal::{self, TerminalSize};
use super::install::PreparedSkillInstall;
use rind_lib::skill::{
    Severity, SkillExecutionContext, SkillLifetime, SkillRequirements, SkillToolNamePattern,
    is_skipped_folder_name, normalize_skill_name,
};
use rind_package::skill::SkillInstallResult;

/// Width of the preview if standard error is not a terminal: wide enough that no line wraps.
const NON_TERMINAL_PREVIEW_COLUMNS: usize = 100_000;

/// Maximum number of file names in one line of the preview.
const MAX_FILE_NAMES_PER_LINE: usize = 30;

/// File name extensions that mark files as programs in the preview of a skill.
const EXECUTABLE_FILE_EXTENSIONS: [&str; 18] = [
    "bash", "bat", "cmd", "dll", "dylib", "exe", "fish", "js", "mjs", "php", "pl", "ps1", "py",
    "pyc", "rb", "sh", "so", "ts",
];

pub(super) fn build_skill_install_preview_screen(
    all: &[PreparedSkillInstall],
    skills: &Path,
) -> QuestionScreenContent {
    let changes: Vec<&PreparedSkillInstall> = all
        .iter()
        .filter(|one| one.change != SkillInstallResult::Unchanged)
        .collect();
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text(&format!(
            "install {} into ",
            render::format_count_with_noun(changes.len() as u64, "skill")
        ))
        .with_escaped_text(BOLD_STYLE, &skills.display().to_string());
    let mut parts = vec![vec![head]];
    parts.extend(changes.into_iter().map(skill_install_preview_lines));
    QuestionScreenContent {
        parts,
        covers: vec![TerminalQuestionLine::new("  ").with_styled_text(
            DIM_STYLE,
            "a skill is text that the model follows; nothing in it runs by itself, and its commands ask like all others, except those listed as skipping questions",
        )],
        keys: "[y]es or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    }
}

/// Asks whether to install the skill; returns `true` only for the answer yes.
pub(super) async fn confirm_preview(screen: &QuestionScreenContent) -> bool {
    screen.ask_approval(parse_yes_or_no, |yes| !yes).await == Some(true)
}

/// Prints that another `rind skill` command must end first.
pub(super) fn print_skill_lock_wait_notice() {
    render::print_note("waiting for another `rind skill` command to end");
}

/// Prints the preview of a skill without asking whether to install it.
pub(super) fn print_skill_install_preview(screen: &QuestionScreenContent) {
    let columns =
        terminal::terminal_columns(std::io::stderr()).unwrap_or(NON_TERMINAL_PREVIEW_COLUMNS);
    let rows = screen.build_all_rows(TerminalSize { columns, rows: 0 });
    rows.iter().for_each(render::print_stderr_line);
}

fn skill_install_preview_lines(one: &PreparedSkillInstall) -> Vec<TerminalQuestionLine> {
    let PreparedSkillInstall { skill, bundle, .. } = one;
    let mut lines = vec![
        TerminalQuestionLine::new("  ")
            .with_escaped_text(BOLD_STYLE, &one.name)
            .with_text(" from ")
            .with_escaped_text(DIM_STYLE, &one.locked.display_origin()),
        TerminalQuestionLine::new("    ").with_escaped_text(DIM_STYLE, &skill.description),
    ];
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            lines.push(
                TerminalQuestionLine::new("    ")
                    .with_text(name)
                    .with_text(": ")
                    .with_escaped_text(BOLD_STYLE, &value),
            );
        }
    };
    // Show the skill's permissions, and the texts that steer the model, without truncating them.
    let patterns = |patterns: &[SkillToolNamePattern]| {
        let names: Vec<&str> = patterns.iter().map(SkillToolNamePattern::text).collect();
        names.join(", ")
    };
    row(
        "when to use it",
        skill.when_to_use.clone().unwrap_or_default(),
    );
    if normalize_skill_name(&skill.label) != normalize_skill_name(&one.name) {
        row("also called", skill.label.clone());
    }
    row(
        "who may start it",
        render::skills::describe_who_can_start_skill(skill).to_owned(),
    );
    if skill.context == SkillExecutionContext::Fork {
        row("runs", "in a subagent without the conversation".to_owned());
    }
    if skill.interaction == SkillLifetime::Conversational {
        row("stays", "until you end it".to_owned());
    }
    row("offered for files", skill.paths.join(", "));
    let SkillRequirements {
        bins,
        any_bins,
        env,
    } = &skill.requires;
    let one_of = any_bins.join(" or ");
    let needs = [bins.join(", "), one_of, env.join(", ")].into_iter();
    let needs: Vec<String> = needs.filter(|names| !names.is_empty()).collect();
    row("needs", needs.join("; "));
    if let Some(allow) = &skill.tools.allow {
        row(
            "only these tools",
            if allow.is_empty() {
                "none".to_owned()
            } else {
                patterns(allow)
            },
        );
    }
    row("not these tools", patterns(&skill.tools.deny));
    let effects: Vec<String> = skill.side_effects.iter().map(ToString::to_string).collect();
    row("side effects", effects.join(", "));
    for spare in &skill.spares {
        row("wants to skip questions about", spare.to_string());
    }
    row("depends on plugins", skill.library_depends.join(", "));
    if skill.attach {
        row(
            "tools of those plugins",
            "stay active when the skill ends".to_owned(),
        );
    }
    row("trust", skill.trust.to_string());
    let programs = bundle
        .files
        .iter()
        .filter(|(names, bytes)| is_executable_code_file(names, bytes));
    row(
        "scripts",
        join_names(programs.map(|(names, _)| names.join("/")).collect()),
    );
    let n_bytes: usize = bundle.files.values().map(Vec::len).sum();
    row(
        "files",
        format!(
            "{}, {}",
            bundle.files.len(),
            render::format_bytes(n_bytes as u64)
        ),
    );
    let left_out = bundle.left_out.iter().map(|(name, n)| match n {
        1 => name.clone(),
        n => format!("{name} ({n} files)"),
    });
    let mut left_out = join_names(left_out.collect());
    let mut names = bundle.left_out.keys();
    if names.any(|name| !is_skipped_folder_name(name.trim_end_matches('/'))) {
        left_out += " (--whole installs all except hidden ones)";
    }
    row("left out", left_out);
    for file in &one.shadows {
        row("takes the place of", file.display().to_string());
    }
    if one.change == SkillInstallResult::Forced {
        row(
            "moves to .kept",
            "the existing skill, which you wrote or changed".to_owned(),
        );
    }
    for finding in &one.findings {
        let (style, mark) = match finding.severity {
            Severity::Error => (ERROR_STYLE, "✗ "),
            Severity::Warning => (WARNING_STYLE, "▲ "),
            Severity::Note => (DIM_STYLE, "· "),
        };
        let text = format!("{}:{finding}", bundle.file);
        lines.push(
            TerminalQuestionLine::new("    ")
                .with_styled_text(style, mark)
                .with_escaped_text(style, &text),
        );
    }
    lines
}

fn join_names(mut names: Vec<String>) -> String {
    let n_more = names.len().saturating_sub(MAX_FILE_NAMES_PER_LINE);
    names.truncate(MAX_FILE_NAMES_PER_LINE);
    let more = if n_more > 0 {
        format!(" and {n_more} more")
    } else {
        String::new()
    };
    names.join(", ") + &more
}

/// Whether a file is executable code, judged by its folder, extension or first bytes.
fn is_executable_code_file(names: &[String], bytes: &[u8]) -> bool {
    let last = names.last().map(String::as_str).unwrap_or_default();
    let ending = last
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_ascii_lowercase());
    (names.len() > 1 && names.first().is_some_and(|first| first == "scripts"))
        || ending.is_some_and(|ending| EXECUTABLE_FILE_EXTENSIONS.contains(&ending.as_str()))
        || bytes.starts_with(b"#!")
        || bytes.starts_with(b"\x7fELF")
        || bytes.starts_with(b"MZ")
}
