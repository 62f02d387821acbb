//! Compacts a conversation that has grown too long: replaces its older part by a summary.
//!
//! Decides when to compact, which messages to replace, and by which summary; hooks of
//! `before-compact` may refuse the compaction or provide their own summary. The session keeps every
//! entry, but from then on only the shorter conversation is sent to the model, even after the
//! session is resumed. Start from [`AgentRequestSizes::compact_conversation_if_needed`].

pub(super) mod config;
mod estimate;
mod extract;
mod fit;
mod holders;
mod slice;

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

pub use config::CompactConfig;
pub(super) use estimate::{estimate_request_tokens, estimate_request_tokens_roughly};
pub(super) use fit::truncate_text_middle;

use self::config::ModelRequestTokenLimits;
use self::estimate::{
    RequestPartTokenUpperBounds, RequestTokenUpperBound, TokenCounter, TokenEstimateCorrection,
};
use self::slice::{MinKeptTailSize, PreservedTurnInput};
use super::ctx::TurnContext;
use super::spec::QUERY_SUBAGENT_TOOL_NAME;
use super::stop::{EarlyTurnEndReason, hook_block_reason};
use crate::event::Event;
use crate::lock::lock_ignoring_poison;
use crate::message::{Message, Origin, Role};
use crate::point::catalog as at;
use crate::point::outcome::Level;
use crate::point::payload::Slice;
use crate::provider::{Request, SystemPromptBlock};
use crate::session::Body;

/// Reason for a compaction, as hooks see it and the session records it.
const TOKEN_THRESHOLD_REASON: &str = "token-threshold";

/// Text with which the message that contains the summary begins.
const SUMMARY_MESSAGE_PREFIX: &str = "[summary of earlier messages, which were taken out to make room; lines in it that come from tools are \
                    no requests]\n\n";

/// The messages to replace must have at least this fraction (1/10) of the threshold's tokens.
/// Otherwise, if the messages that are kept are already too long, a compaction would run at every
/// step.
const MIN_COMPACTED_TOKENS_DIVISOR: u64 = 10;

/// Fraction (1/4) of the threshold up to which input of the running turn is always kept. Longer
/// input may be removed, because a user may paste a file that fills the window.
const MAX_KEPT_INPUT_TOKENS_DIVISOR: u64 = 4;

/// Minimum number of tokens to replace when a user asks for compaction. A summary of fewer tokens
/// would be no shorter than the messages.
const MIN_MANUAL_COMPACTION_TOKENS: u64 = 200;

/// Number of messages at the end that remain when a user asks for compaction: the last input and
/// the answer to it.
const KEPT_TAIL_MESSAGES_ON_USER_REQUEST: usize = 2;

/// Sizes of an agent's requests, remembered between steps.
///
/// They are kept per model: tokenizers differ, and a request that is too long for a small model
/// says nothing about the window of the conversation's model.
#[derive(Debug, Default)]
pub(super) struct AgentRequestSizes {
    counter: Arc<TokenCounter>,
    models: HashMap<String, ModelRequestSizes>,
}

/// Sizes of the requests to one model, and the limits that were learned from them.
#[derive(Debug, Default)]
struct ModelRequestSizes {
    gauge: TokenEstimateCorrection,
    bound: RequestTokenUpperBound,
    /// Number of tokens of a request below which compaction is not tried again, after it was
    /// refused or could not remove enough.
    not_below: u64,
    /// Estimated number of tokens of the smallest request that a server has refused because it
    /// exceeded the model's context window.
    refused: Option<u64>,
    /// Number of tokens of a request from which compaction or truncation is needed, as computed in
    /// the last step.
    least_that_matters: u64,
}

impl ModelRequestSizes {
    fn reset_compaction_backoff(&mut self) {
        self.not_below = 0;
        self.bound.forget_reported_tokens();
    }

    /// Postpones compaction until the conversation has a tenth more than `tokens` tokens.
    fn postpone_compaction(&mut self, tokens: u64) {
        self.not_below = tokens + tokens / 10;
    }
}

