//! Generates manual pages from the definitions of the arguments.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args as ClapArgs, CommandFactory};

use super::args::CliArgs;
use super::exit_code::ExitStatus;

#[derive(Debug, ClapArgs)]
pub(super) struct ManualArgs {
    /// Folder for the pages, created if missing
    #[arg(value_name = "DIR")]
    pub(super) folder: PathBuf,
}

/// Writes a manual page for the program and one for each command.
pub(super) fn write_manual_pages(args: &ManualArgs) -> anyhow::Result<ExitStatus> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(CliArgs::command(), folder))
        .with_context(|| format!("cannot write the manual pages to {}", folder.display()))?;
    Ok(ExitStatus::Done)
}
