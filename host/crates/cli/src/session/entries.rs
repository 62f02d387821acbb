//! `rind session entries`: prints the entries of a session as numbered JSON lines, after a given
//! number; with `--follow` also those that another process appends later.

use serde::Serialize;

use super::super::exit_code::ExitStatus;
use super::super::files::FILE_CHANGE_POLL_INTERVAL;
use super::super::render;
use super::args::SessionEntriesArgs;
use rind_lib::paths::RindPaths;
use rind_lib::session::{Entry, NumberedEntriesAndNotices, SessionStore};

/// Entry of a session with its line number, as it is printed in JSON.
#[derive(Serialize)]
struct NumberedEntry<'a> {
    /// Line number in the session, from 1. Unreadable lines count too, but are not printed.
    n: u64,
    #[serde(flatten)]
    entry: &'a Entry,
}

pub(super) async fn print_entries(
    paths: &RindPaths,
    args: &SessionEntriesArgs,
) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_session_or_subagent_id(&args.session, &paths.workspace)?;
    if !args.follow {
        print_session_entries_after_line(&store.read_entries_with_line_numbers(&id)?, args.after)?;
        return Ok(ExitStatus::Done);
    }
    let mut tail = store.open_session_tail_reader(&id)?;
    let interrupt = tokio::signal::ctrl_c();
    tokio::pin!(interrupt);
    loop {
        print_session_entries_after_line(&tail.read_more()?, args.after)?;
        // Stop if the reader of the output is gone: `--follow` would otherwise run forever.
        if render::is_output_reader_gone() || render::first_output_write_error().is_some() {
            return Ok(ExitStatus::Done);
        }
        tokio::select! {
            biased;
            _ = &mut interrupt => return Ok(ExitStatus::Interrupted),
            () = tokio::time::sleep(FILE_CHANGE_POLL_INTERVAL) => {}
        }
    }
}

fn print_session_entries_after_line(
    reading: &NumberedEntriesAndNotices,
    after: u64,
) -> anyhow::Result<()> {
    reading
        .notices
        .iter()
        .for_each(|notice| render::print_warning(notice));
    for own in reading.entries.iter().filter(|own| own.line > after) {
        let (n, entry) = (own.line, &own.entry);
        let line = serde_json::to_string(&NumberedEntry { n, entry })?;
        render::print_json_to_stdout(&(line + "\n"));
    }
    Ok(())
}
