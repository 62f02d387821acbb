//! Searches everything that was moved out of the conversation: archived turns (in holders),
//! subagents, and turns that compaction removed without archiving them.
//!
//! Every search reads the transcripts from their files, one at a time, so that results are never
//! outdated and no transcript stays in memory. Start from [`search_transcripts`].

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::passages::{TranscriptPassage, TranscriptPassageSearch};
use super::transcript::messages_of_entries;
use crate::agent::scope::SharedTurnState;
use crate::message::Message;
use crate::session::{
    CompactedTurn, FramePosition, SessionAddressAndStore, SubagentSession, find_compacted_turns,
};
use crate::text::escape_and_truncate_line;
use crate::text::format_error_chain;

/// Prefix of the id of a turn that compaction removed and that is not archived.
const UNARCHIVED_TURN_ID_PREFIX: &str = "turn-";

/// Maximum number of passages that a search in archived turns returns.
const MAX_PASSAGES_PER_SEARCH: usize = 8;

/// Maximum number of unreadable transcripts that a search reports as errors.
const MAX_REPORTED_TRANSCRIPT_ERRORS: usize = 5;

/// Session to search. In the agent's own session, its subagents and the turns that compaction
/// removed are searched; in the session of a parent agent, only the subagents.
struct SessionToSearch {
    place: SessionAddressAndStore,
    children: Vec<SubagentSession>,
    /// Ids of the messages that are still in the agent's conversation; `None` for the session of a
    /// parent agent.
    here: Option<HashSet<String>>,
}

/// Names and errors of the searched transcripts, in the order in which they were added.
#[derive(Default)]
struct SearchedTranscriptList {
    names: Vec<String>,
    errors: Vec<String>,
    n_errors: usize,
}

impl SearchedTranscriptList {
    fn add_error(&mut self, text: String) {
        self.n_errors += 1;
        if self.errors.len() < MAX_REPORTED_TRANSCRIPT_ERRORS {
            self.errors.push(text);
        }
    }
}

/// Returns the passages that contain words of `wanted`, the best first, each with the id of its
/// subagent or turn. `scopes` contains first the turn of the agent, and then the turns of its
/// parent agents, whose subagents the agent may read.
///
/// # Errors
/// The query has no words, or the search was interrupted.
pub(super) async fn search_transcripts(
    scopes: &[Arc<SharedTurnState>],
    wanted: &str,
) -> Result<String, String> {
    let search = TranscriptPassageSearch::new(wanted);
    let search = search.ok_or_else(|| "`search` needs a word of letters or digits".to_owned())?;
    let sessions: Vec<SessionToSearch> = scopes
        .iter()
        .enumerate()
        .map(|(n, scope)| {
            let session = &scope.spec.session;
            let ids = || session.inspect_all_messages(collect_message_ids);
            SessionToSearch {
                place: session.session_location(),
                children: session.subagents(),
                here: (n == 0).then(ids),
            }
        })
        .collect();
    let cancel = scopes.first().map(|scope| scope.cancel.clone());
    let cancel = cancel.unwrap_or_default();
    // Use a blocking thread, because transcripts can be long files.
    let task = tokio::task::spawn_blocking(move || search_sessions(search, &sessions, &cancel));
    let (best, searched) = task
        .await
        .map_err(|_| "the search was interrupted".to_owned())?;
    Ok(describe_search_result(wanted, &best, &searched))
}

/// Best passages, and the number of passages that were found in total.
struct BestTranscriptPassages {
    passages: Vec<TranscriptPassage>,
    n_found: u32,
}

