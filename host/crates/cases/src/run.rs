//! Runs a test case: creates a host with the plugin and the plugins that it needs, in temporary
//! directories. Runs all steps of the case once warm (one instance) and once cold (a fresh instance
//! per call). If a case has no further steps, its turn runs twice warm and twice cold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tracing::instrument::WithSubscriber;

pub use super::error::RunError;
use super::event::run_event_hooks;
use super::expect::find_plugin_case_differences;
use super::file::{CaseGiven, GivenCommand, PluginCase};
use super::ids::SeenAgentIds;
use super::log::CapturedLogLines;
use super::needed::RequiredPlugins;
use super::seen::{ObservedNextLoopRun, ObservedTurn, serialize_to_string_or_empty};
use super::setup::{
    build_case_host, build_model_replies, plugin_load_options, unused_reply_indexes,
    write_store_values,
};
use super::steps::CaseTurnInput;
use super::workspace::TemporaryCaseDirectories;
use rind_lib::event::Stamped;
use rind_lib::grant::Trust;
use rind_lib::host::{Host, LoopRunError, PluginCommandError, Session};
use rind_lib::plugin::commands::SlashCommandReply;
use rind_lib::plugin::compile::Compiler;
use rind_lib::plugin::discover::FoundPlugin;
use rind_lib::plugin::load::{FoundPluginSet, PluginLoadOptions};
use rind_lib::plugin::loops::LoopRunResult;
use rind_lib::plugin::meter::PluginResourceMeter;
use rind_lib::point::payload::StopReason;
use rind_lib::provider::scripted::{Reply, Script, Scripted};
use rind_lib::session::{Body, SessionSpec};

/// Configuration for running test cases of plugins.
#[derive(Clone, Debug)]
pub struct CaseRunner {
    /// Compiler that turns WebAssembly components into native code.
    pub compiler: Compiler,
    /// Cache directory, which contains the compiled components.
    pub cache: PathBuf,
    /// File with the key for the keyed hashes in the cache.
    pub cache_key: PathBuf,
}

impl CaseRunner {
    /// Returns options that load only the plugin in `folder` and the plugins that it needs.
    pub(super) fn plugin_load_options(
        &self,
        folder: &Path,
        needed: &RequiredPlugins,
    ) -> PluginLoadOptions {
        let folders = std::iter::once(folder).chain(needed.found.values().map(PathBuf::as_path));
        let found = |folder: &Path| FoundPlugin {
            // Use managed trust, so that cases can also run plugins that ship with Rind: their
            // names are reserved for plugins with managed trust.
            trust: Trust::Managed,
            folder: folder.to_owned(),
        };
        PluginLoadOptions {
            chosen: folders.map(found).collect(),
            compiler: self.compiler.clone(),
            cache: self.cache.clone(),
            cache_key: self.cache_key.clone(),
            ..PluginLoadOptions::default()
        }
    }
}

/// Time, memory and number of host calls of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseCost {
    /// Duration of the first turn with warm plugin instances, which were called before. If the case
    /// calls hooks directly, duration of the hooks alone.
    pub took: Duration,
    /// Maximum linear memory of a plugin instance, measured until the end of the first warm turn,
    /// in bytes.
    pub memory_bytes: u64,
    /// Number of calls of each host function in the first turn of the warm run (with one plugin
    /// instance), by the name of the import.
    pub host_calls: BTreeMap<String, u64>,
}

/// Outcome of running a test case.
#[derive(Clone, Debug, Default)]
pub struct CaseOutcome {
    /// Behavior in the first warm turn, which is compared with the case's `expect`.
    pub seen: ObservedTurn,
    /// Behavior in each further step of the case, in the warm run (with one plugin instance).
    pub then: Vec<ObservedTurn>,
    /// Differences between observed and expected behavior, and between the warm and the cold run.
    pub differences: Vec<String>,
    /// Scripted responses that were not used, as indexes in `given.reply`, for each warm turn.
    pub unused_replies: Vec<Vec<usize>>,
    /// Time, memory and host calls of the first warm turn.
    pub cost: CaseCost,
}

/// Hint after the differences of a case in which a call was stopped at its deadline.
const CALL_DEADLINE_HINT: &str = "a call of the plugin never ended, or needs longer than `timeout` of its hook or of `[limits]` in plugin.toml";

