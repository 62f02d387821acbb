//! `rind session entries`: the entries of a session as numbered JSON lines, from a number on.

use serde::Serialize;

use super::super::exit_code::ExitStatus;
use super::super::render;
use super::args::SessionEntriesArgs;
use rind_lib::paths::Paths;
use rind_lib::session::{Entry, SessionStore};

/// An entry with its number.
#[derive(Serialize)]
struct NumberedEntry<'a> {
    /// Number of the line, from 1. Lines that cannot be read have numbers too.
    n: u64,
    #[serde(flatten)]
    entry: &'a Entry,
}

pub(super) fn print_entries(
    paths: &Paths,
    args: &SessionEntriesArgs,
) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_any(&args.session, &paths.workspace)?;
    let reading = store.read_lines(&id)?;
    reading
        .notices
        .iter()
        .for_each(|notice| render::print_warning(notice));
    for own in reading.entries.iter().filter(|own| own.line > args.after) {
        let (n, entry) = (own.line, &own.entry);
        let line = serde_json::to_string(&NumberedEntry { n, entry })?;
        render::answer_json(&(line + "\n"));
    }
    Ok(ExitStatus::Done)
}
