//! Lets the person at the terminal choose a model at the first use, when none is configured.
//!
//! A key is stored in `secrets.toml`, which only its owner can read; the chosen model is stored in
//! the settings. Local servers are probed for their models at their default ports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::environment::{environment_variable, process_environment};
use super::exit_code::Usage;
use super::question::{QuestionScreenContent, TerminalQuestionLine};
use super::render::hold::write_stderr_immediately;
use super::render::{BOLD_STYLE, DIM_STYLE, WARNING_STYLE};
use super::{edit, render, terminal};
use rind_lib::config::{Config, ConfigLayer};
use rind_lib::paths::RindPaths;
use rind_lib::provider::endpoint::ModelApiEndpoint;
use rind_lib::provider::profile::ModelServerProfile;
use rind_lib::provider::{
    HttpConfig, ModelApiFormat, SelectedProviderAndModel, connect, detect_key_issuer,
    local_servers, scripted,
};
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorWorkspaceSetup;
use rind_operator::{model, secrets};

/// Name of the provider whose address can also be set with [`OLLAMA_HOST_ENV_VARIABLE`].
const OLLAMA_PROVIDER_NAME: &str = "ollama";

/// Environment variable of Ollama with the address of its server, `HOST:PORT`.
const OLLAMA_HOST_ENV_VARIABLE: &str = "OLLAMA_HOST";

/// Timeout for a server on this machine to list its models.
const LOCAL_MODEL_LIST_TIMEOUT: Duration = Duration::from_millis(800);

/// Maximum number of models among which the user can choose at the first use.
const MAX_OFFERED_MODELS: usize = 9;

/// Model that is configured with a key of OpenRouter. With this name, OpenRouter selects the actual
/// model for each request.
const OPENROUTER_DEFAULT_MODEL: &str = "openrouter/auto";

/// Model that a server on this machine, such as Ollama, offers.
#[derive(Debug)]
struct LocalServerModel {
    /// Name of the provider, as in the settings.
    provider: &'static str,
    /// Name of the server, as the user sees it.
    server: &'static str,
    url: String,
    is_usual_url: bool,
    model: String,
}

enum FirstUseModelMenuChoice {
    Model(usize),
    Key,
    /// API key that the user pasted instead of choosing an entry.
    Pasted(String),
    Demo,
}

/// Asks the person for a model. Returns the chosen one; `None` if the person does not answer.
pub(super) async fn ask_and_store_first_model(
    setup: &OperatorWorkspaceSetup,
) -> anyhow::Result<Option<SelectedProviderAndModel>> {
    let paths = &setup.paths;
    let offered = list_local_server_models().await;
    loop {
        match ask_which_model_to_use_first(&offered, paths).await {
            Some(FirstUseModelMenuChoice::Model(at)) => {
                let Some(chosen) = offered.get(at) else {
                    continue;
                };
                store_model_settings(paths, &chosen.model_settings())?;
                break;
            }
            Some(FirstUseModelMenuChoice::Key) => {
                if ask_and_store_provider_key(paths).await? {
                    break;
                }
            }
            Some(FirstUseModelMenuChoice::Pasted(key)) => {
                if store_key_and_select_provider(paths, &key).await? {
                    break;
                }
            }
            Some(FirstUseModelMenuChoice::Demo) => {
                let scripted = ModelSelection {
                    provider: Some(scripted::SCRIPTED_PROVIDER_NAME.to_owned()),
                    ..ModelSelection::default()
                };
                return model::select_model(setup, &scripted, None).map(Some);
            }
            None => return Ok(None),
        }
    }
    select_model_after_settings_change(paths).map(Some)
}

/// Selects the model again, with the settings that were just written.
fn select_model_after_settings_change(
    paths: &RindPaths,
) -> anyhow::Result<SelectedProviderAndModel> {
    let config = Config::new(ConfigLayer::read_files(&paths.user_config())?);
    let setup = OperatorWorkspaceSetup::new(process_environment(), paths.clone(), config);
    model::select_model(&setup, &ModelSelection::default(), None)
}

