//! Selects provider and model of a run.
//!
//! Owns the order of preference and the presets. It must not read the environment: lookups are handed in, so that the
//! command line alone decides what counts. Start from [`select`].

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::endpoint::{ApiKey, Endpoint};
use super::http::HttpConfig;
#[cfg(feature = "scripted")]
use super::scripted;
use super::{Error, Provider, Wire, anthropic, client, openai};
use crate::config::Section;

/// The `provider` section of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// `anthropic`, `openai`, `ollama`, `openrouter` or `scripted`; chosen by what is configured when not given.
    pub name: Option<String>,
    /// Name of the model.
    pub model: Option<String>,
    /// Base URL of the API.
    pub base_url: Option<String>,
    /// Environment variable that holds the key, in place of the provider's usual one.
    pub api_key_env: Option<String>,
    /// Whether the model takes images; told by its name when not given.
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

/// A provider that is reached over HTTP.
struct Preset {
    name: &'static str,
    wire: Wire,
    url: &'static str,
    url_env: &'static str,
    key_env: &'static str,
    needs_key: bool,
    model: Result<&'static str, &'static str>,
    advice: &'static str,
}

/// `model` is the default, or as an error an example of what may be given.
const PRESETS: [Preset; 4] = [
    Preset {
        name: "anthropic",
        wire: Wire::AnthropicMessages,
        url: anthropic::DEFAULT_URL,
        url_env: "ANTHROPIC_BASE_URL",
        key_env: "ANTHROPIC_API_KEY",
        needs_key: true,
        model: Ok("claude-sonnet-4-5"),
        advice: "check the network connection, or set ANTHROPIC_BASE_URL to another server",
    },
    Preset {
        name: "openai",
        wire: Wire::OpenaiChat,
        url: openai::DEFAULT_URL,
        url_env: "OPENAI_BASE_URL",
        key_env: "OPENAI_API_KEY",
        needs_key: true,
        model: Ok("gpt-4o"),
        advice: "check the network connection, or set OPENAI_BASE_URL to another server",
    },
    Preset {
        name: "ollama",
        wire: Wire::OpenaiChat,
        url: openai::OLLAMA_URL,
        url_env: "OPENAI_BASE_URL",
        // Not OPENAI_API_KEY: a key that pays for OpenAI has no business at another server.
        key_env: "OLLAMA_API_KEY",
        needs_key: false,
        model: Err("llama3.2"),
        advice: "start it with `ollama serve`, or set OPENAI_BASE_URL to where it runs",
    },
    Preset {
        name: "openrouter",
        wire: Wire::OpenaiChat,
        url: openai::OPENROUTER_URL,
        url_env: "OPENROUTER_BASE_URL",
        key_env: "OPENROUTER_API_KEY",
        needs_key: true,
        model: Err("openai/gpt-4o"),
        advice: "check the network connection, or set OPENROUTER_BASE_URL to another server",
    },
];

/// Returns the provider that issued a key and the variable for it, by the beginning that an issuer gives all of its keys.
#[cfg(feature = "cli")]
pub(crate) fn issuer(key: &str) -> Option<(&'static str, &'static str)> {
    let issuers = [
        ("sk-ant-", "anthropic"),
        ("sk-or-", "openrouter"),
        ("sk-", "openai"),
    ];
    let (_, name) = issuers
        .into_iter()
        .find(|(start, _)| key.starts_with(start))?;
    let preset = PRESETS.iter().find(|preset| preset.name == name)?;
    Some((preset.name, preset.key_env))
}

