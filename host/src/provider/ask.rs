//! Queries a server for facts about a model: its context window, its maximum answer length, support
//! for images, and prices.
//!
//! Owns the API of each kind of server and the parsing of its answer. An answer is not required,
//! and a value of an unexpected type is ignored. The module must not know which source of a profile
//! takes precedence (`profile` does). Start from [`ModelInfoApiKind::query_model`].

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::http::ModelApiConnectionPool;
use crate::model::{ModelProfile, Price};

/// Timeout for all queries about one model together. A session waits for these queries once, before
/// its first request.
const MODEL_QUERIES_TIMEOUT: Duration = Duration::from_millis(2_000);

/// API of a server from which facts about a model can be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelInfoApiKind {
    /// List of models (`/v1/models`). vLLM, llama.cpp, Groq, Mistral and most gateways list other
    /// facts in addition to the names.
    Models,
    /// OpenRouter's list of models. It describes the server that runs a model more accurately than
    /// the built-in table.
    OpenRouter,
    /// `/props`, with the window that llama.cpp was started with, and the list of models.
    LlamaCpp,
    /// `/api/v0/models`, with the window that LM Studio loaded a model with.
    LmStudio,
    /// API of Ollama: the paths `/api/ps` and `/api/show`.
    Ollama,
}

/// Facts about a model that a server reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReportedModelFacts {
    pub(crate) profile: ModelProfile,
    /// Whether the answer cannot change, so that the server need not be queried again.
    pub(crate) is_final: bool,
}

impl ModelInfoApiKind {
    /// Whether the server is queried even if the model is in the built-in table, because it may run
    /// the model with a smaller window.
    pub(super) fn can_override_builtin_profile(self) -> bool {
        self != Self::Models
    }

    /// Queries the server about a model. A timeout or an unexpected answer counts as an empty
    /// answer.
    pub(super) async fn query_model(
        self,
        http: &ModelApiConnectionPool,
        model: &str,
        cancel: &CancellationToken,
    ) -> ReportedModelFacts {
        let asking = async {
            match self {
                Self::Ollama => return query_ollama(http, model, cancel).await,
                Self::LlamaCpp => {
                    let props = http
                        .try_request_json_document(
                            &http.join_unversioned_url("props"),
                            None,
                            cancel,
                        )
                        .await;
                    let listed = http
                        .try_request_json_document(&http.join_url("models"), None, cancel)
                        .await;
                    let listed = listed
                        .map(|list| find_profile_in_model_list(&list, model))
                        .unwrap_or_default();
                    props
                        .map(|props| parse_llama_cpp_props(&props))
                        .unwrap_or_default()
                        .or(listed)
                }
                Self::LmStudio => {
                    let list = http
                        .try_request_json_document(
                            &http.join_unversioned_url("api/v0/models"),
                            None,
                            cancel,
                        )
                        .await;
                    list.map(|list| find_profile_in_model_list(&list, model))
                        .unwrap_or_default()
                }
                Self::Models | Self::OpenRouter => {
                    let list = http
                        .try_request_json_document(&http.join_url("models"), None, cancel)
                        .await;
                    list.map(|list| find_profile_in_model_list(&list, model))
                        .unwrap_or_default()
                }
            }
            .into_final_reported_facts()
        };
        // Treat a timeout as a final answer: otherwise each step of a session would query the
        // server and wait again.
        let told = tokio::time::timeout(MODEL_QUERIES_TIMEOUT, asking).await;
        told.unwrap_or_else(|_| ModelProfile::default().into_final_reported_facts())
    }
}

impl ModelProfile {
    fn into_final_reported_facts(self) -> ReportedModelFacts {
        ReportedModelFacts {
            profile: self,
            is_final: true,
        }
    }
}

