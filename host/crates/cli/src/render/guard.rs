//! Shows what happens when Rind guards other agents: the changes to their settings, whether a guard
//! is installed, and the results of its test.

use std::path::Path;

use super::{
    BOLD_STYLE, DIM_STYLE, ERROR_STYLE, SUCCESS_STYLE, WARNING_STYLE, print_note,
    print_stdout_line, printable_text, style_text, truncate_to_one_line,
};
use crate::guard::{AgentGuardStatus, EffectiveAndInertHookPoints};
use crate::render::migrate::print_file_diff;
use rind_guard::{
    AgentHookCapabilities, AgentHookEffect, AgentReactionToHookAnswer, FileChange,
    GuardInstallState, GuardedAgent, HookPointRow,
};

/// Maximum length of a text on a line, in characters.
const MAX_LINE_TEXT_CHARS: usize = 400;

/// Shows the change of a file as a diff, or that the file is removed.
pub(in super::super) fn print_file_change_diff(change: &FileChange) {
    let (before, after) = (
        change.before.as_deref().unwrap_or_default(),
        change.after.as_deref().unwrap_or_default(),
    );
    if change.after.is_none() {
        let path = printable_text(&change.path.display().to_string());
        print_stdout_line(format_args!(
            "{} {}",
            style_text(ERROR_STYLE, "removes"),
            style_text(BOLD_STYLE, path)
        ));
        return;
    }
    print_file_diff(&change.path, before, after);
}

/// Prints the location of the copy of a changed file's old text.
pub(in super::super) fn print_backup_location(path: &Path, copy: &Path) {
    print_note(&format!(
        "a copy of the old {} is in {}",
        path.display(),
        copy.display()
    ));
}

/// Reports that a guard is installed, what the agent does if the guard's hook fails, and which
/// actions of the agent the guard does not see.
pub(in super::super) fn print_guard_installed_report(table: &AgentHookCapabilities) {
    print_stdout_line(format_args!(
        "{} the guard for {} is installed",
        style_text(SUCCESS_STYLE, "✓"),
        table.title
    ));
    print_hook_failure_behavior(table);
}

fn print_hook_failure_behavior(table: &AgentHookCapabilities) {
    let line = |name: &str, text: &str| {
        print_stdout_line(format_args!("  {} {text}", style_text(DIM_STYLE, name)));
    };
    line("when the hook fails:", table.on_failure);
    line("so:", table.remedy);
    for gap in table.gaps {
        line("open:", gap);
    }
}

/// Shows the state and the abilities of a guard; with `is_long` also for a guard that is not
/// installed, and the commands of its hooks.
pub(in super::super) fn print_status(status: &AgentGuardStatus, is_long: bool) {
    let AgentGuardStatus {
        state,
        table,
        plugins,
        hooks,
    } = status;
    let (mark, text) = match state {
        GuardInstallState::Absent => (style_text(DIM_STYLE, "-"), "not installed".to_owned()),
        GuardInstallState::Installed => (style_text(SUCCESS_STYLE, "✓"), "installed".to_owned()),
        GuardInstallState::Differs(why) => (
            style_text(WARNING_STYLE, "▲"),
            truncate_to_one_line(why, MAX_LINE_TEXT_CHARS),
        ),
    };
    let name = style_text(BOLD_STYLE, table.agent.name());
    print_stdout_line(format_args!("{mark} {name}: {text}"));
    if *state == GuardInstallState::Absent && !is_long {
        return;
    }
    for row in table.points {
        print_hook_point_abilities(row);
    }
    for hook in hooks.iter().filter(|_| is_long) {
        let command = truncate_to_one_line(&hook.command, MAX_LINE_TEXT_CHARS);
        print_stdout_line(format_args!(
            "  {} {command}",
            style_text(DIM_STYLE, format_args!("{} runs", hook.event))
        ));
    }
    print_hook_failure_behavior(table);
    for cover in plugins {
        print_plugin_coverage_row(cover);
    }
}

fn print_hook_point_abilities(row: &HookPointRow) {
    let can: Vec<&str> = row
        .can
        .iter()
        .map(|ability| AgentHookEffect::short_label(*ability))
        .collect();
    let can = match can.is_empty() {
        true => "look on".to_owned(),
        false => can.join(", "),
    };
    print_stdout_line(format_args!(
        "  {:<11} {can} {}",
        row.point.name(),
        style_text(DIM_STYLE, row.events.join(", "))
    ));
}

fn print_plugin_coverage_row(cover: &EffectiveAndInertHookPoints) {
    let name = truncate_to_one_line(&cover.name, MAX_LINE_TEXT_CHARS);
    let judges = match cover.judges.is_empty() {
        true => "judges nothing".to_owned(),
        false => format!("judges at {}", cover.judges.join(", ")),
    };
    let inert = match cover.inert.is_empty() {
        true => String::new(),
        false => format!("; inert: {}", cover.inert.join(", ")),
    };
    print_stdout_line(format_args!(
        "  {} {judges}{}",
        style_text(DIM_STYLE, name),
        style_text(DIM_STYLE, inert)
    ));
}

/// Prints whether the daemon runs, and the path of its log.
pub(in super::super) fn print_daemon_state(is_running: bool, log: &Path) {
    let log = log.display();
    print_note(&match is_running {
        true => format!("the daemon runs; its log is {log}"),
        false => format!("the daemon does not run; the first call starts it, and its log is {log}"),
    });
}

/// Shows what the agent would do with a test call according to its hook, and whether that was
/// expected.
pub(in super::super) fn print_probe_outcome(
    call: &str,
    outcome: &AgentReactionToHookAnswer,
    is_good: bool,
) {
    let mark = match is_good {
        true => style_text(SUCCESS_STYLE, "✓"),
        false => style_text(ERROR_STYLE, "✗"),
    };
    let (words, why) = match outcome {
        AgentReactionToHookAnswer::Refused(why) => ("refused", why.as_str()),
        AgentReactionToHookAnswer::Asked(question) => ("asked", question.as_str()),
        AgentReactionToHookAnswer::Passed => ("let through", ""),
        AgentReactionToHookAnswer::Open(why) => {
            ("would run, because the hook failed", why.as_str())
        }
    };
    let why = match why.is_empty() {
        true => String::new(),
        false => format!(": {}", truncate_to_one_line(why, MAX_LINE_TEXT_CHARS)),
    };
    print_stdout_line(format_args!(
        "{mark} `{call}` {words}{}",
        style_text(DIM_STYLE, why)
    ));
}

/// Shows for each agent with a guard at which points a plugin's hooks take effect.
pub(in super::super) fn print_effective_and_inert_hook_points(
    covers: &[(GuardedAgent, EffectiveAndInertHookPoints)],
) {
    for (agent, cover) in covers {
        let part = |words: &str, points: &[String]| match points.is_empty() {
            true => None,
            false => Some(format!("{words} {}", points.join(", "))),
        };
        let parts = [
            part("judges at", &cover.judges),
            part("inert:", &cover.inert),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        print_stdout_line(format_args!(
            "{} {}: {}",
            style_text(DIM_STYLE, format_args!("{:<13}", "under")),
            agent.name(),
            parts.join("; ")
        ));
    }
}
