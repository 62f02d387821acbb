//! `rind session show`: prints what happened in a session, turn by turn.

use anyhow::Context;

use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::render;
use super::args::SessionShowArgs;
use super::export::write_masked_text_export;
use super::{selection, turns};
use rind_lib::paths::RindPaths;
use rind_lib::session::{SessionStore, SessionView};

/// Maximum length of each shown text without `--full`, in bytes.
const MAX_SHOWN_TEXT_BYTES: usize = 4_000;

pub(super) fn show_session(
    paths: &RindPaths,
    args: &SessionShowArgs,
) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_session_or_subagent_id(&args.session, &paths.workspace)?;
    let reading = store.read_entries_with_line_numbers(&id)?;
    if let Some(line) = args.entry {
        let entry = reading.entries.iter().find(|own| own.line == line);
        let Some(entry) = entry else {
            bail_usage!(
                "session {id} has no readable entry on line {line}; the last one is on line {}",
                reading.entries.last().map_or(0, |own| own.line)
            );
        };
        let text =
            serde_json::to_string_pretty(&entry.entry).context("cannot write the entry as JSON")?;
        match args.json {
            true => render::print_json(&entry.entry)?,
            false => render::print_to_stdout(render::printable_text(&text) + "\n"),
        }
        return Ok(ExitStatus::Done);
    }
    let mut view = SessionView::new(&id, &reading);
    if let Some(wanted) = args.turn {
        let last = view.turns.last().map_or(0, |turn| turn.turn);
        view.turns.retain(|turn| turn.turn == wanted);
        if view.turns.is_empty() {
            bail_usage!("session {id} has no turn {wanted}; its last one is {last}");
        }
    }
    let held = std::mem::take(&mut view.turns);
    if let Some(wanted) = args.step {
        let last = held
            .iter()
            .map(selection::last_step_number)
            .max()
            .unwrap_or(0);
        let turns = held.into_iter();
        view.turns = turns
            .filter_map(|turn| selection::retain_only_step(turn, wanted))
            .collect();
        if view.turns.is_empty() {
            let turn = args.turn.unwrap_or_default();
            bail_usage!("turn {turn} of session {id} has no step {wanted}; its last one is {last}");
        }
    } else if let Some(wanted) = &args.call {
        let turns = held.into_iter();
        view.turns = turns
            .filter_map(|turn| selection::retain_only_tool_call(turn, wanted))
            .collect();
        if view.turns.is_empty() {
            bail_usage!(
                "session {id} has no tool call {wanted:?} there; `rind session show {id}` shows the ids of calls after the names of tools"
            );
        }
    } else {
        view.turns = held;
    }
    if args.json {
        render::print_json(&view)?;
        return Ok(ExitStatus::Done);
    }
    if let Some(file) = &args.html {
        write_masked_text_export(
            Some(file),
            &id,
            &rind_serve::render_session_page_file(&view),
        )?;
        return Ok(ExitStatus::Done);
    }
    view.notices
        .iter()
        .for_each(|notice| render::print_warning(notice));
    turns::print_session_header(&view);
    let limit = if args.full {
        usize::MAX
    } else {
        MAX_SHOWN_TEXT_BYTES
    };
    view.turns
        .iter()
        .for_each(|turn| turns::print_turn(turn, limit));
    Ok(ExitStatus::Done)
}
