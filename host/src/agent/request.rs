//! Sends one request to the model: calls the hooks that may change its body, reads the answer, and
//! stores request and answer. The steps of the loop and the requests of plugins use it.

use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use super::blobs::load_images;
use super::pending::{PendingModelRequest, SharedStreamedAnswerText, check_cost_limit};
use super::scope::SharedTurnState;
use super::stop::hook_block_reason;
use super::stream::emit_retry;
use crate::event::Event;
use crate::point::ExtensionPoint;
use crate::point::caller::Caller;
use crate::point::catalog as at;
use crate::point::dispatch::PluginAttributedText;
use crate::point::payload::{ModelRequest, Purpose, WireRequest, WireResponse};
use crate::provider::server_text::SanitizedServerText;
use crate::provider::{self, Request, Response, StreamEvent};
use crate::session::{self, Body};
use crate::text::format_error_chain;

/// Reason why a model request got no answer.
pub(super) enum NoModelAnswerReason {
    /// A hook blocked the request, or a hook with `on_failure = "block"` failed.
    Blocked(PluginAttributedText),
    /// The request could exceed the cost limit of the turn.
    Spent(String),
    Cancelled,
    /// The provider failed, with this error text.
    Provider(String),
    /// The request exceeds the model's context window.
    TooLong(String),
    /// The provider rejected the request, but its error showed how to correct it: sending it again
    /// may succeed.
    Mended(String),
    /// The session cannot be written.
    Session(session::Error),
}

impl fmt::Display for NoModelAnswerReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked(PluginAttributedText { plugin, text }) => {
                write!(f, "the request was refused by plugin {plugin}: {text}")
            }
            Self::Spent(why) => f.write_str(why),
            Self::Cancelled => f.write_str("the turn was interrupted"),
            Self::Provider(why) | Self::TooLong(why) | Self::Mended(why) => {
                write!(f, "the model gave no answer: {why}")
            }
            Self::Session(error) => f.write_str(&format_error_chain(error)),
        }
    }
}

/// Applies the changes that hooks of `pre-reason` made to a request, except for its tools.
pub(super) fn apply_hook_request_changes(request: &mut Request, wanted: ModelRequest) {
    request.model = wanted.model;
    request.temperature = wanted.temperature;
    request.max_tokens = wanted.max_tokens;
}

/// Checks and sends every request to a model in one turn.
#[derive(Clone, Copy)]
pub(super) struct ModelRequestSender<'a> {
    scope: &'a SharedTurnState,
}

impl<'a> ModelRequestSender<'a> {
    pub(super) fn new(scope: &'a SharedTurnState) -> Self {
        Self { scope }
    }

    /// Sends a request outside the conversation with [`send_request`](Self::send_request), after
    /// the hooks of `pre-reason`. The answer is not shown to the user; retries are announced.
    pub(super) async fn request_outside_conversation(
        &self,
        purpose: Purpose,
        caller: &Caller,
        request: Request,
        kept: impl Fn(&Request, &Response) -> Body + Send + Sync,
    ) -> Result<Response, NoModelAnswerReason> {
        let by = match &purpose {
            Purpose::Plugin(name) => Some(Arc::from(name.as_str())),
            Purpose::Step | Purpose::Host(_) => None,
        };
        let request = self
            .run_pre_reason_hooks(purpose.clone(), caller, request)
            .await?;
        let send = |body, heard| self.send_request_without_showing(body, heard);
        // Correct and resend the request only once: a server could reject one field after another,
        // without end.
        match self
            .send_request(&purpose, by.as_ref(), caller, &request, send, &kept)
            .await
        {
            Err(NoModelAnswerReason::Mended(why)) => {
                emit_retry(
                    &self.scope.spec.events,
                    StreamEvent::new_correction_retry(why),
                );
                self.send_request(&purpose, by.as_ref(), caller, &request, send, &kept)
                    .await
            }
            answer => answer,
        }
    }