/// Queries Ollama. Ollama runs a model with the window of its own settings, which only `/api/ps`
/// reports, and only while the model is loaded. While the model is not loaded, the parameter
/// `num_ctx` of the model is used instead. The window that the model was trained with, which
/// `/api/show` also reports, is not used: it is usually much larger, and Ollama silently truncates
/// a prompt that fits only that window.
async fn query_ollama(
    http: &ModelApiConnectionPool,
    model: &str,
    cancel: &CancellationToken,
) -> ReportedModelFacts {
    let question = json!({"model": model});
    let shown = http
        .try_request_json_document(
            &http.join_unversioned_url("api/show"),
            Some(&question),
            cancel,
        )
        .await;
    let mut profile = shown.as_ref().map(parse_ollama_show).unwrap_or_default();
    let running = http
        .try_request_json_document(&http.join_unversioned_url("api/ps"), None, cancel)
        .await;
    let loaded = running.as_ref().and_then(|list| {
        let models = list.get("models")?.as_array()?.iter();
        let is_it = |entry: &&Value| {
            let names = [entry.get("name"), entry.get("model")];
            let names = names.into_iter().flatten().filter_map(Value::as_str);
            names
                .into_iter()
                .any(|name| is_same_ollama_model(name, model))
        };
        parse_token_count(
            models
                .filter(is_it)
                .find_map(|entry| entry.get("context_length")),
        )
    });
    profile.window_tokens = loaded.or(profile.window_tokens);
    ReportedModelFacts {
        is_final: loaded.is_some() || (shown.is_none() && running.is_none()),
        profile,
    }
}

/// Whether two names in Ollama refer to the same model: the tag `latest` is optional.
fn is_same_ollama_model(name: &str, model: &str) -> bool {
    name == model || name.strip_suffix(":latest") == Some(model)
}

fn parse_ollama_show(show: &Value) -> ModelProfile {
    let capabilities = show.get("capabilities").and_then(Value::as_array);
    let has = |name: &str| capabilities.map(|all| all.iter().any(|one| one.as_str() == Some(name)));
    let parameters = show.get("parameters").and_then(Value::as_str);
    let set = parameters.unwrap_or_default().lines().find_map(|line| {
        let words = &mut line.split_whitespace();
        (words.next() == Some("num_ctx")).then(|| words.next()?.parse::<u64>().ok())?
    });
    ModelProfile {
        window_tokens: set.filter(|tokens| *tokens > 0),
        images: has("vision"),
        tools: has("tools"),
        reasoning: has("thinking"),
        ..ModelProfile::default()
    }
}

fn parse_llama_cpp_props(props: &Value) -> ModelProfile {
    let settings = props.get("default_generation_settings");
    let modalities = props.get("modalities");
    ModelProfile {
        window_tokens: parse_token_count(settings.and_then(|settings| settings.get("n_ctx"))),
        images: modalities.and_then(|all| all.get("vision")?.as_bool()),
        ..ModelProfile::default()
    }
}

/// Returns the profile of a model in a list of models. If the list has only one model, its profile
/// is returned for any model name.
fn find_profile_in_model_list(list: &Value, model: &str) -> ModelProfile {
    let Some(entries) = list.get("data").and_then(Value::as_array) else {
        return ModelProfile::default();
    };
    let id = |entry: &Value| entry.get("id").and_then(Value::as_str) == Some(model);
    let only = || entries.first().filter(|_| entries.len() == 1);
    let entry = entries.iter().find(|entry| id(entry)).or_else(only);
    entry.map(parse_listed_model).unwrap_or_default()
}

fn parse_listed_model(entry: &Value) -> ModelProfile {
    let first = |pointers: &[&str]| {
        let mut found = pointers
            .iter()
            .map(|pointer| parse_token_count(entry.pointer(pointer)));
        found.find_map(|tokens| tokens)
    };
    let lists = |pointer: &str, word: &str| {
        let list = entry.pointer(pointer)?.as_array()?;
        Some(list.iter().any(|one| one.as_str() == Some(word)))
    };
    let is_seeing = (entry.get("type").and_then(Value::as_str) == Some("vlm")).then_some(true);
    let flag = |pointer: &str| entry.pointer(pointer).and_then(Value::as_bool);
    let answer = first(&[
        "/top_provider/max_completion_tokens",
        "/max_completion_tokens",
        "/max_output_tokens",
    ]);
    ModelProfile {
        window_tokens: first(&[
            "/top_provider/context_length",
            "/loaded_context_length",
            "/max_model_len",
            "/context_length",
            "/context_window",
            "/max_context_length",
            "/meta/n_ctx",
            "/meta/n_ctx_train",
        ]),
        answer_tokens: answer.and_then(|tokens| u32::try_from(tokens).ok()),
        images: lists("/architecture/input_modalities", "image")
            .or_else(|| flag("/capabilities/vision"))
            .or(is_seeing),
        reasoning: lists("/supported_parameters", "reasoning")
            .or_else(|| flag("/capabilities/reasoning")),
        tools: lists("/supported_parameters", "tools")
            .or_else(|| flag("/capabilities/function_calling")),
        price: parse_openrouter_price(entry),
        ..ModelProfile::default()
    }
}

