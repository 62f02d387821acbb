//! `rind session`: shows the records of earlier turns. Only reads, so a session may be open
//! meanwhile.

use serde::Serialize;

use super::args::{JsonArgs, SessionPromptArgs};
use super::exit_code::ExitStatus;
use super::render;
use rind_lib::paths::Paths;
use rind_lib::prompt::ledger;
use rind_lib::session::{Error, SessionRow, SessionStore};

#[derive(Debug, Serialize)]
pub(super) struct Listed {
    #[serde(flatten)]
    pub(super) row: SessionRow,
    pub(super) turns: usize,
}

pub(super) fn list(paths: &Paths, args: &JsonArgs) -> anyhow::Result<ExitStatus> {
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
        render::session::list(&listed, rind_lib::clock::now_ms());
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
        render::json(&serde_json::json!({"session": id, "turns": turns}))?;
    } else {
        render::session::prompt(&id, &turns);
    }
    Ok(ExitStatus::Done)
}
