//! Table of the built-in providers.
//!
//! A row contains the URL of a provider, its wire format, the source of its key, and its
//! differences from the defaults. To add a provider, add a row; other servers are described in the
//! settings, `[providers.NAME]`. The table contains data only and must not know how a client is
//! created (see `connect`).
//!
//! Start from [`KNOWN_PROVIDER_PRESETS`].

use super::ask::ModelInfoApiKind;
use super::dialect::TokenLimitField;
use super::{ModelApiFormat, RequestCorrection, anthropic, gemini, openai};

/// Built-in values for a provider with an HTTP API.
pub(super) struct ProviderPreset {
    pub(super) name: &'static str,
    /// Name of the provider for display.
    pub(super) title: &'static str,
    pub(super) wire: ModelApiFormat,
    /// Base URL; `Err` with an example URL if each customer has another one.
    pub(super) url: Result<&'static str, &'static str>,
    pub(super) url_env: &'static str,
    pub(super) key_env: &'static str,
    pub(super) needs_key: bool,
    /// Default model; `Err` with an example name if there is none.
    pub(super) model: Result<&'static str, &'static str>,
    pub(super) names: ModelNameFormat,
    /// Header for the key, if it differs from that of the wire format.
    pub(super) key_in: Option<&'static str>,
    pub(super) token_limit: TokenLimitField,
    /// Body fields that the server refuses.
    pub(super) leave_out: &'static [&'static str],
    /// Corrections of requests that apply from the first request to this server on.
    pub(super) mends: &'static [RequestCorrection],
    /// API of the server that reports the properties of a model; `None` if the built-in table of
    /// models is better.
    pub(super) ask: Option<ModelInfoApiKind>,
    /// Whether the server runs on the user's machine.
    pub(super) is_local: bool,
    pub(super) advice: &'static str,
}

/// Form of a provider's model names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModelNameFormat {
    /// Names without a slash, such as `gpt-5`.
    Plain,
    /// Names that usually have the model's vendor or repository before a slash.
    Slashes,
    /// Names that always have a slash, even if the vendor is the provider itself:
    /// `openrouter/auto`.
    AlwaysSlashes,
}

/// Defaults of a public API that speaks chat completions and requires a key.
const CHAT_COMPLETIONS_API_DEFAULTS: ProviderPreset = ProviderPreset {
    name: "",
    title: "",
    wire: ModelApiFormat::OpenaiChat,
    url: Err(""),
    url_env: "",
    key_env: "",
    needs_key: true,
    model: Err(""),
    names: ModelNameFormat::Plain,
    key_in: None,
    token_limit: TokenLimitField::MaxTokens,
    leave_out: &[],
    mends: &[],
    ask: None,
    is_local: false,
    advice: "check the network connection and the proxy, or set `base_url` to another server",
};

/// Defaults of a local server that speaks chat completions.
const LOCAL_CHAT_SERVER_DEFAULTS: ProviderPreset = ProviderPreset {
    needs_key: false,
    names: ModelNameFormat::Slashes,
    ask: Some(ModelInfoApiKind::Models),
    is_local: true,
    ..CHAT_COMPLETIONS_API_DEFAULTS
};

