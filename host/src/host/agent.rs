//! Builds an agent in one session from the parts of a host.

use std::sync::Arc;

use super::material::{SessionPromptResourceProvider, SessionPromptResourceProviders};
use super::offers::SharedPluginCommandsAndLoops;
use super::session::SessionBuilder;
use super::source::ToolSourceSessionHandle;
use super::{Error, HostSharedState, PluginReplacer};
use crate::agent::{AgentSpec, LiveAgent, PluginKeyValueWriter, PluginSessionHandle};
use crate::event::{Event, EventSender};
use crate::plugin::load::{PluginSkipReason, SkippedPlugin};
use crate::point::handle::AgentHandle;
use crate::point::outcome::Level;
use crate::script::{ScriptProgram, SessionHookScript};
use crate::session::Session;
use crate::skill::OmittedSkill;
use crate::tool::background::{BackgroundCommand, BackgroundCommandOutcome, BackgroundCommands};
use crate::tool::live::RunningToolCallOutputs;

/// Builds the agent that runs the turns of an opened session.
pub(super) fn build_agent(
    builder: SessionBuilder,
    session: Arc<Session>,
) -> Result<
    (
        LiveAgent,
        PluginReplacer,
        SharedPluginCommandsAndLoops,
        SessionPromptResourceProviders,
    ),
    Error,
> {
    let parts = builder.parts;
    parts.store_grant_answers(session.id())?;
    let events = EventSender::default();
    for observer in builder.observers {
        events.add_observer(observer);
    }
    let keep = build_plugin_store_writer(&parts);
    let handle = PluginSessionHandle::new(session.clone(), events.clone(), keep.clone());
    let handle = Arc::new(handle);
    let plugin_handle: Arc<dyn AgentHandle> = handle.clone();
    let mut open = parts.plugins.open_plugins(&plugin_handle)?;
    for hook in &parts.hooks {
        hook.register_in(&mut open.registry);
    }
    for script in &parts.scripts {
        let program = ScriptProgram::new(script, &parts.paths, parts.commands.clone());
        let script = SessionHookScript::new(script.clone(), program, plugin_handle.clone());
        script.register_hooks(&mut open.registry);
    }
    let mut opening: Vec<Event> = parts
        .plugins
        .left_out
        .iter()
        .map(plugin_left_out_event)
        .collect();
    opening.extend(
        parts
            .skills
            .omitted_skills()
            .into_iter()
            .map(omitted_skill_event),
    );
    if parts.config.subagents.enabled {
        let findings = parts.presets.preset_file_notices().iter();
        opening.extend(findings.map(|text| Event::create_host_notice(Level::Warn, text)));
    }
    let mut tools = parts.tools.clone();
    for tool in open.tools {
        if let Err(error) = tools.add(tool) {
            opening.push(Event::create_host_notice(Level::Warn, error.to_string()));
        }
    }
    let ordering = parts.config.agent_loop.as_deref();
    let agent_loop = ordering.and_then(|name| {
        let mut loops = open.agent_loops.into_iter();
        loops.find(|own| own.plugin() == name)
    });
    if let (Some(name), None) = (ordering, &agent_loop) {
        return Err(Error::AgentLoop {
            plugin: name.to_owned(),
            why: "the plugin does not run in this session".to_owned(),
        });
    }
    let own_folders = [&parts.paths.config, &parts.paths.data, &parts.paths.cache];
    let plugins = parts.plugins.plugins.iter();
    let plugins = plugins.map(|plugin| plugin.manifest.name.clone());
    let mut agent = LiveAgent::new(AgentSpec {
        provider: builder.provider,
        model: builder.model,
        temperature: None,
        max_tokens: parts.config.max_tokens,
        tools,
        deferred: Arc::default(),
        hooks: Arc::new(open.registry),
        policy: builder.policy,
        approver: builder.approver,
        session,
        events,
        keep_in_store: keep,
        config: parts.config.clone(),
        workspace: parts.paths.workspace.clone(),
        parts: Vec::new(),
        skills: parts.skills.clone(),
        presets: parts.presets.clone(),
        plugins: plugins.collect(),
        own_folders: own_folders.map(Clone::clone).into(),
        name: Arc::from("main"),
        depth: 0,
        call_chain: Vec::new(),
        agent_loop,
        known: Arc::default(),
        live: RunningToolCallOutputs::default(),
        background: BackgroundCommands::default(),
        told: Arc::default(),
    });
    report_ended_background_commands(&agent);
    let (mut outer, mut materials) = (Vec::new(), Vec::new());
    for source in &parts.sources {
        let to = ToolSourceSessionHandle::new(
            source.name(),
            &plugin_handle,
            &agent.plugin_replacement_queue(),
            &agent.spec().events,
        );
        let opened = source.open(to.clone());
        let warnings = opened.warnings.into_iter();
        opening.extend(warnings.map(|text| Event::create_host_notice(Level::Warn, text)));
        outer.extend(to.wrap_tools_with_secret_masking(opened.tools));
        materials.extend(
            opened
                .material
                .map(|material| SessionPromptResourceProvider {
                    origin: source.name().to_owned(),
                    material,
                    handle: plugin_handle.clone(),
                }),
        );
    }
    let refused = agent.add_external_tools(outer).into_iter();
    opening.extend(refused.map(|text| Event::create_host_notice(Level::Warn, text)));
    agent.queue_opening_events(opening);
    handle.set_agent(&agent, open.points);
    let replacements = agent.plugin_replacement_queue();
    let events = agent.spec().events.clone();
    let offers = SharedPluginCommandsAndLoops::new(open.commands, open.loops, open.limits);
    let plugins = parts.plugins.plugin_set().clone();
    let ordering = parts.config.agent_loop.clone();
    let (queues, handle) = ((replacements, offers.clone()), plugin_handle);
    let replacer = PluginReplacer::new(plugins, handle, queues, events, ordering);
    Ok((agent, replacer, offers, Arc::new(materials)))
}

