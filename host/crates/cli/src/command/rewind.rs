//! `/undo` and `/rewind`: undo turns in the conversation, in files, or in both.
//!
//! At a terminal the person sees the diff and chooses. Elsewhere the arguments of the call decide,
//! and without arguments only the conversation is undone. A file that was changed after the turn is
//! kept, unless the person chooses to overwrite it. Start from [`run_undo`] and [`run_rewind`].

use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::SlashCommandSet;
use crate::approve::{BuiltInCommandQuestion, DECLINE_ANSWER, ask_built_in_command_question};
use crate::exit_code::bail_usage;
use crate::open::OptionalTerminalQuestionSender;
use crate::question::{QuestionScreenContent, TerminalQuestionLine};
use crate::render::changes::{FileChangeToShow, describe_file_change, format_file_change_lines};
use crate::render::{self, BOLD_STYLE, DIM_STYLE, WARNING_STYLE};
use rind_lib::checkpoint::{
    FileRewindPlan, FileRewindResult, PlannedRewindChange, SessionCheckpoints,
};
use rind_lib::host::Session;
use rind_lib::session::{self, Body, UndoneTurn};

/// Maximum number of rows of one file's diff in a question.
const MAX_DIFF_ROWS_PER_FILE: usize = 60;

/// Maximum number of files whose diff is in a question; other files are only named.
const MAX_FILES_WITH_SHOWN_DIFF: usize = 40;

/// Maximum number of file paths that one list shows.
const MAX_LISTED_PATHS: usize = 50;

/// Maximum number of turns that `/rewind` lists, counted back from the latest.
const MAX_LISTED_TURNS: usize = 20;

/// Parts of the session that `/undo` or `/rewind` undoes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionUndoScope {
    Conversation,
    Files,
    Both,
}

impl SessionUndoScope {
    fn includes_files(self) -> bool {
        self != Self::Conversation
    }

    fn includes_conversation(self) -> bool {
        self != Self::Files
    }
}

/// Arguments of `/undo`, and those of `/rewind` after the number of the turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RewindArguments {
    parts: Option<SessionUndoScope>,
    overwrites: bool,
}

fn parse_rewind_arguments<'a>(
    words: impl Iterator<Item = &'a str>,
) -> anyhow::Result<RewindArguments> {
    let mut parsed = RewindArguments::default();
    for word in words {
        match word.to_lowercase().as_str() {
            "conversation" => parsed.parts = Some(SessionUndoScope::Conversation),
            "files" => parsed.parts = Some(SessionUndoScope::Files),
            "both" => parsed.parts = Some(SessionUndoScope::Both),
            "overwrite" => parsed.overwrites = true,
            _ => bail_usage!(
                "unknown argument `{}`; use `conversation`, `files` or `both`, and add `overwrite` for files that were changed since",
                word.escape_debug()
            ),
        }
    }
    if parsed.overwrites && parsed.parts.is_none_or(|parts| !parts.includes_files()) {
        bail_usage!("`overwrite` applies to files: add `files` or `both`");
    }
    Ok(parsed)
}

pub(super) async fn run_undo(
    commands: &SlashCommandSet,
    session: &mut Session,
    words: &str,
    cancel: &CancellationToken,
) -> anyhow::Result<String> {
    let words = parse_rewind_arguments(words.split_whitespace())?;
    let turn = match session.last_turn() {
        Ok(Some(last)) => last.turn,
        Ok(None) => return Ok("there is no turn to undo".to_owned()),
        Err(rind_lib::host::Error::Session(session::Error::Summarized { turn })) => turn,
        Err(error) => return Err(error.into()),
    };
    confirm_and_undo_turns(
        commands.terminal_question_sender(),
        session,
        turn,
        words,
        cancel,
    )
    .await
}

pub(super) async fn run_rewind(
    commands: &SlashCommandSet,
    session: &mut Session,
    words: &str,
    cancel: &CancellationToken,
) -> anyhow::Result<String> {
    let mut words = words.split_whitespace();
    let Some(number) = words.next() else {
        return format_turn_list(session);
    };
    let last = session.turn_number();
    let turn = number.parse().ok().filter(|turn| (1..=last).contains(turn));
    let Some(turn) = turn else {
        bail_usage!(
            "this session has no turn `{}`: pass a number from 1 to {last}; /rewind lists the turns",
            number.escape_debug()
        );
    };
    let words = parse_rewind_arguments(words)?;
    confirm_and_undo_turns(
        commands.terminal_question_sender(),
        session,
        turn,
        words,
        cancel,
    )
    .await
}