/// Presets of all known providers. Anthropic and OpenAI come first, because a key in the
/// environment selects between these two.
pub(super) static KNOWN_PROVIDER_PRESETS: [ProviderPreset; 15] = [
    ProviderPreset {
        name: "anthropic",
        title: "Anthropic",
        wire: ModelApiFormat::AnthropicMessages,
        url: Ok(anthropic::DEFAULT_URL),
        url_env: "ANTHROPIC_BASE_URL",
        key_env: "ANTHROPIC_API_KEY",
        model: Ok("claude-sonnet-5-5"),
        advice: "check the network connection, or set ANTHROPIC_BASE_URL to another server",
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    ProviderPreset {
        name: "openai",
        title: "OpenAI",
        wire: ModelApiFormat::OpenaiResponses,
        url: Ok(openai::DEFAULT_URL),
        url_env: "OPENAI_BASE_URL",
        key_env: "OPENAI_API_KEY",
        model: Ok("gpt-5.4"),
        token_limit: TokenLimitField::MaxCompletionTokens,
        advice: "check the network connection, or set OPENAI_BASE_URL to another server",
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    ProviderPreset {
        name: "ollama",
        title: "Ollama",
        url: Ok("http://127.0.0.1:11434/v1"),
        url_env: "OPENAI_BASE_URL",
        // Not OPENAI_API_KEY: an OpenAI key must not be sent to another server.
        key_env: "OLLAMA_API_KEY",
        model: Err("qwen3.8:27b"),
        ask: Some(ModelInfoApiKind::Ollama),
        advice: "start it with `ollama serve`, or set OPENAI_BASE_URL to where it runs",
        ..LOCAL_CHAT_SERVER_DEFAULTS
    },
    ProviderPreset {
        name: "openrouter",
        title: "OpenRouter",
        url: Ok("https://openrouter.ai/api/v1"),
        url_env: "OPENROUTER_BASE_URL",
        key_env: "OPENROUTER_API_KEY",
        model: Err("anthropic/claude-sonnet-5.5"),
        names: ModelNameFormat::AlwaysSlashes,
        ask: Some(ModelInfoApiKind::OpenRouter),
        advice: "check the network connection, or set OPENROUTER_BASE_URL to another server",
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    ProviderPreset {
        name: "gemini",
        title: "Gemini",
        wire: ModelApiFormat::Gemini,
        url: Ok(gemini::DEFAULT_URL),
        url_env: "GEMINI_BASE_URL",
        key_env: "GEMINI_API_KEY",
        model: Ok("gemini-3.8-flash"),
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    ProviderPreset {
        name: "deepseek",
        title: "DeepSeek",
        url: Ok("https://api.deepseek.com/v1"),
        url_env: "DEEPSEEK_BASE_URL",
        key_env: "DEEPSEEK_API_KEY",
        model: Ok("deepseek-v4-pro"),
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    ProviderPreset {
        name: "mistral",
        title: "Mistral",
        url: Ok("https://api.mistral.ai/v1"),
        url_env: "MISTRAL_BASE_URL",
        key_env: "MISTRAL_API_KEY",
        model: Ok("mistral-large-4"),
        // Mistral reports usage without this field, and refuses unknown fields.
        leave_out: &["stream_options"],
        mends: &[
            RequestCorrection::AlternateRoles,
            RequestCorrection::ShortIds,
        ],
        ask: Some(ModelInfoApiKind::Models),
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    ProviderPreset {
        name: "groq",
        title: "Groq",
        url: Ok("https://api.groq.com/openai/v1"),
        url_env: "GROQ_BASE_URL",
        key_env: "GROQ_API_KEY",
        model: Err("openai/gpt-oss-120b"),
        names: ModelNameFormat::Slashes,
        token_limit: TokenLimitField::MaxCompletionTokens,
        ask: Some(ModelInfoApiKind::Models),
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    ProviderPreset {
        name: "xai",
        title: "xAI",
        url: Ok("https://api.x.ai/v1"),
        url_env: "XAI_BASE_URL",
        key_env: "XAI_API_KEY",
        model: Ok("grok-4.7"),
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    // A model name at Azure is the name that a customer gave a deployment, so there is no default.
    ProviderPreset {
        name: "azure",
        title: "Azure OpenAI",
        url: Err("https://NAME.openai.azure.com/openai/v1"),
        url_env: "AZURE_OPENAI_BASE_URL",
        key_env: "AZURE_OPENAI_API_KEY",
        model: Err("my-deployment"),
        key_in: Some("api-key"),
        token_limit: TokenLimitField::MaxCompletionTokens,
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    // The URL requires a Bedrock API key, or a gateway in front of Bedrock. Requests are not signed
    // with AWS credentials.
    ProviderPreset {
        name: "bedrock",
        title: "Amazon Bedrock",
        url: Err("https://bedrock-runtime.REGION.amazonaws.com/openai/v1"),
        url_env: "BEDROCK_BASE_URL",
        key_env: "AWS_BEARER_TOKEN_BEDROCK",
        model: Err("openai.gpt-oss-120b-1:0"),
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    // Vertex keys are tokens that are valid for an hour: `api_key_command = ["gcloud", "auth",
    // "print-access-token"]`.
    ProviderPreset {
        name: "vertex",
        title: "Google Vertex AI",
        url: Err(
            "https://REGION-aiplatform.googleapis.com/v1/projects/ID/locations/REGION/endpoints/openapi",
        ),
        url_env: "VERTEX_BASE_URL",
        key_env: "VERTEX_ACCESS_TOKEN",
        model: Err("google/gemini-3.8-flash"),
        names: ModelNameFormat::Slashes,
        ..CHAT_COMPLETIONS_API_DEFAULTS
    },
    ProviderPreset {
        name: "lm-studio",
        title: "LM Studio",
        url: Ok("http://127.0.0.1:1234/v1"),
        url_env: "LM_STUDIO_BASE_URL",
        key_env: "LM_STUDIO_API_KEY",
        model: Err("openai/gpt-oss-20b"),
        ask: Some(ModelInfoApiKind::LmStudio),
        advice: "start its server with `lms server start`, or set LM_STUDIO_BASE_URL to where it runs",
        ..LOCAL_CHAT_SERVER_DEFAULTS
    },
    ProviderPreset {
        name: "llama-cpp",
        title: "llama.cpp",
        url: Ok("http://127.0.0.1:8080/v1"),
        url_env: "LLAMA_CPP_BASE_URL",
        key_env: "LLAMA_CPP_API_KEY",
        // llama.cpp serves the one model that it was started with, under any name.
        model: Ok("default"),
        ask: Some(ModelInfoApiKind::LlamaCpp),
        advice: "start it with `llama-server --jinja`, or set LLAMA_CPP_BASE_URL to where it runs",
        ..LOCAL_CHAT_SERVER_DEFAULTS
    },
    ProviderPreset {
        name: "vllm",
        title: "vLLM",
        url: Ok("http://127.0.0.1:8000/v1"),
        url_env: "VLLM_BASE_URL",
        key_env: "VLLM_API_KEY",
        model: Err("Qwen/Qwen3.8-27B"),
        advice: "start it with `vllm serve`, or set VLLM_BASE_URL to where it runs",
        ..LOCAL_CHAT_SERVER_DEFAULTS
    },
];

/// Returns the preset with this name; `None` if there is none.
pub(super) fn find_preset(name: &str) -> Option<&'static ProviderPreset> {
    KNOWN_PROVIDER_PRESETS
        .iter()
        .find(|preset| preset.name == name)
}

/// Returns the names of all presets of providers, in the order of the table.
pub(super) fn preset_names() -> impl Iterator<Item = &'static str> {
    KNOWN_PROVIDER_PRESETS.iter().map(|preset| preset.name)
}

/// Recognizes the issuer of a key by the prefix of the key. Returns the name of the provider and
/// the environment variable for the key.
pub fn detect_key_issuer(key: &str) -> Option<(&'static str, &'static str)> {
    let issuers = [
        ("sk-ant-", "anthropic"),
        ("sk-or-", "openrouter"),
        ("sk-", "openai"),
    ];
    let (_, name) = issuers
        .into_iter()
        .find(|(start, _)| key.starts_with(start))?;
    find_preset(name).map(|preset| (preset.name, preset.key_env))
}

/// Returns the presets of servers that run on the user's machine, each as preset name, display name
/// and base URL.
pub fn local_servers() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let local = KNOWN_PROVIDER_PRESETS
        .iter()
        .filter(|preset| preset.is_local);
    local.filter_map(|preset| Some((preset.name, preset.title, preset.url.ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_whole() {
        let mut seen = std::collections::HashSet::new();
        for preset in &KNOWN_PROVIDER_PRESETS {
            let name = preset.name;
            assert!(seen.insert(name) && !name.contains('/'), "{name}");
            for text in [preset.title, preset.url_env, preset.key_env, preset.advice] {
                assert!(!text.is_empty(), "{name}");
            }
            let (Ok(url) | Err(url)) = preset.url;
            assert!(url.starts_with("http"), "{name}");
            let is_plain = url.starts_with("http://127.0.0.1:");
            assert_eq!(
                is_plain, preset.is_local,
                "{name}: a key must not go over plain HTTP"
            );
            let (Ok(model) | Err(model)) = preset.model;
            assert!(!model.is_empty(), "{name}");
            let has_slash = model.contains('/');
            assert!(
                !has_slash || preset.names != ModelNameFormat::Plain,
                "{name}"
            );
        }
    }

    #[test]
    fn a_default_model_is_in_the_table_of_models_and_a_local_server_has_none_but_its_own() {
        for preset in KNOWN_PROVIDER_PRESETS
            .iter()
            .filter(|preset| !preset.is_local)
        {
            if let Ok(model) = preset.model {
                assert!(crate::model::find_price(model).is_some(), "{model}");
            }
        }
    }
}