/// Runs a case of the plugin `name` in `folder`.
///
/// # Errors
/// The case cannot be run. Wrong behavior of the plugin is not an error but is reported in the
/// outcome.
pub async fn run_case(
    runner: &CaseRunner,
    folder: &Path,
    name: &str,
    case: &PluginCase,
) -> Result<CaseOutcome, RunError> {
    let heard = CapturedLogLines::default();
    let turns = case.turns();
    let place = CaseSessionParameters {
        runner,
        folder,
        name,
        given: &case.given,
        heard: &heard,
        compares_system: case.expectations().any(|expect| expect.system.is_some()),
        n_repeats: if case.then.is_empty() { turns.len() } else { 1 },
    };
    let both = async {
        let warm = place.run_turns(&turns, false).await?;
        // If a call of the plugin overran its deadline in the warm run, skip the cold run, in which
        // the call would run until its deadline in every turn again.
        if warm.turns.iter().any(|seen| seen.is_overdue) {
            return Ok((warm, Vec::new()));
        }
        let cold = place.run_turns(&turns, true).await?;
        Ok::<_, RunError>((warm, cold.turns))
    };
    let (warm, cold) = both
        .with_subscriber(heard.create_capture_subscriber())
        .await?;
    let mut differences = Vec::new();
    for (n, (expect, seen)) in case.expectations().zip(&warm.turns).enumerate() {
        let found = find_plugin_case_differences(expect, seen).into_iter();
        differences.extend(found.map(|found| prepend_step_number(n, found)));
    }
    for (n, (warm, cold)) in warm.turns.iter().zip(&cold).enumerate() {
        if warm != cold {
            differences.push(describe_warm_cold_differences(n + 1, warm, cold));
        }
    }
    if !differences.is_empty() && warm.turns.iter().any(|seen| seen.is_overdue) {
        differences.push(CALL_DEADLINE_HINT.to_owned());
    }
    let n_steps = case.then.len();
    let mut seen = warm.turns.into_iter();
    Ok(CaseOutcome {
        seen: seen.next().unwrap_or_default(),
        then: seen.take(n_steps).collect(),
        differences,
        unused_replies: warm.unused,
        cost: warm.cost,
    })
}

/// Prefixes a difference with the number of its step. The first step is the case itself and gets no
/// prefix.
pub(super) fn prepend_step_number(index: usize, text: String) -> String {
    match index {
        0 => text,
        _ => format!("step {}: {text}", index + 1),
    }
}

/// Describes the fields of a turn that differ between the warm run, with one instance of the
/// plugin, and the cold run, with a fresh instance for each call.
fn describe_warm_cold_differences(turn: usize, warm: &ObservedTurn, cold: &ObservedTurn) -> String {
    let fields = |seen: &ObservedTurn| match serde_json::to_value(seen) {
        Ok(serde_json::Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (warm, cold) = (fields(warm), fields(cold));
    let only_cold = cold.keys().filter(|field| !warm.contains_key(*field));
    let all = warm.keys().chain(only_cold);
    let differing = all.filter(|field| warm.get(*field) != cold.get(*field));
    let shown =
        |value: Option<&serde_json::Value>| value.map_or("(none)".to_owned(), ToString::to_string);
    let lines: String = differing
        .map(|field| {
            format!(
                "\n  {field}: warm {}\n  {field}: cold {}",
                shown(warm.get(field)),
                shown(cold.get(field))
            )
        })
        .collect();
    format!(
        "the plugin acts differently in turn {turn} when its instance is kept than when it is new: keep data that must last in `state` or `store`{lines}"
    )
}

/// Parameters of a test case that its two sessions share: the warm session, which keeps plugin
/// instances, and the cold session, which creates new ones.
struct CaseSessionParameters<'a> {
    runner: &'a CaseRunner,
    folder: &'a Path,
    name: &'a str,
    given: &'a CaseGiven,
    heard: &'a CapturedLogLines,
    /// Whether the case has an expectation about the system prompt. If so, the model's requests
    /// must be recorded.
    compares_system: bool,
    /// Number of times that the scripted answers of the user and replies of the model are repeated
    /// in one session.
    n_repeats: usize,
}

/// A session of a case, in its own temporary directories.
struct RunningCaseSession<'a> {
    place: &'a CaseSessionParameters<'a>,
    workspace: TemporaryCaseDirectories,
    own_tools: Vec<String>,
    meter: Arc<PluginResourceMeter>,
    model: Arc<Scripted>,
    host: Host,
    session: Session,
    events: UnboundedReceiver<Stamped>,
    /// Ids of agents that events of the turns so far named, also of subagents that were refused.
    agents: SeenAgentIds,
}

