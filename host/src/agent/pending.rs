//! Counts the usage and cost of each request, even of one that gets no answer or whose usage the
//! provider does not report.
//!
//! A request that is dropped because the user interrupts the turn was still sent, and is billed. A
//! drop guard therefore counts each request exactly once, however it ends. Usage that the provider
//! does not report is estimated and marked as estimated; if it counted as zero, a budget would
//! never be used up.

use std::sync::{Arc, Mutex, MutexGuard};

use super::budget::TurnBudget;
use super::compact::{estimate_request_tokens, estimate_request_tokens_roughly};
use super::spec::AgentSpec;
use crate::event::Event;
use crate::lock::lock_ignoring_poison;
use crate::message::{Content, Message, Usage};
use crate::point::caller::Caller;
use crate::price::Cost;
use crate::provider::{Request, Response, StreamEvent};
use crate::session::Body;
use crate::tokens;

/// Streamed text of an answer, shared by the code that sends the request and the code that counts
/// usage.
#[derive(Clone, Default)]
pub(super) struct SharedStreamedAnswerText(Arc<Mutex<StreamedAnswerState>>);

#[derive(Default)]
struct StreamedAnswerState {
    text: String,
    /// Text that was received in attempts that broke off. The provider bills these attempts as
    /// well.
    lost: String,
    /// Number of attempts to send the request that broke off after some text had arrived.
    n_lost: u64,
}

impl SharedStreamedAnswerText {
    /// Updates the text of the answer from an event of its stream.
    pub(super) fn record_stream_event(&self, event: &StreamEvent) {
        match event {
            StreamEvent::Text(text) | StreamEvent::Thinking(text) => {
                self.lock().text.push_str(text)
            }
            StreamEvent::ToolCall { name } => self.lock().text.push_str(name),
            StreamEvent::Retry { .. } => {
                let mut attempts = self.lock();
                let text = std::mem::take(&mut attempts.text);
                attempts.n_lost += u64::from(!text.is_empty());
                attempts.lost.push_str(&text);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, StreamedAnswerState> {
        lock_ignoring_poison(&self.0)
    }
}

/// A request in progress. Its usage is counted once: when the outcome of the request is recorded,
/// or else when this value is dropped.
pub(super) struct PendingModelRequest<'a> {
    spec: &'a AgentSpec,
    budget: &'a TurnBudget,
    caller: &'a Caller,
    request: &'a Request,
    number: u32,
    heard: SharedStreamedAnswerText,
    is_settled: bool,
}

impl<'a> PendingModelRequest<'a> {
    pub(super) fn new(
        spec: &'a AgentSpec,
        budget: &'a TurnBudget,
        caller: &'a Caller,
        request: &'a Request,
        number: u32,
    ) -> Self {
        Self {
            spec,
            budget,
            caller,
            request,
            number,
            heard: SharedStreamedAnswerText::default(),
            is_settled: false,
        }
    }

    /// Returns the buffer into which the streamed answer is recorded.
    pub(super) fn streamed_text(&self) -> SharedStreamedAnswerText {
        self.heard.clone()
    }

    /// Whether the model began to answer the request.
    pub(super) fn has_begun_answer(&self) -> bool {
        let attempts = self.heard.lock();
        attempts.n_lost > 0 || !attempts.text.is_empty()
    }

    /// Records an answer and returns its cost. Usage that the provider did not report is estimated,
    /// and broken attempts before the answer are counted.
    pub(super) fn record_answer(mut self, response: &mut Response) -> Cost {
        self.is_settled = true;
        let (n_lost, lost) = {
            let attempts = self.heard.lock();
            (attempts.n_lost, tokens::count_tokens(&attempts.lost))
        };
        if n_lost > 0 {
            let input = estimate_request_tokens(self.request).saturating_mul(n_lost);
            self.record_unanswered_attempts(
                input,
                lost,
                "the answer broke off and was requested again",
            );
        }
        estimate_missing_usage(&mut response.usage, self.request, &response.message);
        let models = [response.model.as_deref(), Some(&*self.request.model)];
        let models = models.into_iter().flatten();
        let cost = compute_request_cost(self.spec, self.request, models, &response.usage);
        response.cost_usd = cost_if_fully_priced(cost);
        cost
    }

    /// Records that the request got no answer. `is_paid` is true if the model may have worked on
    /// the request, so the provider bills it. `is_cancelled` is true if the user waits for the turn
    /// to end; tokens are then estimated roughly, which is faster.
    pub(super) fn record_failure(mut self, why: &str, is_paid: bool, is_cancelled: bool) {
        self.is_settled = true;
        let (usage, cost_usd) = if is_paid {
            self.record_unanswered_request(why, is_cancelled)
        } else {
            (Usage::default(), None)
        };
        self.spec.events.emit(Event::RequestEnd {
            request: self.number,
            model: None,
            usage,
            cost_usd,
            latency_ms: 0,
            finish: None,
            error: Some(why.to_owned()),
        });
    }

    /// Counts a request without an answer, including its broken attempts. If `is_rough` is true,
    /// tokens are estimated without the tokenizer, whose first use takes half a second of CPU time.
    fn record_unanswered_request(&self, why: &str, is_rough: bool) -> (Usage, Option<f64>) {
        let count = match is_rough {
            true => tokens::estimate_tokens,
            false => tokens::count_tokens,
        };
        let input = match is_rough {
            true => estimate_request_tokens_roughly(self.request),
            false => estimate_request_tokens(self.request),
        };
        let (n_lost, written) = {
            let attempts = self.heard.lock();
            let written = count(&attempts.lost) + count(&attempts.text);
            (attempts.n_lost, written)
        };
        self.record_unanswered_attempts(input.saturating_mul(n_lost + 1), written, why)
    }

    /// Adds attempts without an answer to the usage of the turn and to the session; `input` are the
    /// tokens that were sent, `written` the tokens that were received.
    fn record_unanswered_attempts(
        &self,
        input: u64,
        written: u64,
        why: &str,
    ) -> (Usage, Option<f64>) {
        let usage = Usage {
            input_tokens: input,
            output_tokens: written,
            estimated: true,
            ..Usage::default()
        };
        let models = [&*self.request.model];
        let cost = compute_request_cost(self.spec, self.request, models, &usage);
        self.budget.add_usage(usage, cost);
        self.spec.session.append_or_defer_error(Body::Unanswered {
            turn: self.caller.context.turn,
            step: self.caller.context.step,
            model: self.request.model.clone(),
            usage,
            cost_usd: cost_if_fully_priced(cost),
            reason: why.to_owned(),
        });
        (usage, cost_if_fully_priced(cost))
    }
}

impl Drop for PendingModelRequest<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.record_unanswered_request("the turn went on without waiting for the answer", true);
        }
    }
}

