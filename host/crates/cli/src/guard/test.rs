//! `rind guard test`: runs the installed hook as the agent would.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::GuardTarget;
use super::args::GuardAgentArgs;
use super::hook::START_VARIABLE;
use crate::exit_code::{ExitStatus, bail_usage};
use crate::render;
use rind_guard::{
    GuardPoint, InstallState, InstalledHook, ProbeCall, ProbeOutcome, find_hooks, probe_payload,
    read_outcome, state_of,
};
use rind_lib::disk::TemporaryFolder;
use rind_lib::paths::HOME_VARIABLE;
use rind_lib::tool::process::{Ending, Process, base_environment};

/// Deadline for one run of the hook, equal to the timeout of the agents.
const DEADLINE: Duration = Duration::from_secs(60);

/// Maximum output of a hook that is read, in bytes.
const CAPTURE_BYTES: usize = 1 << 20;

/// Runs the installed hook in a temporary folder.
struct HookTrial<'a> {
    target: &'a GuardTarget,
    hook: &'a InstalledHook,
    folder: &'a Path,
}

pub(super) async fn test_guard(args: &GuardAgentArgs) -> anyhow::Result<ExitStatus> {
    let target = GuardTarget::of(args)?;
    let (agent, places) = (target.agent, &target.places);
    let state = state_of(agent, places, &target.command)?;
    let is_as_written = state == InstallState::Installed;
    match state {
        InstallState::Absent => bail_usage!(
            "no guard of {0} is installed; `rind guard install {0}` does it",
            agent.name()
        ),
        InstallState::Differs(why) => render::print_warning(&why),
        InstallState::Installed => {}
    }
    let hooks = find_hooks(agent, places, &target.command)?;
    let hook = hooks.iter().find(|hook| hook.point == GuardPoint::PreTool);
    let hook = hook.context("no hook before tool calls is installed; install the guard again")?;
    let folder = TemporaryFolder::new("guard-test-").context("make a temporary folder")?;
    let trial = HookTrial {
        target: &target,
        hook,
        folder: folder.path(),
    };
    let dangerous = trial.run(ProbeCall::Dangerous, false).await?;
    let is_stopped = matches!(dangerous, ProbeOutcome::Refused(_) | ProbeOutcome::Asked(_));
    render::guard::print_trial(ProbeCall::Dangerous.command(), &dangerous, is_stopped);
    if dangerous == ProbeOutcome::Passed {
        render::print_note(
            "the hook works, and no plugin of yours refuses this call; the plugin git-guard does",
        );
    }
    let harmless = trial.run(ProbeCall::Harmless, false).await?;
    let has_passed = harmless == ProbeOutcome::Passed;
    render::guard::print_trial(ProbeCall::Harmless.command(), &harmless, has_passed);
    let alone = trial.run(ProbeCall::Harmless, true).await?;
    let is_closed = matches!(alone, ProbeOutcome::Refused(_));
    render::guard::print_trial("ls, with no daemon to ask", &alone, is_closed);
    let is_whole = is_as_written && is_stopped && has_passed && is_closed;
    Ok(ExitStatus::status_of(is_whole))
}

impl HookTrial<'_> {
    /// Runs the hook with a call. With `is_alone`, the hook finds no daemon and cannot start one.
    async fn run(&self, call: ProbeCall, is_alone: bool) -> anyhow::Result<ProbeOutcome> {
        let agent = self.target.agent;
        let payload = probe_payload(agent, call, &self.target.paths.workspace);
        let file = self.folder.join("payload.json");
        std::fs::write(&file, payload.to_string())?;
        let mut command = self.hook.command.clone();
        let mut process = Process::bare("sh", self.target.paths.workspace.clone());
        process.env = base_environment();
        if is_alone {
            // Use an empty home, which has no daemon.
            process.env.push((START_VARIABLE.into(), "never".into()));
            let home = self.folder.join("home");
            match self.target.command.line_in(&command, &home) {
                Some(moved) => command = moved,
                None => process.env.push((HOME_VARIABLE.into(), home.into())),
            }
        }
        process.args = ["-c".into(), command.into()].to_vec();
        process.stdin = Some(file);
        process.deadline = DEADLINE;
        process.capture_bytes = CAPTURE_BYTES;
        let finished = process.run(&CancellationToken::new()).await?;
        let code = match finished.ending {
            Ending::Exited(code) => Some(code),
            _ => None,
        };
        let (stdout, stderr) = (finished.stdout.text(), finished.stderr.text());
        Ok(read_outcome(agent, code, &stdout, &stderr))
    }
}