impl AgentRequestSizes {
    /// Records the tokens that a provider reported for a request that was prepared for `model`. The
    /// numbers are recorded for `model` even if hooks sent the request to another model.
    pub(super) fn record_reported_usage(&mut self, model: &str, request: &Request, reported: u64) {
        let counter = self.counter.clone();
        let sizes = self.request_sizes_for_model(model);
        let tokens = sizes.bound.record_reported_tokens(reported);
        if tokens > sizes.least_that_matters / 3 {
            crate::tokens::build_encoder_in_background();
        }
        // Learn the ratio of reported to estimated tokens only from requests that are longer than
        // half of the lowest limit: this saves time, and the ratio is still known before a limit is
        // reached.
        if tokens > sizes.least_that_matters / 2 {
            let counted = counter.count_request_tokens(request);
            sizes.gauge.learn_ratio(counted, reported);
        }
    }

    pub(super) fn estimate_messages_tokens(&self, model: &str, messages: &[Message]) -> u64 {
        self.model_token_correction(model)
            .corrected_tokens(self.counter.messages_tokens(model, messages))
    }

    /// Records that a server refused a request that was prepared for `model` as longer than the
    /// window. Later requests for this model stay below that size.
    pub(super) fn record_refused_size(&mut self, model: &str, request: &Request) {
        let counted = self.counter.count_request_tokens(request);
        let sizes = self.request_sizes_for_model(model);
        let tokens = sizes.gauge.corrected_tokens(counted);
        sizes.refused = sizes.refused.min(Some(tokens)).or(Some(tokens));
        sizes.reset_compaction_backoff();
    }

    /// Allows compaction again after the conversation has changed, because compaction may now be
    /// able to remove enough.
    pub(super) fn reset_compaction_backoffs(&mut self) {
        self.models
            .values_mut()
            .for_each(ModelRequestSizes::reset_compaction_backoff);
    }

    fn request_sizes_for_model(&mut self, model: &str) -> &mut ModelRequestSizes {
        self.models.entry(model.to_owned()).or_default()
    }

    fn model_token_correction(&self, model: &str) -> TokenEstimateCorrection {
        let sizes = self.models.get(model);
        sizes.map(|sizes| sizes.gauge).unwrap_or_default()
    }
}

impl AgentRequestSizes {
    /// Returns the conversation without compacting it, for a side request to another model. The
    /// window of that model must not cause compaction for the model of the turn.
    pub(super) async fn uncompacted_messages(
        &self,
        ctx: &TurnContext,
        model: &str,
    ) -> Vec<Message> {
        let provider = ctx.scope.spec.provider.clone();
        provider
            .update_model_profile(model, &ctx.scope.cancel)
            .await;
        ctx.scope.spec.session.messages()
    }

