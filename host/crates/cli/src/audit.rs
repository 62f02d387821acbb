//! `rind session audit`: shows the audit log of a session, and whether the log was tampered with.

mod left;
mod texts;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use rind_audit::{Checked, Head, Line};

use super::args::AuditArgs;
use super::exit_code::{ExitStatus, bail_usage};
use super::{environment, render};
pub(super) use left::OrphanedAuditLogs;
use rind_lib::grant::Trust;
use rind_lib::paths::RindPaths;
use rind_lib::plugin::discover::FoundPlugin;
use rind_lib::plugin::store::{plugin_data_folder, plugin_own_folder};
use rind_lib::session::{Body, Entry, SessionStore};

/// Maximum number of gaps in the audit log, and of texts that differ from the log, that are shown.
/// The same cause can produce one of them for every message.
const MAX_SHOWN_AUDIT_DISCREPANCIES: usize = 20;

const MAIN_AGENT: &str = "main";

pub(super) fn run_audit(args: &AuditArgs) -> anyhow::Result<ExitStatus> {
    let paths = environment::find_rind_paths(None)?;
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_session_or_subagent_id(&args.session, &paths.workspace)?;
    // Read the log of the parent session, which also records the subagents.
    let (id, agent) = match id.split_once('/') {
        Some((above, below)) => (above.to_owned(), below.rsplit('/').next()),
        None => (id.clone(), None),
    };
    let Some(mut checked) = read_and_verify_audit_log(&paths, &id)? else {
        bail_usage!(
            "session {id} has no audit log in {}; the plugin {} was not loaded when it ran",
            log_folder(&paths, &id).display(),
            rind_audit::PLUGIN
        );
    };
    let n_lines = checked.lines.len() as u64;
    let changed = match args.verify {
        true => texts::describe_hash_mismatches(&store.read_entries(&id)?.0, &checked.lines),
        false => Vec::new(),
    };
    let is_of = |line: &Line| agent.is_none_or(|agent| line.agent == agent);
    checked.lines.retain(is_of);
    if args.json {
        print_json(&checked, args.verify.then_some(&changed))?;
    } else {
        checked
            .lines
            .iter()
            .map(format_audit_log_line)
            .for_each(render::print_stdout_line);
        if let (Some(agent), true) = (agent, checked.lines.is_empty()) {
            render::print_note(&format!(
                "the log of session {id} has no line of the subagent {agent}; a subagent that only keeps an archived turn never has lines"
            ));
        }
        if args.verify {
            print_audit_result(&id, &checked, &changed, n_lines);
        }
    }
    Ok(ExitStatus::from_success_flag(
        !args.verify || (checked.is_whole() && changed.is_empty()),
    ))
}

/// Reads and checks the audit log of a session; `None` if there is no log and no record in the
/// session shows that there was one.
pub(super) fn read_and_verify_audit_log(
    paths: &RindPaths,
    session: &str,
) -> anyhow::Result<Option<Checked>> {
    let (entries, _) = SessionStore::new(paths.sessions()).read_entries(session)?;
    let files = read_log_files(&log_folder(paths, session))?;
    let head = find_last_recorded_audit_log_head(&entries);
    let is_kept = !files.is_empty() || head.is_some();
    let mut checked = rind_audit::check(session, &files, head.as_ref());
    checked.gaps = find_log_gaps(&entries, &checked.lines, is_kept);
    Ok((is_kept || !checked.gaps.is_empty()).then_some(checked))
}

/// Returns the gaps in the audit log: failures of the plugin audit-log that the host recorded, and
/// turns whose end the plugin did not log. `is_kept` tells whether there is a log.
fn find_log_gaps(entries: &[Entry], lines: &[Line], is_kept: bool) -> Vec<String> {
    let ended: BTreeSet<u32> = lines
        .iter()
        .filter(|line| line.kind() == "turn-end" && line.agent == MAIN_AGENT)
        .map(|line| line.turn)
        .collect();
    let mut gaps = Vec::new();
    for entry in entries {
        match &entry.body {
            // Ignore gaps from before a fork, because the log of the parent session covers that
            // time.
            Body::Forked { .. } => gaps.clear(),
            Body::AuditGap {
                agent,
                turn,
                point,
                reason,
                ..
            } => gaps.push(format!(
                "turn {turn} {agent}: the hook at {point} failed: {reason}"
            )),
            Body::TurnEnd { turn, .. } if is_kept && !ended.contains(turn) => {
                gaps.push(format!(
                    "turn {turn} {MAIN_AGENT}: the turn ended, but the audit log has no line about its end"
                ));
            }
            _ => {}
        }
    }
    gaps
}

/// Returns the folder in which the bundled plugin audit-log keeps the log of a session.
fn log_folder(paths: &RindPaths, session: &str) -> PathBuf {
    all_audit_logs_folder(paths).join(session)
}

