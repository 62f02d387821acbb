//! The command line: the one place that reads arguments, the environment and the current folder.
//!
//! Each command is a file; everything a user sees goes through `render`. What is typed is interpreted in `setup`, which puts
//! an agent together. Nothing else in the crate may depend on this module.

mod approve;
mod args;
mod demo;
mod exit;
mod plugin;
mod render;
mod run;
mod secrets;
mod setup;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use args::{Args, Command, PluginCommand};
use exit::Exit;

/// How long tasks that are left over may take to end when the program does.
const SHUTDOWN: Duration = Duration::from_millis(200);

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let args = Args::parse();
    log_to_stderr();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => {
            render::error(&anyhow::Error::new(e).context("start the runtime"));
            return Exit::Failed.into();
        }
    };
    let exit = runtime.block_on(dispatch(args)).unwrap_or_else(|error| {
        render::error(&error);
        exit::of_error(&error)
    });
    // A thread that waits for a line of input would hold the exit up for ever.
    runtime.shutdown_timeout(SHUTDOWN);
    exit.into()
}

async fn dispatch(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Run(run) => run::run(run).await,
        Command::Demo(demo) => demo::demo(demo).await,
        Command::Plugin { command } => match command {
            PluginCommand::List(list) => plugin::list(list).await,
            PluginCommand::Inspect(inspect) => plugin::inspect(inspect).await,
            PluginCommand::Build(build) => plugin::build(build).await,
        },
    }
}

/// Logs are for those who look for them: `RIND_LOG=debug`, `RIND_LOG=plugin=info`.
fn log_to_stderr() {
    let filter = EnvFilter::try_from_env("RIND_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .without_time()
        .compact();
    // Only the second call in a process fails, and there is none.
    let _ = log.try_init();
}