/// Reads the prices in an entry of OpenRouter's list of models: strings with dollars per token,
/// `-1` if the price varies.
fn parse_openrouter_price(entry: &Value) -> Option<Price> {
    let of = |field: &str| {
        let price = entry.pointer(&format!("/pricing/{field}"))?;
        let price = price.as_str()?.parse::<f64>().ok()? * 1_000_000.0;
        (price.is_finite() && price >= 0.0).then_some(price)
    };
    Some(Price {
        input: of("prompt")?,
        output: of("completion")?,
        cache_read: of("input_cache_read"),
        cache_write: of("input_cache_write"),
    })
}

/// Reads a number of tokens; `None` if the value is implausible.
fn parse_token_count(value: Option<&Value>) -> Option<u64> {
    value?
        .as_u64()
        .filter(|tokens| (256..=1_000_000_000).contains(tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(profile: &ModelProfile) -> Option<u64> {
        profile.window_tokens
    }

    #[test]
    fn lists_of_models_are_read_whatever_server_wrote_them() {
        let router = json!({"data": [{"id": "a/b", "context_length": 200_000,
            "architecture": {"input_modalities": ["text", "image"]},
            "pricing": {"prompt": "0.000003", "completion": "0.000015", "input_cache_read": "0.0000003"},
            "top_provider": {"context_length": 131_072, "max_completion_tokens": 64_000},
            "supported_parameters": ["tools", "reasoning"]}, {"id": "c"}]});
        let profile = find_profile_in_model_list(&router, "a/b");
        assert_eq!(
            (window(&profile), profile.answer_tokens),
            (Some(131_072), Some(64_000))
        );
        let can = (profile.images, profile.tools, profile.reasoning);
        assert_eq!(can, (Some(true), Some(true), Some(true)));
        let price = profile.price.unwrap();
        assert!((price.input - 3.0).abs() < 1e-9 && (price.output - 15.0).abs() < 1e-9);
        assert_eq!(
            find_profile_in_model_list(&router, "unknown"),
            ModelProfile::default()
        );
        for (entry, expected) in [
            (json!({"max_model_len": 32_768}), Some(32_768)),
            (json!({"meta": {"n_ctx_train": 8_192}}), Some(8_192)),
            (
                json!({"max_context_length": 131_072, "loaded_context_length": 4_096}),
                Some(4_096),
            ),
            (json!({"context_window": 131_072}), Some(131_072)),
            (json!({"context_length": "many"}), None),
            (json!({"context_length": -1}), None),
            (json!({"context_length": 0}), None),
            (json!(null), None),
        ] {
            let list = json!({"data": [entry]});
            assert_eq!(
                window(&find_profile_in_model_list(&list, "m")),
                expected,
                "{list}"
            );
        }
        for odd in [
            json!(null),
            json!([]),
            json!({"data": 1}),
            json!({"data": [1, null]}),
        ] {
            assert_eq!(
                find_profile_in_model_list(&odd, "m"),
                ModelProfile::default()
            );
        }
        let free = json!({"pricing": {"prompt": "-1", "completion": "-1"}});
        assert_eq!(super::parse_openrouter_price(&free), None);
    }

    #[test]
    fn the_window_that_a_server_was_started_with_counts_and_not_that_of_the_training() {
        let props = json!({"default_generation_settings": {"n_ctx": 4_096}, "modalities": {"vision": true}});
        assert_eq!(window(&parse_llama_cpp_props(&props)), Some(4_096));
        assert_eq!(parse_llama_cpp_props(&props).images, Some(true));
        let show = json!({"parameters": "stop \"x\"\nnum_ctx    8192", "capabilities": ["completion", "tools"],
            "model_info": {"llama.context_length": 131_072}});
        let profile = parse_ollama_show(&show);
        let found = (window(&profile), profile.tools, profile.images);
        assert_eq!(found, (Some(8_192), Some(true), Some(false)));
        assert_eq!(
            window(&parse_ollama_show(
                &json!({"model_info": {"llama.context_length": 131_072}})
            )),
            None
        );
        assert!(
            is_same_ollama_model("llama3.3:latest", "llama3.3")
                && !is_same_ollama_model("llama3.3:70b", "llama3.3")
        );
    }
}