/// Chooses a provider: the one that is named, else the one that the environment is set up for, else the scripted one.
///
/// `env` looks up environment variables; empty ones count as not set.
pub fn select(
    config: &ProviderConfig,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Selected, Error> {
    let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
    if let Some(name) = &config.name {
        let why = format!("{name} was asked for");
        if name == SCRIPTED {
            return play(config, why);
        }
        let known = || {
            let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
            format!("{}, {}", names.join(", "), SCRIPTED)
        };
        let preset = PRESETS.iter().find(|preset| preset.name == name);
        let preset = preset.ok_or_else(|| Error::UnknownProvider {
            name: name.clone(),
            known: known(),
        })?;
        return connect(preset, config, &env, why);
    }
    if let Some(script) = &config.script {
        let why = format!("the script {} was asked for", script.display());
        return play(config, why);
    }
    let [anthropic, openai, ..] = &PRESETS;
    for (preset, variable) in [
        (anthropic, anthropic.key_env),
        (openai, openai.key_env),
        (openai, openai.url_env),
    ] {
        if env(variable).is_some() {
            return connect(preset, config, &env, format!("{variable} is set"));
        }
    }
    if config.base_url.is_some() {
        return connect(openai, config, &env, "a base URL is configured".to_owned());
    }
    let why = "no key and no model server is configured".to_owned();
    Ok(Selected {
        is_stand_in: true,
        ..play(config, why)?
    })
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

fn connect(
    preset: &Preset,
    config: &ProviderConfig,
    env: &dyn Fn(&str) -> Option<String>,
    why: String,
) -> Result<Selected, Error> {
    let endpoint = endpoint(preset, config, env)?;
    let model = match (&config.model, preset.model) {
        (Some(model), _) => model.clone(),
        (None, Ok(model)) => model.to_owned(),
        (None, Err(example)) => {
            return Err(Error::NoModel {
                provider: preset.name.to_owned(),
                example,
            });
        }
    };
    let http = config.http.clone();
    Ok(Selected {
        provider: client::connect(preset.wire, endpoint, http, config.images)?,
        model,
        why,
        is_stand_in: false,
    })
}

fn endpoint(
    preset: &Preset,
    config: &ProviderConfig,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Endpoint, Error> {
    let key_env = config.api_key_env.as_deref().unwrap_or(preset.key_env);
    let key = env(key_env).as_deref().and_then(ApiKey::new);
    let (setting, given) = match (&config.base_url, env(preset.url_env)) {
        (Some(url), _) => ("provider.base_url", Some(url.clone())),
        (None, url) => (preset.url_env, url),
    };
    // Only the public API is known to want a key; a server of one's own says so itself when it does.
    let is_key_missing = key.is_none() && preset.needs_key && given.is_none();
    if is_key_missing || (key.is_none() && config.api_key_env.is_some()) {
        return Err(Error::MissingKey {
            provider: preset.name.to_owned(),
            key_env: key_env.to_owned(),
        });
    }
    let advice = match &given {
        Some(_) if preset.name != "ollama" => format!("start that server, or correct {setting}"),
        _ => preset.advice.to_owned(),
    };
    let url = given.as_deref().unwrap_or(preset.url);
    Ok(Endpoint {
        provider: preset.name.to_owned(),
        url: Endpoint::parse_url(preset.name, setting, url)?,
        url_env: setting.to_owned(),
        key,
        key_env: key_env.to_owned(),
        advice,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
            | OPENAI_API_KEY=k ANTHROPIC_API_KEY=k | anthropic claude-sonnet-4-5: ANTHROPIC_API_KEY is set
            | OPENAI_API_KEY=k | openai gpt-4o: OPENAI_API_KEY is set
            | OPENAI_BASE_URL=http://127.0.0.1:8000/v1 | openai gpt-4o: OPENAI_BASE_URL is set
            model = 'm' | ANTHROPIC_API_KEY=k | anthropic m: ANTHROPIC_API_KEY is set
            base_url = 'http://h/v1' | | openai gpt-4o: a base URL is configured
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
            name = 'anthropic'; api_key_env = 'MINE' | MINE=k | anthropic claude-sonnet-4-5: anthropic was asked for
            name = 'anthropic' | ANTHROPIC_BASE_URL=http://localhost:1 | anthropic claude-sonnet-4-5: anthropic was asked for
            name = 'ollama' | | no model chosen for ollama: name one with --model, for example `--model llama3.2`
            name = 'ollama'; model = 'm' | | ollama m: ollama was asked for
            name = 'openrouter'; model = 'm' | OPENROUTER_API_KEY=k | openrouter m: openrouter was asked for
            name = 'gemini' | | unknown provider `gemini`; known: anthropic, openai, ollama, openrouter, scripted
            name = 'openai'; base_url = 'localhost' | | provider.base_url of openai cannot be used: not a URL \
                (relative URL without a base); write it as http://127.0.0.1:11434/v1
            ",
        );
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
        let [_, _, ollama, _] = &PRESETS;
        let endpoint = endpoint(ollama, &ProviderConfig::default(), &env).unwrap();
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
