//! Sends questions of the host itself to a model: one request without tools, outside the
//! conversation, through the same gate as all requests.

use super::compact::truncate_text_middle;
use super::request::{ModelRequestSender, NoModelAnswerReason};
use super::scope::SharedTurnState;
use super::spec::AgentSpec;
use crate::message::{Message, Role};
use crate::point::caller::Caller;
use crate::point::payload::Purpose;
use crate::provider::{Finish, Request, Response, SystemPromptBlock};
use crate::session::Body;

/// Assumed number of bytes of text per token. The estimate is low, so that a transcript fits into
/// the request together with the question.
const ASSUMED_BYTES_PER_TOKEN: u64 = 3;

/// Minimum of the limit for the length of a transcript in bytes, regardless of the settings.
const TRANSCRIPT_LIMIT_FLOOR_BYTES: u64 = 10_000;

/// Maximum number of tokens of a transcript if compaction is disabled; most models accept that
/// many.
const MAX_UNCOMPACTED_TRANSCRIPT_TOKENS: u64 = 80_000;

/// Maximum length in bytes of the part of the model's answer that the session stores.
const MAX_STORED_ANSWER_BYTES: usize = 16 << 10;

pub(super) struct HostQuestionToModel<'a> {
    /// Purpose of the question: `reflect`, `archive` or `query`.
    pub(super) about: &'static str,
    /// Id of the subagent whose transcript the question contains, if it contains one.
    pub(super) agent: Option<&'a str>,
    /// Name of the model; `None` for the model of the agent.
    pub(super) model: Option<&'a str>,
    pub(super) system: String,
    /// Text of the question, including the transcript if it is about one.
    pub(super) prompt: String,
    pub(super) max_tokens: u32,
}

/// Returns the maximum length in bytes of a transcript in a question to a model. It corresponds to
/// the size at which a conversation is compacted.
pub(super) fn max_transcript_bytes(spec: &AgentSpec) -> usize {
    let profile = spec.provider.profile(&spec.model);
    let config = &spec.config.compact;
    let tokens = config
        .compaction_threshold(&profile)
        .unwrap_or(MAX_UNCOMPACTED_TRANSCRIPT_TOKENS);
    let bytes = tokens
        .saturating_mul(ASSUMED_BYTES_PER_TOKEN)
        .max(TRANSCRIPT_LIMIT_FLOOR_BYTES);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Asks the model a question of the host itself, and returns the text of the answer. The tokens
/// count as usage of the turn.
pub(super) async fn ask_model_as_host(
    scope: &SharedTurnState,
    caller: &Caller,
    question: HostQuestionToModel<'_>,
) -> Result<String, NoModelAnswerReason> {
    let request = Request {
        model: question.model.unwrap_or(&scope.spec.model).to_owned(),
        system: vec![SystemPromptBlock::new(question.system, false)],
        messages: vec![Message::text(Role::User, question.prompt)],
        max_tokens: Some(question.max_tokens),
        ..Request::default()
    };
    let kept = |request: &Request, response: &Response| Body::HostAsked {
        about: question.about.to_owned(),
        agent: question.agent.map(str::to_owned),
        turn: caller.context.turn,
        step: caller.context.step,
        model: request.model.clone(),
        usage: response.usage,
        cost_usd: response.cost_usd,
        latency_ms: response.latency_ms,
        text: truncate_text_middle(&response.message.joined_text(), MAX_STORED_ANSWER_BYTES),
    };
    let purpose = Purpose::Host(question.about.to_owned());
    let response = ModelRequestSender::new(scope)
        .request_outside_conversation(purpose, caller, request, kept)
        .await?;
    if response.finish == Finish::Refused {
        let why = "the provider held the answer back".to_owned();
        return Err(NoModelAnswerReason::Provider(why));
    }
    Ok(response.message.joined_text())
}