    /// Sends a request body to the model through the provider, without showing the answer to the
    /// user. The user is notified of retries.
    pub(super) fn send_request_without_showing(
        &self,
        body: Value,
        heard: SharedStreamedAnswerText,
    ) -> BoxFuture<'a, Result<Response, provider::Error>> {
        let scope = self.scope;
        Box::pin(async move {
            let mut on = |event| {
                heard.record_stream_event(&event);
                emit_retry(&scope.spec.events, event);
            };
            scope.spec.provider.send(body, &mut on, &scope.cancel).await
        })
    }

    /// Calls the hooks of `pre-reason` for a request outside the conversation. Messages that they
    /// inject are added to this request only.
    async fn run_pre_reason_hooks(
        &self,
        purpose: Purpose,
        caller: &Caller,
        mut request: Request,
    ) -> Result<Request, NoModelAnswerReason> {
        let proposed = self.model_request_for_hooks(purpose, &request, Vec::new());
        let reasoned = self
            .scope
            .emitter
            .dispatch_hooks::<at::PreReason>(caller, proposed)
            .await;
        if let Some(said) = hook_block_reason(&reasoned) {
            return Err(NoModelAnswerReason::Blocked(said.clone()));
        }
        apply_hook_request_changes(&mut request, reasoned.value);
        for (plugin, mut injection) in reasoned.inject {
            injection.keep = false;
            let message = self
                .scope
                .emitter
                .emit_injected_plugin_text(caller, &plugin, injection)
                .await
                .map_err(NoModelAnswerReason::Session)?;
            request.messages.push(message);
        }
        Ok(request)
    }

    /// Converts a request to the form that hooks of `pre-reason` see.
    pub(super) fn model_request_for_hooks(
        &self,
        purpose: Purpose,
        request: &Request,
        tools: Vec<String>,
    ) -> ModelRequest {
        ModelRequest {
            purpose,
            provider: self.scope.spec.provider.name().to_owned(),
            model: request.model.clone(),
            temperature: request.temperature,
            max_tokens: request.max_tokens,
            tools,
            messages: u32::try_from(request.messages.len()).unwrap_or(u32::MAX),
            usage: self.scope.budget.usage().into(),
        }
    }

    /// Calls the hooks of `before-provider-request`, streams the answer, and calls the hooks of
    /// `after-provider-response`. `by` is the plugin that makes the request, and `kept` creates the
    /// session entry. The tokens count towards the turn. `send` sends the body through the provider
    /// and records its stream events.
    pub(super) async fn send_request<'s>(
        &self,
        purpose: &Purpose,
        by: Option<&Arc<str>>,
        caller: &Caller,
        request: &Request,
        send: impl FnOnce(
            Value,
            SharedStreamedAnswerText,
        ) -> BoxFuture<'s, Result<Response, provider::Error>>
        + Send,
        kept: impl FnOnce(&Request, &Response) -> Body + Send,
    ) -> Result<Response, NoModelAnswerReason> {
        let (provider, session) = (&self.scope.spec.provider, &self.scope.spec.session);
        check_cost_limit(&self.scope.spec, &self.scope.budget, request)
            .map_err(NoModelAnswerReason::Spent)?;
        let images = load_images(&self.scope.spec, &self.scope.family.root, request).await;
        let body = self
            .apply_request_body_hooks(caller, provider.build_request_body(request, &images))
            .await;
        drop(images);
        let body = body.map_err(NoModelAnswerReason::Blocked)?;
        // Sync the session to disk while the model answers; tools with side effects wait for the
        // sync.
        if let Some(lines) = session
            .take_unsynced_entries()
            .map_err(NoModelAnswerReason::Session)?
        {
            tokio::task::spawn_blocking(move || lines.wait_for_sync());
        }
        let number = self.scope.budget.count_model_request();
        self.scope.spec.events.emit(Event::RequestStart {
            request: number,
            provider: provider.name().to_owned(),
            model: request.model.clone(),
            by: by.map(ToString::to_string),
            call_id: caller.call.as_deref().map(str::to_owned),
        });
        let pending = PendingModelRequest::new(
            &self.scope.spec,
            &self.scope.budget,
            caller,
            request,
            number,
        );
        let mut response = match send(body, pending.streamed_text()).await {
            Ok(response) => response,
            Err(mut error) => {
                if let Some(excerpt) = error.unreadable_answer_excerpt_mut() {
                    let text = excerpt.as_str().to_owned();
                    *excerpt = SanitizedServerText::new(
                        &self.scope.emitter.text_for_observers(caller, text).await,
                    );
                }
                let is_cancelled =
                    matches!(error, provider::Error::Cancelled) && self.scope.cancel.is_cancelled();
                let why = format_error_chain(&error);
                let is_paid = pending.has_begun_answer() || error.may_have_been_billed();
                pending.record_failure(&why, is_paid, is_cancelled);
                let mend = error.suggested_request_correction().filter(|_| !is_paid);
                return Err(match &error {
                    _ if is_cancelled => NoModelAnswerReason::Cancelled,
                    provider::Error::WindowExceeded { .. } if !is_paid => {
                        NoModelAnswerReason::TooLong(why)
                    }
                    _ if mend.is_some_and(|mend| provider.remember_correction(mend, request)) => {
                        NoModelAnswerReason::Mended(why)
                    }
                    _ => NoModelAnswerReason::Provider(why),
                });
            }
        };
        let cost = pending.record_answer(&mut response);
        self.scope.spec.events.emit(Event::RequestEnd {
            request: number,
            model: response.model.clone(),
            usage: response.usage,
            cost_usd: response.cost_usd,
            latency_ms: response.latency_ms,
            finish: Some(response.finish),
            error: None,
        });
        self.scope.budget.add_usage(response.usage, cost);
        // Keep the entry in memory if the disk is full, because the provider already bills the
        // answer. The next entry, which is the answer itself, returns the error.
        let _ = session.append_or_keep_in_memory(kept(request, &response));
        let mut caller = caller.clone();
        self.scope.refresh_caller_context(&mut caller);
        self.scope
            .emitter
            .dispatch_hooks::<at::AfterProviderResponse>(
                &caller,
                WireResponse {
                    purpose: purpose.clone(),
                    provider: provider.name().to_owned(),
                    status: response.status,
                    latency_ms: response.latency_ms,
                    usage: response.usage,
                    cost_usd: response.cost_usd,
                    model: response
                        .model
                        .clone()
                        .unwrap_or_else(|| request.model.clone()),
                    // Take the raw answer without a copy, because nothing uses it after these
                    // hooks.
                    body: std::mem::take(&mut response.raw),
                },
            )
            .await;
        Ok(response)
    }

    /// Returns the body after the hooks. Bodies are large, so the body is serialized only if there
    /// is a hook that reads it.
    async fn apply_request_body_hooks(
        &self,
        caller: &Caller,
        body: Value,
    ) -> Result<Value, PluginAttributedText> {
        let registry = self.scope.emitter.dispatcher.registry();
        let name = at::BeforeProviderRequest::NAME;
        if registry.hooks::<at::BeforeProviderRequest>(name).is_empty() {
            return Ok(body);
        }
        let before = Arc::new(WireRequest {
            provider: self.scope.spec.provider.name().to_owned(),
            body: body.to_string(),
        });
        let wire = self
            .scope
            .emitter
            .dispatch_hooks::<at::BeforeProviderRequest>(caller, before.clone())
            .await;
        if let Some(said) = hook_block_reason(&wire) {
            return Err(said.clone());
        }
        if Arc::ptr_eq(&wire.value, &before) {
            return Ok(body);
        }
        // The body is a JSON object: merging the changes of hooks rejects anything else.
        Ok(serde_json::from_str(&wire.value.body).unwrap_or(body))
    }
}
