//! Manual pages, made of the arguments.

use anyhow::Context;
use clap::CommandFactory;

use super::args::{CliArgs, ManualArgs};
use super::exit_code::ExitStatus;

/// Writes a page for the program and one for each command.
pub(super) fn write_pages(args: &ManualArgs) -> anyhow::Result<ExitStatus> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(CliArgs::command(), folder))
        .with_context(|| format!("write the manual pages to {}", folder.display()))?;
    Ok(ExitStatus::Done)
}