/// Observed behavior in all turns of one session of a case.
#[derive(Default)]
struct ObservedSessionTurns {
    turns: Vec<ObservedTurn>,
    /// Time, memory and host calls of the first turn of the session.
    cost: CaseCost,
    /// Indexes of the scripted responses that were not used, for each turn.
    unused: Vec<Vec<usize>>,
}

impl CaseSessionParameters<'_> {
    /// Runs the turns in a new session: with one plugin instance, or with a fresh instance for each
    /// call if `is_cold`.
    async fn run_turns(
        &self,
        turns: &[CaseTurnInput],
        is_cold: bool,
    ) -> Result<ObservedSessionTurns, RunError> {
        let scripts: Vec<Vec<Reply>> = turns
            .iter()
            .map(|turn| build_model_replies(&turn.given, self.n_repeats > 1))
            .collect();
        let script = Script::new(scripts.iter().flatten().cloned().collect());
        let mut running = self.open_case_session_in_temp_dirs(script, is_cold).await?;
        let mut ran = ObservedSessionTurns::default();
        let mut n_before = 0;
        // Drop log lines that were captured before this session, for example while plugins were
        // loaded.
        self.heard.take_captured_lines();
        for (turn, script) in turns.iter().zip(&scripts) {
            if turn.new_session {
                running.reopen_session().await?;
            }
            running.meter.reset_measurements();
            let (seen, took) = running.run_turn(&turn.given).await?;
            if ran.turns.is_empty() {
                let metered = running.meter.resource_use();
                let host_calls = metered.host_calls.into_iter();
                ran.cost = CaseCost {
                    took,
                    memory_bytes: metered.memory_bytes,
                    host_calls: host_calls.map(|(name, n)| (name.to_owned(), n)).collect(),
                };
            }
            let unused = unused_reply_indexes(&turn.given, &running.model, n_before);
            ran.unused.push(unused);
            n_before += script.len();
            let is_overdue = seen.is_overdue;
            ran.turns.push(seen);
            if is_overdue {
                break;
            }
        }
        running.session.close().await?;
        Ok(ran)
    }

    async fn open_case_session_in_temp_dirs(
        &self,
        script: Script,
        is_cold: bool,
    ) -> Result<RunningCaseSession<'_>, RunError> {
        let (given, name) = (self.given, self.name);
        let workspace = TemporaryCaseDirectories::new(&given.files)?;
        workspace.copy_fixtures(self.folder, &given.fixtures)?;
        let meter = Arc::new(PluginResourceMeter::default());
        let needed = RequiredPlugins::find_required_plugins(self.folder);
        let options = PluginLoadOptions {
            meter: Some(meter.clone()),
            is_cold,
            ..plugin_load_options(self.runner, self.folder, name, given, &workspace, &needed)
        };
        let plugins = Arc::new(FoundPluginSet::load(&options).await?);
        write_store_values(&plugins, name, given)?;
        // If a needed plugin cannot be loaded, report it before the tested plugin, which is not
        // loaded for this reason.
        let left_out = &plugins.left_out;
        let needs = left_out.iter().find(|left| left.name != name);
        if let Some(left) = needs.or(left_out.first()) {
            let what = match needs {
                Some(left) => format!(
                    "it needs the plugin `{}`, which cannot be loaded: ",
                    left.name
                ),
                None => String::new(),
            };
            let why = format!("{what}{}{}", left.why, needed.missing_plugins_hint());
            return Err(RunError::NotLoaded(why));
        }
        let own = plugins
            .plugins
            .iter()
            .filter(|plugin| plugin.manifest.name == name);
        let tools = own.flat_map(|plugin| &plugin.tools);
        let own_tools = tools.map(|tool| tool.name.clone()).collect();
        let model = Scripted::new(script);
        let model = Arc::new(match self.compares_system {
            true => model.with_request_recording(),
            false => model,
        });
        let host = build_case_host(
            given,
            &workspace,
            (plugins, name),
            model.clone(),
            self.n_repeats,
        )
        .await?;
        let session = self.open_session(&host, &workspace, true)?;
        Ok(RunningCaseSession {
            place: self,
            workspace,
            own_tools,
            meter,
            model,
            host,
            events: session.events(),
            session,
            agents: SeenAgentIds::default(),
        })
    }

    /// Opens a session of the host. Only the first session gets the conversation and the state from
    /// the case.
    fn open_session(
        &self,
        host: &Host,
        workspace: &TemporaryCaseDirectories,
        is_first: bool,
    ) -> Result<Session, RunError> {
        let session = host.store().create(&SessionSpec {
            workspace: workspace.path.clone(),
            provider: "scripted".to_owned(),
            model: "test-model".to_owned(),
        })?;
        if is_first {
            for message in &self.given.conversation {
                let message = message.clone();
                session.append(Body::Message { message })?;
            }
            for (key, value) in &self.given.state {
                let set = session.state_set(self.name, key, Some(value));
                set.map_err(|error| RunError::State {
                    key: key.clone(),
                    message: error.to_string(),
                })?;
            }
        }
        Ok(host.session().on(Arc::new(session))?)
    }
}

