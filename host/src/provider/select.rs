//! Selects the provider and the model of a run.
//!
//! Owns the precedence of settings and environment, and the parsing of names such as `NAME/model`.
//! It must not read the environment, run commands or read keys: the caller passes in functions for
//! lookups, so that the caller alone decides which sources are used. Start from
//! [`ProviderSelectionSettings::select`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::connect::{ResolvedProvider, connect_provider, find_base_url};
use super::http::HttpConfig;
use super::named::ProvidersConfig;
use super::preset::{self, ModelNameFormat, ProviderPreset};
#[cfg(feature = "scripted")]
use super::scripted;
use super::{Error, Provider};
use crate::config::Section;
use crate::model::Models;

/// Provider and model of new sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// Name of a provider: one of `[providers]`, a preset (`anthropic`, `openai`, `ollama` …) or
    /// `scripted`. Default: selected from the environment.
    pub name: Option<String>,
    /// Name of the model, or `NAME/model` for a model of another provider.
    pub model: Option<String>,
    /// Base URL of the API, instead of the default one of the provider.
    pub base_url: Option<String>,
    /// Environment variable that holds the key, instead of the default one of the provider.
    pub api_key_env: Option<String>,
    /// Whether the model accepts images. Default: from its profile.
    pub images: Option<bool>,
    /// Path of the script file that the scripted provider plays.
    pub script: Option<PathBuf>,
    /// Timeouts and retries of requests to the provider.
    pub http: HttpConfig,
}

impl Section for ProviderConfig {
    const NAME: &'static str = "provider";
}

/// Name of the provider that plays a script.
pub(super) const SCRIPTED_PROVIDER_NAME: &str = "scripted";

/// Provider and model that were selected from the settings and the environment.
pub struct SelectedProviderAndModel {
    /// Client that sends requests to the selected provider.
    pub provider: Arc<dyn Provider>,
    /// Name of the selected model.
    pub model: String,
    /// Reason for the selection, as a clause for messages, such as `OPENAI_API_KEY is set`.
    pub why: String,
    /// Whether the scripted provider was selected because no model is configured.
    pub is_stand_in: bool,
}

/// Source of a key other than an environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonEnvironmentApiKeySource<'a> {
    /// The first line of the output of a command: a program and its arguments.
    Command(&'a [String]),
    /// The first line of a file that only its owner can read.
    File(&'a Path),
}

/// Lookup of environment variables and API keys during the selection of a provider. Keys are looked
/// up only for the selected provider.
pub trait EnvironmentAndApiKeyLookup {
    /// Returns an environment variable; an empty one counts as unset.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the key at `source`, or the reason for its absence as a clause for messages. The
    /// text must not contain the key.
    fn key(&self, source: NonEnvironmentApiKeySource<'_>) -> Result<String, String>;
}

/// Lookup of API keys in environment variables only: it runs no key commands and reads no key
/// files.
struct EnvironmentOnlyKeyLookup<'a>(&'a dyn Fn(&str) -> Option<String>);

impl EnvironmentAndApiKeyLookup for EnvironmentOnlyKeyLookup<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }

    fn key(&self, _: NonEnvironmentApiKeySource<'_>) -> Result<String, String> {
        Err("this program takes keys from the environment only".to_owned())
    }
}

