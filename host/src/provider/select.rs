//! Selects provider and model of a run.
//!
//! Owns the order of preference, and how a name such as `NAME/model` is read. It must not read the environment, run commands or
//! read keys: lookups are handed in, so that the command line alone decides what counts. Start from [`Choice::select`].

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::connect::{Found, connect, given_url};
use super::http::HttpConfig;
use super::named::ProvidersConfig;
use super::preset::{self, Names, Preset};
#[cfg(feature = "scripted")]
use super::scripted;
use super::{Error, Provider};
use crate::config::Section;
use crate::model::Models;

/// The `provider` section of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// A provider of `[providers]`, one that Rind knows (`anthropic`, `openai`, `ollama` …) or `scripted`; chosen by the
    /// environment when not given.
    pub name: Option<String>,
    /// Name of the model, or `NAME/model` for one of another provider.
    pub model: Option<String>,
    /// Base URL of the API.
    pub base_url: Option<String>,
    /// Environment variable that holds the key, in place of the provider's usual one.
    pub api_key_env: Option<String>,
    /// Whether the model takes images; told by its profile when not given.
    pub images: Option<bool>,
    /// Script of the scripted provider.
    pub script: Option<PathBuf>,
    /// Time limits and attempts.
    pub http: HttpConfig,
}

impl Section for ProviderConfig {
    const NAME: &'static str = "provider";
}

/// Name of the provider that plays a script.
pub(super) const SCRIPTED: &str = "scripted";

/// Selected provider and model.
pub struct Selected {
    /// Client of the provider.
    pub provider: Arc<dyn Provider>,
    /// Name of the model.
    pub model: String,
    /// Reason for the choice, half a sentence for people.
    pub why: String,
    /// Whether it plays a script because no model is set up.
    pub is_stand_in: bool,
}

/// Origin of a key that is no environment variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySource<'a> {
    /// The first line of the output of a command: a program and its arguments.
    Command(&'a [String]),
    /// The first line of a file that only its owner can read.
    File(&'a Path),
}

/// Lookups of variables and keys. Called while a provider is selected, and only for the one that is selected.
pub trait Keys {
    /// Returns an environment variable; an empty one counts as not set.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the key at `source`, or says in half a sentence why there is none. The text must not hold the key.
    fn key(&self, source: KeySource<'_>) -> Result<String, String>;
}

/// Lookups in the environment alone.
struct Variables<'a>(&'a dyn Fn(&str) -> Option<String>);

impl Keys for Variables<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        (self.0)(name)
    }

    fn key(&self, _: KeySource<'_>) -> Result<String, String> {
        Err("this program takes keys from the environment only".to_owned())
    }
}

/// Chooses a provider from one section of the settings: the one that is named, else the one that the environment is set up for,
/// else the scripted one.
///
/// `env` looks up environment variables; empty ones count as not set.
pub fn select(
    config: &ProviderConfig,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Selected, Error> {
    let choice = Choice {
        provider: config.clone(),
        ..Choice::default()
    };
    choice.select(&Variables(env))
}

/// The settings that decide about provider and model.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Provider and model that are asked for.
    pub provider: ProviderConfig,
    /// The operator's own providers.
    pub providers: ProvidersConfig,
    /// The operator's profiles of models.
    pub models: Models,
    /// Whether the name of the model is taken as it is: a provider before its slash is not looked for. That is so for the model
    /// of a resumed session.
    pub is_exact: bool,
    /// Whether the provider was typed together with the model, so that a slash never leads to another provider.
    pub is_pinned: bool,
}

impl Choice {
    /// Chooses a provider: the one that is named (by `provider.name`, or before a slash in the name of the model), else the one
    /// that the environment is set up for, else the scripted one.
    pub fn select(&self, keys: &dyn Keys) -> Result<Selected, Error> {
        let env = |name: &str| {
            let value = keys.variable(name);
            value.filter(|value| !value.trim().is_empty())
        };
        let config = &self.provider;
        let by_name = match &config.name {
            Some(name) if name == SCRIPTED => return play(config, format!("{name} was asked for")),
            Some(name) => Some((self.named(name)?, format!("{name} was asked for"))),
            None => match &config.script {
                Some(script) => {
                    let why = format!("the script {} was asked for", script.display());
                    return play(config, why);
                }
                None => self.by_environment(&env),
            },
        };
        if let Some((found, model)) = self.before_slash(by_name.as_ref().map(|(f, _)| f), &env) {
            let why = format!("{} stands before the slash of the model", found.name);
            if found.name == SCRIPTED {
                return play(config, why);
            }
            // The address, the key and the images of [provider] are those of the provider that it names.
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
            return connect(self, found, &config, keys, why);
        }
        if let Some((found, why)) = by_name {
            return connect(self, found, config, keys, why);
        }
        let why = "no key and no model server is configured".to_owned();
        Ok(Selected {
            is_stand_in: true,
            ..play(config, why)?
        })
    }

