//! Shows what happens when Rind guards other agents: the changes to their settings, whether a guard
//! is installed, and the results of its test.

use std::path::Path;

use super::{
    BAD, BOLD, DIM, GOOD, WARN, answer_line, one_line, print_note, printable_text, style_text,
};
use crate::guard::{AgentGuardStatus, PluginGuardCoverage};
use crate::render::migrate::print_file_diff;
use rind_guard::{
    AgentHookEffect, AgentHookTable, FileChange, GuardInstallState, GuardedAgent, HookPointRow,
    HookProbeOutcome,
};

/// Maximum length of a text on a line, in characters.
const TEXT: usize = 400;

/// Shows the change of a file as a diff, or that the file is removed.
pub(in super::super) fn show_change(change: &FileChange) {
    let (before, after) = (
        change.before.as_deref().unwrap_or_default(),
        change.after.as_deref().unwrap_or_default(),
    );
    if change.after.is_none() {
        let path = printable_text(&change.path.display().to_string());
        answer_line(format_args!(
            "{} {}",
            style_text(BAD, "removes"),
            style_text(BOLD, path)
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
pub(in super::super) fn print_installed_hooks(table: &AgentHookTable) {
    answer_line(format_args!(
        "{} the guard for {} is installed",
        style_text(GOOD, "✓"),
        table.title
    ));
    print_failure_behavior(table);
}

fn print_failure_behavior(table: &AgentHookTable) {
    let line = |name: &str, text: &str| {
        answer_line(format_args!("  {} {text}", style_text(DIM, name)));
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
        GuardInstallState::Absent => (style_text(DIM, "-"), "not installed".to_owned()),
        GuardInstallState::Installed => (style_text(GOOD, "✓"), "installed".to_owned()),
        GuardInstallState::Differs(why) => (style_text(WARN, "▲"), one_line(why, TEXT)),
    };
    let name = style_text(BOLD, table.agent.name());
    answer_line(format_args!("{mark} {name}: {text}"));
    if *state == GuardInstallState::Absent && !is_long {
        return;
    }
    for row in table.points {
        print_point_coverage(row);
    }
    for hook in hooks.iter().filter(|_| is_long) {
        let command = one_line(&hook.command, TEXT);
        answer_line(format_args!(
            "  {} {command}",
            style_text(DIM, format_args!("{} runs", hook.event))
        ));
    }
    print_failure_behavior(table);
    for cover in plugins {
        print_guard_coverage(cover);
    }
}

fn print_point_coverage(row: &HookPointRow) {
    let can: Vec<&str> = row
        .can
        .iter()
        .map(|ability| AgentHookEffect::ability_table_label(*ability))
        .collect();
    let can = match can.is_empty() {
        true => "look on".to_owned(),
        false => can.join(", "),
    };
    answer_line(format_args!(
        "  {:<11} {can} {}",
        row.point.name(),
        style_text(DIM, row.events.join(", "))
    ));
}

fn print_guard_coverage(cover: &PluginGuardCoverage) {
    let name = one_line(&cover.name, TEXT);
    let judges = match cover.judges.is_empty() {
        true => "judges nothing".to_owned(),
        false => format!("judges at {}", cover.judges.join(", ")),
    };
    let inert = match cover.inert.is_empty() {
        true => String::new(),
        false => format!("; inert: {}", cover.inert.join(", ")),
    };
    answer_line(format_args!(
        "  {} {judges}{}",
        style_text(DIM, name),
        style_text(DIM, inert)
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
pub(in super::super) fn print_probe_outcome(call: &str, outcome: &HookProbeOutcome, is_good: bool) {
    let mark = match is_good {
        true => style_text(GOOD, "✓"),
        false => style_text(BAD, "✗"),
    };
    let (words, why) = match outcome {
        HookProbeOutcome::Refused(why) => ("refused", why.as_str()),
        HookProbeOutcome::Asked(question) => ("asked", question.as_str()),
        HookProbeOutcome::Passed => ("let through", ""),
        HookProbeOutcome::Open(why) => ("would run, because the hook failed", why.as_str()),
    };
    let why = match why.is_empty() {
        true => String::new(),
        false => format!(": {}", one_line(why, TEXT)),
    };
    answer_line(format_args!(
        "{mark} `{call}` {words}{}",
        style_text(DIM, why)
    ));
}

/// Shows for each agent with a guard at which points a plugin's hooks take effect.
pub(in super::super) fn print_plugin_coverage(covers: &[(GuardedAgent, PluginGuardCoverage)]) {
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
        answer_line(format_args!(
            "{} {}: {}",
            style_text(DIM, format_args!("{:<13}", "under")),
            agent.name(),
            parts.join("; ")
        ));
    }
}
