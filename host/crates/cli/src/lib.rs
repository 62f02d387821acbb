//! The command line: the only crate that reads arguments, the environment and the current folder.
//!
//! Each command is a file; all output to the user goes through `render`. Arguments and the
//! environment are resolved once, into the settings from which `operator` builds a host. Only the
//! program itself may depend on this crate.

mod acp;
mod alone;
mod approve;
mod args;
mod attach;
mod audit;
mod carried;
mod case;
mod chat;
mod check;
#[cfg(feature = "nats")]
mod cluster;
mod command;
mod completion;
mod config;
mod demo;
mod doctor;
mod edit;
mod environment;
mod event_file;
mod exit_code;
mod files;
mod first_use;
mod grants;
mod guard;
mod import;
mod input;
mod install;
mod listen;
mod looks;
mod manual;
mod mcp;
mod models;
mod open;
mod permission;
mod person;
mod plugin;
mod programs;
mod question;
mod render;
mod resource;
mod run;
mod schema;
mod serve;
mod session;
mod signals;
mod skill;
mod steer;
mod switch;
#[cfg(test)]
mod table;
mod telemetry;
mod terminal;
mod threads;
mod tools;
mod worker;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

pub use carried::EmbeddedPluginFiles;
#[doc(hidden)]
pub use rind_embed::EmbeddedPackedFolder;

use args::{ChatArgs, CliArgs, CliCommand, ConfigCommand};
use command::helper;
use exit_code::ExitStatus;
use plugin::args::PluginSubcommand;
use rind_lib::plugin::compile;
use rind_lib::tool::process::confine;

/// Timeout for background tasks to end when the program exits.
const BACKGROUND_TASK_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(200);

/// Runs the program `rind`, in which the plugins `carried` are embedded.
#[must_use]
pub fn main(carried: &'static EmbeddedPluginFiles) -> ExitCode {
    carried::set_embedded_plugins(carried);
    let exit = parse_arguments_and_run_command();
    let Some(why) = render::first_output_write_error() else {
        return exit;
    };
    render::print_error(&anyhow::anyhow!("{why}"));
    // Keep the exit code of a command that did not succeed: it is more specific than the code for a
    // failed write of output.
    if exit == ExitStatus::Done.into() {
        ExitStatus::Failed.into()
    } else {
        exit
    }
}

/// Runs the program `rind-guard-hook`, which other agents run as their hook and which does nothing
/// else.
#[must_use]
pub fn run_guard_hook_program() -> ExitCode {
    confine::deny_process_inspection();
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    guard::hook::answer_hook_with_arguments(&words)
}

fn parse_arguments_and_run_command() -> ExitCode {
    // Run a hidden command before anything else starts: the one that confines programs must run in
    // a process with a single thread.
    if let Some(exit) = run_hidden_helper_command() {
        return exit;
    }
    confine::deny_process_inspection();
    completion::answer_shell_completion_request();
    let words: Vec<OsString> = std::env::args_os().collect();
    let args = match CliArgs::try_parse_from(insert_implied_chat_command(words)) {
        Ok(args) => args,
        Err(said) => return print_clap_message(&said),
    };
    let Some(command) = args.command.or_else(create_default_chat_command) else {
        return print_clap_message(&missing_subcommand_help());
    };
    let hears_plugins = matches!(&command, CliCommand::Demo(demo) if demo.all);
    let limits_plugins = matches!(command, CliCommand::Serve(_) | CliCommand::Acp(_));
    init_stderr_logging(
        hears_plugins,
        is_plugin_dev_command(&command),
        limits_plugins,
    );
    if let Err(error) = threads::check_runtime_threads_can_start() {
        render::print_error(&anyhow::Error::new(error).context(
            "the system gives this program too few threads; raise the limit of processes (`ulimit -u`, or `pids.max` of the \
             control group)",
        ));
        return ExitStatus::Failed.into();
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(e) => {
            render::print_error(&anyhow::Error::new(e).context("cannot start the runtime"));
            return ExitStatus::Failed.into();
        }
    };
    let exit = runtime
        .block_on(dispatch_command(command))
        .unwrap_or_else(|error| {
            render::print_error(&error);
            if let Some(note) = environment::unwritable_home_advice(&error) {
                render::print_note(&note);
            }
            exit_code::exit_status_for_error(&error)
        });
    // Limit the time of the shutdown: a thread that is blocked reading input would delay the exit
    // forever.
    runtime.shutdown_timeout(BACKGROUND_TASK_SHUTDOWN_TIMEOUT);
    exit.into()
}

