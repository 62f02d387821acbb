//! Tests of the selection of the provider and the model from settings, environment and names. They
//! need the feature `scripted`, because one of the providers is the scripted one.
#![cfg(feature = "scripted")]

use std::collections::HashMap;

use super::*;
use crate::provider::endpoint::ApiKey;

/// Returns the selection as `provider model: why`, or the error.
fn describe_selection(config: &ProviderConfig, env: &[(&str, &str)]) -> String {
    let look_up = |name: &str| {
        env.iter()
            .find(|(variable, _)| *variable == name)
            .map(|(_, value)| (*value).to_owned())
    };
    match select_provider(config, &look_up) {
        Ok(SelectedProviderAndModel {
            provider,
            model,
            why,
            ..
        }) => format!("{} {model}: {why}", provider.name()),
        Err(error) => error.to_string(),
    }
}

/// Checks a table with one case per line: settings, environment and expected selection, separated
/// by `|`.
fn assert_selections(table: &str) {
    for case in table.trim().lines() {
        let [toml, env, expected] = case.split('|').map(str::trim).collect::<Vec<_>>()[..] else {
            panic!("{case}");
        };
        let env: Vec<_> = env
            .split_whitespace()
            .filter_map(|v| v.split_once('='))
            .collect();
        let toml = toml.replace("; ", "\n");
        assert_eq!(
            describe_selection(&parse_config(&toml), &env),
            expected,
            "{case}"
        );
    }
}

fn parse_config(toml: &str) -> ProviderConfig {
    toml::from_str(toml).unwrap()
}

#[test]
fn the_environment_selects_the_provider_if_none_is_configured() {
    let blank = [("ANTHROPIC_API_KEY", " ")];
    let expected = "scripted scripted: no key and no model server is configured";
    assert_eq!(describe_selection(&parse_config(""), &blank), expected);
    assert_selections(
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
fn a_configured_provider_name_takes_precedence_over_the_environment() {
    assert_selections(
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
        name = 'openai'; base_url = 'localhost' | | provider.base_url of openai cannot be used: it is not a URL \
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

/// Returns the selection with [`PROVIDERS`] in the settings as `provider model`, or the error.
fn selection_with_providers(provider: &str, is_pinned: bool, env: &[(&str, &str)]) -> String {
    let choice = ProviderSelectionSettings {
        provider: parse_config(provider),
        providers: toml::from_str(PROVIDERS).unwrap(),
        is_pinned,
        ..ProviderSelectionSettings::default()
    };
    let env: HashMap<&str, &str> = env.iter().copied().collect();
    let look_up = |name: &str| env.get(name).map(|value| (*value).to_owned());
    match choice.select(&EnvironmentOnlyKeyLookup(&look_up)) {
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
        // The prefix is not a provider name, so the slash belongs to the model name.
        ("model = 'acme/x'", "anthropic acme/x"),
        ("model = '/x'", "anthropic /x"),
        ("model = 'openai/'", "anthropic openai/"),
        // Resellers and self-hosted servers have models whose names begin with the name of a
        // provider.
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
        // Names of the operator's own providers are always recognized.
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
        assert_eq!(
            selection_with_providers(&provider, false, &keys),
            expected,
            "{provider}"
        );
    }
    let both = "name = 'anthropic'\nmodel = 'openai/gpt-5.4'";
    assert_eq!(
        selection_with_providers(both, true, &keys),
        "anthropic openai/gpt-5.4"
    );
}

#[test]
fn an_api_key_is_sent_only_to_the_server_that_it_is_for() {
    let env = [
        ("OPENAI_API_KEY", "sk-openai-1234"),
        ("ANTHROPIC_API_KEY", "sk-ant-1234"),
    ];
    let look_up = |name: &str| {
        let found = env.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    // Each row: the section `[providers]`, the name of the selected provider, and the key that is
    // sent.
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
        let choice = ProviderSelectionSettings {
            providers: toml::from_str(own).unwrap(),
            ..ProviderSelectionSettings::default()
        };
        let found = choice.require_provider(name).unwrap();
        let config = ProviderConfig::default();
        let made = crate::provider::connect::find_endpoint(
            found,
            &config,
            &EnvironmentOnlyKeyLookup(&look_up),
        );
        assert_eq!(made.unwrap().key, expected.and_then(ApiKey::new), "{own}");
    }
    // The URL in [provider] does not apply to a provider that a prefix selects.
    let elsewhere = "base_url = 'http://h/v1'\nname = 'openai'\nmodel = 'claude/x'";
    assert_eq!(
        selection_with_providers(elsewhere, false, &[("MINE", "k")]),
        "claude x"
    );
}

#[test]
fn unusable_provider_settings_are_reported_with_the_name_of_the_provider() {
    for (own, expected) in [
        (
            "[mine]",
            "providers.mine.base_url of mine cannot be used: the URL is missing; set it, for example to http://127.0.0.1:8000/v1",
        ),
        (
            "[mine]\npreset = 'opnai'",
            "unknown provider `opnai`; known: mine, anthropic, openai,",
        ),
        (
            "[azure]",
            "providers.azure.base_url of azure cannot be used: the URL is missing; set it, for example to https://NAME.openai",
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
            "providers.openai.headers.a b of openai cannot be used: it is not a valid HTTP header name",
        ),
        (
            "[openai]\nheaders = {a = \"x\\ny\"}",
            "providers.openai.headers.a of openai cannot be used: the value",
        ),
        (
            "[openai]\napi_key_header = 'a b'",
            "providers.openai.api_key_header of openai cannot be used: it is not a valid HTTP header name",
        ),
    ] {
        let (name, _) = own.trim_start_matches('[').split_once(']').unwrap();
        let choice = ProviderSelectionSettings {
            provider: parse_config(&format!("name = '{name}'")),
            providers: toml::from_str(own).unwrap(),
            ..ProviderSelectionSettings::default()
        };
        let env = |name: &str| (name == "OPENAI_API_KEY").then(|| "sk-1".to_owned());
        let error = choice
            .select(&EnvironmentOnlyKeyLookup(&env))
            .err()
            .unwrap()
            .to_string();
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
fn an_error_names_a_missing_script() {
    let error = describe_selection(&parse_config("script = \"/nowhere/s.toml\""), &[]);
    assert_eq!(
        error,
        "cannot read the script /nowhere/s.toml: check the path"
    );
}

#[test]
fn the_openai_key_does_not_go_to_ollama() {
    let env = |name: &str| (name == "OPENAI_API_KEY").then(|| "k".to_owned());
    let choice = ProviderSelectionSettings::default();
    let ollama = choice.require_provider("ollama").unwrap();
    let endpoint = crate::provider::connect::find_endpoint(
        ollama,
        &ProviderConfig::default(),
        &EnvironmentOnlyKeyLookup(&env),
    )
    .unwrap();
    assert_eq!(endpoint.key, None);
    assert_eq!(endpoint.display_url(), "http://127.0.0.1:11434/v1");
}

#[test]
fn unknown_settings_are_refused() {
    assert!(toml::from_str::<ProviderConfig>("nmae = \"x\"").is_err());
    assert!(toml::from_str::<ProviderConfig>("[http]\nidle = 1").is_err());
    let config = parse_config("[http]\nidle_timeout_ms = 1");
    assert_eq!(config.http.max_attempts, 4);
}
