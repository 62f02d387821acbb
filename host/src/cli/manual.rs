//! Completions for shells and manual pages, both made of the arguments.

use anyhow::Context;
use clap::CommandFactory;

use super::args::{Args, CompletionsArgs, ManualArgs};
use super::exit_code::ExitStatus;
use super::render;

pub(super) fn completions(args: &CompletionsArgs) -> ExitStatus {
    let mut command = Args::command();
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    render::answer(String::from_utf8_lossy(&text));
    ExitStatus::Done
}

/// Writes a page for the program and one for each command.
pub(super) fn pages(args: &ManualArgs) -> anyhow::Result<ExitStatus> {
    let folder = &args.folder;
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Args::command(), folder))
        .with_context(|| format!("write the manual pages to {}", folder.display()))?;
    Ok(ExitStatus::Done)
}
