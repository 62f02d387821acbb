//! The host asks a model for itself: one request without tools, outside the conversation, on the
//! path of all requests.

use super::compact::cut_middle;
use super::request::{ModelGate, NoAnswer};
use super::scope::TurnScope;
use super::spec::AgentSpec;
use crate::message::{Message, Role};
use crate::point::caller::Caller;
use crate::point::payload::Purpose;
use crate::provider::{Finish, Request, Response, SystemBlock};
use crate::session::Body;

/// Bytes of text in a token, counted low: a transcript must fit together with the question.
const BYTES_PER_TOKEN: u64 = 3;

/// Room for a transcript that is left regardless of the settings, in bytes.
const LEAST_TRANSCRIPT: u64 = 10_000;

/// Tokens of a transcript that fit most models, where compaction is switched off.
const UNCOMPACTED_TOKENS: u64 = 80_000;

/// Maximum length of the model's text that the session keeps, in bytes.
const KEPT_BYTES: usize = 16 << 10;

pub(super) struct HostQuestion<'a> {
    /// Purpose: `reflect`, `archive` or `query`.
    pub(super) about: &'static str,
    /// Id of the subagent whose transcript is read, if one is.
    pub(super) agent: Option<&'a str>,
    /// The model; `None` selects the model of the agent.
    pub(super) model: Option<&'a str>,
    pub(super) system: String,
    /// The question, with the transcript.
    pub(super) prompt: String,
    pub(super) max_tokens: u32,
}

/// Maximum length of a transcript in a question to a model: the size at which a conversation is
/// compacted.
pub(super) fn transcript_bytes(spec: &AgentSpec) -> usize {
    let profile = spec.provider.profile(&spec.model);
    let config = &spec.config.compact;
    let tokens = config.threshold(&profile).unwrap_or(UNCOMPACTED_TOKENS);
    let bytes = tokens.saturating_mul(BYTES_PER_TOKEN).max(LEAST_TRANSCRIPT);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Asks, and returns the model's text. The tokens count in the turn.
pub(super) async fn ask_for_host(
    scope: &TurnScope,
    caller: &Caller,
    question: HostQuestion<'_>,
) -> Result<String, NoAnswer> {
    let request = Request {
        model: question.model.unwrap_or(&scope.spec.model).to_owned(),
        system: vec![SystemBlock::new(question.system, false)],
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
        text: cut_middle(&response.message.joined_text(), KEPT_BYTES),
    };
    let purpose = Purpose::Host(question.about.to_owned());
    let response = ModelGate::new(scope)
        .request_aside(purpose, caller, request, kept)
        .await?;
    if response.finish == Finish::Refused {
        let why = "the provider held the answer back".to_owned();
        return Err(NoAnswer::Provider(why));
    }
    Ok(response.message.joined_text())
}
