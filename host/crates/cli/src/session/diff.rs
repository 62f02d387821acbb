//! `rind session diff`: shows which files a turn changed.

use serde_json::json;

use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::render::changes::{FileChangeToShow, format_file_change_lines};
use super::super::render::{
    self, BOLD_STYLE, format_count_with_noun, print_stdout_line, style_text, truncate_to_one_line,
};
use super::args::SessionDiffArgs;
use rind_lib::checkpoint::{ChangeRecord, ChangeRecordOutcome, CheckpointReader};
use rind_lib::paths::RindPaths;
use rind_lib::session::SessionStore;

/// Maximum number of diff rows per file without `--full`.
const MAX_DIFF_ROWS_PER_FILE: usize = 200;

pub(super) fn show_turn_diff(
    paths: &RindPaths,
    args: &SessionDiffArgs,
) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_session_id_in_workspace(&args.session, &paths.workspace)?;
    let reader = CheckpointReader::open(&store.session_folder(&id)?)?;
    let turns = reader.turns_with_file_changes();
    let Some(turn) = args.turn.or(turns.last().copied()) else {
        if args.json {
            render::print_json(&json!({"session": id, "turn": null, "changes": [], "calls": []}))?;
        } else {
            render::print_note(&format!("no turn of session {id} changed a file"));
        }
        return Ok(ExitStatus::Done);
    };
    if args.turn.is_some() && !turns.contains(&turn) {
        let turns: Vec<String> = turns.iter().map(u32::to_string).collect();
        let words = match turns.is_empty() {
            true => "no turn did".to_owned(),
            false => format!("these turns did: {}", turns.join(", ")),
        };
        bail_usage!("no file is known to have changed in turn {turn} of session {id}; {words}");
    }
    let changes = reader.turn_changes(turn);
    if args.json {
        let calls: Vec<&ChangeRecord> = reader.records_of_turn(turn).collect();
        render::print_json(
            &json!({"session": id, "turn": turn, "changes": changes, "calls": calls}),
        )?;
        return Ok(ExitStatus::Done);
    }
    let head = format!(
        "session {id}, turn {turn}: {}",
        format_count_with_noun(changes.len() as u64, "change")
    );
    print_stdout_line(style_text(BOLD_STYLE, head));
    let most = if args.full {
        usize::MAX
    } else {
        MAX_DIFF_ROWS_PER_FILE
    };
    for change in &changes {
        let shown = FileChangeToShow {
            path: &change.path,
            from: &change.before,
            to: &change.after,
            contents: [&change.before, &change.after].map(|state| reader.file_content(state)),
        };
        for line in format_file_change_lines(&shown, most) {
            print_stdout_line(style_text(line.style, line.text));
        }
    }
    reader
        .records_of_turn(turn)
        .for_each(warn_about_uncertain_file_changes);
    Ok(ExitStatus::Done)
}

/// Warns if the file changes of a tool call are unknown, incomplete, or possibly those of another
/// program.
fn warn_about_uncertain_file_changes(record: &ChangeRecord) {
    let tool = truncate_to_one_line(&record.tool, 64);
    if let Some(why) = &record.unknown {
        render::print_warning(&format!("the changes of {tool} are unknown: {why}"));
    }
    for left_out in &record.left_out {
        render::print_note(&format!(
            "no copy of {} was saved before the call of {tool}: {}",
            format_count_with_noun(left_out.count as u64, "file"),
            left_out.why.describe_reason()
        ));
    }
    match record.end {
        None => render::print_warning(&format!("{tool} has not ended, or was interrupted")),
        Some(ChangeRecordOutcome::Interrupted) => render::print_warning(&format!(
            "{tool} was interrupted: another program may have made some of these changes"
        )),
        Some(ChangeRecordOutcome::Done | ChangeRecordOutcome::Void) => {}
    }
}
