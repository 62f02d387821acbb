//! Providers defined by the operator: the section `[providers]`.
//!
//! Owns the settings of one provider. It must not know how a provider is selected (`select` does).
//! Start from [`CustomProviderSettings`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::dialect::{SystemPromptRole, TokenLimitField};
use super::select::SCRIPTED_PROVIDER_NAME;
use super::{HttpConfig, ModelApiFormat};
use crate::config::Section;

/// Settings of one provider, `[providers.NAME]`: a server of the operator, or changes to a built-in
/// provider.
///
/// Missing values come from the preset named in `preset`, or else from the preset with the same
/// name as the provider. Project settings cannot have this section, because it decides where keys
/// are sent and which command is run to get them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct CustomProviderSettings {
    /// Name of the preset whose values are the defaults.
    pub preset: Option<String>,
    /// Format of the API, such as `anthropic-messages` or `openai-chat`. Default: the wire of the
    /// preset, or `openai-chat`.
    pub wire: Option<ModelApiFormat>,
    /// Base URL of the API. A provider without a preset needs one.
    pub base_url: Option<String>,
    /// Environment variable, or name in `secrets.toml`, that holds the key.
    pub api_key_env: Option<String>,
    /// Command that prints the key on the first line of its output: a program and its arguments. It
    /// runs once, in the folder of `config.toml`.
    pub api_key_command: Option<Vec<String>>,
    /// File with the key on its first line, readable by its owner only. A relative path is resolved
    /// from the folder of `config.toml`.
    pub api_key_file: Option<PathBuf>,
    /// Header that carries the key, instead of the header of the wire; `authorization` adds the
    /// prefix `Bearer`.
    pub api_key_header: Option<String>,
    /// Name of the model that is used if none is chosen.
    pub model: Option<String>,
    /// Names of the provider's models, for completion and for servers that do not list their
    /// models.
    pub models: Vec<String>,
    /// HTTP headers to add to every request, by name.
    pub headers: BTreeMap<String, String>,
    /// Fields that are merged into the body of every request.
    pub extra_body: Map<String, Value>,
    /// Fields of the body that the server refuses, such as `stream_options`, `temperature` or
    /// `tools`.
    pub leave_out: Vec<String>,
    /// Field that limits the tokens of an answer: `max_tokens` or `max_completion_tokens`.
    pub token_limit: Option<TokenLimitField>,
    /// Role of the message that carries the system prompt: `system`, `developer` or `user`.
    pub system_role: Option<SystemPromptRole>,
    /// Whether the provider's models accept images; overrides their profiles.
    pub images: Option<bool>,
    /// Timeouts and retries of requests. Default: those of `[provider.http]`.
    pub http: Option<HttpConfig>,
}

type Table = BTreeMap<String, CustomProviderSettings>;

/// Providers of the operator by name, the section `[providers]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "Table")]
pub struct ProvidersConfig(pub BTreeMap<String, CustomProviderSettings>);

impl TryFrom<Table> for ProvidersConfig {
    type Error = String;

    fn try_from(providers: Table) -> Result<Self, String> {
        let is_usable = |name: &str| {
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !name.is_empty() && name != SCRIPTED_PROVIDER_NAME && name.chars().all(is_word)
        };
        match providers.keys().find(|name| !is_usable(name)) {
            Some(name) => Err(format!(
                "`{}` is not a valid provider name: use letters, digits, `-`, `_` and `.`; `{SCRIPTED_PROVIDER_NAME}` is reserved",
                name.escape_debug()
            )),
            None => Ok(Self(providers)),
        }
    }
}

impl Section for ProvidersConfig {
    const NAME: &'static str = "providers";
}
