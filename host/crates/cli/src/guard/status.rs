//! `rind guard status`: shows where the guard is installed, what it can do there, and when an agent
//! continues without it.

use serde::Serialize;

use super::GuardInstallTarget;
use super::args::GuardStatusArgs;
use super::backend::PLUGINS_EXCLUDED_FROM_GUARD;
use crate::args::PluginArgs;
use crate::exit_code::ExitStatus;
use crate::{environment, plugin, render};
use rind_guard::{
    AgentHookCapabilities, GuardDaemonFolder, GuardFileOrDaemonError, GuardInstallState,
    GuardedAgent, InstalledHook, find_hooks, hook_points_without_event, is_daemon_listening,
    read_guard_install_state,
};
use rind_lib::plugin::inspect;
use rind_lib::plugin::load::{FoundPluginSet, PluginSkipReason, SkippedPlugin};

/// Status of one agent in the output of `rind guard status`.
#[derive(Debug, Serialize)]
pub(in super::super) struct AgentGuardStatus {
    pub(in super::super) state: GuardInstallState,
    pub(in super::super) hooks: Vec<InstalledHook>,
    #[serde(flatten)]
    pub(in super::super) table: &'static AgentHookCapabilities,
    pub(in super::super) plugins: Vec<EffectiveAndInertHookPoints>,
}

/// A plugin with the points of its hooks, split into `judges`, at which the agent calls the guard,
/// and `inert`, at which it does not.
#[derive(Debug, Serialize)]
pub(in super::super) struct EffectiveAndInertHookPoints {
    pub(in super::super) name: String,
    pub(in super::super) judges: Vec<String>,
    pub(in super::super) inert: Vec<String>,
}

/// Splits the points at which a plugin has hooks into those at which `agent` calls the guard, and
/// those at which the hooks have no effect.
fn split_hook_points_by_agent_coverage(
    agent: GuardedAgent,
    name: &str,
    points: &[&str],
) -> EffectiveAndInertHookPoints {
    let inert = match PLUGINS_EXCLUDED_FROM_GUARD.contains(&name) {
        // The guard never runs this plugin, so none of its hooks takes effect.
        true => points.to_vec(),
        false => hook_points_without_event(agent, points),
    };
    let judges = points.iter().filter(|point| !inert.contains(point));
    EffectiveAndInertHookPoints {
        name: name.to_owned(),
        judges: judges.map(|point| (*point).to_owned()).collect(),
        inert: inert.into_iter().map(str::to_owned).collect(),
    }
}

/// Returns for each agent with an installed guard which of these points take effect. Skips agents
/// whose settings cannot be read; `rind guard status` reports them.
pub(in super::super) fn coverage_by_installed_guards(
    name: &str,
    points: &[&str],
) -> Vec<(GuardedAgent, EffectiveAndInertHookPoints)> {
    let has_guard = |agent: &GuardedAgent| {
        [false, true].into_iter().any(|is_project| {
            let target = GuardInstallTarget::for_agent(*agent, is_project);
            let state = target.ok().and_then(|target| {
                read_guard_install_state(*agent, &target.places, &target.command).ok()
            });
            state.is_some_and(|state| state != GuardInstallState::Absent)
        })
    };
    if points.is_empty() {
        return Vec::new();
    }
    let guarded = GuardedAgent::ALL.into_iter().filter(has_guard);
    guarded
        .map(|agent| {
            (
                agent,
                split_hook_points_by_agent_coverage(agent, name, points),
            )
        })
        .collect()
}

pub(super) async fn print_guard_status(args: &GuardStatusArgs) -> anyhow::Result<ExitStatus> {
    let agents = match args.agent {
        Some(agent) => vec![agent.to_guarded_agent()],
        None => GuardedAgent::ALL.to_vec(),
    };
    let set = plugin::load_session_plugins(&PluginArgs::default()).await?;
    // Warn about plugins that are not loaded, because the guard does not run them either.
    render::plugins::warn_about_plugins_not_loaded(&set);
    let is_left_out = |left: &SkippedPlugin| {
        matches!(
            left.why,
            PluginSkipReason::Failed(_) | PluginSkipReason::Held(_)
        )
    };
    let all_run = !set.left_out.iter().any(is_left_out);
    let plugins = list_plugin_hook_points(&set);
    let mut shown = Vec::new();
    for agent in agents {
        let target = GuardInstallTarget::for_agent(agent, args.project)?;
        let covers = plugins.iter().map(|(name, points)| {
            let points: Vec<&str> = points.iter().map(String::as_str).collect();
            split_hook_points_by_agent_coverage(agent, name, &points)
        });
        shown.push(AgentGuardStatus {
            state: read_guard_install_state(agent, &target.places, &target.command)?,
            hooks: find_hooks(agent, &target.places, &target.command)?,
            table: agent.hook_table(),
            plugins: covers
                .filter(|cover| !cover.judges.is_empty() || !cover.inert.is_empty())
                .collect(),
        });
    }
    let folder = GuardDaemonFolder::open(&environment::find_rind_paths(None)?.data);
    let daemon = match &folder {
        Ok(folder) => is_daemon_listening(folder).map(|is_running| (is_running, folder.log_path())),
        Err(error) => Err(GuardFileOrDaemonError::Daemon(error.to_string())),
    };
    if args.json {
        let is_running = daemon.as_ref().is_ok_and(|(is_running, _)| *is_running);
        let fault = daemon.as_ref().err().map(ToString::to_string);
        let daemon = serde_json::json!({"runs": is_running, "fault": fault});
        render::print_json(&serde_json::json!({"agents": shown, "daemon": daemon}))?;
    } else {
        let is_long = args.agent.is_some();
        for status in &shown {
            render::guard::print_status(status, is_long);
        }
        match &daemon {
            Ok((is_running, log)) => render::guard::print_daemon_state(*is_running, log),
            Err(error) => render::print_warning(&format!("every call is refused: {error}")),
        }
    }
    let is_whole =
        |status: &AgentGuardStatus| !matches!(status.state, GuardInstallState::Differs(_));
    let is_whole = shown.iter().all(is_whole) && daemon.is_ok() && all_run;
    Ok(ExitStatus::from_success_flag(is_whole))
}

/// Returns the loaded plugins with the points of their enabled hooks.
fn list_plugin_hook_points(set: &FoundPluginSet) -> Vec<(String, Vec<String>)> {
    let reports = set
        .plugins
        .iter()
        .map(|plugin| inspect::build_plugin_report(plugin));
    let points = reports.map(|report| {
        let hooks = report.hooks.iter().filter(|hook| hook.enabled);
        (report.name, hooks.map(|hook| hook.point.clone()).collect())
    });
    points.collect()
}
