//! Implements `rind session import`, `fork`, `rename`, `rm` and `gc`, the commands that change the
//! session store.

use super::super::audit::OrphanedAuditLogs;
use super::super::exit_code::{ExitStatus, bail_usage};
use super::super::question::{QuestionScreenContent, TerminalQuestionLine, parse_yes_or_no};
use super::super::render::{
    self, BOLD_STYLE, DIM_STYLE, WARNING_STYLE, format_bytes, format_count_with_noun,
    print_stdout_line, style_text, truncate_to_one_line,
};
use super::super::terminal::can_ask_at_terminal;
use super::args::{
    SessionForkArgs, SessionGcArgs, SessionImportArgs, SessionRenameArgs, SessionRmArgs,
};
use rind_lib::paths::RindPaths;
use rind_lib::session::{SessionSpec, SessionStore, import_session, select_sessions_to_remove};
use serde_json::json;
use std::collections::HashSet;

/// Maximum length of a title in a question, in characters.
const MAX_SESSION_TITLE_CHARS: usize = 80;

fn open_session_store(paths: &RindPaths) -> SessionStore {
    SessionStore::new(paths.sessions())
}

pub(super) fn import_session_file(
    paths: &RindPaths,
    args: &SessionImportArgs,
) -> anyhow::Result<ExitStatus> {
    let imported = import_session(&open_session_store(paths), &args.file, args.id.as_deref())?;
    imported
        .notices
        .iter()
        .for_each(|text| render::print_warning(text));
    print_stdout_line(truncate_to_one_line(&imported.id, 96));
    render::print_note(&format!(
        "the session was imported; to view it: rind session show {0}; to continue: rind run --resume {0}",
        imported.id
    ));
    Ok(ExitStatus::Done)
}

pub(super) fn fork_session(
    paths: &RindPaths,
    args: &SessionForkArgs,
) -> anyhow::Result<ExitStatus> {
    let store = open_session_store(paths);
    let id = store.resolve_session_id_in_workspace(&args.session, &paths.workspace)?;
    let until = match &args.at {
        None => None,
        Some(at) => {
            let reading = store.read_entries_with_line_numbers(&id)?;
            let is_it = |line: u64, entry: &str| entry == at || line.to_string() == *at;
            let mut entries = reading.entries.into_iter();
            let found = entries.find(|own| is_it(own.line, &own.entry.id));
            let Some(found) = found else {
                bail_usage!(
                    "session {id} has no entry `{at}`; `rind session show {id}` shows the numbers of entries at the left"
                );
            };
            Some(found.entry.id)
        }
    };
    let about = store.read_workspace_and_model(&id)?;
    let spec = SessionSpec {
        workspace: about.workspace,
        provider: about.provider,
        model: about.model,
    };
    let copy = store.fork(&id, until.as_deref(), &spec)?;
    copy.notices()
        .iter()
        .for_each(|text| render::print_note(text));
    print_stdout_line(copy.id());
    render::print_note(&format!("to continue: rind run --resume {}", copy.id()));
    Ok(ExitStatus::Done)
}

pub(super) fn rename_session(
    paths: &RindPaths,
    args: &SessionRenameArgs,
) -> anyhow::Result<ExitStatus> {
    if args.title.trim().is_empty() {
        bail_usage!("the title is empty; pass a few words");
    }
    let store = open_session_store(paths);
    let id = store.resolve_session_id_in_workspace(&args.session, &paths.workspace)?;
    let title = store.set_session_title(&id, &args.title)?;
    render::print_note(&format!(
        "session {id} is called {}",
        truncate_to_one_line(&title, 240)
    ));
    Ok(ExitStatus::Done)
}

pub(super) async fn remove_named_sessions(
    paths: &RindPaths,
    args: &SessionRmArgs,
) -> anyhow::Result<ExitStatus> {
    let store = open_session_store(paths);
    let all = store.session_ids()?;
    let mut ids = Vec::new();
    for wanted in &args.sessions {
        // Accept full ids first: a damaged session may be missing from the list that
        // `resolve_session_id_in_workspace` searches.
        let id = match all.contains(wanted) {
            true => wanted.clone(),
            false => store.resolve_session_id_in_workspace(wanted, &paths.workspace)?,
        };
        if !ids.contains(&id) {
            ids.push(id);
        }
    }
    if !args.yes {
        if !can_ask_at_terminal() {
            bail_usage!(
                "there is no terminal to ask at; add --yes to remove {}",
                ids.join(", ")
            );
        }
        let heads = store.list_session_summaries()?.rows;
        let title = |id: &str| {
            let head = heads.iter().find(|head| head.id == id);
            head.map(|head| truncate_to_one_line(&head.title, MAX_SESSION_TITLE_CHARS))
                .unwrap_or_default()
        };
        let rows = ids.iter().map(|id| {
            TerminalQuestionLine::new("  ")
                .with_escaped_text(BOLD_STYLE, id)
                .with_text(" ")
                .with_escaped_text(DIM_STYLE, &title(id))
        });
        let n_ids = ids.len() as u64;
        let head = TerminalQuestionLine::new("")
            .with_styled_text(WARNING_STYLE.bold(), "? ")
            .with_text(&format!(
                "remove {}",
                format_count_with_noun(n_ids, "session")
            ));
        let screen = QuestionScreenContent {
            parts: vec![std::iter::once(head).chain(rows).collect()],
            covers: vec![TerminalQuestionLine::new("  ").with_styled_text(
                DIM_STYLE,
                "with images, subagents and archived turns; this cannot be undone",
            )],
            keys: "[y]es or [n]o".to_owned(),
            ..QuestionScreenContent::default()
        };
        if screen.ask_approval(parse_yes_or_no, |yes| !yes).await != Some(true) {
            anyhow::bail!("nothing was removed: you did not say yes");
        }
    }
    Ok(ExitStatus::from_success_flag(remove_sessions(&store, &ids)))
}

