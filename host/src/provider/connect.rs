//! Creates the client of a selected provider, with its address, key, headers and dialect.
//!
//! Owns the precedence of settings over presets. The module must not depend on the reason for which
//! the provider was selected (`select` decides that). Start from [`connect_provider`].

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use super::ask::ModelInfoApiKind;
use super::dialect::{RequestBodyDialect, TokenLimitField};
use super::endpoint::{ApiKey, ModelApiEndpoint};
use super::named::CustomProviderSettings;
use super::preset::ProviderPreset;
use super::profile::ModelServerProfile;
use super::select::{
    EnvironmentAndApiKeyLookup, NonEnvironmentApiKeySource, ProviderConfig,
    ProviderSelectionSettings, SelectedProviderAndModel,
};
use super::{Error, ModelApiFormat, client};

/// Name of a provider, with its preset and its section of the settings.
#[derive(Clone, Copy)]
pub(super) struct ResolvedProvider<'a> {
    pub(super) name: &'a str,
    pub(super) preset: Option<&'static ProviderPreset>,
    pub(super) own: Option<&'a CustomProviderSettings>,
}

/// Creates the client of a provider.
pub(super) fn connect_provider(
    choice: &ProviderSelectionSettings,
    found: ResolvedProvider<'_>,
    config: &ProviderConfig,
    keys: &dyn EnvironmentAndApiKeyLookup,
    why: String,
) -> Result<SelectedProviderAndModel, Error> {
    let endpoint = find_endpoint(found, config, keys)?;
    let own_model = found.own.and_then(|own| own.model.clone());
    let preset_model = found.preset.map(|preset| preset.model);
    let model = match (config.model.clone().or(own_model), preset_model) {
        (Some(model), _) => model,
        (None, Some(Ok(model))) => model.to_owned(),
        (None, example) => {
            return Err(Error::NoModel {
                provider: found.name.to_owned(),
                example: example.and_then(Result::err).unwrap_or("NAME"),
            });
        }
    };
    let own = found.own;
    let wire = own.and_then(|own| own.wire);
    let wire = wire.or(found.preset.map(|preset| match preset.wire {
        // A server with another host than the preset's usually supports only the chat completions
        // API.
        ModelApiFormat::OpenaiResponses if !endpoint_has_preset_host(preset, &endpoint) => {
            ModelApiFormat::OpenaiChat
        }
        wire => wire,
    }));
    let wire = wire.unwrap_or(ModelApiFormat::OpenaiChat);
    let http = own.and_then(|own| own.http.clone());
    let http = http.unwrap_or_else(|| config.http.clone());
    let server = build_server_profile(choice, found, &endpoint, wire, config.images);
    Ok(SelectedProviderAndModel {
        provider: client::connect(wire, endpoint, http, server)?,
        model,
        why,
        is_stand_in: false,
    })
}

/// Whether the URL of an endpoint has the same host as the URL of the preset.
fn endpoint_has_preset_host(preset: &ProviderPreset, endpoint: &ModelApiEndpoint) -> bool {
    let usual = preset.url.ok().and_then(|url| Url::parse(url).ok());
    usual.is_some_and(|usual| usual.host_str() == endpoint.url.host_str())
}