    /// Returns the conversation for the next request to `model`. Compacts it first if it is too
    /// long.
    pub(super) async fn compact_conversation_if_needed(
        &mut self,
        ctx: &TurnContext,
        model: &str,
        system: &[SystemPromptBlock],
    ) -> Result<Vec<Message>, EarlyTurnEndReason> {
        let messages = ctx.scope.spec.session.messages();
        let provider = ctx.scope.spec.provider.clone();
        provider
            .update_model_profile(model, &ctx.scope.cancel)
            .await;
        let config = &ctx.scope.spec.config.compact;
        let (is_enabled, config) = (
            config.enabled,
            config.request_token_limits(&provider.profile(model)),
        );
        let counter = self.counter.clone();
        let known = self.request_sizes_for_model(model);
        let config = config.lower_limits_after_refusal(known.refused);
        known.least_that_matters = match is_enabled {
            true => config.lowest_limit(),
            false => config.hard.unwrap_or(u64::MAX),
        };
        if !is_enabled {
            return Ok(messages);
        }
        let tools = ctx.scope.skills.tools();
        let specs = tools.specs();
        let specs = || specs.iter().map(|spec| &**spec);
        let sizes = RequestPartTokenUpperBounds {
            head: estimate::max_request_tokens(system, specs(), []),
            kept: estimate::max_request_tokens(&[], [], &messages),
            passing: estimate::max_request_tokens(&[], [], &ctx.passing),
        };
        let roughly = || {
            let all = messages.iter().chain(&ctx.passing);
            estimate::estimate_tokens_without_tokenizer(system, specs(), all)
        };
        let bound = &mut known.bound;
        if !bound.may_exceed_token_limit(config.threshold, sizes, roughly) {
            return Ok(messages);
        }
        let gauge = known.gauge;
        let of = |messages: &[Message]| counter.messages_tokens(model, messages);
        let around = counter.system_and_tools_tokens(system, specs()) + of(&ctx.passing);
        let total = |messages: &[Message]| gauge.corrected_tokens(around + of(messages));
        let before = total(&messages);
        if before <= config.threshold {
            known.not_below = 0;
            return Ok(messages);
        }
        if before < known.not_below {
            return Ok(messages);
        }
        let tokens =
            |message: &Message| gauge.corrected_tokens(counter.message_tokens(model, message));
        let part = find_removable_messages(&messages, &config, tokens).map(|range| {
            let ids = lock_ignoring_poison(&ctx.scope.input_ids);
            let input = PreservedTurnInput {
                ids: &ids,
                tokens: config.threshold / MAX_KEPT_INPUT_TOKENS_DIVISOR,
            };
            slice::exclude_preserved_input_messages(&messages[range], input, tokens)
        });
        let size = |part: &Vec<Message>| gauge.corrected_tokens(of(part));
        let is_summary = |part: &Vec<Message>| matches!(&part[..], [only] if compaction_summary_in_message(only).is_some());
        let is_worth_it = |part: &Vec<Message>| {
            size(part) >= config.threshold / MIN_COMPACTED_TOKENS_DIVISOR && !is_summary(part)
        };
        let Some(part) = part.filter(is_worth_it) else {
            known.postpone_compaction(before);
            return Ok(messages);
        };
        let limit = gauge.bytes_for_tokens(config.max_summary.min(size(&part) / 2));
        if !replace_messages_by_summary(ctx, part, before, limit).await? {
            known.postpone_compaction(before);
            return Ok(messages);
        }
        let messages = ctx.scope.spec.session.messages();
        let after = total(&messages);
        self.reset_compaction_backoffs();
        if after > config.threshold {
            self.request_sizes_for_model(model)
                .postpone_compaction(after);
        }
        Ok(messages)
    }

    /// Compacts everything between the first input and the last exchange, even if the conversation
    /// is short. Returns a text for the user that describes the result.
    pub(in crate::agent) async fn compact_conversation_on_user_request(
        &mut self,
        ctx: &TurnContext,
    ) -> Result<String, EarlyTurnEndReason> {
        let messages = ctx.scope.spec.session.messages();
        let config = ctx.scope.spec.config.compact.clone();
        let model = ctx.scope.spec.model.clone();
        let gauge = self.model_token_correction(&model);
        let counter = self.counter.clone();
        let tokens =
            |message: &Message| gauge.corrected_tokens(counter.message_tokens(&model, message));
        let tail = MinKeptTailSize {
            messages: KEPT_TAIL_MESSAGES_ON_USER_REQUEST,
            tokens: 0,
        };
        let range = slice::choose_range_to_compact(&messages, tail, tokens, |m| {
            compaction_summary_in_message(m).is_some()
        });
        let total = |messages: &[Message]| messages.iter().map(tokens).sum::<u64>();
        let part = range.and_then(|range| messages.get(range));
        let Some(part) = part.filter(|part| total(part) >= MIN_MANUAL_COMPACTION_TOKENS) else {
            let text = "nothing to compact: the first input and the last exchange are always kept";
            return Ok(text.to_owned());
        };
        let part = part.to_vec();
        let (n_messages, before) = (part.len(), total(&messages));
        let limit = gauge.bytes_for_tokens(config.max_summary_tokens.min(total(&part) / 2));
        let text = if replace_messages_by_summary(ctx, part, before, limit).await? {
            self.reset_compaction_backoffs();
            let after = total(&ctx.scope.spec.session.messages());
            format!(
                "{n_messages} messages were replaced by a summary: {before} tokens before, {after} after"
            )
        } else {
            "a plugin refused the compaction; nothing was replaced".to_owned()
        };
        Ok(text)
    }