/// Inserts `chat` before options of a chat and before a first prompt, as in `rind -c` and
/// `rind "fix the test"`. A single word stays a command, so that a misspelt command is not sent to
/// a model. `rind session` alone becomes `rind chat --resume`, which lets the person choose a
/// session.
fn insert_implied_chat_command(mut words: Vec<OsString>) -> Vec<OsString> {
    const HELP_AND_VERSION_FLAGS: [&str; 4] = ["-h", "--help", "-V", "--version"];
    let first = words.get(1).map(|word| word.to_string_lossy());
    let is_chat = first
        .as_deref()
        .is_some_and(|first| match first.starts_with('-') {
            true => !HELP_AND_VERSION_FLAGS.contains(&first),
            false => first.contains(char::is_whitespace),
        });
    let is_bare_session = words.len() == 2 && first.is_some_and(|first| first == "session");
    if is_chat {
        words.insert(1, "chat".into());
    } else if is_bare_session && is_run_at_terminal() {
        words.truncate(1);
        words.extend(["chat", "--resume"].map(OsString::from));
    }
    words
}

/// Whether standard input and standard output are both terminals, so that a person can answer.
fn is_run_at_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Returns the chat command as the default command; `None` if no person is at a terminal.
fn create_default_chat_command() -> Option<CliCommand> {
    is_run_at_terminal().then(|| CliCommand::Chat(ChatArgs::default()))
}

/// Returns the help that is printed if the command is missing.
fn missing_subcommand_help() -> clap::Error {
    let mut command = CliArgs::command();
    let help = command.render_help();
    clap::Error::raw(ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand, help).with_cmd(&command)
}

/// Prints the text of `clap`, either requested help or an error, and returns the exit code.
fn print_clap_message(said: &clap::Error) -> ExitCode {
    let text = said.render();
    if said.use_stderr() {
        render::write_or_buffer_output(text.ansi());
        ExitStatus::Usage.into()
    } else {
        render::print_to_stdout(text.ansi());
        ExitStatus::Done.into()
    }
}

/// Runs one of the hidden commands with which Rind starts itself as a helper process, or the hook
/// of `rind guard`. Returns `None` for any other command.
fn run_hidden_helper_command() -> Option<ExitCode> {
    let mut args = std::env::args_os().skip(1);
    let command = args.next()?;
    if command == "guard" {
        return guard::hook::run_guard_hook_if_requested(args);
    }
    let worked = |done: Result<(), String>| {
        done.map(|()| (String::new(), ExitStatus::Done.into()))
            .map_err(|why| (format!("rind: {why}"), ExitStatus::Failed.into()))
    };
    let outcome = match command.to_str()? {
        confine::HIDDEN_HELPER_SUBCOMMAND => confine::helper_main(args),
        compile::COMPILE_SUBCOMMAND_NAME => worked(compile::run_compile_helper(args)),
        helper::TEMPLATE_RENDERER_SUBCOMMAND => worked(helper::template_helper_process_main(args)),
        skill::OUTLINE_WORKER_SUBCOMMAND => worked(skill::skill_derive_worker_main(args)),
        _ => return None,
    };
    Some(match outcome {
        Ok((text, code)) => {
            render::print_to_stdout(text);
            code
        }
        Err((why, code)) => {
            render::print_stderr_line(render::printable_text(&why));
            code
        }
    })
}

