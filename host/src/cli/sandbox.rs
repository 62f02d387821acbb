//! What commands may touch on this machine: the settings and the environment made into a confinement, and whether it holds.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::exit::Usage;
use super::render;
use crate::config::Config;
use crate::paths::Paths;
use crate::tool::builtin::Commands;
use crate::tool::process::confine::{
    Confinement, Detected, Mechanism, bwrap_in, detect, system_folders, tool_folders,
};
use crate::tool::sandbox::{Need, SandboxConfig, commands};

/// What is wanted, and what there is.
pub(super) struct Sandbox {
    pub(super) config: SandboxConfig,
    /// What commands are confined to, or why they cannot be.
    pub(super) detected: Result<Detected, String>,
}

/// Finds out how commands can be confined. Done once in a process, because it starts one.
pub(super) async fn sandbox(paths: &Paths, config: &Config) -> anyhow::Result<Sandbox> {
    let config: SandboxConfig = config.section()?;
    if config.bash == Need::Off {
        let detected = Err("`bash = \"off\"` in [sandbox] of config.toml".to_owned());
        return Ok(Sandbox { config, detected });
    }
    let confinement = confinement(paths, &config)?;
    let detected = match confinement.check(&own_folders(paths)) {
        Ok(()) => {
            let bwrap = bwrap_in(path_folders().into_iter());
            detect(confinement, bwrap.as_deref(), &paths.data).await
        }
        Err(overlap) => Err(overlap.to_string()),
    };
    Ok(Sandbox { config, detected })
}

impl Sandbox {
    /// How the commands of `bash` run. Says so when that is not what was hoped for.
    pub(super) fn commands(&self) -> Commands {
        let commands = commands(self.config.bash, &self.detected);
        match &commands {
            Commands::Unconfined(why) => render::warn(&format!(
                "commands of bash run unconfined: {why}; see `rind doctor`"
            )),
            Commands::Refused(why) => render::warn(&format!(
                "bash is refused, because its commands must run confined and cannot: {why}; see `rind doctor`"
            )),
            Commands::Free | Commands::Confined(_) => {}
        }
        commands
    }
}

/// Folders of Rind's own, which no command may see.
pub(super) fn own_folders(paths: &Paths) -> Vec<PathBuf> {
    vec![
        paths.config.clone(),
        paths.data.clone(),
        paths.cache.clone(),
    ]
}

fn confinement(paths: &Paths, config: &SandboxConfig) -> anyhow::Result<Confinement> {
    let home = std::env::home_dir().unwrap_or_default();
    let mut write = vec![paths.workspace.clone()];
    for text in &config.write {
        let path = expanded(text, &home)?;
        if !path.exists() {
            return Err(Usage(format!(
                "`write` in [sandbox] of config.toml names {}, which is not there",
                path.display()
            ))
            .into());
        }
        write.push(path);
    }
    let mut read = system_folders();
    read.extend(tool_folders(&home));
    for text in &config.read {
        read.push(expanded(text, &home)?);
    }
    let confinement = Confinement {
        helper: std::env::current_exe().context("find rind's own program")?,
        mechanism: Mechanism::Landlock,
        write,
        read,
        network: config.network,
    };
    Ok(with_programs(
        confinement,
        &home,
        &own_folders(paths),
        path_folders(),
    ))
}

/// Adds the folders that programs are found in, but none that would give away the home folder or a folder of Rind's own.
fn with_programs(
    mut confinement: Confinement,
    home: &Path,
    own: &[PathBuf],
    folders: Vec<PathBuf>,
) -> Confinement {
    for folder in folders {
        let known = confinement
            .read
            .iter()
            .any(|path| folder.starts_with(path) && folder.is_dir());
        if known || !folder.is_dir() || home.starts_with(&folder) {
            continue;
        }
        let alone = Confinement {
            write: Vec::new(),
            read: vec![folder.clone()],
            ..confinement.clone()
        };
        if alone.check(own).is_ok() {
            confinement.read.push(folder);
        }
    }
    confinement
}

fn path_folders() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .collect()
}

/// A path of the settings, `~` at its beginning being the home folder.
fn expanded(text: &str, home: &Path) -> anyhow::Result<PathBuf> {
    let path = match text.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None if text == "~" => home.to_owned(),
        None => PathBuf::from(text),
    };
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Usage(format!(
        "`{text}` in [sandbox] of config.toml is neither absolute nor below `~/`"
    ))
    .into())
}
