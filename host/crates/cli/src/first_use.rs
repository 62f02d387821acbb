//! Lets the person at the terminal choose a model at the first use, when none is configured.
//!
//! A key is stored in `secrets.toml`, which only its owner can read; the chosen model is stored in
//! the settings. Local servers are probed for their models at their default ports.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::environment::{operator_environment, variable};
use super::exit_code::Usage;
use super::question::{QuestionLine, QuestionScreen};
use super::render::hold::write_immediately;
use super::render::{BOLD, DIM, WARN};
use super::{edit, render, terminal};
use rind_lib::config::{Config, Layer};
use rind_lib::paths::Paths;
use rind_lib::provider::endpoint::Endpoint;
use rind_lib::provider::profile::ServerProfile;
use rind_lib::provider::{
    HttpConfig, SelectedModel, Wire, connect, detect_key_issuer, local_servers, scripted,
};
use rind_operator::settings::ModelSelection;
use rind_operator::setup::OperatorSetup;
use rind_operator::{model, secrets};

/// Name of the provider whose address can also be set with [`OLLAMA_HOST`].
const OLLAMA: &str = "ollama";

/// Environment variable of Ollama with the address of its server, `HOST:PORT`.
const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// Timeout for a server on this machine to list its models.
const PATIENCE: Duration = Duration::from_millis(800);

/// Maximum number of models that are offered.
const MAX_OFFERED: usize = 9;

/// Model that is configured with a key of OpenRouter. With this name, OpenRouter selects the actual
/// model for each request.
const OPENROUTER_MODEL: &str = "openrouter/auto";

/// A model that a server on this machine offers.
#[derive(Debug)]
struct LocalServerModel {
    /// Name of the provider.
    provider: &'static str,
    /// Display name of the server.
    server: &'static str,
    url: String,
    is_usual_url: bool,
    model: String,
}

enum FirstModelChoice {
    Model(usize),
    Key,
    /// An API key that was pasted into the menu.
    Pasted(String),
    Demo,
}

/// Asks the person for a model. Returns the chosen one; `None` if the person does not answer.
pub(super) async fn choose_model(setup: &OperatorSetup) -> anyhow::Result<Option<SelectedModel>> {
    let paths = &setup.paths;
    let offered = list_local_models().await;
    loop {
        match ask_first_model(&offered, paths).await {
            Some(FirstModelChoice::Model(at)) => {
                let Some(chosen) = offered.get(at) else {
                    continue;
                };
                store_model_choice(paths, &chosen.settings())?;
                break;
            }
            Some(FirstModelChoice::Key) => {
                if read_provider_key(paths).await? {
                    break;
                }
            }
            Some(FirstModelChoice::Pasted(key)) => {
                if store_provider_key(paths, &key).await? {
                    break;
                }
            }
            Some(FirstModelChoice::Demo) => {
                let scripted = ModelSelection {
                    provider: Some(scripted::NAME.to_owned()),
                    ..ModelSelection::default()
                };
                return model::select_model(setup, &scripted, None).map(Some);
            }
            None => return Ok(None),
        }
    }
    select_model_again(paths).map(Some)
}

/// Selects the model again, with the settings that were just written.
fn select_model_again(paths: &Paths) -> anyhow::Result<SelectedModel> {
    let config = Config::new(Layer::read_files(&paths.user_config())?);
    let setup = OperatorSetup::new(operator_environment(), paths.clone(), config);
    model::select_model(&setup, &ModelSelection::default(), None)
}