    /// The provider that the environment, or a base URL alone, is for.
    fn by_environment(&self, env: &dyn Fn(&str) -> Option<String>) -> Option<(Found<'_>, String)> {
        let [anthropic, openai, ..] = &preset::PRESETS;
        let set = [
            (anthropic, anthropic.key_env),
            (openai, openai.key_env),
            (openai, openai.url_env),
        ];
        let found = |preset: &'static Preset| Found {
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

    fn find<'a>(&'a self, name: &'a str) -> Option<Found<'a>> {
        let own = self.providers.0.get(name);
        let like = own.and_then(|own| own.preset.as_deref()).unwrap_or(name);
        let preset = preset::find(like);
        (own.is_some() || preset.is_some()).then_some(Found { name, preset, own })
    }

    fn named<'a>(&'a self, name: &'a str) -> Result<Found<'a>, Error> {
        let unknown = |name: &str| Error::UnknownProvider {
            name: name.to_owned(),
            known: self.known_providers().join(", "),
        };
        let found = self.find(name).ok_or_else(|| unknown(name))?;
        match found.own.and_then(|own| own.preset.as_deref()) {
            Some(preset) if found.preset.is_none() => Err(unknown(preset)),
            _ => Ok(found),
        }
    }

    /// Names of all providers that can be asked for: the operator's own, those that Rind knows, the scripted one.
    #[must_use]
    pub fn known_providers(&self) -> Vec<String> {
        let own = self.providers.0.keys().cloned();
        let others = preset::names().filter(|name| !self.providers.0.contains_key(*name));
        let all = own.chain(others.map(str::to_owned));
        all.chain([SCRIPTED.to_owned()]).collect()
    }

    /// The provider that the name of the model begins with, and the rest of the name.
    ///
    /// A slash may as well belong to the name: resellers put the vendor before it, and local servers the repository. `chosen` is
    /// the provider that is asked otherwise. Its own name before the slash is always read as the provider, and so is a name of
    /// `[providers]`. The name of a vendor is not, when the chosen provider has such names itself.
    fn before_slash<'a>(
        &'a self,
        chosen: Option<&Found<'_>>,
        env: &dyn Fn(&str) -> Option<String>,
    ) -> Option<(Found<'a>, &'a str)> {
        let name = self.provider.model.as_deref().filter(|_| !self.is_exact)?;
        let (first, rest) = name.split_once('/').filter(|(_, rest)| !rest.is_empty())?;
        if first == SCRIPTED {
            let scripted = Found {
                name: SCRIPTED,
                preset: None,
                own: None,
            };
            return chosen.is_none().then_some((scripted, rest));
        }
        let found = self.named(first).ok()?;
        // `openrouter/auto` is a model of OpenRouter.
        let is_whole = found
            .preset
            .filter(|preset| preset.name == found.name)
            .is_some_and(|preset| preset.names == Names::AlwaysSlashes)
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
        let is_elsewhere = given_url(*chosen, self.provider.base_url.as_deref(), env).is_some();
        if chosen.name == first {
            // A server of one's own may well have a model `openai/gpt-oss-20b`.
            let is_own_name = is_whole || (is_elsewhere && chosen.own.is_none());
            return (!is_own_name).then_some((found, rest));
        }
        let has_slashes = chosen
            .preset
            .is_none_or(|preset| preset.names != Names::Plain);
        let is_vendor = has_slashes || is_elsewhere;
        let is_other = !self.is_pinned && (found.own.is_some() || !is_vendor);
        is_other.then_some((found, if is_whole { name } else { rest }))
    }
}