/// Emits a notice to the user whenever a background command ends.
fn report_ended_background_commands(agent: &LiveAgent) {
    let events = agent.spec().events.clone();
    let tell = move |command: &BackgroundCommand, end: &BackgroundCommandOutcome| {
        let text = format!(
            "{} ended after {} s: {}",
            command.id(),
            end.after.as_secs(),
            end.words
        );
        events.emit(Event::create_host_notice(Level::Info, text));
        for line in &end.refused {
            let text = format!(
                "{} left a file that could make git run a program: {line}",
                command.id()
            );
            events.emit(Event::create_host_notice(Level::Warn, text));
        }
    };
    agent.spec().background.set_end_callback(Arc::new(tell));
}

/// Returns the event for a plugin that does not run.
fn plugin_left_out_event(left: &SkippedPlugin) -> Event {
    let cause = match &left.why {
        PluginSkipReason::Failed(_) => "failed",
        PluginSkipReason::Held(_) => "held",
        PluginSkipReason::Shadowed { .. } => "shadowed",
        PluginSkipReason::Disabled { .. }
        | PluginSkipReason::Disallowed { .. }
        | PluginSkipReason::Without => "switched-off",
    };
    Event::PluginLeftOut {
        plugin: left.name.clone(),
        trust: left.found.trust.to_string(),
        folder: left.found.folder.display().to_string(),
        cause: cause.to_owned(),
        reason: left.why.to_string(),
    }
}

/// Returns the event that reports a skill as unavailable or limited.
fn omitted_skill_event(left: OmittedSkill) -> Event {
    Event::SkillLeftOut {
        skill: left.id,
        trust: left.trust.to_string(),
        file: left.file.display().to_string(),
        cause: left.cause.to_string(),
        reason: left.reason,
    }
}

/// Returns the callback that saves a value in the store of a plugin, and passes it to the callback
/// of the embedder.
fn build_plugin_store_writer(parts: &HostSharedState) -> PluginKeyValueWriter {
    let (stores, native) = (parts.plugins.plugin_key_value_stores(), parts.keep.clone());
    Arc::new(move |name, key, value| {
        if let Some(keep) = &native {
            keep(name, key, value);
        }
        match stores.get(name) {
            Some(store) => {
                if let Err(error) = store.set(key, value) {
                    tracing::warn!(plugin = name, key, %error, "a plugin's value could not be stored");
                }
            }
            None if native.is_none() => {
                tracing::warn!(
                    hook = name,
                    key,
                    "native hooks have no store; the value is dropped"
                );
            }
            None => {}
        }
    })
}