/// Lists the models of the servers on this machine.
async fn list_local_models() -> Vec<LocalServerModel> {
    let ollama = variable(OLLAMA_HOST).map(|host| match host.contains("://") {
        true => format!("{}/v1", host.trim_end_matches('/')),
        false => format!("http://{host}/v1"),
    });
    let servers = local_servers().map(|(provider, server, usual)| {
        let own = ollama.clone().filter(|_| provider == OLLAMA);
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
    offered.take(MAX_OFFERED).collect()
}

/// Whether a model's name is that of a chat model. Local servers also list models for embedding and
/// reranking.
fn is_chat_model(name: &str) -> bool {
    let name = name.to_lowercase();
    !["embed", "rerank"].iter().any(|part| name.contains(part))
}

async fn fetch_models(url: &str) -> anyhow::Result<Vec<String>> {
    let endpoint = Endpoint {
        provider: "openai".to_owned(),
        url: Endpoint::parse_url("openai", "address", url)?,
        url_env: String::new(),
        key: None,
        key_env: String::new(),
        advice: String::new(),
        headers: http::HeaderMap::default(),
        key_in: None,
    };
    let ms = u64::try_from(PATIENCE.as_millis())?;
    let config = HttpConfig {
        connect_timeout_ms: ms,
        first_byte_timeout_ms: ms,
        ..HttpConfig::default()
    };
    let server = connect(Wire::OpenaiChat, endpoint, config, ServerProfile::default())?;
    let cancel = CancellationToken::new();
    Ok(tokio::time::timeout(PATIENCE, server.models(&cancel)).await??)
}

impl LocalServerModel {
    fn settings(&self) -> Vec<(&'static str, String)> {
        let name = self.provider.to_owned();
        let mut all = vec![("name", name), ("model", self.model.clone())];
        if !self.is_usual_url {
            all.push(("base_url", self.url.clone()));
        }
        all
    }
}

async fn ask_first_model(offered: &[LocalServerModel], paths: &Paths) -> Option<FirstModelChoice> {
    let head = QuestionLine::new("")
        .with_styled_text(WARN.bold(), "? ")
        .with_text("no model is set up yet");
    let models = offered.iter().enumerate().map(|(at, model)| {
        QuestionLine::new("  ")
            .with_styled_text(BOLD, &(at + 1).to_string())
            .with_text("  ")
            .with_escaped_text(BOLD, &model.model)
            .with_text(&format!(" of {} at ", model.server))
            .with_escaped_text(DIM, &model.url)
    });
    let file = paths.config.join(secrets::FILE_NAME);
    let key = QuestionLine::new("  ")
        .with_styled_text(BOLD, "k")
        .with_text("  paste a key of Anthropic, OpenAI or OpenRouter ")
        .with_styled_text(
            DIM,
            &format!("(kept in {}, which only you can read)", file.display()),
        )
        .into_prose();
    let demo = QuestionLine::new("  ")
        .with_styled_text(BOLD, "d")
        .with_text("  continue with a script instead of a model ")
        .with_styled_text(DIM, "(set a model up later: `rind init --user`)");
    let keys = match offered.len() {
        0 => "[k]ey or [d]emo".to_owned(),
        1 => "[1], [k]ey or [d]emo".to_owned(),
        n => format!("[1] to [{n}], [k]ey or [d]emo"),
    };
    let screen = QuestionScreen {
        parts: vec![vec![head], models.chain([key, demo]).collect()],
        covers: Vec::new(),
        keys,
        // A key may be pasted here, and must not stay on the screen.
        is_secret: true,
        ..QuestionScreen::default()
    };
    let parse = |line: &str| match line.to_lowercase().as_str() {
        _ if detect_key_issuer(line).is_some() => Some(FirstModelChoice::Pasted(line.to_owned())),
        "k" | "key" => Some(FirstModelChoice::Key),
        "d" | "demo" => Some(FirstModelChoice::Demo),
        number => {
            let at = number.parse::<usize>().ok()?.checked_sub(1)?;
            (at < offered.len()).then_some(FirstModelChoice::Model(at))
        }
    };
    screen.ask_person(parse).await
}

/// Reads an API key from the terminal without echo and stores it. Returns `false` if no known
/// provider issues keys of this form.
async fn read_provider_key(paths: &Paths) -> anyhow::Result<bool> {
    let line = terminal::read_secret(|| write_immediately("  the key (it is not shown): ")).await;
    write_immediately("\n");
    store_provider_key(paths, line.unwrap_or_default().trim()).await
}

/// Stores an API key and selects the provider that issued it. Returns `false` if no known provider
/// issues keys of this form. If the provider's server rejects the key, prints a warning.
async fn store_provider_key(paths: &Paths, key: &str) -> anyhow::Result<bool> {
    let Some((name, variable)) = detect_key_issuer(key) else {
        render::print_warning(
            "this is no key of Anthropic (sk-ant-…), OpenRouter (sk-or-…) or OpenAI (sk-…); for other providers put the key into the environment, and set `base_url` and `api_key_env` in [provider]",
        );
        return Ok(false);
    };
    let file = store_secret(&paths.config, variable, key)?;
    let mut settings = vec![("name", name.to_owned())];
    if name == "openrouter" {
        settings.push(("model", OPENROUTER_MODEL.to_owned()));
    }
    store_model_choice(paths, &settings)?;
    render::print_note(&format!("kept {variable} in {}", file.display()));
    let selected = select_model_again(paths)?;
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
    let path = config.join(secrets::FILE_NAME);
    // Do not write to a file that other users can read, because later runs would refuse to read
    // it.
    secrets::read_file(&path)
        .and_then(|_| edit::set_toml_values(&path, "", &[(&[name], value.into())]))
        .with_context(|| Usage(format!("keep {name} in {}", path.display())))?;
    Ok(path)
}

fn store_model_choice(paths: &Paths, settings: &[(&str, String)]) -> anyhow::Result<()> {
    let file = paths.user_config();
    let keys: Vec<[&str; 2]> = settings.iter().map(|(key, _)| ["provider", *key]).collect();
    let values = keys.iter().zip(settings);
    let values: Vec<(&[&str], toml_edit::Value)> = values
        .map(|(keys, (_, value))| (&keys[..], value.as_str().into()))
        .collect();
    edit::set_toml_values(&file, "", &values)
        .with_context(|| format!("change {}", file.display()))?;
    render::print_note(&format!("set [provider] in {}", file.display()));
    Ok(())
}
