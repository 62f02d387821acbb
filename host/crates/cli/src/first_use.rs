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
use super::render::hold::at_once;
use super::render::{BOLD, DIM, WARN};
use super::{edit, render, terminal};
use rind_lib::config::{Config, Layer};
use rind_lib::paths::Paths;
use rind_lib::provider::endpoint::Endpoint;
use rind_lib::provider::profile::ServerProfile;
use rind_lib::provider::{
    HttpConfig, Selected, Wire, connect, key_issuer, local_servers, scripted,
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

/// Model for a key of OpenRouter: OpenRouter itself selects the model for each request.
const OPENROUTER_MODEL: &str = "openrouter/auto";

/// A model on a server on this machine.
#[derive(Debug)]
struct OfferedModel {
    /// Name of the provider.
    provider: &'static str,
    /// Name of the server to show.
    server: &'static str,
    url: String,
    is_usual_url: bool,
    model: String,
}

enum FirstChoice {
    Model(usize),
    Key,
    /// A key that was pasted into the menu.
    Pasted(String),
    Demo,
}

/// Asks the person for a model. Returns the chosen one; `None` if the person does not answer.
pub(super) async fn choose_model(setup: &OperatorSetup) -> anyhow::Result<Option<Selected>> {
    let paths = &setup.paths;
    let offered = offered_models().await;
    loop {
        match ask_choice(&offered, paths).await {
            Some(FirstChoice::Model(at)) => {
                let Some(chosen) = offered.get(at) else {
                    continue;
                };
                keep_choice(paths, &chosen.settings())?;
                break;
            }
            Some(FirstChoice::Key) => {
                if read_key(paths).await? {
                    break;
                }
            }
            Some(FirstChoice::Pasted(key)) => {
                if keep_key(paths, &key).await? {
                    break;
                }
            }
            Some(FirstChoice::Demo) => {
                let scripted = ModelSelection {
                    provider: Some(scripted::NAME.to_owned()),
                    ..ModelSelection::default()
                };
                return model::select(setup, &scripted, None).map(Some);
            }
            None => return Ok(None),
        }
    }
    choose_again(paths).map(Some)
}

/// Selects the model again, with the settings that were just written.
fn choose_again(paths: &Paths) -> anyhow::Result<Selected> {
    let config = Config::new(Layer::files(&paths.user_config())?);
    let setup = OperatorSetup::new(operator_environment(), paths.clone(), config);
    model::select(&setup, &ModelSelection::default(), None)
}

/// Lists the models of the servers on this machine.
async fn offered_models() -> Vec<OfferedModel> {
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
                .map(move |model| OfferedModel {
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

/// Whether a model may be one for chats, judged by its name: local servers list embedding models
/// too.
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

impl OfferedModel {
    fn settings(&self) -> Vec<(&'static str, String)> {
        let name = self.provider.to_owned();
        let mut all = vec![("name", name), ("model", self.model.clone())];
        if !self.is_usual_url {
            all.push(("base_url", self.url.clone()));
        }
        all
    }
}

async fn ask_choice(offered: &[OfferedModel], paths: &Paths) -> Option<FirstChoice> {
    let head = QuestionLine::new("")
        .styled_words(WARN.bold(), "? ")
        .own_words("no model is set up yet");
    let models = offered.iter().enumerate().map(|(at, model)| {
        QuestionLine::new("  ")
            .styled_words(BOLD, &(at + 1).to_string())
            .own_words("  ")
            .their_words(BOLD, &model.model)
            .own_words(&format!(" of {} at ", model.server))
            .their_words(DIM, &model.url)
    });
    let file = paths.config.join(secrets::FILE_NAME);
    let key = QuestionLine::new("  ")
        .styled_words(BOLD, "k")
        .own_words("  paste a key of Anthropic, OpenAI or OpenRouter ")
        .styled_words(
            DIM,
            &format!("(kept in {}, which only you can read)", file.display()),
        )
        .in_prose();
    let demo = QuestionLine::new("  ")
        .styled_words(BOLD, "d")
        .own_words("  continue with a script instead of a model ")
        .styled_words(DIM, "(set a model up later: `rind init --user`)");
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
        _ if key_issuer(line).is_some() => Some(FirstChoice::Pasted(line.to_owned())),
        "k" | "key" => Some(FirstChoice::Key),
        "d" | "demo" => Some(FirstChoice::Demo),
        number => {
            let at = number.parse::<usize>().ok()?.checked_sub(1)?;
            (at < offered.len()).then_some(FirstChoice::Model(at))
        }
    };
    screen.ask_person(parse).await
}

/// Reads a key from the terminal without echo and stores it. Returns whether the key has the form
/// of a known issuer.
async fn read_key(paths: &Paths) -> anyhow::Result<bool> {
    let line = terminal::read_secret(|| at_once("  the key (it is not shown): ")).await;
    at_once("\n");
    keep_key(paths, line.unwrap_or_default().trim()).await
}

/// Stores a key and selects its provider, if the key has the form of a known issuer. Returns
/// whether it has. The provider's server may still reject the key, which is only a warning.
async fn keep_key(paths: &Paths, key: &str) -> anyhow::Result<bool> {
    let Some((name, variable)) = key_issuer(key) else {
        render::print_warning(
            "this is no key of Anthropic (sk-ant-…), OpenRouter (sk-or-…) or OpenAI (sk-…); for other providers put the key into the environment, and set `base_url` and `api_key_env` in [provider]",
        );
        return Ok(false);
    };
    let file = keep_secret(&paths.config, variable, key)?;
    let mut settings = vec![("name", name.to_owned())];
    if name == "openrouter" {
        settings.push(("model", OPENROUTER_MODEL.to_owned()));
    }
    keep_choice(paths, &settings)?;
    render::print_note(&format!("kept {variable} in {}", file.display()));
    let selected = choose_again(paths)?;
    let cancel = CancellationToken::new();
    if let Err(error) = selected.provider.models(&cancel).await {
        // Keep the key even if the server cannot be reached or rejects it: the key may still be
        // valid, and the turn reports more.
        render::print_warning(&format!("{error:#}"));
    }
    Ok(true)
}

/// Stores a secret in `secrets.toml` in the folder `config`. Only the owner can read the file.
fn keep_secret(config: &Path, name: &str, value: &str) -> anyhow::Result<PathBuf> {
    let path = config.join(secrets::FILE_NAME);
    // Refuse now to write to a file that others can read; it would be refused at the next use
    // anyway.
    secrets::read_file(&path)
        .and_then(|_| edit::set_values(&path, "", &[(&[name], value.into())]))
        .with_context(|| Usage(format!("keep {name} in {}", path.display())))?;
    Ok(path)
}

fn keep_choice(paths: &Paths, settings: &[(&str, String)]) -> anyhow::Result<()> {
    let file = paths.user_config();
    let keys: Vec<[&str; 2]> = settings.iter().map(|(key, _)| ["provider", *key]).collect();
    let values = keys.iter().zip(settings);
    let values: Vec<(&[&str], toml_edit::Value)> = values
        .map(|(keys, (_, value))| (&keys[..], value.as_str().into()))
        .collect();
    edit::set_values(&file, "", &values).with_context(|| format!("change {}", file.display()))?;
    render::print_note(&format!("set [provider] in {}", file.display()));
    Ok(())
}