fn format_turn_list(session: &Session) -> anyhow::Result<String> {
    let (entries, _) = session.host().store().read_entries(session.id())?;
    let turns = entries.iter().filter_map(|entry| match &entry.body {
        Body::TurnStart { turn, input, .. } => Some(format!(
            "{turn}  {}",
            render::truncate_to_one_line(input, 100)
        )),
        _ => None,
    });
    let mut turns: Vec<String> = turns.collect();
    let n_left_out = turns.len().saturating_sub(MAX_LISTED_TURNS);
    turns.drain(..n_left_out);
    Ok(match turns.is_empty() {
        true => "there are no turns yet".to_owned(),
        false => format!("{}\n/rewind N goes back to before turn N", turns.join("\n")),
    })
}

/// Turns to undo, with the plan for the files, and the reasons why parts cannot be undone.
struct UndoTurnsProposal {
    turn: u32,
    turns: Vec<UndoneTurn>,
    /// Reason why the conversation cannot be undone; `None` if it can.
    refusal: Option<String>,
    plan: FileRewindPlan,
    /// Reason why the plan for the files could not be made, if any.
    unplanned: Option<String>,
}

async fn confirm_and_undo_turns(
    asker: OptionalTerminalQuestionSender,
    session: &mut Session,
    turn: u32,
    words: RewindArguments,
    cancel: &CancellationToken,
) -> anyhow::Result<String> {
    let checkpoints = session.checkpoints();
    let planned = plan_file_restore(&checkpoints, turn).await;
    let (plan, unplanned) = match planned {
        Ok(plan) => (plan, None),
        Err(error) if words.parts.is_some_and(SessionUndoScope::includes_files) => {
            return Err(error);
        }
        // The conversation can be undone even if the plan for the files failed.
        Err(error) => (FileRewindPlan::default(), Some(format!("{error:#}"))),
    };
    let (turns, refusal) = match session.turns_since(turn) {
        Ok(turns) => (turns, None),
        Err(error) => (
            Vec::new(),
            Some(format!("{:#}", anyhow::Error::from(error))),
        ),
    };
    let scope = UndoTurnsProposal {
        turn,
        turns,
        refusal,
        plan,
        unplanned,
    };
    let asker = asker.filter(|_| !scope.plan.changes.is_empty());
    let parts = match &asker {
        Some(asker) if words.parts != Some(SessionUndoScope::Conversation) => {
            let screen = build_rewind_question(&checkpoints, &scope, words).await?;
            let answered = ask_built_in_command_question(asker, screen);
            let word = tokio::select! {
                biased;
                () = cancel.cancelled() => DECLINE_ANSWER,
                word = answered => word,
            };
            match word {
                "both" => SessionUndoScope::Both,
                "conversation" => SessionUndoScope::Conversation,
                "files" => SessionUndoScope::Files,
                "yes" => words.parts.unwrap_or(SessionUndoScope::Both),
                _ => return Ok("nothing was taken back".to_owned()),
            }
        }
        _ => words.parts.unwrap_or(SessionUndoScope::Conversation),
    };
    if let Some(why) = scope
        .refusal
        .as_ref()
        .filter(|_| parts.includes_conversation())
    {
        anyhow::bail!("{why}; to restore only the files: /rewind {turn} files");
    }
    let overwrites = match &asker {
        Some(asker)
            if parts.includes_files()
                && !words.overwrites
                && scope.plan.n_changes_needing_explicit_request() > 0 =>
        {
            let question = build_overwrite_changed_files_question(&scope.plan);
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok("nothing was taken back".to_owned()),
                word = ask_built_in_command_question(asker, question) => word == "yes",
            }
        }
        _ => words.overwrites,
    };
    undo_turns(session, checkpoints, scope, parts, overwrites).await
}

async fn plan_file_restore(
    checkpoints: &Arc<SessionCheckpoints>,
    turn: u32,
) -> anyhow::Result<FileRewindPlan> {
    let checkpoints = checkpoints.clone();
    let planned = tokio::task::spawn_blocking(move || checkpoints.plan_rewind(turn));
    Ok(planned
        .await
        .context("cannot compare the files with the checkpoints")??)
}