fn search_sessions(
    mut search: TranscriptPassageSearch,
    sessions: &[SessionToSearch],
    cancel: &CancellationToken,
) -> (BestTranscriptPassages, SearchedTranscriptList) {
    let mut searched = SearchedTranscriptList::default();
    for session in sessions {
        session
            .place
            .visit_children(&session.children, &mut |child, read| {
                let name = format!(
                    "{} ({})",
                    child.agent,
                    escape_and_truncate_line(&child.task, 100)
                );
                match read {
                    Ok(entries) => {
                        search.add_transcript(searched.names.len(), &messages_of_entries(entries));
                        searched.names.push(name);
                    }
                    Err(error) => {
                        searched.add_error(format!("{name}: {}", format_error_chain(&error)))
                    }
                }
                match cancel.is_cancelled() {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
        let Some(here) = &session.here else {
            continue;
        };
        match find_turns_removed_by_compaction(&session.place, here) {
            Ok(turns) => {
                for left in turns.into_iter().rev() {
                    search.add_transcript(searched.names.len(), &left.messages);
                    searched
                        .names
                        .push(format!("{UNARCHIVED_TURN_ID_PREFIX}{}", left.turn));
                }
            }
            Err(why) => searched.add_error(why),
        }
    }
    let n_found = search.n_matching_passages();
    let passages = search.best_passages(MAX_PASSAGES_PER_SEARCH);
    (BestTranscriptPassages { passages, n_found }, searched)
}

fn find_turns_removed_by_compaction(
    place: &SessionAddressAndStore,
    here: &HashSet<String>,
) -> Result<Vec<CompactedTurn>, String> {
    let entries = place.read_entries_since(FramePosition::START);
    let entries = entries.map_err(|error| {
        format!(
            "this session cannot be read: {}",
            format_error_chain(&error)
        )
    })?;
    Ok(find_compacted_turns(entries, |id| here.contains(id)))
}

fn describe_search_result(
    wanted: &str,
    best: &BestTranscriptPassages,
    searched: &SearchedTranscriptList,
) -> String {
    let (n, shown) = (best.n_found, best.passages.len());
    let n_searched = searched.names.len();
    let wanted = escape_and_truncate_line(wanted, 200);
    let mut out = match n {
        0 => format!(
            "no archived text contains a word of `{wanted}`; {n_searched} transcripts were searched"
        ),
        _ => format!(
            "{n} passages in {n_searched} transcripts have words of `{wanted}`; the best {shown}:"
        ),
    };
    for passage in &best.passages {
        let name = searched
            .names
            .get(passage.source)
            .map_or("", String::as_str);
        let (message, role) = (passage.message, passage.role);
        out.push_str(&format!(
            "\n\n## {name}, message {message}, {role}\n{}",
            escape_headings(&passage.text)
        ));
    }
    for error in &searched.errors {
        out.push_str(&format!("\n\n[cannot be searched: {error}]"));
    }
    let n_more = searched.n_errors - searched.errors.len();
    if n_more > 0 {
        out.push_str(&format!(
            "\n\n[{n_more} more transcripts cannot be searched]"
        ));
    }
    out
}

/// Escapes lines that look like the heading of a passage, so that the text of one transcript cannot
/// imitate a passage of another.
fn escape_headings(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| match line.trim_start().starts_with("##") {
            true => format!("\\{line}"),
            false => line.to_owned(),
        });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the messages of the turn with the id `turn-N`, if compaction removed the turn from the
/// conversation and it is not archived.
///
/// # Errors
/// The session cannot be read.
pub(super) async fn read_compacted_turn(
    scope: &Arc<SharedTurnState>,
    id: &str,
) -> Result<Option<Vec<Message>>, String> {
    let number = id
        .strip_prefix(UNARCHIVED_TURN_ID_PREFIX)
        .and_then(|n| n.parse::<u32>().ok());
    let Some(number) = number else {
        return Ok(None);
    };
    let session = &scope.spec.session;
    let here = session.inspect_all_messages(collect_message_ids);
    let place = session.session_location();
    let read = tokio::task::spawn_blocking(move || find_turns_removed_by_compaction(&place, &here));
    let turns = read.await.unwrap_or_else(|_| Ok(Vec::new()))?;
    let turn = turns.into_iter().find(|left| left.turn == number);
    Ok(turn.map(|left| left.messages))
}

fn collect_message_ids(messages: &[Message]) -> HashSet<String> {
    messages.iter().map(|message| message.id.clone()).collect()
}
