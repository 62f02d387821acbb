//! Builds the host that runs a test case of a plugin: the plugin and the plugins that it needs, a
//! scripted model, and test doubles.
//!
//! Unlike the host of a session, the host of a case has test doubles and temporary directories, and
//! grants all requested permissions.

use std::path::Path;
use std::sync::Arc;

use super::doubles::{
    CaseSecretStore, FixedAddressDnsResolver, ScriptedUser, canned_http_client,
    canned_websocket_client,
};
use super::file::CaseGiven;
use super::needed::RequiredPlugins;
use super::run::{CaseRunner, RunError};
use super::skill::tools::FixedResponseTool;
use super::workspace::TemporaryCaseDirectories;
use rind_lib::agent::AgentConfig;
use rind_lib::config::PluginSettings;
use rind_lib::egress::EgressOptions;
use rind_lib::host::{self, Host};
use rind_lib::plugin::fixed::FixedClockAndRandomSeed;
use rind_lib::plugin::load::{FoundPluginSet, PluginLoadOptions};
use rind_lib::provider::scripted::{Reply, Scripted};
use rind_lib::session::SessionStore;
use rind_lib::tool::policy::{ToolPolicy, ToolPolicyOptions};

/// Writes the values of `given.store` into the store of the plugin `name`.
pub(super) fn write_store_values(
    plugins: &FoundPluginSet,
    name: &str,
    given: &CaseGiven,
) -> Result<(), RunError> {
    let stores = plugins.plugin_key_value_stores();
    for (key, value) in &given.store {
        if let Some(store) = stores.get(name) {
            store.set(key, value).map_err(|error| RunError::Store {
                key: key.clone(),
                message: error.to_string(),
            })?;
        }
    }
    Ok(())
}

/// Creates the host of a case: the plugin `name` with the plugins that it needs, a scripted model,
/// the built-in file tools, the doubles of tools, and a scripted person, whose answers are repeated
/// `n_repeats` times, once for each turn.
pub(super) async fn build_case_host(
    given: &CaseGiven,
    workspace: &TemporaryCaseDirectories,
    (plugins, name): (Arc<FoundPluginSet>, &str),
    model: Arc<Scripted>,
    n_repeats: usize,
) -> Result<Host, host::Error> {
    let policy = ToolPolicy {
        mode: ToolPolicyOptions {
            yes: given.answers.is_none(),
            has_terminal: given.answers.is_some(),
            ..ToolPolicyOptions::default()
        },
        ..ToolPolicy::default()
    };
    let answers = given.answers.as_deref().unwrap_or_default();
    let replies = given.replies.as_deref().unwrap_or_default();
    // If the tested plugin may run turns instead of the agent's built-in loop, use its loop for the
    // turns of the case.
    let mut own = plugins.plugins.iter();
    let own = own.find(|plugin| plugin.manifest.name == name && plugin.may_run_agent_loop());
    let config = AgentConfig {
        agent_loop: own.map(|plugin| plugin.manifest.name.clone()),
        loop_models: vec!["*".to_owned()],
        // Make the calls of `output-delta` hooks independent of the speed of the machine, unless
        // the case tests timing.
        checks_ends_only: !model.has_pauses_between_words(),
        ..AgentConfig::default()
    };
    let host = Host::builder()
        .config(config)
        .provider(model, "test-model")
        .paths(workspace.paths.clone())
        .store(SessionStore::new(workspace.paths.sessions()).without_disk_sync())
        .plugins(plugins)
        .file_tools()
        .policy(Arc::new(policy))
        .approver(Arc::new(ScriptedUser::new(answers, replies, n_repeats)));
    let doubles = given.tools.iter();
    let doubles = doubles.map(|(name, canned)| Arc::new(FixedResponseTool::new(name, canned)));
    let host = doubles.fold(host, |host, double| host.tool(double));
    host.build().await
}

/// Returns the options that load the plugins for a case: all requested permissions are granted, and
/// no request leaves the machine.
pub(super) fn plugin_load_options(
    runner: &CaseRunner,
    folder: &Path,
    name: &str,
    given: &CaseGiven,
    workspace: &TemporaryCaseDirectories,
    needed: &RequiredPlugins,
) -> PluginLoadOptions {
    let mut options = PluginLoadOptions {
        egress: EgressOptions {
            secrets: Arc::new(CaseSecretStore(given.secrets.clone())),
            resolver: Arc::new(FixedAddressDnsResolver),
            canned: Some(canned_http_client(given.http.clone())),
            canned_sockets: Some(canned_websocket_client(given.websockets.clone())),
            ..EgressOptions::default()
        },
        // No error can be lost here, because an invalid clock was already refused when the case was
        // read.
        fixed: FixedClockAndRandomSeed::with_clock_and_seed(given.clock.as_deref(), given.seed)
            .ok(),
        ..runner.plugin_load_options(folder, needed)
    }
    .with_workspace_and_data_folders(&workspace.paths);
    // Share the runner's compile cache, so that a component is compiled once instead of once per
    // case.
    options.cache.clone_from(&runner.cache);
    options.cache_key.clone_from(&runner.cache_key);
    // Grant all requested permissions, because users of the plugin are expected to grant them.
    let names = needed.found.keys().map(String::as_str);
    let names = std::iter::once(name).chain(names);
    options.grants.flags = names.filter_map(|name| name.parse().ok()).collect();
    let settings = PluginSettings {
        config: given.config.clone(),
        ..PluginSettings::default()
    };
    options.settings.insert(name.to_owned(), settings);
    options
}

/// Returns the indexes in `given.reply` of the replies that were not used in one turn. `n_before`
/// is the number of replies before that turn in the script.
pub(super) fn unused_reply_indexes(
    given: &CaseGiven,
    model: &Scripted,
    n_before: usize,
) -> Vec<usize> {
    let n_before = n_before + usize::from(given.tool.is_some());
    let places = model.unused_reply_indices().into_iter();
    let places = places.filter_map(|place| place.checked_sub(n_before));
    places.filter(|place| *place < given.reply.len()).collect()
}

/// Returns the scripted responses of the model in a turn. Adds the answer "done" if the case has no
/// responses. Does not add it if hooks are called directly, or for a command or a loop in a case
/// with further steps (not `is_alone`): these need not ask the model, and the next step would then
/// get the answer.
pub(super) fn build_model_replies(given: &CaseGiven, is_alone: bool) -> Vec<Reply> {
    let call = given
        .tool
        .iter()
        .map(|tool| Reply::call(&tool.name, tool.arguments.clone()));
    let mut replies: Vec<Reply> = call.chain(given.reply.iter().cloned()).collect();
    let may_ask = is_alone || (given.command.is_none() && !given.runs_loop);
    if given.reply.is_empty() && given.event.is_empty() && may_ask {
        replies.push(Reply::text("done"));
    }
    replies
}