/// Undoes the turns. Restores the files before it removes the turns from the conversation, so that
/// the command can be repeated if it is interrupted.
async fn undo_turns(
    session: &mut Session,
    checkpoints: Arc<SessionCheckpoints>,
    scope: UndoTurnsProposal,
    parts: SessionUndoScope,
    overwrites: bool,
) -> anyhow::Result<String> {
    let mut text = Vec::new();
    let mut files = None;
    if parts.includes_files() {
        let (plan, last) = (scope.plan.clone(), session.turn_number());
        let applied =
            tokio::task::spawn_blocking(move || checkpoints.apply_rewind(&plan, overwrites, last));
        files = Some(applied.await.context("cannot bring back files")??);
    }
    if parts.includes_conversation() {
        let undone = session.rewind(scope.turn).await;
        let undone = undone.with_context(|| match files {
            Some(_) => "the files were restored, but the conversation was not changed",
            None => "the conversation was not changed",
        })?;
        text.push(describe_undone_turns(&undone));
    }
    if let Some(why) = &scope.unplanned {
        text.push(format!(
            "the files stay as they are, because their earlier content is not known: {why}"
        ));
        return Ok(text.join("\n"));
    }
    match &files {
        Some(result) => text.extend(describe_restored_files(&scope.plan, result)),
        None if scope.plan.is_empty() => {
            text.push("files, data of plugins and the cost stay as they are".to_owned())
        }
        None => text.push(format!(
            "the files stay as they are ({}); to restore them: /rewind {} files",
            render::format_count_with_noun(scope.plan.changes.len() as u64, "change"),
            scope.turn
        )),
    }
    Ok(text.join("\n"))
}

fn describe_undone_turns(undone: &[UndoneTurn]) -> String {
    let n_messages: usize = undone.iter().map(|turn| turn.n_messages).sum();
    let messages = render::format_count_with_noun(n_messages as u64, "message");
    match undone {
        [] => "the conversation no longer has messages of these turns".to_owned(),
        [turn] => format!(
            "took the last turn out of the conversation ({messages}): {}",
            render::truncate_to_one_line(&turn.input, 100)
        ),
        turns => format!(
            "took the last {} turns out of the conversation ({messages}), back to before: {}",
            turns.len(),
            turns
                .last()
                .map(|turn| render::truncate_to_one_line(&turn.input, 100))
                .unwrap_or_default()
        ),
    }
}

/// Lists the files that were restored, the files that were kept with the reason, and the files that
/// cannot be restored.
fn describe_restored_files(plan: &FileRewindPlan, result: &FileRewindResult) -> Vec<String> {
    let mut lines = Vec::new();
    let n_restored = result.restored.len() as u64;
    lines.push(match n_restored {
        0 => "no file was restored".to_owned(),
        n => format!(
            "brought back {}:",
            render::format_count_with_noun(n, "path")
        ),
    });
    let restored = result.restored.iter().map(|change| {
        let words = describe_file_change(&change.present, &change.target);
        (change.path.as_str(), words)
    });
    append_path_with_reason_lines(restored, &mut lines);
    if !result.kept.is_empty() {
        lines.push("these stay as they are:".to_owned());
        let kept = result.kept.iter();
        append_path_with_reason_lines(
            kept.map(|(path, why)| (path.as_str(), why.clone())),
            &mut lines,
        );
    }
    lines.extend(list_unrestorable_files(plan));
    lines
}

fn list_unrestorable_files(plan: &FileRewindPlan) -> Vec<String> {
    let mut lines = Vec::new();
    if !plan.lost.is_empty() {
        lines.push("these cannot be restored:".to_owned());
        let lost = plan.lost.iter();
        append_path_with_reason_lines(
            lost.map(|lost| (lost.subject.as_str(), lost.why.clone())),
            &mut lines,
        );
    }
    if plan.has_commands {
        lines.push(
            "commands ran: files that git ignores, files outside of the workspace and effects elsewhere stay"
                .to_owned(),
        );
    }
    lines
}

fn append_path_with_reason_lines<'a>(
    rows: impl Iterator<Item = (&'a str, String)>,
    lines: &mut Vec<String>,
) {
    let rows: Vec<(&str, String)> = rows.collect();
    let shown = rows.iter().take(MAX_LISTED_PATHS);
    lines.extend(shown.map(|(path, words)| {
        format!(
            "  {}: {}",
            render::truncate_to_one_line(path, 200),
            render::truncate_to_one_line(words, 200)
        )
    }));
    if let Some(n_more @ 1..) = rows.len().checked_sub(MAX_LISTED_PATHS) {
        lines.push(format!("  and {n_more} more"));
    }
}