async fn dispatch_command(command: CliCommand) -> anyhow::Result<ExitStatus> {
    match command {
        CliCommand::Chat(args) => chat::run_chat(args).await,
        CliCommand::Run(run) => run::run_prompt(*run).await,
        CliCommand::Serve(serve) => serve::run_serve(serve).await,
        CliCommand::Acp(args) => acp::run_acp(args).await,
        #[cfg(feature = "nats")]
        CliCommand::Worker(args) => cluster::run_worker(*args).await,
        #[cfg(feature = "nats")]
        CliCommand::Cluster { command } => cluster::run_cluster(command).await,
        CliCommand::Demo(demo) => demo::run_demo(demo).await,
        CliCommand::Schema(schema) => Ok(schema::print_schema(schema.of)),
        CliCommand::Config {
            command: ConfigCommand::Show(args),
        } => config::show_config(args).await,
        CliCommand::Init(args) => config::write_initial_config(&args),
        CliCommand::Guard { command } => guard::run_guard(command).await,
        CliCommand::Import(args) => import::run_agent_settings_import(args).await,
        CliCommand::Models(args) => models::run_models_command(args).await,
        CliCommand::Tools(args) => tools::run_tools(args).await,
        CliCommand::Doctor(doctor) => doctor::run_doctor(doctor).await,
        CliCommand::Completions(args) => completion::print_completion_script(&args),
        CliCommand::Manual(args) => manual::write_manual_pages(&args),
        CliCommand::Skill { command } => skill::run_skill_subcommand(command).await,
        CliCommand::Mcp { command } => mcp::run_mcp(command).await,
        CliCommand::Session { command } => session::run_session(command).await,
        CliCommand::Plugin { command } => match command {
            PluginSubcommand::List(list) => plugin::list_plugins(list).await,
            PluginSubcommand::Inspect(inspect) => plugin::inspect_plugin(inspect).await,
            PluginSubcommand::Points(points) => plugin::list_extension_points(points).await,
            PluginSubcommand::Grants(args) => {
                grants::run_grants_command(&environment::find_rind_paths(None)?, &args)
            }
            PluginSubcommand::Enable(args) => switch::set_plugin_enabled(args, true).await,
            PluginSubcommand::Disable(args) => switch::set_plugin_enabled(args, false).await,
            PluginSubcommand::New(new) => plugin::new::run_new_plugin_command(&new),
            PluginSubcommand::Build(build) => plugin::run_plugin_build(build).await,
            PluginSubcommand::Check(args) => check::run_check(args).await,
            PluginSubcommand::Test(args) => case::run_plugin_tests(args).await,
            PluginSubcommand::Dev(args) => plugin::dev::run_plugin_dev(args).await,
            PluginSubcommand::Call(args) => case::run_plugin_tool_call(args).await,
            PluginSubcommand::Pack(pack) => install::run_pack(pack).await,
            PluginSubcommand::Publish(args) => install::run_publish(args).await,
            PluginSubcommand::Install(args) => install::run_plugin_install(args).await,
            PluginSubcommand::Update(args) => install::run_update(args).await,
            PluginSubcommand::Remove(args) => install::run_remove(&args),
            PluginSubcommand::SearchPath(args) => install::run_search_path_command(&args),
        },
    }
}

/// Whether the command is `rind plugin dev`, which also shows the debug log of plugins.
fn is_plugin_dev_command(command: &CliCommand) -> bool {
    let dev = |command: &PluginSubcommand| matches!(command, PluginSubcommand::Dev(_));
    matches!(command, CliCommand::Plugin { command } if dev(command))
}

/// Sets up logging to standard error. By default only warnings are logged; `RIND_LOG=debug` or
/// `RIND_LOG=plugin=info` selects more. With `hears_plugins`, log lines of plugins are also
/// collected for the report of a demo. With `shows_plugins`, the default includes the debug log of
/// plugins. With `limits_plugins`, the number of lines per plugin and minute is limited, unless
/// `RIND_LOG` is set.
fn init_stderr_logging(hears_plugins: bool, shows_plugins: bool, limits_plugins: bool) {
    // Do not log failures of the MCP protocol: the call or command that uses the server reports
    // them.
    let mut by_default = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_target(rind_mcp::PROTOCOL_LIBRARY_LOG_TARGET, LevelFilter::OFF);
    if shows_plugins {
        by_default = by_default.with_target("plugin", LevelFilter::DEBUG);
    }
    let asked = std::env::var("RIND_LOG").ok();
    let asked: Option<Targets> = asked.and_then(|filter| filter.parse().ok());
    let limited = (limits_plugins && asked.is_none())
        .then(|| render::lines::PluginLogLineLimitFilter(render::lines::loop_output_line_counts()));
    let filter = asked.unwrap_or(by_default);
    let stderr = tracing_subscriber::fmt::layer()
        .with_writer(|| render::hold::BufferedLogWriter)
        .with_ansi(render::is_stderr_terminal() && std::env::var_os("NO_COLOR").is_none())
        .without_time()
        .compact()
        .with_filter(limited)
        .with_filter(filter);
    let log = tracing_subscriber::registry()
        .with(stderr)
        .with(hears_plugins.then(demo::heard::log_collecting_layer));
    // Ignore the error: `try_init` fails only at a second call in a process, and there is none.
    let _ = log.try_init();
}
