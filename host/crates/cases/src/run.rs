//! Runs a case: creates a host with the plugin and the plugins that it needs, in temporary
//! directories, and runs two turns warm and two turns cold.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::sync::CancellationToken;
use tracing::instrument::WithSubscriber;

use super::event::fire_events;
use super::expect::find_differences;
use super::file::{CaseGiven, PluginCase};
use super::ids::AgentIds;
use super::log::CapturedLines;
use super::needed::NeededPlugins;
use super::seen::{AgainSeen, SeenTurn, text_of};
use super::setup::{build_host, keep_in_store, script_replies, session_options, unused_replies_of};
use super::workspace::CaseWorkspace;
use rind_lib::event::Stamped;
use rind_lib::grant::Trust;
use rind_lib::host::{self, CommandError, LoopError, Session};
use rind_lib::plugin;
use rind_lib::plugin::commands::CommandReply;
use rind_lib::plugin::compile::Compiler;
use rind_lib::plugin::discover::Found;
use rind_lib::plugin::load::{LoadOptions, PluginSet};
use rind_lib::plugin::loops::LoopReply;
use rind_lib::plugin::meter::Meter;
use rind_lib::point::payload::StopReason;
use rind_lib::provider::scripted::{Script, Scripted};
use rind_lib::session::{Body, SessionSpec};

/// Number of turns per session. In the second turn, a warm instance was called before.
pub(super) const TURNS: usize = 2;

/// Configuration for running cases.
#[derive(Clone, Debug)]
pub struct CaseRunner {
    /// Compiler of components.
    pub compiler: Compiler,
    /// Directory of the compile cache.
    pub cache: PathBuf,
    /// File with the key of the cache's keyed hashes.
    pub cache_key: PathBuf,
}

impl CaseRunner {
    /// Returns options that load exactly the plugin in this directory and the plugins that it
    /// needs.
    pub(super) fn load_options(&self, folder: &Path, needed: &NeededPlugins) -> LoadOptions {
        let folders = std::iter::once(folder).chain(needed.found.values().map(PathBuf::as_path));
        let found = |folder: &Path| Found {
            // Managed trust, because the names of the plugins that ship with Rind are reserved.
            trust: Trust::Managed,
            folder: folder.to_owned(),
        };
        LoadOptions {
            chosen: folders.map(found).collect(),
            compiler: self.compiler.clone(),
            cache: self.cache.clone(),
            cache_key: self.cache_key.clone(),
            ..LoadOptions::default()
        }
    }
}