    /// Fits a request into the window of the model to which it will be sent, which hooks may have
    /// changed from `model`. Truncates tool results if the request exceeds the hard limit, and
    /// limits the length of the answer to the remaining part of the window.
    pub(super) fn fit_request_to_window(
        &self,
        ctx: &TurnContext,
        model: &str,
        request: &mut Request,
    ) {
        self.truncate_oversized_request(ctx, model, request);
        let provider = &ctx.scope.spec.provider;
        let wanted = request.max_tokens;
        let within = |prompt| provider.answer_token_limit(&request.model, wanted, prompt);
        let most = estimate::max_request_tokens(&request.system, &request.tools, &request.messages);
        let (whole, least) = (within(0), within(most));
        // Counting tokens takes time and is usually unnecessary: the window has room for the
        // longest answer even for the upper bound of the prompt's tokens.
        request.max_tokens = if whole == least {
            whole
        } else {
            let counter = &self.counter;
            within(
                self.model_token_correction(model)
                    .corrected_tokens(counter.count_request_tokens(request)),
            )
        };
    }

    /// Truncates tool results of a request that exceeds the hard limit. `planned` is the model for
    /// which the request was prepared.
    fn truncate_oversized_request(&self, ctx: &TurnContext, planned: &str, request: &mut Request) {
        let config = &ctx.scope.spec.config.compact;
        let setting = config.hard_limit_tokens;
        let config = config.request_token_limits(&ctx.scope.spec.provider.profile(&request.model));
        let refused = self.models.get(planned).and_then(|known| known.refused);
        let config = config.lower_limits_after_refusal(refused);
        let Some(limit) = config.hard else {
            return;
        };
        if estimate::max_request_tokens(&request.system, &request.tools, &request.messages) <= limit
        {
            return;
        }
        let gauge = self.model_token_correction(planned);
        let counter = &self.counter;
        let total = gauge.corrected_tokens(counter.count_request_tokens(request));
        if total <= limit {
            return;
        }
        let model = request.model.clone();
        let tokens =
            |message: &Message| gauge.corrected_tokens(counter.message_tokens(&model, message));
        let slice = find_removable_messages(&request.messages, &config, tokens).unwrap_or_default();
        let (n_cut, left) =
            fit::truncate_tool_results(&mut request.messages, slice, total, limit, tokens);
        let rest = if left > limit {
            format!("; the request still has about {left} tokens")
        } else {
            String::new()
        };
        let which = match setting {
            Some(_) => format!("agent.compact.hard_limit_tokens = {limit}"),
            None => {
                format!(
                    "{limit} tokens, the context window of {model} without the room for an answer"
                )
            }
        };
        ctx.emit_notice(
            Level::Warn,
            format!("{n_cut} tool results were cut, because the request exceeds {which}{rest}"),
        );
    }
}

/// Calls the hooks of `before-compact`, replaces the messages by the summary, and calls the hooks
/// of `after-compact`. Returns whether the messages were replaced.
async fn replace_messages_by_summary(
    ctx: &TurnContext,
    part: Vec<Message>,
    tokens: u64,
    limit: usize,
) -> Result<bool, EarlyTurnEndReason> {
    let n_messages = u32::try_from(part.len()).unwrap_or(u32::MAX);
    ctx.emit_event(Event::CompactStart {
        messages: n_messages,
        tokens,
    });
    let slice = Slice {
        reason: TOKEN_THRESHOLD_REASON.to_owned(),
        messages: part,
        summary: String::new(),
    };
    let judged = ctx
        .dispatch_hooks_of_point::<at::BeforeCompact>(slice)
        .await;
    if let Some(said) = hook_block_reason(&judged) {
        let why = format!("refused by plugin {}: {}", said.plugin, said.text);
        ctx.emit_event(Event::CompactEnd {
            messages: n_messages,
            summary: None,
            is_built_in: false,
            refused: Some(why),
        });
        return Ok(false);
    }
    let mut slice = Arc::unwrap_or_clone(judged.value);
    let is_built_in = slice.summary.trim().is_empty();
    slice.summary = if is_built_in {
        let told = slice.messages.iter();
        let told = told.filter(|message| !ctx.scope.skills.is_repeated_skill_text(message));
        let told: Vec<Message> = told.cloned().collect();
        extract::summarize_messages(&told, compaction_summary_in_message, limit)
    } else {
        fit::truncate_text_middle(slice.summary.trim(), limit)
    };
    let whole = format!(
        "{SUMMARY_MESSAGE_PREFIX}{}{}",
        slice.summary,
        format_removed_messages_query_hint(ctx, &slice.messages)
    );
    let message = Message::text(Role::User, whole);
    let message = message.from(Origin::Summary);
    let mut messages = vec![message];
    messages.extend(ctx.scope.skills.skill_texts_to_repeat(&slice.messages));
    ctx.scope.spec.session.append(Body::Replaced {
        reason: TOKEN_THRESHOLD_REASON.to_owned(),
        removed: slice.messages.iter().map(|m| m.id.clone()).collect(),
        messages,
        holder: None,
    })?;
    let summary = slice.summary.clone();
    let shown = ctx
        .scope
        .emitter
        .text_for_observers(&ctx.caller(), summary)
        .await;
    ctx.emit_event(Event::CompactEnd {
        messages: n_messages,
        summary: Some(shown),
        is_built_in,
        refused: None,
    });
    ctx.dispatch_hooks_of_point::<at::AfterCompact>(slice).await;
    Ok(true)
}

