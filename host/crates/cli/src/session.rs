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
use rind_lib::paths::Paths;
use rind_lib::prompt::ledger;
use rind_lib::session::{Body, Entry, SessionStore};

pub(super) async fn session(command: Option<SessionCommand>) -> anyhow::Result<ExitStatus> {
    let paths = environment::find_paths(None)?;
    // `rind session` alone lists the sessions. With a person at a terminal, it was replaced by
    // `rind chat --resume` before the arguments were parsed.
    let Some(command) = command else {
        return list::list(&paths, &SessionListArgs::default());
    };
    match command {
        SessionCommand::List(args) => list::list(&paths, &args),
        SessionCommand::Show(args) => show::show(&paths, &args),
        SessionCommand::Entries(args) => entries::print_entries(&paths, &args).await,
        SessionCommand::Diff(args) => diff::diff(&paths, &args),
        SessionCommand::Search(args) => search::search(&paths, &args),
        SessionCommand::Export(args) => export::export(&paths, &args),
        SessionCommand::Import(args) => own::import(&paths, &args),
        SessionCommand::Fork(args) => own::fork(&paths, &args),
        SessionCommand::Rename(args) => own::rename(&paths, &args),
        SessionCommand::Rm(args) => own::rm(&paths, &args).await,
        SessionCommand::Gc(args) => own::gc(&paths, &args),
        SessionCommand::Doctor(args) => examine::doctor(&paths, &args),
        SessionCommand::Prompt(args) => show_prompt(&paths, &args),
        SessionCommand::Audit(args) => audit::run_audit(&args),
    }
}

fn show_prompt(paths: &Paths, args: &SessionPromptArgs) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_any(&args.session, &paths.workspace)?;
    let (entries, notices) = store.read(&id)?;
    notices
        .iter()
        .for_each(|notice| render::print_warning(notice));
    if args.text {
        return print_sent(&store, &id, &entries, args);
    }
    let turns = ledger::turn_ledgers(&entries);
    if args.json {
        render::print_json(&serde_json::json!({"session": id, "turns": turns}))?;
    } else {
        render::session::print_prompt(&id, &turns);
    }
    Ok(ExitStatus::Done)
}

/// Prints the exact text of the last system prompt, or of the prompt of the turn in `args`, as JSON
/// with the hash of each block.
fn print_sent(
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
            "session {id} does not contain the text of that prompt; `rind session prompt {id}` shows its parts"
        );
    };
    if args.json {
        let mut blocks = Vec::new();
        for hash in names {
            let text = store.read_text(id, hash)?;
            blocks.push(serde_json::json!({"hash": hash, "text": text}));
        }
        let whole =
            serde_json::json!({"session": id, "turn": wanted.unwrap_or(turn), "blocks": blocks});
        render::print_json(&whole)?;
        return Ok(ExitStatus::Done);
    }
    for name in names {
        let text = store.read_text(id, name)?;
        render::answer_line(render::printable_prose(text.trim_end()));
        render::answer_line("");
    }
    Ok(ExitStatus::Done)
}