/// Builds the profile of a model server from its preset and the operator's settings.
fn build_server_profile(
    choice: &ProviderSelectionSettings,
    found: ResolvedProvider<'_>,
    endpoint: &ModelApiEndpoint,
    wire: ModelApiFormat,
    images: Option<bool>,
) -> ModelServerProfile {
    let (own, preset) = (found.own, found.preset);
    let is_usual = preset.is_some_and(|preset| endpoint_has_preset_host(preset, endpoint));
    // If the URL is not that of the preset, query the server's list of models, and use the old name
    // of the field for the token limit: most such servers know only that name.
    let preset_here = preset.filter(|preset| is_usual || preset.url.is_err() || preset.is_local);
    let ask = match preset_here {
        Some(preset) => preset.ask,
        None if wire == ModelApiFormat::OpenaiChat => Some(ModelInfoApiKind::Models),
        None => None,
    };
    let limit = preset_here.map_or(TokenLimitField::MaxTokens, |preset| preset.token_limit);
    let refused = preset.map_or(&[][..], |preset| preset.leave_out).iter();
    let refused = refused.map(|field| (*field).to_owned());
    let also = own.map(|own| own.leave_out.clone()).unwrap_or_default();
    let dialect = RequestBodyDialect {
        token_limit: own.and_then(|own| own.token_limit).unwrap_or(limit),
        system_role: own.and_then(|own| own.system_role).unwrap_or_default(),
        leave_out: refused.chain(also).collect(),
        extra: own.map(|own| own.extra_body.clone()).unwrap_or_default(),
        needs_limit: wire == ModelApiFormat::AnthropicMessages,
    };
    ModelServerProfile {
        dialect,
        mends: preset.map_or(&[], |preset| preset.mends),
        models: choice.models.clone(),
        images: own.and_then(|own| own.images).or(images),
        ask,
        is_local: endpoint.is_loopback(),
        ..ModelServerProfile::default()
    }
}

/// Returns the name of the setting or environment variable that sets the base URL, and the base
/// URL.
pub(super) fn find_base_url(
    found: ResolvedProvider<'_>,
    base_url: Option<&str>,
    env: &dyn Fn(&str) -> Option<String>,
) -> Option<(String, String)> {
    let named = found.own.and_then(|own| own.base_url.clone());
    let named = named.map(|url| (format!("providers.{}.base_url", found.name), url));
    let section = || base_url.map(|url| ("provider.base_url".to_owned(), url.to_owned()));
    // A provider whose name differs from its preset is a different server, to which the preset's
    // environment variable does not apply.
    let is_preset = |preset: &&ProviderPreset| preset.name == found.name;
    let variable = || {
        let preset = found.preset.filter(is_preset)?;
        Some((preset.url_env.to_owned(), env(preset.url_env)?))
    };
    section().or(named).or_else(variable)
}

pub(super) fn find_endpoint(
    found: ResolvedProvider<'_>,
    config: &ProviderConfig,
    keys: &dyn EnvironmentAndApiKeyLookup,
) -> Result<ModelApiEndpoint, Error> {
    let env = |name: &str| {
        let value = keys.variable(name);
        value.filter(|value| !value.trim().is_empty())
    };
    let bad = |setting: String, what: &str| Error::BadSetting {
        provider: found.name.to_owned(),
        setting,
        what: what.to_owned(),
    };
    let given = find_base_url(found, config.base_url.as_deref(), &env);
    let usual = found.preset.map(|preset| preset.url);
    let url = match (&given, usual) {
        (Some((_, url)), _) => url.as_str(),
        (None, Some(Ok(url))) => url,
        (None, example) => {
            let setting = format!("providers.{}.base_url", found.name);
            let example = example.and_then(Result::err);
            let example = example.unwrap_or("http://127.0.0.1:8000/v1");
            return Err(bad(
                setting,
                &format!("the URL is missing; set it, for example to {example}"),
            ));
        }
    };
    let setting = match (&given, found.preset) {
        (Some((setting, _)), _) => setting.clone(),
        (None, Some(preset)) => preset.url_env.to_owned(),
        (None, None) => String::new(),
    };
    let (key, key_env) = find_api_key(found, config, keys, given.is_some())?;
    let advice = match (&given, found.preset) {
        (Some(_), Some(preset)) if preset.name == "ollama" => preset.advice.to_owned(),
        (Some((setting, _)), _) => format!("start that server, or correct {setting}"),
        (None, preset) => preset.map_or("", |preset| preset.advice).to_owned(),
    };
    let own_header = found.own.and_then(|own| own.api_key_header.as_deref());
    let preset_header = found.preset.and_then(|preset| preset.key_in);
    let key_in = own_header.or(preset_header).map(|name| {
        let parsed = HeaderName::from_bytes(name.as_bytes());
        let setting = format!("providers.{}.api_key_header", found.name);
        parsed.map_err(|_| bad(setting, "it is not a valid HTTP header name"))
    });
    let mut headers = HeaderMap::new();
    for (name, value) in found.own.into_iter().flat_map(|own| &own.headers) {
        let setting = || format!("providers.{}.headers.{name}", found.name);
        let header = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| bad(setting(), "it is not a valid HTTP header name"))?;
        let mut value = HeaderValue::from_str(value).map_err(|_| {
            bad(
                setting(),
                "the value has characters that are not allowed in an HTTP header",
            )
        })?;
        value.set_sensitive(true);
        headers.insert(header, value);
    }
    let mut endpoint = ModelApiEndpoint {
        provider: found.name.to_owned(),
        url: ModelApiEndpoint::parse_url(found.name, &setting, url)?,
        url_env: setting,
        key,
        key_env,
        advice,
        headers,
        key_in: key_in.transpose()?,
    };
    endpoint.set_key_header()?;
    Ok(endpoint)
}