/// Returns the folder that contains a log folder for each session.
fn all_audit_logs_folder(paths: &RindPaths) -> PathBuf {
    let managed = FoundPlugin {
        trust: Trust::Managed,
        folder: PathBuf::new(),
    };
    let own = plugin_own_folder(&paths.data.join("plugins"), rind_audit::PLUGIN, &managed);
    plugin_data_folder(&own)
}

/// Returns the files of a log in order, each with name and content; none if there is no log.
fn read_log_files(folder: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let reading = || format!("cannot read the audit log {}", folder.display());
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).with_context(reading),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.with_context(reading)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with(".jsonl") {
            files.push((name, std::fs::read(entry.path()).with_context(reading)?));
        }
    }
    files.sort();
    Ok(files)
}

/// Returns the number and hash of the log's last line that the session recorded.
fn find_last_recorded_audit_log_head(entries: &[Entry]) -> Option<Head> {
    let kept = entries.iter().rev().find_map(|entry| match &entry.body {
        Body::State {
            plugin, key, value, ..
        } if plugin == rind_audit::PLUGIN && key == rind_audit::HEAD_KEY => value.as_ref(),
        _ => None,
    });
    kept.and_then(|text| serde_json::from_str(text).ok())
}

/// Prints `{"lines": […]}`; if `changed` is set, also `"whole"`, `"broken"`, `"gaps"`, `"changed"`
/// and `"notes"`.
fn print_json(checked: &Checked, changed: Option<&Vec<String>>) -> anyhow::Result<()> {
    let Some(changed) = changed else {
        return render::print_json(&serde_json::json!({"lines": checked.lines}));
    };
    let mut value = serde_json::to_value(checked)?;
    value["whole"] = (checked.is_whole() && changed.is_empty()).into();
    value["changed"] = changed.as_slice().into();
    render::print_json(&value)
}

/// Formats a line of the log: number, time, turn and agent, event. Escapes line breaks, because a
/// model may call a tool whose name contains them.
fn format_audit_log_line(line: &Line) -> String {
    let time = i64::try_from(line.time)
        .ok()
        .and_then(|time| jiff::Timestamp::from_millisecond(time).ok())
        .map_or_else(|| line.time.to_string(), |time| format!("{time:.0}"));
    let mut said = String::new();
    for (key, value) in line.event.as_object().into_iter().flatten() {
        let text = rind_lib::json::format_value_for_display(value);
        match key.as_str() {
            "type" | "id" => {}
            "hash" | "arguments" | "expected" => {
                said += &format!(" {key}={}", text.get(..12).unwrap_or(&text));
            }
            _ => said += &format!(" {key}={text}"),
        }
    }
    let who = format!("turn {} {}", line.turn, line.agent);
    let what = format!("{time} {who} {}{said}", line.kind());
    format!(
        "{:>5} {}",
        line.n,
        render::truncate_to_one_line(&what, usize::MAX)
    )
}

fn print_audit_result(id: &str, checked: &Checked, changed: &[String], n_lines: u64) {
    checked
        .notes
        .iter()
        .for_each(|note| render::print_note(note));
    for gap in checked.gaps.iter().take(MAX_SHOWN_AUDIT_DISCREPANCIES) {
        render::print_warning(&format!(
            "a gap: {}",
            render::truncate_to_one_line(gap, usize::MAX)
        ));
    }
    for text in changed.iter().take(MAX_SHOWN_AUDIT_DISCREPANCIES) {
        render::print_warning(&format!(
            "changed: {}",
            render::truncate_to_one_line(text, usize::MAX)
        ));
    }
    match &checked.broken {
        None if !changed.is_empty() => render::print_warning(&format!(
            "the messages of session {id} differ from its audit log: {}",
            render::format_count_with_noun(changed.len() as u64, "difference")
        )),
        None if !checked.gaps.is_empty() => render::print_warning(&format!(
            "the audit log of session {id} is incomplete: {}",
            render::format_count_with_noun(checked.gaps.len() as u64, "gap")
        )),
        None => render::print_note(&format!(
            "the audit log of session {id} is complete: {}, and the messages match its hashes",
            render::format_count_with_noun(n_lines, "line")
        )),
        Some(why) => {
            render::print_warning(&format!("the audit log of session {id} is broken: {why}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_makes_a_row_of_its_own() {
        let line = Line {
            n: 7,
            time: 0,
            session: "s".to_owned(),
            turn: 1,
            agent: "main".to_owned(),
            event: serde_json::json!({"type": "call", "tool": "x\n    8 1970\u{1b}[2K"}),
            prev: String::new(),
        };
        assert_eq!(
            format_audit_log_line(&line),
            "    7 1970-01-01T00:00:00Z turn 1 main call tool=x 8 1970\\u{1b}[2K"
        );
    }
}
