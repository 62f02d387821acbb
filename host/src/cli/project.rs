//! Whether what a project brings in `.rind` counts: its settings and its plugins.

use std::path::PathBuf;

use anyhow::Context;

use super::approve::read_line;
use super::exit::Usage;
use super::render;
use crate::config::{Config, Layer, PluginsConfig};
use crate::grant::project::{ProjectTrust, Projects, digest};
use crate::paths::Paths;
use crate::plugin::manifest::{FILE_NAME, Manifest};

/// Sections that a project's settings may have. The others decide where keys and commands go: those are the user's.
const SECTIONS: &[&str] = &["agent", "archival", "plugins", "subagents"];

/// Decides whether the project is trusted, as it is now. Asks where nothing is known and somebody can be asked; says what is
/// left out and how to change that otherwise.
pub(super) async fn is_trusted(
    paths: &Paths,
    by_flag: bool,
    has_terminal: bool,
) -> anyhow::Result<bool> {
    let folder = paths.project();
    if by_flag || !brings_something(paths) {
        return Ok(by_flag);
    }
    let now = match digest(&folder) {
        Ok(now) => now,
        Err(error) => {
            render::warn(&format!(
                "what the project brings in .rind is left out: {error}"
            ));
            return Ok(false);
        }
    };
    let mut projects = Projects::read(&paths.projects())?;
    let trust = projects.of(&paths.workspace, &now);
    if trust == ProjectTrust::Trusted {
        return Ok(true);
    }
    if !has_terminal {
        let why = match trust {
            ProjectTrust::Changed { .. } => "has changed since it was trusted",
            _ => "is not trusted",
        };
        render::warn(&format!(
            "what the project brings in .rind is left out: it {why}, and there is no terminal to ask at; look at it and use \
             --trust-project, or answer at a terminal"
        ));
        return Ok(false);
    }
    let plugins = plugins(paths);
    let settings = settings(paths);
    render::grants::project_question(&paths.workspace, &trust, &plugins, settings.as_deref());
    let line = read_line().await.unwrap_or_default();
    let is_always = match line.trim().to_lowercase().as_str() {
        "y" | "yes" | "o" | "once" => false,
        "a" | "always" => true,
        _ => return Ok(false),
    };
    // People take their time, and whoever may write the workspace has it meanwhile.
    if !digest(&folder).is_ok_and(|then| then == now) {
        render::warn(
            "what the project brings in .rind is left out: it changed while you were asked",
        );
        return Ok(false);
    }
    if is_always {
        projects
            .trust(&paths.workspace, now, super::grants::now())
            .context("keep that the project is trusted")?;
    }
    Ok(true)
}

/// The settings of a trusted project.
pub(super) fn layers(paths: &Paths) -> anyhow::Result<Vec<Layer>> {
    let layers = Layer::files(&paths.project_config())?;
    let config = Config::new(layers.clone());
    config
        .check_known(SECTIONS)
        .context("read the settings that the project brings; what else it wants to set belongs into your own config.toml")?;
    let own = plugins(paths);
    let is_foreign = |name: &&String| !own.iter().any(|(own, _)| own == *name);
    let PluginsConfig(settings) = config.section()?;
    if let Some(name) = settings.keys().find(is_foreign) {
        return Err(Usage(format!(
            "{} sets something for the plugin `{}`, which is not one of the project's; what you want of your own plugins belongs \
             into your own config.toml",
            paths.project_config().display(),
            name.escape_debug()
        ))
        .into());
    }
    Ok(layers)
}

fn brings_something(paths: &Paths) -> bool {
    paths.project().join("plugins").exists() || files(paths).iter().any(|file| file.exists())
}

/// Name and description of each plugin, in the project's own words.
fn plugins(paths: &Paths) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(paths.project().join("plugins"));
    let mut plugins: Vec<(String, String)> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|folder| folder.join(FILE_NAME).is_file())
        .map(|folder| match Manifest::read(&folder) {
            Ok(manifest) => (manifest.name, manifest.description),
            Err(_) => {
                let name = folder.file_name().unwrap_or_default().to_string_lossy();
                (name.into_owned(), "its manifest cannot be read".to_owned())
            }
        })
        .collect();
    plugins.sort();
    plugins
}

/// The files that [`Layer::files`] reads.
fn files(paths: &Paths) -> [PathBuf; 2] {
    let file = paths.project_config();
    [file.with_extension("json"), file]
}

/// The settings in the project's own words.
fn settings(paths: &Paths) -> Option<String> {
    let texts = files(paths).map(|file| std::fs::read_to_string(file).ok());
    let texts: Vec<String> = texts.into_iter().flatten().collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}
