//! `rind session`: what earlier turns left behind. It only reads; a session that is open may be looked at too.

use serde::Serialize;

use super::args::{SessionListArgs, SessionPromptArgs};
use super::exit_code::ExitStatus;
use super::render;
use crate::paths::Paths;
use crate::prompt::ledger::{self, TurnLedger};
use crate::session::{Error, SessionRow, SessionStore};

/// A session in the list.
#[derive(Debug, Serialize)]
pub(super) struct Listed {
    #[serde(flatten)]
    pub(super) row: SessionRow,
    /// Number of its turns.
    pub(super) turns: usize,
}

/// The prompt ledger of a session.
#[derive(Debug, Serialize)]
struct PromptLedger<'a> {
    session: &'a str,
    turns: &'a [TurnLedger],
}

pub(super) fn list(paths: &Paths, args: &SessionListArgs) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let rows = store.list()?;
    let listed = rows.into_iter().map(|row| {
        let turns = store.n_turns(&row.id)?;
        Ok(Listed { row, turns })
    });
    let listed = listed.collect::<Result<Vec<Listed>, Error>>()?;
    if args.json {
        render::json(&listed)?;
    } else if listed.is_empty() {
        render::note("there are no sessions yet; `rind run` creates one");
    } else {
        render::session::list(&listed, crate::clock::now_ms());
    }
    Ok(ExitStatus::Done)
}

pub(super) fn prompt(paths: &Paths, args: &SessionPromptArgs) -> anyhow::Result<ExitStatus> {
    let store = SessionStore::new(paths.sessions());
    let id = store.resolve_any(&args.session, &paths.workspace)?;
    let (entries, notices) = store.read(&id)?;
    notices.iter().for_each(|notice| render::warn(notice));
    let turns = ledger::turns(&entries);
    if args.json {
        let session = id.as_str();
        let turns = turns.as_slice();
        render::json(&PromptLedger { session, turns })?;
    } else {
        render::session::prompt(&id, &turns);
    }
    Ok(ExitStatus::Done)
}
