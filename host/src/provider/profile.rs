//! Stores what a client knows about its server: the dialect, and the profiles of its models.
//!
//! Owns the precedence of profile sources (settings, the server, the table) and the answer limit
//! derived from the profile. It must not depend on a wire format. Start from
//! [`ModelServerProfile`].

use std::collections::HashMap;
use std::sync::Mutex;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::ask::{ModelInfoApiKind, ReportedModelFacts};
use super::dialect::RequestBodyDialect;
use super::http::ModelApiConnectionPool;
use super::mend::RequestCorrection;
use crate::lock::lock_ignoring_poison;
use crate::model::{ModelProfile, Models};

/// Default limit of an answer, in tokens, when neither settings nor hooks set one. A file of 100 kB
/// fits; a longer answer is usually a repetition loop.
const DEFAULT_MAX_ANSWER_TOKENS: u32 = 64_000;

/// Smallest limit of an answer, in tokens, even if the estimate says that the window is full: the
/// estimate may be too high, and an answer of a few tokens is useless.
const MIN_ANSWER_TOKEN_LIMIT: u64 = 1_024;

/// Percentage that is added to the estimated size of the prompt, because the estimate may be a few
/// percent too low.
const PROMPT_ESTIMATE_MARGIN_PERCENT: u64 = 5;

/// Default context window of a model on this machine, when the settings, the server and the table
/// do not contain one. Local servers commonly run with 4,096 to 32,768 tokens, independent of the
/// window that the model was trained for.
const DEFAULT_LOCAL_CONTEXT_WINDOW_TOKENS: u64 = 32_768;

/// Maximum number of queries to the server about one model. A final answer ends the queries
/// earlier.
const MAX_SERVER_QUERIES_PER_MODEL: u32 = 3;

/// Facts that a client knows about its server and the server's models. The default value contains
/// only the built-in table of models.
#[derive(Debug, Default)]
pub struct ModelServerProfile {
    /// Field names and roles that the server expects in request bodies.
    pub dialect: RequestBodyDialect,
    /// Corrections of the request bodies that this server needs from the first request on.
    pub mends: &'static [RequestCorrection],
    /// Profiles of models: the built-in table, and the operator's settings over it.
    pub models: Models,
    /// Whether the models of the server take images; overrides their profiles (`provider.images`).
    pub images: Option<bool>,
    /// API of the server to query for the profile of a model; `None` if the server has none.
    pub ask: Option<ModelInfoApiKind>,
    /// Whether the server runs on this machine.
    pub is_local: bool,
    /// Answer of the server about each model, with the number of queries so far.
    pub(crate) told: Mutex<HashMap<String, (ReportedModelFacts, u32)>>,
}

impl ModelServerProfile {
    /// Returns the profile of a model: the settings, completed with what the server has reported so
    /// far and with the built-in table.
    pub(crate) fn model_profile(&self, model: &str) -> ModelProfile {
        let told = lock_ignoring_poison(&self.told)
            .get(model)
            .map(|(told, _)| told.profile.clone());
        let mut profile = self.models.model_profile(model, told.unwrap_or_default());
        if self.is_local {
            profile.window_tokens = profile
                .window_tokens
                .or(Some(DEFAULT_LOCAL_CONTEXT_WINDOW_TOKENS));
        }
        profile.images = self.images.or(profile.images);
        profile
    }

    /// Queries the server about a model, unless its last answer is final, it was queried often
    /// enough, or the settings and the table suffice. A failure is stored like an answer and is not
    /// an error.
    pub(crate) async fn query_profile(
        &self,
        http: &ModelApiConnectionPool,
        model: &str,
        cancel: &CancellationToken,
    ) {
        let Some(ask) = self.ask else { return };
        let known = lock_ignoring_poison(&self.told).get(model).cloned();
        let n_asked = match known {
            Some((told, n)) if told.is_final || n >= MAX_SERVER_QUERIES_PER_MODEL => return,
            Some((_, n)) => n,
            None if self.is_context_window_known(ask, model) => return,
            None => 0,
        };
        let told = ask.query_model(http, model, cancel).await;
        tracing::debug!(model, ?told, "asked the server about a model");
        lock_ignoring_poison(&self.told).insert(model.to_owned(), (told, n_asked + 1));
    }

    /// Whether the settings or the table contain the context window of a model, and the value of
    /// the server would not be more accurate.
    fn is_context_window_known(&self, ask: ModelInfoApiKind, model: &str) -> bool {
        let own = self.models.model_profile(model, ModelProfile::default());
        own.window_tokens.is_some() && !ask.can_override_builtin_profile()
    }