/// Lists the models of the servers on this machine.
async fn list_local_server_models() -> Vec<LocalServerModel> {
    let ollama =
        environment_variable(OLLAMA_HOST_ENV_VARIABLE).map(|host| match host.contains("://") {
            true => format!("{}/v1", host.trim_end_matches('/')),
            false => format!("http://{host}/v1"),
        });
    let servers = local_servers().map(|(provider, server, usual)| {
        let own = ollama.clone().filter(|_| provider == OLLAMA_PROVIDER_NAME);
        let url = own.unwrap_or_else(|| usual.to_owned());
        async move {
            let models = fetch_models(&url).await.unwrap_or_default().into_iter();
            models
                .filter(|model| is_chat_model(model))
                .map(move |model| LocalServerModel {
                    provider,
                    server,
                    is_usual_url: url == usual,
                    url: url.clone(),
                    model,
                })
        }
    });
    let found = futures_util::future::join_all(servers).await;
    let offered = found.into_iter().flatten();
    offered.take(MAX_OFFERED_MODELS).collect()
}

/// Whether a model's name is that of a chat model. Local servers also list models for embedding and
/// reranking.
fn is_chat_model(name: &str) -> bool {
    let name = name.to_lowercase();
    !["embed", "rerank"].iter().any(|part| name.contains(part))
}

async fn fetch_models(url: &str) -> anyhow::Result<Vec<String>> {
    let endpoint = ModelApiEndpoint {
        provider: "openai".to_owned(),
        url: ModelApiEndpoint::parse_url("openai", "address", url)?,
        url_env: String::new(),
        key: None,
        key_env: String::new(),
        advice: String::new(),
        headers: http::HeaderMap::default(),
        key_in: None,
    };
    let ms = u64::try_from(LOCAL_MODEL_LIST_TIMEOUT.as_millis())?;
    let config = HttpConfig {
        connect_timeout_ms: ms,
        first_byte_timeout_ms: ms,
        ..HttpConfig::default()
    };
    let server = connect(
        ModelApiFormat::OpenaiChat,
        endpoint,
        config,
        ModelServerProfile::default(),
    )?;
    let cancel = CancellationToken::new();
    Ok(tokio::time::timeout(LOCAL_MODEL_LIST_TIMEOUT, server.models(&cancel)).await??)
}

impl LocalServerModel {
    fn model_settings(&self) -> Vec<(&'static str, String)> {
        let name = self.provider.to_owned();
        let mut all = vec![("name", name), ("model", self.model.clone())];
        if !self.is_usual_url {
            all.push(("base_url", self.url.clone()));
        }
        all
    }
}

async fn ask_which_model_to_use_first(
    offered: &[LocalServerModel],
    paths: &RindPaths,
) -> Option<FirstUseModelMenuChoice> {
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text("no model is set up yet");
    let models = offered.iter().enumerate().map(|(at, model)| {
        TerminalQuestionLine::new("  ")
            .with_styled_text(BOLD_STYLE, &(at + 1).to_string())
            .with_text("  ")
            .with_escaped_text(BOLD_STYLE, &model.model)
            .with_text(&format!(" of {} at ", model.server))
            .with_escaped_text(DIM_STYLE, &model.url)
    });
    let file = paths.config.join(secrets::SECRETS_FILE_NAME);
    let key = TerminalQuestionLine::new("  ")
        .with_styled_text(BOLD_STYLE, "k")
        .with_text("  paste a key of Anthropic, OpenAI or OpenRouter ")
        .with_styled_text(
            DIM_STYLE,
            &format!("(kept in {}, which only you can read)", file.display()),
        )
        .allow_row_breaks_at_spaces();
    let demo = TerminalQuestionLine::new("  ")
        .with_styled_text(BOLD_STYLE, "d")
        .with_text("  continue with a script instead of a model ")
        .with_styled_text(DIM_STYLE, "(set a model up later: `rind init --user`)");
    let keys = match offered.len() {
        0 => "[k]ey or [d]emo".to_owned(),
        1 => "[1], [k]ey or [d]emo".to_owned(),
        n => format!("[1] to [{n}], [k]ey or [d]emo"),
    };
    let screen = QuestionScreenContent {
        parts: vec![vec![head], models.chain([key, demo]).collect()],
        covers: Vec::new(),
        keys,
        // A key may be pasted here, and must not stay on the screen.
        is_secret: true,
        ..QuestionScreenContent::default()
    };
    let parse = |line: &str| match line.to_lowercase().as_str() {
        _ if detect_key_issuer(line).is_some() => {
            Some(FirstUseModelMenuChoice::Pasted(line.to_owned()))
        }
        "k" | "key" => Some(FirstUseModelMenuChoice::Key),
        "d" | "demo" => Some(FirstUseModelMenuChoice::Demo),
        number => {
            let at = number.parse::<usize>().ok()?.checked_sub(1)?;
            (at < offered.len()).then_some(FirstUseModelMenuChoice::Model(at))
        }
    };
    screen.ask_non_approval_question(parse).await
}