/// Returns the question that shows the diff and asks which parts to undo.
async fn build_rewind_question(
    checkpoints: &Arc<SessionCheckpoints>,
    scope: &UndoTurnsProposal,
    words: RewindArguments,
) -> anyhow::Result<BuiltInCommandQuestion> {
    let input = scope.turns.last().map(|turn| turn.input.as_str());
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text(&format!("go back to before turn {}: ", scope.turn))
        .with_escaped_text(
            DIM_STYLE,
            &render::truncate_to_one_line(input.unwrap_or_default(), 100),
        );
    let mut lost = Vec::new();
    if let Some(why) = &scope.refusal {
        lost.push(TerminalQuestionLine::new("  ").with_escaped_text(WARNING_STYLE, why));
    }
    let lines = list_unrestorable_files(&scope.plan).into_iter();
    lost.extend(
        lines.map(|line| TerminalQuestionLine::new("  ").with_escaped_text(DIM_STYLE, &line)),
    );
    let (plan, checkpoints) = (scope.plan.clone(), checkpoints.clone());
    let diff = tokio::task::spawn_blocking(move || format_rewind_diff(&checkpoints, &plan));
    let (keys, words) = match (words.parts, scope.turns.is_empty()) {
        (Some(_), _) => ("[y]es or [n]o", vec!["yes", DECLINE_ANSWER]),
        (None, true) => ("[f]iles or [n]o", vec!["files", DECLINE_ANSWER]),
        (None, false) => (
            "[b]oth, [c]onversation, [f]iles or [n]o",
            vec!["both", "conversation", "files", DECLINE_ANSWER],
        ),
    };
    Ok(BuiltInCommandQuestion {
        screen: QuestionScreenContent {
            parts: vec![vec![head], diff.await.context("cannot compare the files")?],
            covers: lost,
            keys: keys.to_owned(),
            ..QuestionScreenContent::default()
        },
        words,
    })
}

fn format_rewind_diff(
    checkpoints: &SessionCheckpoints,
    plan: &FileRewindPlan,
) -> Vec<TerminalQuestionLine> {
    let mut lines = Vec::new();
    for (n, change) in plan.changes.iter().enumerate() {
        let contents = match n < MAX_FILES_WITH_SHOWN_DIFF {
            true => checkpoints.current_and_restored_contents(change),
            false => [None, None],
        };
        let most = if n < MAX_FILES_WITH_SHOWN_DIFF {
            MAX_DIFF_ROWS_PER_FILE
        } else {
            0
        };
        let mut shown =
            format_file_change_lines(&rewind_change_to_shown_file_change(change, contents), most)
                .into_iter();
        if let Some(heading) = shown.next() {
            let line =
                TerminalQuestionLine::new("  ").with_styled_text(heading.style, &heading.text);
            lines.push(match change.changed {
                None => line,
                Some(since) => line
                    .with_text(" ")
                    .with_styled_text(WARNING_STYLE, &format!("({})", since.describe_reason())),
            });
        }
        if n < MAX_FILES_WITH_SHOWN_DIFF {
            lines.extend(
                shown.map(|row| {
                    TerminalQuestionLine::new("  ").with_styled_text(row.style, &row.text)
                }),
            );
        }
    }
    lines
}

fn rewind_change_to_shown_file_change(
    change: &PlannedRewindChange,
    contents: [Option<Vec<u8>>; 2],
) -> FileChangeToShow<'_> {
    FileChangeToShow {
        path: &change.path,
        from: &change.present,
        to: &change.target,
        contents,
    }
}

/// Returns the question whether to overwrite files that were changed after the undone turns.
fn build_overwrite_changed_files_question(plan: &FileRewindPlan) -> BuiltInCommandQuestion {
    let changed = plan.changes.iter().filter_map(|change| {
        let since = change.changed?;
        Some(
            TerminalQuestionLine::new("  ")
                .with_escaped_text(BOLD_STYLE, &change.path)
                .with_text(": ")
                .with_styled_text(DIM_STYLE, since.describe_reason()),
        )
    });
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text("overwrite these too; their present content is then lost");
    BuiltInCommandQuestion {
        screen: QuestionScreenContent {
            parts: vec![std::iter::once(head).chain(changed).collect()],
            covers: vec![
                TerminalQuestionLine::new("  ")
                    .with_styled_text(DIM_STYLE, "no keeps them and restores the others"),
            ],
            keys: "[y]es or [n]o".to_owned(),
            ..QuestionScreenContent::default()
        },
        words: vec!["yes", DECLINE_ANSWER],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_call_are_read_in_any_order() {
        let parsed = |text: &str| parse_rewind_arguments(text.split_whitespace());
        let words = |parts, overwrites| RewindArguments { parts, overwrites };
        for (text, expected) in [
            ("", words(None, false)),
            ("Files", words(Some(SessionUndoScope::Files), false)),
            ("overwrite both", words(Some(SessionUndoScope::Both), true)),
            (
                "conversation",
                words(Some(SessionUndoScope::Conversation), false),
            ),
        ] {
            assert_eq!(parsed(text).unwrap(), expected, "{text}");
        }
        for wrong in ["overwrite", "conversation overwrite", "all", "files 3"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }
}
