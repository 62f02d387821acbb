//! Runs subagents for a plugin, with at most the rights of the agent for which the plugin acts. The
//! plugin waits for one subagent, or starts several that run in parallel with it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;

use super::PluginHostCallExecutor;
use crate::agent::spec::new_agent_id;
use crate::agent::subagent::continued::build_subagent_continue_request;
use crate::agent::subagent::grant::choose_subagent_tools;
use crate::agent::subagent::registry::LiveSubagent;
use crate::agent::subagent::report::{check_subagent_id_count, find_own_child, subagent_state};
use crate::agent::subagent::start::{SubagentStartRequest, run_subagent, start_subagent};
use crate::point::caller::Caller;
use crate::point::handle::{
    BackgroundSubagentTask, HostFunctionError, SubagentReport, SubagentTask,
};
use crate::session::SubagentSession;

/// Time within which a subagent must end after it was asked to stop.
const SUBAGENT_STOP_TIMEOUT: Duration = Duration::from_secs(8);

/// Subagent of a plugin: its record in the session, and its running task if this process has one.
type PluginSubagent = (SubagentSession, Option<Arc<LiveSubagent>>);

impl PluginHostCallExecutor<'_> {
    /// Runs a subagent for a plugin to its end and returns its answer.
    pub(in crate::agent) async fn run_agent(
        &self,
        task: SubagentTask,
        caller: Caller,
    ) -> Result<String, HostFunctionError> {
        let id = new_agent_id("sub");
        let access = self.begin_plugin_access_record(&caller, &format!("agent {id}"));
        let order = SubagentStartRequest {
            id,
            plugin: Some(Arc::clone(self.plugin)),
            task: task.prompt,
            tools: task.tools,
            max_steps: task.max_steps,
            preset: None,
            skill: None,
            is_continued: false,
        };
        access.end_access_record(run_subagent(self.scope, order, caller).await)
    }

    /// Starts a subagent for a plugin and returns its id.
    pub(in crate::agent) async fn start_agent(
        &self,
        order: BackgroundSubagentTask,
        caller: Caller,
    ) -> Result<String, HostFunctionError> {
        let id = new_agent_id("sub");
        let access = self.begin_plugin_access_record(&caller, &format!("agent {id}"));
        access.end_access_record(self.start_background_subagent(id, order, caller).await)
    }

    async fn start_background_subagent(
        &self,
        id: Arc<str>,
        order: BackgroundSubagentTask,
        caller: Caller,
    ) -> Result<String, HostFunctionError> {
        let named = order.preset.as_deref();
        let preset = named.map(|name| self.scope.spec.presets.find_preset(name));
        let preset = preset.transpose().map_err(HostFunctionError::NotFound)?;
        let order = SubagentStartRequest {
            id,
            plugin: Some(Arc::clone(self.plugin)),
            task: order.prompt,
            tools: choose_subagent_tools(self.scope, preset.as_deref(), order.tools)?,
            max_steps: order.max_steps.unwrap_or(u32::MAX),
            preset,
            skill: None,
            is_continued: false,
        };
        let live = start_subagent(self.scope, order, caller).await?;
        Ok(live.id.to_string())
    }

    /// Continues a subagent that the plugin has started and that has ended.
    pub(in crate::agent) async fn resume_agent(
        &self,
        id: String,
        message: String,
        caller: Caller,
    ) -> Result<(), HostFunctionError> {
        let (child, _) = self.find_plugin_subagent(&id)?;
        let access = self.begin_plugin_access_record(&caller, &format!("agent {}", child.agent));
        let order = build_subagent_continue_request(self.scope, child, message, Some(self.plugin));
        let started = match order {
            Ok(order) => start_subagent(self.scope, order, caller).await.map(drop),
            Err(why) => Err(HostFunctionError::Denied(why)),
        };
        access.end_access_record(started)
    }

    /// Waits until the subagents of the plugin with the given ids have ended, at most for `limit`,
    /// and returns reports on them.
    pub(in crate::agent) async fn wait_agents(
        &self,
        ids: Vec<String>,
        limit: Duration,
        _: Caller,
    ) -> Result<Vec<SubagentReport>, HostFunctionError> {
        check_subagent_id_count(&ids).map_err(HostFunctionError::InvalidInput)?;
        let all = ids.iter().map(|id| self.find_plugin_subagent(id));
        let all = all.collect::<Result<Vec<PluginSubagent>, _>>()?;
        let running = all.iter().filter_map(|(_, live)| live.as_deref());
        let ended = join_all(running.map(LiveSubagent::wait_for_end));
        // A timeout is not a failure: the reports list the subagents that still run.
        let _ = tokio::time::timeout(limit, ended).await;
        Ok(all.iter().map(build_subagent_status_report).collect())
    }

    /// Stops a running subagent that the plugin started.
    pub(in crate::agent) async fn stop_agent(
        &self,
        id: String,
        _: Caller,
    ) -> Result<SubagentReport, HostFunctionError> {
        let known = self.find_plugin_subagent(&id)?;
        if let (_, Some(live)) = &known {
            live.stop("its plugin stopped it");
            let ended = tokio::time::timeout(SUBAGENT_STOP_TIMEOUT, live.wait_for_end()).await;
            ended.map_err(|_| {
                HostFunctionError::Failed("it was told to stop, but is still running".to_owned())
            })?;
        }
        Ok(build_subagent_status_report(&known))
    }

    /// Returns the subagent with this id if this plugin started it.
    fn find_plugin_subagent(&self, id: &str) -> Result<PluginSubagent, HostFunctionError> {
        let child = find_own_child(self.scope, id).map_err(HostFunctionError::NotFound)?;
        if child.plugin.as_deref() != Some(&**self.plugin) {
            let why = format!("{} is not a subagent of this plugin", child.agent);
            return Err(HostFunctionError::Denied(why));
        }
        let live = self.scope.family.subagents.find_live_subagent(&child.agent);
        Ok((child, live))
    }
}

fn build_subagent_status_report((child, live): &PluginSubagent) -> SubagentReport {
    let outcome = live.as_ref().and_then(|live| live.outcome());
    SubagentReport {
        id: child.agent.clone(),
        state: subagent_state(child, live.as_deref()).as_word(),
        answer: outcome
            .as_ref()
            .map(|outcome| outcome.text())
            .unwrap_or_default(),
        steps: outcome
            .as_ref()
            .map(|outcome| outcome.steps)
            .unwrap_or_default(),
        cost_usd: outcome
            .as_ref()
            .map(|outcome| outcome.cost_usd)
            .unwrap_or_default(),
    }
}
