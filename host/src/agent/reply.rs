//! Checks whether an answer of the model is complete, and repairs it before it becomes a message.

use std::collections::HashSet;
use std::sync::Arc;

use crate::message::{Content, Message, ToolCall};
use crate::point::outcome::Injection;
use crate::provider::{Finish, Response};

pub(super) struct ReplyStepResult {
    /// Text that the model wrote in this step.
    pub(super) draft: String,
    /// Whether another step follows: the model called tools, its text was cut, or a plugin injected
    /// a message about the answer.
    pub(super) goes_on: bool,
    /// Reason why the answer is incomplete; `None` for a complete answer.
    pub(super) shortfall: Option<IncompleteReplyKind>,
}

impl ReplyStepResult {
    /// Creates the step of a complete answer without tool calls.
    pub(super) fn final_answer_step(draft: String) -> Self {
        Self {
            draft,
            goes_on: false,
            shortfall: None,
        }
    }
}

/// Kind of an answer that the model did not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IncompleteReplyKind {
    /// Text cut by a token limit; the next step continues the text.
    CutText,
    /// Answer cut by a token limit within its tool calls.
    CutCalls,
    /// The answer contains neither text nor a tool call.
    Empty,
}

/// An answer of the model that passed the hooks and is stored in the session.
pub(super) struct StoredModelReply {
    pub(super) draft: String,
    pub(super) calls: Vec<ToolCall>,
    /// Message that tells the model how many calls were removed because its answer had too many.
    pub(super) left_out: Option<String>,
    /// Error that becomes the result of every call of an answer cut by a token limit, because none
    /// of these calls runs.
    pub(super) cut: Option<String>,
    pub(super) shortfall: Option<IncompleteReplyKind>,
    pub(super) inject: Vec<(Arc<str>, Injection)>,
}

/// Removes the calls of an answer beyond the first `most`: a model that repeats itself could
/// otherwise keep the machine busy long after it was stopped. Returns a text that tells the model
/// about the removed calls; `None` if no call was removed.
pub(super) fn remove_excess_calls(message: &mut Message, most: usize) -> Option<String> {
    let n_calls = message.tool_calls().count();
    if n_calls <= most {
        return None;
    }
    let mut n_seen = 0;
    message.content.retain(|part| {
        n_seen += usize::from(matches!(part, Content::ToolCall(_)));
        n_seen <= most || !matches!(part, Content::ToolCall(_))
    });
    let n_more = n_calls - most;
    Some(format!(
        "[{n_more} of the {n_calls} tool calls of your answer were left out and not run: an answer makes at most {most} \
         (agent.max_calls)]"
    ))
}

/// Returns the way in which an answer is incomplete; `None` if it is complete. `written` is the
/// text before hooks changed it, because hooks may empty an answer on purpose.
pub(super) fn find_incomplete_reply_kind(
    response: &Response,
    written: &str,
) -> Option<IncompleteReplyKind> {
    let has_calls = response.message.tool_calls().next().is_some();
    match response.finish {
        Finish::MaxTokens | Finish::Paused if has_calls => Some(IncompleteReplyKind::CutCalls),
        Finish::MaxTokens | Finish::Paused => Some(IncompleteReplyKind::CutText),
        _ if !has_calls && written.trim().is_empty() => Some(IncompleteReplyKind::Empty),
        _ => None,
    }
}

/// Returns the result for the calls of a cut answer; `None` when the answer is complete. No call of
/// a cut answer runs: even arguments that are valid JSON may be only a part of the arguments that
/// the model was writing.
pub(super) fn skipped_call_result_text(finish: Finish, n_tokens: u64) -> Option<String> {
    let why = match finish {
        Finish::MaxTokens => format!("cut at its limit of {n_tokens} tokens"),
        Finish::Paused => "interrupted by the provider".to_owned(),
        Finish::Refused => "held back by the provider".to_owned(),
        Finish::Done | Finish::ToolCalls => return None,
    };
    Some(format!(
        "not run: your answer was {why} before this call was written whole. Make the call again with shorter arguments: write \
         a long file in parts, the first with write_file and the others with edit_file or in further files"
    ))
}

/// Normalizes a message so that every provider accepts it in later requests. Empty texts are
/// removed. A call without an id, or with the id of an earlier call, gets a new id: results are
/// matched by id, but small model servers omit ids, and others restart their numbering in each
/// answer.
pub(super) fn normalize_model_message(message: &mut Message, earlier: &[Message]) {
    let is_empty = |part: &Content| matches!(part, Content::Text { text } if text.is_empty());
    message.content.retain(|part| !is_empty(part));
    if message.tool_calls().next().is_none() {
        return;
    }
    let earlier = earlier.iter().flat_map(Message::tool_calls);
    let mut seen: HashSet<String> = earlier.map(|call| call.id.clone()).collect();
    for part in &mut message.content {
        if let Content::ToolCall(call) = part
            && (call.id.is_empty() || !seen.insert(call.id.clone()))
        {
            call.id = format!("call_{}", crate::clock::new_uuid_v7());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Role;

    #[test]
    fn calls_get_ids_of_their_own_and_empty_texts_go() {
        let call = |id: &str| Content::ToolCall(ToolCall::new(id, "bash", serde_json::json!({})));
        let empty = Content::from_text("");
        let content = vec![empty, call("a"), call(""), call("a"), call("b")];
        let mut message = Message::new(Role::Assistant, content);
        let earlier = Message::new(Role::Assistant, vec![call("b")]);
        normalize_model_message(&mut message, &[earlier]);
        assert_eq!(message.content.len(), 4);
        let ids: std::collections::HashSet<&str> =
            message.tool_calls().map(|call| call.id.as_str()).collect();
        assert_eq!(ids.len(), 4);
        assert!(ids.contains("a") && !ids.contains("b") && !ids.contains(""));
    }
}