/// Removes sessions, and prints a line for each. Continues after a failure; returns whether all
/// were removed.
fn remove_sessions(store: &SessionStore, ids: &[String]) -> bool {
    let mut is_done = true;
    for id in ids {
        match store.remove(id) {
            Ok(()) => render::print_note(&format!("removed session {id}")),
            Err(error) => {
                is_done = false;
                render::print_error(
                    &anyhow::Error::new(error).context(format!("session {id} is not removed")),
                );
            }
        }
    }
    is_done
}

pub(super) fn remove_old_sessions(
    paths: &RindPaths,
    args: &SessionGcArgs,
) -> anyhow::Result<ExitStatus> {
    let store = open_session_store(paths);
    let all = store.list_session_usage()?;
    let now = rind_lib::clock::now_ms();
    let before = args.older_than.map(|age| now.saturating_sub(age));
    let found = select_sessions_to_remove(&all, before, args.max_size);
    let logs = match before.filter(|_| args.audit_logs) {
        Some(before) => {
            let mut kept = read_session_ids(&store)?;
            found.iter().for_each(|own| {
                kept.remove(&own.id);
            });
            Some(OrphanedAuditLogs::find_orphaned_logs(paths, &kept, before)?)
        }
        None => None,
    };
    let sum = |all: &[rind_lib::session::SessionSizeAndLastUse]| {
        all.iter().map(|own| own.bytes).sum::<u64>()
    };
    if args.json {
        let found: Vec<_> = found
            .iter()
            .map(|own| json!({"id": own.id, "updated": own.updated, "bytes": own.bytes}))
            .collect();
        render::print_json(&json!({
            "surplus": found,
            "sessions": all.len(),
            "bytes": sum(&all),
            "audit_logs": logs.as_ref().map(|logs| json!({"logs": logs.len(), "bytes": logs.bytes})),
            "is_removed": args.yes,
        }))?;
    } else {
        for own in &found {
            print_stdout_line(format_args!(
                "{} {}{}",
                style_text(BOLD_STYLE, truncate_to_one_line(&own.id, 96)),
                style_text(
                    DIM_STYLE,
                    format_args!("{:<12}", render::session::format_ago(now, own.updated))
                ),
                format_bytes(own.bytes)
            ));
        }
        render::print_note(&format!(
            "{} of {}, {} of {}",
            found.len(),
            format_count_with_noun(all.len() as u64, "session"),
            format_bytes(sum(&found)),
            format_bytes(sum(&all))
        ));
        if let Some(logs) = &logs {
            render::print_note(&format!(
                "{} without a session, {}",
                format_count_with_noun(logs.len() as u64, "audit log"),
                format_bytes(logs.bytes)
            ));
        }
    }
    let has_logs = logs.as_ref().is_some_and(|logs| logs.len() > 0);
    if found.is_empty() && !has_logs {
        return Ok(ExitStatus::Done);
    }
    if !args.yes {
        render::print_note("nothing was removed; add --yes to remove them");
        return Ok(ExitStatus::Done);
    }
    let ids: Vec<String> = found.into_iter().map(|own| own.id).collect();
    let is_done = remove_sessions(&store, &ids);
    if let Some(logs) = logs.filter(|_| has_logs) {
        // A session that could not be removed is still in the store, so its log stays too.
        let n_removed = logs.remove_logs(&read_session_ids(&store)?)?;
        let n_removed = format_count_with_noun(n_removed, "audit log");
        render::print_note(&format!("removed {n_removed}"));
    }
    Ok(ExitStatus::from_success_flag(is_done))
}

fn read_session_ids(store: &SessionStore) -> anyhow::Result<HashSet<String>> {
    Ok(store.session_ids()?.into_iter().collect())
}
