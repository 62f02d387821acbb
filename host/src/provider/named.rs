//! Providers that the operator names: the section `[providers]`.
//!
//! Owns the settings of one provider. It must not know how one is chosen (`select` does). Start
//! from [`NamedProvider`].

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::dialect::{SystemRole, TokenLimit};
use super::select::SCRIPTED;
use super::{HttpConfig, Wire};
use crate::config::Section;

/// One provider, `[providers.NAME]`: a server of one's own, or changes to a provider that Rind
/// knows.
///
/// What is absent comes from the preset, which is the one of the same name where `preset` names
/// none. A project's settings cannot have this section: it says where keys go, and which command is
/// run for them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct NamedProvider {
    /// The provider of Rind's table that this one is like.
    pub preset: Option<String>,
    /// Format of the API: `anthropic-messages` or `openai-chat`. Default: that of the preset, or
    /// `openai-chat`.
    pub wire: Option<Wire>,
    /// Base URL of the API. A provider without a preset needs one.
    pub base_url: Option<String>,
    /// Environment variable, or name in `secrets.toml`, that holds the key.
    pub api_key_env: Option<String>,
    /// Command whose first line of output is the key: a program and its arguments. It runs once, in
    /// the folder of `config.toml`.
    pub api_key_command: Option<Vec<String>>,
    /// File whose first line is the key, readable by its owner alone. A relative path is in the
    /// folder of `config.toml`.
    pub api_key_file: Option<PathBuf>,
    /// Header that carries the key, in place of the one of the wire; `authorization` puts `Bearer`
    /// before it.
    pub api_key_header: Option<String>,
    /// The model that is asked when none is chosen.
    pub model: Option<String>,
    /// Names of its models, for a server that lists none and for completions.
    pub models: Vec<String>,
    /// Headers of every request.
    pub headers: BTreeMap<String, String>,
    /// Fields that are merged into the body of every request.
    pub extra_body: Map<String, Value>,
    /// Fields of the body that the server refuses, such as `stream_options`, `temperature` or
    /// `tools`.
    pub leave_out: Vec<String>,
    /// Field that limits the tokens of an answer: `max_tokens` or `max_completion_tokens`.
    pub token_limit: Option<TokenLimit>,
    /// Role of the system prompt: `system`, `developer` or `user`.
    pub system_role: Option<SystemRole>,
    /// Whether its models take images, whatever is known of them.
    pub images: Option<bool>,
    /// Time limits and attempts. Default: `[provider.http]`.
    pub http: Option<HttpConfig>,
}

type Table = BTreeMap<String, NamedProvider>;

/// The operator's providers by name: the section `[providers]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(try_from = "Table")]
pub struct ProvidersConfig(pub BTreeMap<String, NamedProvider>);

impl TryFrom<Table> for ProvidersConfig {
    type Error = String;

    fn try_from(providers: Table) -> Result<Self, String> {
        let is_usable = |name: &str| {
            let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !name.is_empty() && name != SCRIPTED && name.chars().all(is_word)
        };
        match providers.keys().find(|name| !is_usable(name)) {
            Some(name) => Err(format!(
                "`{}` cannot name a provider: write letters, digits, `-`, `_` and `.`, and not `{SCRIPTED}`",
                name.escape_debug()
            )),
            None => Ok(Self(providers)),
        }
    }
}

impl Section for ProvidersConfig {
    const NAME: &'static str = "providers";
}