/// Reads an API key from the terminal without echo and stores it. Returns `false` if no known
/// provider issues keys of this form.
async fn ask_and_store_provider_key(paths: &RindPaths) -> anyhow::Result<bool> {
    let line =
        terminal::read_secret(|| write_stderr_immediately("  the key (it is not shown): ")).await;
    write_stderr_immediately("\n");
    store_key_and_select_provider(paths, line.unwrap_or_default().trim()).await
}

/// Stores an API key and selects the provider that issued it. Returns `false` if no known provider
/// issues keys of this form. If the provider's server rejects the key, prints a warning.
async fn store_key_and_select_provider(paths: &RindPaths, key: &str) -> anyhow::Result<bool> {
    let Some((name, variable)) = detect_key_issuer(key) else {
        render::print_warning(
            "this is no key of Anthropic (sk-ant-…), OpenRouter (sk-or-…) or OpenAI (sk-…); for other providers put the key into the environment, and set `base_url` and `api_key_env` in [provider]",
        );
        return Ok(false);
    };
    let file = store_secret(&paths.config, variable, key)?;
    let mut settings = vec![("name", name.to_owned())];
    if name == "openrouter" {
        settings.push(("model", OPENROUTER_DEFAULT_MODEL.to_owned()));
    }
    store_model_settings(paths, &settings)?;
    render::print_note(&format!("kept {variable} in {}", file.display()));
    let selected = select_model_after_settings_change(paths)?;
    let cancel = CancellationToken::new();
    if let Err(error) = selected.provider.models(&cancel).await {
        // Keep the key even if the server cannot be reached or rejects it: the key may still be
        // valid, and the turn reports more.
        render::print_warning(&format!("{error:#}"));
    }
    Ok(true)
}

/// Stores a secret in `secrets.toml` in the folder `config`. Only the owner can read the file.
fn store_secret(config: &Path, name: &str, value: &str) -> anyhow::Result<PathBuf> {
    let path = config.join(secrets::SECRETS_FILE_NAME);
    // Do not write to a file that other users can read, because later runs would refuse to read
    // it.
    secrets::read_file(&path)
        .and_then(|_| edit::set_toml_values(&path, "", &[(&[name], value.into())]))
        .with_context(|| Usage(format!("cannot store {name} in {}", path.display())))?;
    Ok(path)
}

fn store_model_settings(paths: &RindPaths, settings: &[(&str, String)]) -> anyhow::Result<()> {
    let file = paths.user_config();
    let keys: Vec<[&str; 2]> = settings.iter().map(|(key, _)| ["provider", *key]).collect();
    let values = keys.iter().zip(settings);
    let values: Vec<(&[&str], toml_edit::Value)> = values
        .map(|(keys, (_, value))| (&keys[..], value.as_str().into()))
        .collect();
    edit::set_toml_values(&file, "", &values)
        .with_context(|| format!("cannot change {}", file.display()))?;
    render::print_note(&format!("set [provider] in {}", file.display()));
    Ok(())
}
