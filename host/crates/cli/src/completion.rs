//! Shell completions: commands and flags, and the names of plugins, sessions and models.
//!
//! The shell calls the program for every completion, so newly installed plugins are proposed at
//! once. A completion runs no plugin and reads no file of the project; sources that cannot be read
//! are skipped.

use std::ffi::OsStr;
use std::path::PathBuf;

use clap::CommandFactory;
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use clap_complete::env::Shells;

use super::args::{CliArgs, CompletionsArgs};
use super::exit_code::ExitStatus;
use super::{environment, render};
use rind_lib::config::{Config, ConfigLayer};
use rind_lib::paths::file_name;
use rind_lib::plugin::manifest::FILE_NAME;
use rind_lib::price::Prices;
use rind_lib::provider::{ProviderConfig, ProviderSelectionSettings, ProvidersConfig};
use rind_lib::session::SessionStore;
use rind_lib::skill::SKILLS_FOLDER_NAME;

/// Environment variable that a shell sets when it requests completions.
const COMPLETION_REQUEST_ENV_VARIABLE: &str = "RIND_COMPLETE";

/// Maximum number of completions that the shell gets for one argument.
const MAX_PROPOSALS_PER_ARGUMENT: usize = 200;

/// Maximum length of the title of a session, in characters.
const MAX_SESSION_TITLE_CHARS: usize = 60;

/// Answers a shell that requests completions, then exits the process. Does nothing otherwise.
pub(super) fn answer_shell_completion_request() {
    CompleteEnv::with_factory(CliArgs::command)
        .var(COMPLETION_REQUEST_ENV_VARIABLE)
        .complete();
}

/// Prints the shell code that makes the shell ask `rind` for completions.
pub(super) fn print_completion_script(args: &CompletionsArgs) -> anyhow::Result<ExitStatus> {
    let shells = Shells::builtins();
    let name = args.shell.to_string();
    let Some(shell) = shells.completer(&name) else {
        anyhow::bail!("there are no completions for the shell {name}");
    };
    let command = CliArgs::command();
    let program = command.get_name();
    let mut text = Vec::new();
    shell.write_registration(
        COMPLETION_REQUEST_ENV_VARIABLE,
        program,
        program,
        program,
        &mut text,
    )?;
    render::print_to_stdout(String::from_utf8_lossy(&text));
    Ok(ExitStatus::Done)
}

/// Proposes the names of plugins: the core plugins and the installed ones.
pub(super) fn plugin_name_candidates() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let mut names: Vec<String> = super::demo::CORE_PLUGIN_NAMES
            .iter()
            .map(ToString::to_string)
            .collect();
        let installed = folder_entry_paths("plugins").filter(|path| path.join(FILE_NAME).is_file());
        names.extend(installed.map(|path| file_name(&path)));
        names.sort();
        names.dedup();
        sort_completion_candidates(names.into_iter().map(CompletionCandidate::new))
    })
}

/// Proposes the names of the skills in the user's own folder.
pub(super) fn skill_name_candidates() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let names = folder_entry_paths(SKILLS_FOLDER_NAME).map(|path| file_name(&path));
        let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
        names.sort();
        sort_completion_candidates(names.into_iter().map(CompletionCandidate::new))
    })
}

/// Proposes the ids of sessions, the most recently used first.
pub(super) fn session_id_candidates() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let rows = environment::find_rind_paths(None).ok().and_then(|paths| {
            SessionStore::new(paths.sessions())
                .list_session_summaries()
                .ok()
        });
        let rows = rows.into_iter().flat_map(|heads| heads.rows).map(|row| {
            let about = (!row.title.is_empty())
                .then(|| render::truncate_to_one_line(&row.title, MAX_SESSION_TITLE_CHARS).into());
            CompletionCandidate::new(row.id).help(about)
        });
        sort_completion_candidates(std::iter::once(CompletionCandidate::new("last")).chain(rows))
    })
}

fn read_user_config_for_completion() -> Config {
    let layers = environment::find_rind_paths(None)
        .ok()
        .and_then(|paths| ConfigLayer::read_files(&paths.user_config()).ok());
    Config::new(layers.unwrap_or_default())
}

/// Proposes the names of providers: those in the settings, and those that Rind knows.
pub(super) fn provider_name_candidates() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let choice = ProviderSelectionSettings {
            providers: read_user_config_for_completion()
                .section()
                .unwrap_or_default(),
            ..ProviderSelectionSettings::default()
        };
        sort_completion_candidates(
            choice
                .known_providers()
                .into_iter()
                .map(CompletionCandidate::new),
        )
    })
}

/// Proposes the names of models: the model in the settings, the models of configured providers, and
/// models with a configured price.
pub(super) fn model_name_candidates() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let config = read_user_config_for_completion();
        let own = config
            .section::<ProviderConfig>()
            .ok()
            .and_then(|provider| provider.model);
        let prices = config.section::<Prices>().unwrap_or_default();
        let providers: ProvidersConfig = config.section().unwrap_or_default();
        let named = providers.0.into_iter().flat_map(|(name, provider)| {
            let models = provider.model.into_iter().chain(provider.models);
            models.map(move |model| format!("{name}/{model}"))
        });
        let names = own.into_iter().chain(named).chain(prices.priced_models());
        sort_completion_candidates(names.map(CompletionCandidate::new))
    })
}

fn folder_entry_paths(folder: &str) -> impl Iterator<Item = PathBuf> {
    let folder = environment::find_rind_paths(None).map(|paths| paths.config.join(folder));
    let entries = folder.ok().and_then(|folder| folder.read_dir().ok());
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

fn sort_completion_candidates(
    all: impl Iterator<Item = CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    // Skip names that the shell would have to quote.
    let is_word = |value: &OsStr| {
        let text = value.to_str();
        text.is_some_and(|text| !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic()))
    };
    all.filter(|candidate| is_word(candidate.get_value()))
        .take(MAX_PROPOSALS_PER_ARGUMENT)
        .collect()
}