/// Computes the cost of a request from the configured price of one of `models`, or else from the
/// price that the provider reports for the model of the request.
fn compute_request_cost<'n>(
    spec: &AgentSpec,
    request: &Request,
    models: impl IntoIterator<Item = &'n str>,
    usage: &Usage,
) -> Cost {
    let cost = spec.config.prices.cost(models, usage);
    let told = || spec.provider.profile(&request.model).price;
    match Some(cost.unpriced_tokens)
        .filter(|n| *n > 0)
        .and_then(|_| told())
    {
        Some(price) => Cost {
            usd: price.cost_of(usage),
            unpriced_tokens: 0,
        },
        None => cost,
    }
}

/// Refuses a request that would exceed the cost limit of its turn. Only the cost of the input is
/// estimated, because the length of the answer is not known in advance.
pub(super) fn check_cost_limit(
    spec: &AgentSpec,
    budget: &TurnBudget,
    request: &Request,
) -> Result<(), String> {
    let Some((limit, spent)) = budget.cost_limit() else {
        return Ok(());
    };
    let usage = Usage {
        input_tokens: estimate_request_tokens(request),
        ..Usage::default()
    };
    let next = compute_request_cost(spec, request, [&*request.model], &usage);
    if next.unpriced_tokens > 0 || spent.unpriced_tokens > 0 {
        return Err(format!(
            "the turn may cost at most ${limit}, but the price of the model `{}` is unknown; set its price under [prices], or remove the limit",
            request.model
        ));
    }
    if spent.usd + next.usd > limit {
        return Err(format!(
            "the turn may cost at most ${limit}; it has cost ${:.4}, and the next request costs ${:.4} or more",
            spent.usd, next.usd
        ));
    }
    Ok(())
}

/// Returns a cost in US dollars; `None` if the price of some tokens is unknown.
fn cost_if_fully_priced(cost: Cost) -> Option<f64> {
    (cost.unpriced_tokens == 0).then_some(cost.usd)
}

/// Estimates usage that the provider reported as zero: every request has input tokens, and an
/// answer with text or calls has output tokens.
fn estimate_missing_usage(usage: &mut Usage, request: &Request, answer: &Message) {
    if usage.input_tokens == 0 {
        usage.input_tokens = estimate_request_tokens(request);
        usage.estimated = true;
    }
    if usage.output_tokens == 0 {
        usage.output_tokens = answer.content.iter().map(count_part_tokens).sum();
        usage.estimated |= usage.output_tokens > 0;
    }
}

/// Returns the number of tokens of one part of an answer.
fn count_part_tokens(part: &Content) -> u64 {
    match part {
        Content::Text { text } | Content::Thinking { text, .. } => tokens::count_tokens(text),
        Content::ToolCall(call) => {
            tokens::count_tokens(&call.name) + tokens::count_tokens(&call.arguments.to_string())
        }
        Content::ToolResult(_) | Content::Blob(_) => 0,
    }
}