    /// Adapts a complete body to the dialect of the server and to the limits of the model.
    pub(crate) fn adapt_request_body(&self, body: &mut Value) {
        let model = body.get("model").and_then(Value::as_str);
        let profile = self.model_profile(model.unwrap_or_default());
        if let (Some(most), Some(limit)) = (profile.answer_tokens, body.get_mut("max_tokens"))
            && limit.as_u64().is_some_and(|limit| limit > u64::from(most))
        {
            *limit = Value::from(most);
        }
        self.dialect.apply_to_body(body, &profile);
    }

    /// Returns the limit of an answer in tokens, for a prompt of about `prompt_tokens`. `wanted` is
    /// the limit of settings or hooks. If it is `None`, a limit is returned only for an API that
    /// requires one, because the default of most servers is better.
    pub(crate) fn answer_token_limit(
        &self,
        model: &str,
        wanted: Option<u32>,
        prompt_tokens: u64,
    ) -> Option<u32> {
        let profile = self.model_profile(model);
        let unasked = profile
            .answer_tokens
            .map(|most| most.min(DEFAULT_MAX_ANSWER_TOKENS));
        let limit = match wanted {
            Some(wanted) => wanted,
            None if self.dialect.needs_limit => unasked?,
            None => return None,
        };
        let limit = limit.min(profile.answer_tokens.unwrap_or(u32::MAX));
        let Some(window) = profile.window_tokens else {
            return Some(limit);
        };
        let used = prompt_tokens + prompt_tokens / 100 * PROMPT_ESTIMATE_MARGIN_PERCENT;
        let room = window.saturating_sub(used).max(MIN_ANSWER_TOKEN_LIMIT);
        Some(u32::try_from(room).map_or(limit, |room| limit.min(room)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn needs_limit() -> ModelServerProfile {
        ModelServerProfile {
            dialect: RequestBodyDialect {
                needs_limit: true,
                ..RequestBodyDialect::default()
            },
            ..ModelServerProfile::default()
        }
    }

    #[test]
    fn an_answer_is_as_long_as_model_and_window_allow() {
        let messages = needs_limit();
        let chat = ModelServerProfile::default();
        for (server, model, wanted, prompt, expected) in [
            // The wire requires a limit: the maximum of the model, capped at the default.
            (&messages, "claude-haiku-4-5", None, 1_000, Some(64_000)),
            (&messages, "claude-opus-5-5", None, 1_000, Some(64_000)),
            (&messages, "claude-3-haiku", None, 1_000, Some(4_096)),
            (
                &messages,
                "claude-opus-5-5",
                Some(100_000),
                1_000,
                Some(100_000),
            ),
            (
                &messages,
                "claude-opus-5-5",
                Some(1_000_000),
                1_000,
                Some(128_000),
            ),
            // For an unknown model the wire has its own default.
            (&messages, "other", None, 1_000, None),
            (&messages, "other", Some(9), 1_000, Some(9)),
            // The window is nearly full.
            (&messages, "claude-haiku-4-5", None, 160_000, Some(32_000)),
            (&messages, "claude-haiku-4-5", None, 300_000, Some(1_024)),
            // Servers of this wire have a default of their own.
            (&chat, "gpt-4o", None, 1_000, None),
            (&chat, "gpt-4o", Some(20_000), 1_000, Some(16_384)),
        ] {
            let limit = server.answer_token_limit(model, wanted, prompt);
            assert_eq!(limit, expected, "{model} {wanted:?} {prompt}");
        }
    }

    #[test]
    fn a_setting_for_images_goes_before_every_profile_and_a_local_server_has_a_small_window() {
        let server = ModelServerProfile {
            images: Some(false),
            is_local: true,
            ..ModelServerProfile::default()
        };
        assert_eq!(server.model_profile("gpt-4o").images, Some(false));
        assert_eq!(server.model_profile("gpt-4o").window_tokens, Some(128_000));
        assert_eq!(server.model_profile("my-model").window_tokens, Some(32_768));
        assert_eq!(
            ModelServerProfile::default()
                .model_profile("my-model")
                .window_tokens,
            None
        );
    }

    #[test]
    fn a_body_is_finished_for_its_model() {
        let mut body = json!({"model": "claude-opus-5-5", "temperature": 0.5});
        ModelServerProfile::default().adapt_request_body(&mut body);
        assert_eq!(body, json!({"model": "claude-opus-5-5"}));
        let mut body = json!({"model": "claude-3-haiku", "max_tokens": 8_192});
        ModelServerProfile::default().adapt_request_body(&mut body);
        assert_eq!(body["max_tokens"], 4_096);
        let mut body = json!({"temperature": 0.5});
        ModelServerProfile::default().adapt_request_body(&mut body);
        assert_eq!(body, json!({"temperature": 0.5}));
    }
}