/// Error that prevents a case from running.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A directory or file of the case cannot be created.
    #[error("cannot make the workspace of the case: {0}")]
    Io(#[from] io::Error),
    /// A file of the case is outside of its workspace.
    #[error("given.files: `{0}` is not a path inside the workspace")]
    Outside(String),
    /// A payload does not fit its point.
    #[error("given.event: the payload of `{point}`: {message}")]
    Event {
        /// Name of the point.
        point: String,
        /// Problem.
        message: String,
    },
    /// A value cannot be stored.
    #[error("given.store: `{key}`: {message}")]
    Store {
        /// Key of the value.
        key: String,
        /// Problem.
        message: String,
    },
    /// The skill cannot be used.
    #[error("the skill cannot be used: {0}")]
    Skill(String),
    /// The environment for running commands cannot be determined.
    #[error("commands cannot be confined: {0}")]
    Commands(String),
    /// The plugin cannot be loaded.
    #[error("the plugin cannot be loaded: {0}")]
    NotLoaded(String),
    /// The host cannot load plugins.
    #[error(transparent)]
    Plugin(#[from] plugin::Error),
    /// The host cannot be created.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// The session failed.
    #[error(transparent)]
    Session(#[from] rind_lib::session::Error),
    /// The command of the case cannot be called.
    #[error("given.command: {0}")]
    Command(#[from] CommandError),
    /// The loop of the case cannot be run.
    #[error("given.loop: {0}")]
    Loop(#[from] LoopError),
    /// The turn failed.
    #[error(transparent)]
    Agent(#[from] rind_lib::agent::Error),
}

/// Time, memory and host calls of a case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CaseCost {
    /// Duration of the first warm turn; if the case calls hooks, of the hooks alone.
    pub took: Duration,
    /// Peak linear memory of an instance, in bytes.
    pub memory_bytes: u64,
    /// Number of host calls, by import.
    pub host_calls: BTreeMap<String, u64>,
}

/// Outcome of a case.
#[derive(Clone, Debug, Default)]
pub struct CaseOutcome {
    /// Behavior in the first warm turn, which the expectations are compared with.
    pub seen: SeenTurn,
    /// Differences from the expected behavior, and between warm and cold.
    pub differences: Vec<String>,
    /// Indexes in `given.reply` of responses that the model was never asked for in the first warm
    /// turn.
    pub unused_replies: Vec<usize>,
    /// Cost of the first warm turn.
    pub cost: CaseCost,
}

/// Runs a case of the plugin in `folder`.
///
/// # Errors
/// The case cannot be run at all; wrong behavior of the plugin is part of the outcome.
pub async fn run_case(
    runner: &CaseRunner,
    folder: &Path,
    name: &str,
    case: &PluginCase,
) -> Result<CaseOutcome, RunError> {
    let heard = CapturedLines::default();
    let both = async {
        let warm = open_session(runner, folder, name, &case.given, &heard, false).await?;
        // A call that ran into its deadline does so in every turn, and each costs the same seconds.
        if warm.0.first().is_some_and(|seen| seen.is_overdue) {
            return Ok((warm, Vec::new()));
        }
        let cold = open_session(runner, folder, name, &case.given, &heard, true).await?;
        Ok::<_, RunError>((warm, cold.0))
    };
    let ((warm, cost, unused_replies), cold) = both.with_subscriber(heard.subscriber()).await?;
    let mut differences = warm
        .first()
        .map_or_else(Vec::new, |seen| find_differences(&case.expect, seen));
    for (n, (warm, cold)) in warm.iter().zip(&cold).enumerate() {
        if warm != cold {
            differences.push(warm_and_cold(n + 1, warm, cold));
        }
    }
    Ok(CaseOutcome {
        seen: warm.into_iter().next().unwrap_or_default(),
        differences,
        unused_replies,
        cost,
    })
}

/// Describes the fields that differ between a warm instance and fresh ones.
fn warm_and_cold(turn: usize, warm: &SeenTurn, cold: &SeenTurn) -> String {
    let fields = |seen: &SeenTurn| match serde_json::to_value(seen) {
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
        "the plugin acts differently with a kept and with a fresh instance (turn {turn}): keep what must last in `state` or \
         `store`{lines}"
    )
}

/// Session of a case in fresh directories.
struct RunningCase<'a> {
    name: &'a str,
    given: &'a CaseGiven,
    heard: &'a CapturedLines,
    workspace: CaseWorkspace,
    own_tools: Vec<String>,
    meter: Arc<Meter>,
    model: Arc<Scripted>,
    session: Session,
    events: UnboundedReceiver<Stamped>,
    /// Subagents of all turns so far.
    agents: AgentIds,
}

/// Runs the turns of a session. Returns the behavior in each, and the cost and the unused replies
/// of the first.
async fn open_session(
    runner: &CaseRunner,
    folder: &Path,
    name: &str,
    given: &CaseGiven,
    heard: &CapturedLines,
    is_cold: bool,
) -> Result<(Vec<SeenTurn>, CaseCost, Vec<usize>), RunError> {
    let mut running = RunningCase::open_case(runner, folder, name, given, heard, is_cold).await?;
    let mut all = Vec::new();
    let mut cost = CaseCost::default();
    let mut unused = Vec::new();
    // Drop lines that were captured before this session.
    heard.take();
    for turn in 0..TURNS {
        running.meter.restart();
        let (seen, took) = running.run_turn().await?;
        if turn == 0 {
            unused = unused_replies_of(given, &running.model);
            let metered = running.meter.read();
            let host_calls = metered.host_calls.into_iter();
            cost = CaseCost {
                took,
                memory_bytes: metered.memory_bytes,
                host_calls: host_calls.map(|(name, n)| (name.to_owned(), n)).collect(),
            };
        }
        let is_overdue = seen.is_overdue;
        all.push(seen);
        if is_overdue {
            break;
        }
    }
    running.session.close().await?;
    Ok((all, cost, unused))
}

impl<'a> RunningCase<'a> {
    async fn open_case(
        runner: &CaseRunner,
        folder: &Path,
        name: &'a str,
        given: &'a CaseGiven,
        heard: &'a CapturedLines,
        is_cold: bool,
    ) -> Result<Self, RunError> {
        let workspace = CaseWorkspace::new(&given.files)?;
        let meter = Arc::new(Meter::default());
        let needed = NeededPlugins::needed_by(folder);
        let options = LoadOptions {
            meter: Some(meter.clone()),
            is_cold,
            ..session_options(runner, folder, name, given, &workspace, &needed)
        };
        let plugins = Arc::new(PluginSet::load(&options).await?);
        keep_in_store(&plugins, name, given)?;
        // Report a missing plugin that is needed first: without it, the plugin of the case is not
        // loaded either.
        let left_out = &plugins.left_out;
        let needs = left_out.iter().find(|left| left.name != name);
        if let Some(left) = needs.or(left_out.first()) {
            let what = match needs {
                Some(left) => format!("it needs `{}`, which cannot be loaded: ", left.name),
                None => String::new(),
            };
            let why = format!("{what}{}{}", left.why, needed.hint());
            return Err(RunError::NotLoaded(why));
        }
        let own = plugins
            .plugins
            .iter()
            .filter(|plugin| plugin.manifest.name == name);
        let tools = own.flat_map(|plugin| &plugin.tools);
        let own_tools = tools.map(|tool| tool.name.clone()).collect();
        let model = Arc::new(Scripted::new(Script::new(script_replies(given))));
        let host = build_host(given, &workspace, plugins, model.clone()).await?;
        let session = Arc::new(host.store().create(&SessionSpec {
            workspace: workspace.path.clone(),
            provider: "scripted".to_owned(),
            model: "test-model".to_owned(),
        })?);
        for message in &given.conversation {
            let message = message.clone();
            session.append(Body::Message { message })?;
        }
        let session = host.session().on(session)?;
        Ok(Self {
            name,
            given,
            heard,
            workspace,
            own_tools,
            meter,
            model,
            events: session.events(),
            session,
            agents: AgentIds::default(),
        })
    }

    /// Runs a turn, or instead of it a command, the loop, or the hooks of the case.
    async fn run_turn(&mut self) -> Result<(SeenTurn, Duration), RunError> {
        let mut seen = SeenTurn::default();
        let took = if let Some(command) = &self.given.command {
            let started = Instant::now();
            let arguments = match &command.arguments {
                None => String::new(),
                Some(Value::String(text)) => text.clone(),
                Some(value) => value.to_string(),
            };
            let never = CancellationToken::new();
            let ran = self
                .session
                .run_command(self.name, &command.name, arguments, &never);
            match ran.await {
                Ok(CommandReply::Text(text)) => seen.output = text,
                Ok(CommandReply::Prompt(text)) => seen.prompt = text,
                Ok(CommandReply::Nothing) => {}
                Err(CommandError::Failed { why, .. }) => seen.fail_call(why),
                Err(error) => return Err(error.into()),
            }
            started.elapsed()
        } else if self.given.runs_loop {
            let started = Instant::now();
            let never = CancellationToken::new();
            match self.session.run_loop(self.name, &never).await {
                Ok(LoopReply::Done) => seen.done = true,
                Ok(LoopReply::Again { after, reason }) => {
                    let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                    seen.again = Some(AgainSeen { after_ms, reason });
                }
                Err(LoopError::Failed { why, .. }) => seen.fail_call(why),
                Err(error) => return Err(error.into()),
            }
            started.elapsed()
        } else if self.given.event.is_empty() {
            let started = Instant::now();
            let input = self.given.input.as_deref().unwrap_or("go");
            let outcome = self.session.turn(input).await?;
            seen.output = outcome.output;
            seen.stop = text_of(&outcome.summary.stop);
            started.elapsed()
        } else {
            let fired = fire_events(&mut self.session, &self.given.event).await?;
            (seen.payload, seen.notes) = (fired.payload, fired.notes);
            if fired.is_halted {
                seen.stop = text_of(&StopReason::Blocked);
            }
            fired.took
        };
        seen.files = self.workspace.files();
        while let Ok(stamped) = self.events.try_recv() {
            self.agents.see_event(&stamped.event);
            seen.see_event(&stamped, self.name, &self.own_tools);
        }
        let lines = self.heard.take().into_iter();
        let own = lines.filter(|line| line.plugin == self.name);
        seen.log = own.map(|line| line.text).collect();
        Ok((seen.without_names(&self.workspace.root, &self.agents), took))
    }
}