/// Selects a provider from the section `[provider]` alone: the provider named there, else the one
/// that the environment is configured for, else the scripted one.
///
/// `env` looks up environment variables; empty ones count as unset.
pub fn select_provider(
    config: &ProviderConfig,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<SelectedProviderAndModel, Error> {
    let choice = ProviderSelectionSettings {
        provider: config.clone(),
        ..ProviderSelectionSettings::default()
    };
    choice.select(&EnvironmentOnlyKeyLookup(env))
}

/// Settings from which the provider and the model are selected.
#[derive(Clone, Debug, Default)]
pub struct ProviderSelectionSettings {
    /// Section `[provider]`: the requested provider and model.
    pub provider: ProviderConfig,
    /// Section `[providers]`: providers that the operator defines.
    pub providers: ProvidersConfig,
    /// Profiles of models: the built-in table, and the operator's settings over it.
    pub models: Models,
    /// Whether to use the model name unchanged: a prefix before a slash does not select a provider.
    /// Set for the model of a resumed session.
    pub is_exact: bool,
    /// Whether the user chose the provider together with the model, so that a slash in the model
    /// name never selects another provider.
    pub is_pinned: bool,
}

impl ProviderSelectionSettings {
    /// Selects a provider: the one named by `provider.name` or by a prefix of the model name, else
    /// the one that the environment is configured for, else the scripted one.
    pub fn select(
        &self,
        keys: &dyn EnvironmentAndApiKeyLookup,
    ) -> Result<SelectedProviderAndModel, Error> {
        let env = |name: &str| {
            let value = keys.variable(name);
            value.filter(|value| !value.trim().is_empty())
        };
        let config = &self.provider;
        let by_name = match &config.name {
            Some(name) if name == SCRIPTED_PROVIDER_NAME => {
                return select_scripted_provider(config, format!("{name} was asked for"));
            }
            Some(name) => Some((
                self.require_provider(name)?,
                format!("{name} was asked for"),
            )),
            None => match &config.script {
                Some(script) => {
                    let why = format!("the script {} was asked for", script.display());
                    return select_scripted_provider(config, why);
                }
                None => self.find_by_environment(&env),
            },
        };
        if let Some((found, model)) =
            self.split_provider_prefix(by_name.as_ref().map(|(f, _)| f), &env)
        {
            let why = format!("the model name begins with `{}/`", found.name);
            if found.name == SCRIPTED_PROVIDER_NAME {
                return select_scripted_provider(config, why);
            }
            // Base URL, key and images in [provider] apply only to the provider named there.
            let is_same = by_name
                .as_ref()
                .is_some_and(|(by, _)| by.name == found.name);
            let (base_url, api_key_env) = match is_same {
                true => (config.base_url.clone(), config.api_key_env.clone()),
                false => (None, None),
            };
            let config = ProviderConfig {
                base_url,
                api_key_env,
                model: Some(model.to_owned()),
                images: config.images.filter(|_| is_same),
                ..config.clone()
            };
            return connect_provider(self, found, &config, keys, why);
        }
        if let Some((found, why)) = by_name {
            return connect_provider(self, found, config, keys, why);
        }
        let why = "no key and no model server is configured".to_owned();
        Ok(SelectedProviderAndModel {
            is_stand_in: true,
            ..select_scripted_provider(config, why)?
        })
    }

    /// Returns the provider that the environment is configured for, or OpenAI if only a base URL is
    /// configured.
    fn find_by_environment(
        &self,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Option<(ResolvedProvider<'_>, String)> {
        let [anthropic, openai, ..] = &preset::KNOWN_PROVIDER_PRESETS;
        let set = [
            (anthropic, anthropic.key_env),
            (openai, openai.key_env),
            (openai, openai.url_env),
        ];
        let found = |preset: &'static ProviderPreset| ResolvedProvider {
            name: preset.name,
            preset: Some(preset),
            own: self.providers.0.get(preset.name),
        };
        let mut set = set.into_iter();
        let set = set.find(|(_, variable)| env(variable).is_some());
        if let Some((preset, variable)) = set {
            return Some((found(preset), format!("{variable} is set")));
        }
        let has_url = self.provider.base_url.is_some();
        has_url.then(|| (found(openai), "a base URL is configured".to_owned()))
    }

    fn find_provider<'a>(&'a self, name: &'a str) -> Option<ResolvedProvider<'a>> {
        let own = self.providers.0.get(name);
        let like = own.and_then(|own| own.preset.as_deref()).unwrap_or(name);
        let preset = preset::find_preset(like);
        (own.is_some() || preset.is_some()).then_some(ResolvedProvider { name, preset, own })
    }

    fn require_provider<'a>(&'a self, name: &'a str) -> Result<ResolvedProvider<'a>, Error> {
        let unknown = |name: &str| Error::UnknownProvider {
            name: name.to_owned(),
            known: self.known_providers().join(", "),
        };
        let found = self.find_provider(name).ok_or_else(|| unknown(name))?;
        match found.own.and_then(|own| own.preset.as_deref()) {
            Some(preset) if found.preset.is_none() => Err(unknown(preset)),
            _ => Ok(found),
        }
    }

    /// Returns the names of all providers: those of the operator, the presets, and the scripted
    /// one.
    #[must_use]
    pub fn known_providers(&self) -> Vec<String> {
        let own = self.providers.0.keys().cloned();
        let others = preset::preset_names().filter(|name| !self.providers.0.contains_key(*name));
        let all = own.chain(others.map(str::to_owned));
        all.chain([SCRIPTED_PROVIDER_NAME.to_owned()]).collect()
    }

    /// Splits the model name into a provider and the rest; `None` if its prefix is not read as a
    /// provider.
    ///
    /// A slash may also be part of a model name: resellers add the vendor as a prefix, and local
    /// servers the repository. `chosen` is the provider that is used without a prefix. A prefix is
    /// read as a provider if it is the name of `chosen` or a name in `[providers]`. The name of a
    /// preset as a prefix belongs to the model name if the models of `chosen` have such prefixes.
    fn split_provider_prefix<'a>(
        &'a self,
        chosen: Option<&ResolvedProvider<'_>>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Option<(ResolvedProvider<'a>, &'a str)> {
        let name = self.provider.model.as_deref().filter(|_| !self.is_exact)?;
        let (first, rest) = name.split_once('/').filter(|(_, rest)| !rest.is_empty())?;
        if first == SCRIPTED_PROVIDER_NAME {
            let scripted = ResolvedProvider {
                name: SCRIPTED_PROVIDER_NAME,
                preset: None,
                own: None,
            };
            return chosen.is_none().then_some((scripted, rest));
        }
        let found = self.require_provider(first).ok()?;
        // `openrouter/auto` is the full name of a model of OpenRouter, including the prefix.
        let is_whole = found
            .preset
            .filter(|preset| preset.name == found.name)
            .is_some_and(|preset| preset.names == ModelNameFormat::AlwaysSlashes)
            && !rest.contains('/');
        let Some(chosen) = chosen else {
            return Some((found, if is_whole { name } else { rest }));
        };
        let is_listed = chosen
            .own
            .is_some_and(|own| own.models.iter().any(|own| own == name));
        if is_listed {
            return None;
        }
        let is_elsewhere = find_base_url(*chosen, self.provider.base_url.as_deref(), env).is_some();
        if chosen.name == first {
            // A server at another URL may have a model `openai/gpt-oss-20b`, so the prefix `openai`
            // belongs to the model name.
            let is_own_name = is_whole || (is_elsewhere && chosen.own.is_none());
            return (!is_own_name).then_some((found, rest));
        }
        let has_slashes = chosen
            .preset
            .is_none_or(|preset| preset.names != ModelNameFormat::Plain);
        let is_vendor = has_slashes || is_elsewhere;
        let is_other = !self.is_pinned && (found.own.is_some() || !is_vendor);
        is_other.then_some((found, if is_whole { name } else { rest }))
    }
}

#[cfg(feature = "scripted")]
fn select_scripted_provider(
    config: &ProviderConfig,
    why: String,
) -> Result<SelectedProviderAndModel, Error> {
    let provider = match &config.script {
        Some(path) => scripted::Scripted::from_file(path)?,
        None => scripted::Scripted::built_in()?,
    };
    Ok(SelectedProviderAndModel {
        provider: Arc::new(provider),
        model: config
            .model
            .clone()
            .unwrap_or_else(|| SCRIPTED_PROVIDER_NAME.to_owned()),
        why,
        is_stand_in: false,
    })
}

#[cfg(not(feature = "scripted"))]
fn select_scripted_provider(
    _: &ProviderConfig,
    why: String,
) -> Result<SelectedProviderAndModel, Error> {
    Err(Error::NoScripts { why })
}

#[cfg(test)]
mod tests;