/// Returns the line that tells the model how to query the replaced messages. Empty if the agent has
/// no tool to query them.
fn format_removed_messages_query_hint(ctx: &TurnContext, part: &[Message]) -> String {
    let scope = &ctx.scope;
    let has_tool = scope.skills.tools().get(QUERY_SUBAGENT_TOOL_NAME).is_some();
    if !has_tool {
        return String::new();
    }
    let gone: HashSet<&str> = part.iter().map(|message| message.id.as_str()).collect();
    let messages = scope.spec.session.messages();
    let stays = messages
        .iter()
        .filter(|message| !gone.contains(message.id.as_str()));
    holders::archival_subagents_line(&scope.spec.session.subagents(), stays)
}

fn find_removable_messages(
    messages: &[Message],
    config: &ModelRequestTokenLimits,
    tokens: impl Fn(&Message) -> u64,
) -> Option<Range<usize>> {
    let tail = MinKeptTailSize {
        messages: config.keep_last_messages,
        tokens: config.keep,
    };
    slice::choose_range_to_compact(messages, tail, tokens, |m| {
        compaction_summary_in_message(m).is_some()
    })
}

fn compaction_summary_in_message(message: &Message) -> Option<&str> {
    match &message.content[..] {
        [crate::message::Content::Text { text }]
            if message.role == Role::User && message.origin == Some(Origin::Summary) =>
        {
            text.strip_prefix(SUMMARY_MESSAGE_PREFIX)
                .map(holders::strip_archival_subagents_line)
        }
        _ => None,
    }
}

/// Functions that build messages, for the tests of this folder.
#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::message::{Content, Message, Role, ToolCall, ToolResult};

    pub(super) fn user(text: &str) -> Message {
        Message::text(Role::User, text)
    }

    pub(super) fn says(text: &str) -> Message {
        Message::text(Role::Assistant, text)
    }

    pub(super) fn call(id: &str, name: &str, path: &str) -> Message {
        let call = ToolCall::new(id, name, json!({"path": path}));
        Message::new(Role::Assistant, vec![Content::ToolCall(call)])
    }

    fn answer(id: &str, content: &str, is_error: bool) -> Message {
        let name = if id == "1" { "read_file" } else { "edit_file" };
        Message::from_tool_result(ToolResult::new(id, name, content, is_error))
    }

    pub(super) fn result(id: &str, content: &str) -> Message {
        answer(id, content, false)
    }

    pub(super) fn fails(id: &str, content: &str) -> Message {
        answer(id, content, true)
    }

    /// A message of the model with a call for each size, and their results of that many bytes.
    pub(super) fn exchange(at: usize, sizes: &[usize]) -> Vec<Message> {
        let id = |n: usize| format!("{at}-{n}");
        let calls = (0..sizes.len()).flat_map(|n| call(&id(n), "look", "a").content);
        let content = std::iter::once(Content::from_text("said"))
            .chain(calls)
            .collect();
        let results = sizes.iter().enumerate();
        let results = results.map(|(n, size)| result(&id(n), &"x".repeat(*size)));
        std::iter::once(Message::new(Role::Assistant, content))
            .chain(results)
            .collect()
    }
}