#[cfg(feature = "scripted")]
fn play(config: &ProviderConfig, why: String) -> Result<Selected, Error> {
    let provider = match &config.script {
        Some(path) => scripted::Scripted::from_file(path)?,
        None => scripted::Scripted::built_in()?,
    };
    Ok(Selected {
        provider: Arc::new(provider),
        model: config.model.clone().unwrap_or_else(|| SCRIPTED.to_owned()),
        why,
        is_stand_in: false,
    })
}

#[cfg(not(feature = "scripted"))]
fn play(_: &ProviderConfig, why: String) -> Result<Selected, Error> {
    Err(Error::NoScripts { why })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::provider::endpoint::ApiKey;

    /// `provider model: why`, or the error.
    fn check(config: &ProviderConfig, env: &[(&str, &str)]) -> String {
        let look_up = |name: &str| {
            env.iter()
                .find(|(variable, _)| *variable == name)
                .map(|(_, value)| (*value).to_owned())
        };
        match select(config, &look_up) {
            Ok(Selected {
                provider,
                model,
                why,
                ..
            }) => format!("{} {model}: {why}", provider.name()),
            Err(error) => error.to_string(),
        }
    }

    /// Checks a table with a case in each line: settings, the environment, and what comes of them, between `|`.
    fn check_all(table: &str) {
        for case in table.trim().lines() {
            let [toml, env, expected] = case.split('|').map(str::trim).collect::<Vec<_>>()[..]
            else {
                panic!("{case}");
            };
            let env: Vec<_> = env
                .split_whitespace()
                .filter_map(|v| v.split_once('='))
                .collect();
            let toml = toml.replace("; ", "\n");
            assert_eq!(check(&config(&toml), &env), expected, "{case}");
        }
    }

    fn config(toml: &str) -> ProviderConfig {
        toml::from_str(toml).unwrap()
    }

    #[test]
    fn the_environment_decides_when_nothing_is_named() {
        let blank = [("ANTHROPIC_API_KEY", " ")];
        let expected = "scripted scripted: no key and no model server is configured";
        assert_eq!(check(&config(""), &blank), expected);
        check_all(
            "
            | | scripted scripted: no key and no model server is configured
            | OPENAI_API_KEY=k ANTHROPIC_API_KEY=k | anthropic claude-sonnet-5-5: ANTHROPIC_API_KEY is set
            | OPENAI_API_KEY=k | openai gpt-5.4: OPENAI_API_KEY is set
            | OPENAI_BASE_URL=http://127.0.0.1:8000/v1 | openai gpt-5.4: OPENAI_BASE_URL is set
            model = 'm' | ANTHROPIC_API_KEY=k | anthropic m: ANTHROPIC_API_KEY is set
            base_url = 'http://h/v1' | | openai gpt-5.4: a base URL is configured
            ",
        );
    }

    #[test]
    fn a_name_wins_over_the_environment() {
        check_all(
            "
            name = 'scripted' | ANTHROPIC_API_KEY=k | scripted scripted: scripted was asked for
            name = 'openai' | ANTHROPIC_API_KEY=k | no API key for openai: set OPENAI_API_KEY, or choose \
                another provider with --provider
            name = 'anthropic'; api_key_env = 'MINE' | ANTHROPIC_API_KEY=k | no API key for anthropic: set \
                MINE, or choose another provider with --provider
            name = 'anthropic'; api_key_env = 'MINE' | MINE=k | anthropic claude-sonnet-5-5: anthropic was asked for
            name = 'anthropic' | ANTHROPIC_BASE_URL=http://localhost:1 | anthropic claude-sonnet-5-5: anthropic was asked for
            name = 'ollama' | | no model chosen for ollama: name one with --model, for example `--model qwen3.8:27b`
            name = 'ollama'; model = 'm' | | ollama m: ollama was asked for
            name = 'openrouter'; model = 'm' | OPENROUTER_API_KEY=k | openrouter m: openrouter was asked for
            name = 'gemeni' | | unknown provider `gemeni`; known: anthropic, openai, ollama, openrouter, gemini, deepseek, mistral, \
                groq, xai, azure, bedrock, vertex, lm-studio, llama-cpp, vllm, scripted
            name = 'openai'; base_url = 'localhost' | | provider.base_url of openai cannot be used: not a URL \
                (relative URL without a base); write it as http://127.0.0.1:11434/v1
            ",
        );
    }

    const PROVIDERS: &str = "
        [mine]
        base_url = 'http://mine/v1'
        model = 'm1'
        models = ['anthropic/own']
        [claude]
        preset = 'anthropic'
        api_key_env = 'MINE'
        [openrouter]
        headers = {x-title = 'rind'}";

    /// `provider model`, or the error, with [`PROVIDERS`] in the settings.
    fn chosen(provider: &str, is_pinned: bool, env: &[(&str, &str)]) -> String {
        let choice = Choice {
            provider: config(provider),
            providers: toml::from_str(PROVIDERS).unwrap(),
            is_pinned,
            ..Choice::default()
        };
        let env: HashMap<&str, &str> = env.iter().copied().collect();
        let look_up = |name: &str| env.get(name).map(|value| (*value).to_owned());
        match choice.select(&Variables(&look_up)) {
            Ok(selected) => format!("{} {}", selected.provider.name(), selected.model),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_name_before_the_slash_of_a_model_is_a_provider_unless_it_is_a_vendor() {
        let keys = [
            ("ANTHROPIC_API_KEY", "k"),
            ("OPENAI_API_KEY", "k"),
            ("OPENROUTER_API_KEY", "k"),
            ("GROQ_API_KEY", "k"),
            ("MINE", "k"),
        ];
        for (provider, expected) in [
            ("model = 'openai/gpt-5.4'", "openai gpt-5.4"),
            (
                "model = 'openrouter/anthropic/claude-x'",
                "openrouter anthropic/claude-x",
            ),
            ("model = 'openrouter/auto'", "openrouter openrouter/auto"),
            ("model = 'mine/a/b'", "mine a/b"),
            ("model = 'claude/claude-opus-5-5'", "claude claude-opus-5-5"),
            ("model = 'ollama/qwen3.8:27b'", "ollama qwen3.8:27b"),
            ("model = 'scripted/x'; name = 'openai'", "openai scripted/x"),
            // No provider: the slash belongs to the name.
            ("model = 'acme/x'", "anthropic acme/x"),
            ("model = '/x'", "anthropic /x"),
            ("model = 'openai/'", "anthropic openai/"),
            // Resellers, and servers of one's own, have such names themselves.
            (
                "name = 'openrouter'; model = 'openai/gpt-5.4'",
                "openrouter openai/gpt-5.4",
            ),
            (
                "name = 'openrouter'; model = 'openrouter/openai/gpt-5.4'",
                "openrouter openai/gpt-5.4",
            ),
            (
                "name = 'openrouter'; model = 'openrouter/auto'",
                "openrouter openrouter/auto",
            ),
            (
                "name = 'groq'; model = 'openai/gpt-oss-120b'",
                "groq openai/gpt-oss-120b",
            ),
            (
                "name = 'groq'; model = 'groq/openai/gpt-oss-120b'",
                "groq openai/gpt-oss-120b",
            ),
            (
                "base_url = 'http://h/v1'; name = 'openai'; model = 'openai/gpt-oss-20b'",
                "openai openai/gpt-oss-20b",
            ),
            (
                "name = 'mine'; model = 'anthropic/own'",
                "mine anthropic/own",
            ),
            ("name = 'mine'; model = 'openai/other'", "mine openai/other"),
            // The operator's own names always count.
            (
                "name = 'openrouter'; model = 'claude/claude-opus-5-5'",
                "claude claude-opus-5-5",
            ),
            (
                "name = 'anthropic'; model = 'openai/gpt-5.4'",
                "openai gpt-5.4",
            ),
            ("name = 'mine'", "mine m1"),
        ] {
            let provider = provider.replace("; ", "\n");
            assert_eq!(chosen(&provider, false, &keys), expected, "{provider}");
        }
        let both = "name = 'anthropic'\nmodel = 'openai/gpt-5.4'";
        assert_eq!(chosen(both, true, &keys), "anthropic openai/gpt-5.4");
    }

    #[test]
    fn a_key_goes_to_the_server_that_it_is_for_and_to_no_other() {
        let env = [
            ("OPENAI_API_KEY", "sk-openai-1234"),
            ("ANTHROPIC_API_KEY", "sk-ant-1234"),
        ];
        let look_up = |name: &str| {
            let found = env.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        // Settings of the provider, its name, the key that it gets.
        for (own, name, expected) in [
            (
                "[openai]\nbase_url = 'http://h/v1'",
                "openai",
                Some("sk-openai-1234"),
            ),
            (
                "[mine]\npreset = 'openai'\nbase_url = 'http://h/v1'",
                "mine",
                None,
            ),
            ("[mine]\nbase_url = 'http://h/v1'", "mine", None),
            ("[mine]\npreset = 'openai'", "mine", Some("sk-openai-1234")),
            (
                "[mine]\nbase_url = 'http://h/v1'\napi_key_env = 'ANTHROPIC_API_KEY'",
                "mine",
                Some("sk-ant-1234"),
            ),
        ] {
            let choice = Choice {
                providers: toml::from_str(own).unwrap(),
                ..Choice::default()
            };
            let found = choice.named(name).unwrap();
            let config = ProviderConfig::default();
            let made = crate::provider::connect::endpoint(found, &config, &Variables(&look_up));
            assert_eq!(made.unwrap().key, expected.and_then(ApiKey::new), "{own}");
        }
        // The address of [provider] is not that of a provider before the slash.
        let elsewhere = "base_url = 'http://h/v1'\nname = 'openai'\nmodel = 'claude/x'";
        assert_eq!(chosen(elsewhere, false, &[("MINE", "k")]), "claude x");
    }

    #[test]
    fn settings_of_a_named_provider_that_cannot_be_used_are_told_with_their_name() {
        for (own, expected) in [
            (
                "[mine]",
                "providers.mine.base_url of mine cannot be used: it is missing; write it as http://127.0.0.1:8000/v1",
            ),
            (
                "[mine]\npreset = 'opnai'",
                "unknown provider `opnai`; known: mine, anthropic, openai,",
            ),
            (
                "[azure]",
                "providers.azure.base_url of azure cannot be used: it is missing; write it as https://NAME.openai",
            ),
            (
                "[openai]\napi_key_command = ['x']",
                "providers.openai.api_key_command of openai cannot be used: this program takes",
            ),
            (
                "[openai]\napi_key_command = ['x']\napi_key_file = 'x'",
                "providers.openai.api_key_command of openai cannot be used: only one",
            ),
            (
                "[openai]\nheaders = {'a b' = 'x'}",
                "providers.openai.headers.a b of openai cannot be used: this is no name",
            ),
            (
                "[openai]\nheaders = {a = \"x\\ny\"}",
                "providers.openai.headers.a of openai cannot be used: the value",
            ),
            (
                "[openai]\napi_key_header = 'a b'",
                "providers.openai.api_key_header of openai cannot be used: this is",
            ),
        ] {
            let (name, _) = own.trim_start_matches('[').split_once(']').unwrap();
            let choice = Choice {
                provider: config(&format!("name = '{name}'")),
                providers: toml::from_str(own).unwrap(),
                ..Choice::default()
            };
            let env = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-1".to_owned());
            let error = choice.select(&Variables(&env)).err().unwrap().to_string();
            assert!(error.starts_with(expected), "{own}: {error}");
        }
        for bad in [
            "['a/b']",
            "[scripted]",
            "['']",
            "[a]\nkey = 'x'",
            "[a]\nwire = 'x'",
        ] {
            assert!(toml::from_str::<ProvidersConfig>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_script_that_is_not_there_is_named() {
        let error = check(&config("script = \"/nowhere/s.toml\""), &[]);
        assert_eq!(
            error,
            "cannot read the script /nowhere/s.toml: check the path"
        );
    }

    #[test]
    fn the_openai_key_does_not_go_to_ollama() {
        let env = |name: &str| (name == "OPENAI_API_KEY").then(|| "k".to_owned());
        let choice = Choice::default();
        let ollama = choice.named("ollama").unwrap();
        let endpoint = crate::provider::connect::endpoint(
            ollama,
            &ProviderConfig::default(),
            &Variables(&env),
        )
        .unwrap();
        assert_eq!(endpoint.key, None);
        assert_eq!(endpoint.shown_url(), "http://127.0.0.1:11434/v1");
    }

    #[test]
    fn unknown_settings_are_refused() {
        assert!(toml::from_str::<ProviderConfig>("nmae = \"x\"").is_err());
        assert!(toml::from_str::<ProviderConfig>("[http]\nidle = 1").is_err());
        let config = config("[http]\nidle_timeout_ms = 1");
        assert_eq!(config.http.max_attempts, 4);
    }
}
