//! `rind guard test`: runs the installed hook as the agent would.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use super::GuardInstallTarget;
use super::args::GuardAgentArgs;
use super::hook::DAEMON_START_ENV_VARIABLE;
use crate::exit_code::{ExitStatus, bail_usage};
use crate::render;
use rind_guard::{
    AgentHookPoint, AgentReactionToHookAnswer, GuardInstallState, InstalledHook, SampleHookCall,
    find_hooks, hook_payload_for_probe, interpret_hook_output, read_guard_install_state,
};
use rind_lib::disk::TemporaryFolder;
use rind_lib::paths::HOME_VARIABLE;
use rind_lib::tool::process::{ProcessEndReason, ProcessSpec, base_environment};

/// Deadline for one run of the hook, equal to the timeout of the agents.
const HOOK_RUN_DEADLINE: Duration = Duration::from_secs(60);

/// Maximum number of bytes of a hook's output that are read.
const MAX_CAPTURED_HOOK_OUTPUT_BYTES: usize = 1 << 20;

/// Test of the installed hook with sample calls. `folder` is a temporary folder for the payload of
/// a call and for an empty home.
struct InstalledHookTest<'a> {
    target: &'a GuardInstallTarget,
    hook: &'a InstalledHook,
    folder: &'a Path,
}

pub(super) async fn test_installed_guard_hook(args: &GuardAgentArgs) -> anyhow::Result<ExitStatus> {
    let target = GuardInstallTarget::from_args(args)?;
    let (agent, places) = (target.agent, &target.places);
    let state = read_guard_install_state(agent, places, &target.command)?;
    let is_as_written = state == GuardInstallState::Installed;
    match state {
        GuardInstallState::Absent => bail_usage!(
            "no guard for {0} is installed; install it with `rind guard install {0}`",
            agent.name()
        ),
        GuardInstallState::Differs(why) => render::print_warning(&why),
        GuardInstallState::Installed => {}
    }
    let hooks = find_hooks(agent, places, &target.command)?;
    let hook = hooks
        .iter()
        .find(|hook| hook.point == AgentHookPoint::PreTool);
    let hook = hook
        .context("the guard's hook before tool calls is not installed; install the guard again")?;
    let folder = TemporaryFolder::new("guard-test-").context("cannot make a temporary folder")?;
    let trial = InstalledHookTest {
        target: &target,
        hook,
        folder: folder.path(),
    };
    let dangerous = trial
        .run_sample_call(SampleHookCall::Dangerous, false)
        .await?;
    let is_stopped = matches!(
        dangerous,
        AgentReactionToHookAnswer::Refused(_) | AgentReactionToHookAnswer::Asked(_)
    );
    render::guard::print_probe_outcome(SampleHookCall::Dangerous.command(), &dangerous, is_stopped);
    if dangerous == AgentReactionToHookAnswer::Passed {
        render::print_note(
            "the hook works, and no plugin of yours refuses this call; the plugin git-guard does",
        );
    }
    let harmless = trial
        .run_sample_call(SampleHookCall::Harmless, false)
        .await?;
    let has_passed = harmless == AgentReactionToHookAnswer::Passed;
    render::guard::print_probe_outcome(SampleHookCall::Harmless.command(), &harmless, has_passed);
    let alone = trial
        .run_sample_call(SampleHookCall::Harmless, true)
        .await?;
    let is_closed = matches!(alone, AgentReactionToHookAnswer::Refused(_));
    render::guard::print_probe_outcome("ls, with no daemon to ask", &alone, is_closed);
    let is_whole = is_as_written && is_stopped && has_passed && is_closed;
    Ok(ExitStatus::from_success_flag(is_whole))
}

impl InstalledHookTest<'_> {
    /// Runs the installed hook with a test call. If `is_alone` is set, the hook finds no daemon and
    /// cannot start one.
    async fn run_sample_call(
        &self,
        call: SampleHookCall,
        is_alone: bool,
    ) -> anyhow::Result<AgentReactionToHookAnswer> {
        let agent = self.target.agent;
        let payload = hook_payload_for_probe(agent, call, &self.target.paths.workspace);
        let file = self.folder.join("payload.json");
        std::fs::write(&file, payload.to_string())?;
        let mut command = self.hook.command.clone();
        let mut process = ProcessSpec::new_unconfined("sh", self.target.paths.workspace.clone());
        process.env = base_environment();
        if is_alone {
            // Use an empty home folder, so that no running daemon is found.
            process
                .env
                .push((DAEMON_START_ENV_VARIABLE.into(), "never".into()));
            let home = self.folder.join("home");
            match self
                .target
                .command
                .replace_home_in_hook_line(&command, &home)
            {
                Some(moved) => command = moved,
                None => process.env.push((HOME_VARIABLE.into(), home.into())),
            }
        }
        process.args = ["-c".into(), command.into()].to_vec();
        process.stdin = Some(file);
        process.deadline = HOOK_RUN_DEADLINE;
        process.capture_bytes = MAX_CAPTURED_HOOK_OUTPUT_BYTES;
        let finished = process.run(&CancellationToken::new()).await?;
        let code = match finished.ending {
            ProcessEndReason::Exited(code) => Some(code),
            _ => None,
        };
        let (stdout, stderr) = (finished.stdout.text(), finished.stderr.text());
        Ok(interpret_hook_output(agent, code, &stdout, &stderr))
    }
}