/// Returns the key, and the name of its variable or setting for messages.
fn find_api_key(
    found: ResolvedProvider<'_>,
    config: &ProviderConfig,
    keys: &dyn EnvironmentAndApiKeyLookup,
    has_given_url: bool,
) -> Result<(Option<ApiKey>, String), Error> {
    let own = found.own;
    let bad = |setting: &str, what: String| Error::BadSetting {
        provider: found.name.to_owned(),
        setting: format!("providers.{}.{setting}", found.name),
        what,
    };
    let command = own.and_then(|own| own.api_key_command.as_deref());
    let file = own.and_then(|own| own.api_key_file.as_deref());
    let own_env = own.and_then(|own| own.api_key_env.as_deref());
    let n_sources = [command.is_some(), file.is_some(), own_env.is_some()];
    if n_sources.into_iter().filter(|is_set| *is_set).count() > 1 {
        let what = "only one of api_key_env, api_key_command and api_key_file may be set";
        return Err(bad("api_key_command", what.to_owned()));
    }
    let named_env = config.api_key_env.as_deref().or(own_env);
    let elsewhere = match (command, file) {
        _ if config.api_key_env.is_some() => None,
        (Some(command), _) => Some((
            "api_key_command",
            NonEnvironmentApiKeySource::Command(command),
        )),
        (None, Some(file)) => Some(("api_key_file", NonEnvironmentApiKeySource::File(file))),
        (None, None) => None,
    };
    if let Some((setting, source)) = elsewhere {
        let key = keys.key(source).map_err(|what| bad(setting, what))?;
        let Some(key) = ApiKey::new(&key) else {
            return Err(bad(setting, "its first line is empty".to_owned()));
        };
        return Ok((Some(key), format!("providers.{}.{setting}", found.name)));
    }
    // The default variable of a preset contains the key for the preset's own server. A provider
    // with another name and its own URL is a different server, and its settings must name a key:
    // `[providers.mine] preset = "openai"` with a URL does not get OPENAI_API_KEY.
    let is_preset = |preset: &&ProviderPreset| preset.name == found.name || !has_given_url;
    let usual = found.preset.filter(is_preset).map(|preset| preset.key_env);
    let Some(key_env) = named_env.or(usual) else {
        return Ok((None, format!("providers.{}.api_key_env", found.name)));
    };
    let variable = keys.variable(key_env);
    let key = variable.as_deref().and_then(ApiKey::new);
    // Report a missing key only for public APIs, which are known to require a key; any other server
    // reports it itself.
    let is_needed = found.preset.is_some_and(|preset| preset.needs_key) && !has_given_url;
    let is_needed = is_needed || found.preset.is_some_and(|p| p.needs_key && p.url.is_err());
    if key.is_none() && (is_needed || named_env.is_some()) {
        return Err(Error::MissingKey {
            provider: found.name.to_owned(),
            key_env: key_env.to_owned(),
        });
    }
    Ok((key, key_env.to_owned()))
}