impl RunningCaseSession<'_> {
    /// Closes the session and opens another one with the same workspace and stores.
    async fn reopen_session(&mut self) -> Result<(), RunError> {
        let session = self
            .place
            .open_session(&self.host, &self.workspace, false)?;
        self.events = session.events();
        let before = std::mem::replace(&mut self.session, session);
        before.close().await?;
        Ok(())
    }

    /// Runs a turn or, if `given` has one of these, a command, the loop or single hooks instead.
    /// Returns the observed behavior and the duration.
    async fn run_turn(&mut self, given: &CaseGiven) -> Result<(ObservedTurn, Duration), RunError> {
        let mut seen = ObservedTurn::default();
        let name = self.place.name;
        let started = Instant::now();
        let mut took = None;
        if let Some(command) = &given.command {
            self.run_command(command, &mut seen).await?;
        } else if given.runs_loop {
            let never = CancellationToken::new();
            match self.session.run_loop(name, &never).await {
                Ok(LoopRunResult::Done) => seen.done = true,
                Ok(LoopRunResult::Again { after, reason }) => {
                    let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                    seen.again = Some(ObservedNextLoopRun { after_ms, reason });
                }
                Err(LoopRunError::Failed { why, .. }) => seen.record_call_failure(why),
                Err(error) => return Err(error.into()),
            }
        } else if given.event.is_empty() {
            let input = given.input.as_deref().unwrap_or("go");
            let outcome = self.session.turn(input).await?;
            seen.output = outcome.output;
            seen.stop = serialize_to_string_or_empty(&outcome.summary.stop);
        } else {
            let fired = run_event_hooks(&mut self.session, &given.event).await?;
            (seen.payload, seen.notes) = (fired.payload, fired.notes);
            if fired.is_halted {
                seen.stop = serialize_to_string_or_empty(&StopReason::Blocked);
            }
            took = Some(fired.took);
        }
        let took = took.unwrap_or_else(|| started.elapsed());
        seen.files = self.workspace.read_text_files();
        seen.system = read_last_system_prompt(&self.model);
        while let Ok(stamped) = self.events.try_recv() {
            self.agents.record_event(&stamped.event);
            seen.record_event(&stamped, name, &self.own_tools);
        }
        let lines = self.place.heard.take_captured_lines().into_iter();
        let own = lines.filter(|line| line.plugin == name);
        seen.log = own.map(|line| line.text).collect();
        Ok((
            seen.replace_varying_names(&self.workspace.root, &self.agents),
            took,
        ))
    }

    async fn run_command(
        &mut self,
        command: &GivenCommand,
        seen: &mut ObservedTurn,
    ) -> Result<(), RunError> {
        let arguments = match &command.arguments {
            None => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let never = CancellationToken::new();
        let name = self.place.name;
        let ran = self
            .session
            .run_command(name, &command.name, arguments, &never);
        match ran.await {
            Ok(SlashCommandReply::Text(text)) => seen.output = text,
            Ok(SlashCommandReply::Prompt(text)) => seen.prompt = text,
            Ok(SlashCommandReply::Nothing) => {}
            Err(PluginCommandError::Failed { why, .. }) => seen.record_call_failure(why),
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

/// Returns the blocks of the system prompt in the model's last request. The list is empty if
/// requests are not recorded.
fn read_last_system_prompt(model: &Scripted) -> Vec<String> {
    let bodies = model.recorded_request_bodies();
    let blocks = bodies.last().and_then(|body| body["system"].as_array());
    let texts = blocks.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}
