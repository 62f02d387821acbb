//! `rind session`: shows, searches, moves and repairs the records of earlier turns, outside a turn.
//!
//! Read-only commands take no lock, so the session may be in use meanwhile. The library reads and
//! writes the sessions; this module has the arguments and the output.

pub(super) mod args;
mod diff;
mod entries;
mod examine;
mod export;
mod list;
mod own;
mod search;
mod selection;
mod show;
mod turns;

use args::SessionListArgs;

use super::args::{SessionCommand, SessionPromptArgs};
use super::exit_code::{ExitStatus, bail_usage};
use super::{audit, environment, render};
use rind_lib::paths::RindPaths;
use rind_lib::prompt::ledger;
use rind_lib::session::{Body, Entry, SessionStore};

pub(super) async fn run_session(command: Option<SessionCommand>) -> anyhow::Result<ExitStatus> {
    let paths = environment::find_rind_paths(None)?;
    // `rind session` alone lists the sessions. With a person at a terminal, it was replaced by
    // `rind chat --resume` before the arguments were parsed.
    let Some(command) = command else {
        return list::list_sessions(&paths, &SessionListArgs::default());
    };
    match command {
        SessionCommand::List(args) => list::list_sessions(&paths, &args),
        SessionCommand::Show(args) => show::show_session(&paths, &args),
        SessionCommand::Entries(args) => entries::print_entries(&paths, &args).await,
        SessionCommand::Diff(args) => diff::show_turn_diff(&paths, &args),
        SessionCommand::Search(args) => search::run_session_search(&paths, &args),
        SessionCommand::Export(args) => export::write_session_export(&paths, &args),
        SessionCommand::Import(args) => own::import_session_file(&paths, &args),
        SessionCommand::Fork(args) => own::fork_session(&paths, &args),
        SessionCommand::Rename(args) => own::rename_session(&paths, &args),
        SessionCommand::Rm(args) => own::remove_named_sessions(&paths, &args).await,
        SessionCommand::Gc(args) => own::remove_old_sessions(&paths, &args),
        SessionCommand::Doctor(args) => examine::run_session_doctor(&paths, &args),
        SessionCommand::Prompt(args) => show_system_prompt(&paths, &args),
        SessionCommand::Audit(args) => audit::run_audit(&args),
    }
}

fn show_system_prompt(paths: &RindPaths, args: &SessionPromptArgs) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_session_or_subagent_id(&args.session, &paths.workspace)?;
    let (entries, notices) = store.read_entries(&id)?;
    notices
        .iter()
        .for_each(|notice| render::print_warning(notice));
    if args.text {
        return print_sent_system_prompt_json(&store, &id, &entries, args);
    }
    let turns = ledger::build_turn_prompt_reports(&entries);
    if args.json {
        render::print_json(&serde_json::json!({"session": id, "turns": turns}))?;
    } else {
        render::session::print_system_prompt_ledger(&id, &turns);
    }
    Ok(ExitStatus::Done)
}

/// Prints the exact text of the last system prompt, or of the prompt of the turn in `args`, as JSON
/// with the hash of each block.
fn print_sent_system_prompt_json(
    store: &SessionStore,
    id: &str,
    entries: &[Entry],
    args: &SessionPromptArgs,
) -> anyhow::Result<ExitStatus> {
    let wanted = args.turn;
    let (mut turn, mut sent) = (0, None);
    for entry in entries {
        match &entry.body {
            Body::TurnStart { turn: started, .. } if wanted.is_some_and(|n| n < *started) => break,
            Body::TurnStart { turn: started, .. } => turn = *started,
            Body::Prompt { sent: names, .. } => sent = Some(names),
            _ => {}
        }
    }
    if let Some(missing) = wanted.filter(|wanted| *wanted > turn) {
        bail_usage!("session {id} has no turn {missing}; its last one is {turn}");
    }
    let Some(names) = sent.filter(|names| !names.is_empty()) else {
        bail_usage!(
            "session {id} does not contain the text of that system prompt; `rind session prompt {id}` lists the parts of its prompts"
        );
    };
    if args.json {
        let mut blocks = Vec::new();
        for hash in names {
            let text = store.read_text_blob(id, hash)?;
            blocks.push(serde_json::json!({"hash": hash, "text": text}));
        }
        let whole =
            serde_json::json!({"session": id, "turn": wanted.unwrap_or(turn), "blocks": blocks});
        render::print_json(&whole)?;
        return Ok(ExitStatus::Done);
    }
    for name in names {
        let text = store.read_text_blob(id, name)?;
        render::print_stdout_line(render::escape_prose_for_display(text.trim_end()));
        render::print_stdout_line("");
    }
    Ok(ExitStatus::Done)
}
