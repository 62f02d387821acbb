//! `rind guard`: lets Rind's plugins judge the tool calls of other agents.

pub(super) mod args;
mod backend;
pub(super) mod hook;
mod status;
mod test;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use self::args::{
    GuardAgentArgs, GuardCommand, GuardInstallArgs, agent_settings_folder_env_variable,
};
pub(super) use self::status::{
    AgentGuardStatus, EffectiveAndInertHookPoints, coverage_by_installed_guards,
};
use super::environment;
use super::exit_code::{ExitStatus, bail_usage};
use super::question::{QuestionScreenContent, TerminalQuestionLine, parse_yes_or_no};
use super::render::{self, WARNING_STYLE};
use super::signals::ShutdownSignals;
use super::terminal::can_ask_at_terminal;
use rind_guard::{
    AgentSettingsRootFolders, FileChange, GuardDaemonFolder, GuardedAgent, plan_guard_install,
    plan_guard_removal, run_guard_daemon,
};
use rind_lib::paths::{HOME_VARIABLE, RindPaths};

pub(super) async fn run_guard(command: GuardCommand) -> anyhow::Result<ExitStatus> {
    match command {
        GuardCommand::Install(args) => install_guard(&args).await,
        GuardCommand::Status(args) => status::print_guard_status(&args).await,
        GuardCommand::Test(args) => test::test_installed_guard_hook(&args).await,
        GuardCommand::Remove(args) => remove_guard(&args).await,
        GuardCommand::Serve => serve_daemon().await,
        // `rind guard hook` runs before arguments are parsed, so only an unusual call gets here.
        GuardCommand::Hook(_) => bail_usage!(
            "only the hook that `rind guard install` writes into an agent's settings runs this command"
        ),
    }
}

/// Locations of an agent's settings, and the program that its hooks run.
struct GuardInstallTarget {
    agent: GuardedAgent,
    places: AgentSettingsRootFolders,
    command: rind_guard::GuardHookProgram,
    paths: RindPaths,
}

impl GuardInstallTarget {
    fn for_agent(agent: GuardedAgent, is_project: bool) -> anyhow::Result<Self> {
        let environment = environment::process_environment();
        let paths = environment::find_rind_paths(None)?;
        // Use the home directory and not RIND_HOME: other agents do not know that variable.
        let home = environment.home.clone();
        let Some(home) = home.filter(|home| home.is_absolute()) else {
            bail_usage!("there is no home folder with settings of other agents; set HOME");
        };
        let absolute = |name: &str| {
            let folder = environment.variable(name).map(PathBuf::from);
            folder.filter(|folder| folder.is_absolute())
        };
        let places = AgentSettingsRootFolders {
            config_home: absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")),
            agent_folder: agent_settings_folder_env_variable(agent).and_then(absolute),
            project: is_project.then(|| paths.workspace.clone()),
            home,
        };
        let rind_home = environment.variable(HOME_VARIABLE);
        let rind_home = rind_home.filter(|home| !home.is_empty());
        let program = environment
            .program
            .clone()
            .context("cannot find the path of this program")?;
        let (program, is_small) = hook::choose_guard_hook_program(program);
        let command = rind_guard::GuardHookProgram {
            program,
            is_small,
            home: rind_home.map(|home| paths.workspace.join(home)),
        };
        Ok(Self {
            agent,
            places,
            command,
            paths,
        })
    }

    fn from_args(args: &GuardAgentArgs) -> anyhow::Result<Self> {
        Self::for_agent(args.agent.to_guarded_agent(), args.project)
    }
}

async fn install_guard(args: &GuardInstallArgs) -> anyhow::Result<ExitStatus> {
    let target = GuardInstallTarget::from_args(&args.target)?;
    let changes = plan_guard_install(target.agent, &target.places, &target.command)?;
    if changes.is_empty() {
        render::print_note(&format!(
            "the guard for {} is already installed",
            target.agent.name()
        ));
        return Ok(ExitStatus::Done);
    }
    // Check that the socket's folder is usable before an agent depends on it.
    GuardDaemonFolder::open(&target.paths.data)?;
    if !confirm_and_apply_changes(&target, &changes, args.yes).await? {
        return Ok(ExitStatus::Failed);
    }
    let table = target.agent.hook_table();
    render::guard::print_guard_installed_report(table);
    if target.agent == GuardedAgent::Codex {
        render::print_note("running sessions of Codex do not have the hook");
    }
    render::print_note(&format!(
        "`rind guard test {0}` tests the guard; `rind guard status {0}` shows what it can do",
        target.agent.name()
    ));
    Ok(ExitStatus::Done)
}

async fn remove_guard(args: &GuardInstallArgs) -> anyhow::Result<ExitStatus> {
    let target = GuardInstallTarget::from_args(&args.target)?;
    let changes = plan_guard_removal(target.agent, &target.places)?;
    if changes.is_empty() {
        render::print_note(&format!(
            "no guard is installed for {}",
            target.agent.name()
        ));
        return Ok(ExitStatus::Done);
    }
    if !confirm_and_apply_changes(&target, &changes, args.yes).await? {
        return Ok(ExitStatus::Failed);
    }
    render::print_note(&format!(
        "the guard for {} is removed; running sessions may still have it",
        target.agent.name()
    ));
    Ok(ExitStatus::Done)
}

/// Shows the changes, asks, and applies them. Returns whether they were applied.
async fn confirm_and_apply_changes(
    target: &GuardInstallTarget,
    changes: &[FileChange],
    is_yes: bool,
) -> anyhow::Result<bool> {
    changes
        .iter()
        .for_each(render::guard::print_file_change_diff);
    if !is_yes {
        if !can_ask_at_terminal() {
            bail_usage!("there is no terminal to ask at; add --yes to write these changes");
        }
        if !ask_yes_or_no(&format!(
            "write this for {}",
            target.agent.hook_table().title
        ))
        .await
        {
            render::print_note("nothing was written");
            return Ok(false);
        }
    }
    let copies = GuardDaemonFolder::open(&target.paths.data)?.backup_folder_path();
    for change in changes {
        if let Some(copy) = change.write_with_backup(&copies)? {
            render::guard::print_backup_location(&change.path, &copy);
        }
    }
    Ok(true)
}

async fn ask_yes_or_no(words: &str) -> bool {
    let head = TerminalQuestionLine::new("")
        .with_styled_text(WARNING_STYLE.bold(), "? ")
        .with_text(words);
    let screen = QuestionScreenContent {
        parts: vec![vec![head]],
        keys: "[y]es or [n]o".to_owned(),
        ..QuestionScreenContent::default()
    };
    screen.ask_approval(parse_yes_or_no, |yes| !yes).await == Some(true)
}

/// Runs the daemon in this process. The process that starts it redirects its output to the log.
async fn serve_daemon() -> anyhow::Result<ExitStatus> {
    let paths = environment::find_rind_paths(None)?;
    let folder = GuardDaemonFolder::open(&paths.data)?;
    let build = hook::daemon_compatibility_key(&paths).map_err(anyhow::Error::msg)?;
    let cancel = CancellationToken::new();
    let interrupted =
        ShutdownSignals::listen_for_interrupts().context("cannot listen for signals")?;
    tokio::spawn(interrupted.cancel_then_exit_on_second_signal(cancel.clone()));
    let backend = Arc::new(backend::GuardDaemonSessionOpener::new(paths));
    run_guard_daemon(&folder, backend, build, &cancel).await?;
    Ok(ExitStatus::Done)
}
