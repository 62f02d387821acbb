//! Harness for tests of the agent loop: an agent over a scripted model, native hooks, a real
//! workspace and a real session.

mod model;
mod native;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use rind::Host;
use rind::agent::{AgentConfig, TurnOutcome};
use rind::event::{Event, Stamped};
use rind::host::HostBuilder;
use rind::message::{Message, Role};
use rind::plugin::load::FoundPluginSet;
use rind::point::caller::Caller;
use rind::point::failure::{Failure, OnFailure};
use rind::point::registry::HookSpec;
use rind::point::{ExtensionPoint, Hook};
use rind::provider::scripted::{Reply, Script, Scripted};
use rind::session::{Session, SessionSpec, SessionStore};
use rind::skill::SessionSkills;
use rind::tool::approval::ApprovalAnswer;
use rind::tool::builtin::CommandConfinementMode;
use rind::tool::policy::{ToolPolicy, ToolPolicyOptions};
use rind::tool::{SharedTool, Tool};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

pub(crate) use model::ProxyProvider;
use native::Native;
pub(crate) use native::{Answers, Hang, NativeTool};

/// Adds a hook to the builder of the host.
type Bind = Box<dyn FnOnce(HostBuilder) -> HostBuilder>;

/// Settings of a test, from which the agent is built.
pub(crate) struct Setup {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) script: Vec<Reply>,
    hooks: Vec<Bind>,
    /// Loaded plugins, which run in the agent as they do in `rind run`.
    pub(crate) plugins: FoundPluginSet,
    pub(crate) tools: Vec<SharedTool>,
    pub(crate) skills: SessionSkills,
    /// Presets of subagents.
    pub(crate) presets: SessionSkills,
    /// Models that the provider offers.
    pub(crate) models: Vec<String>,
    pub(crate) policy: ToolPolicy,
    pub(crate) approver: Arc<Answers>,
    pub(crate) config: AgentConfig,
}

impl Setup {
    /// An agent with the built-in tools, under a policy that allows everything.
    pub(crate) fn new(script: Vec<Reply>) -> Self {
        let policy = ToolPolicy {
            mode: ToolPolicyOptions {
                yes: true,
                ..ToolPolicyOptions::default()
            },
            ..ToolPolicy::default()
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("w")).unwrap();
        std::fs::write(folder.path().join("w/a.txt"), "alpha\n").unwrap();
        std::fs::write(folder.path().join("w/b.txt"), "beta\n").unwrap();
        Self {
            folder,
            script,
            hooks: Vec::new(),
            plugins: FoundPluginSet::default(),
            tools: Vec::new(),
            skills: SessionSkills::default(),
            presets: SessionSkills::default(),
            models: Vec::new(),
            policy,
            approver: Arc::default(),
            config: AgentConfig::default(),
        }
    }

    /// Binds a hook of `plugin` to the point `P`.
    pub(crate) fn hook<P: ExtensionPoint>(
        self,
        plugin: &str,
        run: impl Fn(&Caller, &P::Payload) -> Result<P::Outcome, Failure> + Send + Sync + 'static,
    ) -> Self {
        self.bind::<P>(
            plugin,
            P::KIND.default_failure_action(),
            Arc::new(Native(run)),
        )
    }

    /// Binds a hook whose failure blocks.
    pub(crate) fn hook_blocking<P: ExtensionPoint>(
        self,
        plugin: &str,
        run: impl Fn(&Caller, &P::Payload) -> Result<P::Outcome, Failure> + Send + Sync + 'static,
    ) -> Self {
        self.bind::<P>(plugin, OnFailure::Block, Arc::new(Native(run)))
    }

    /// Binds a hook with this failure policy.
    pub(crate) fn bind<P: ExtensionPoint>(
        self,
        plugin: &str,
        on_failure: OnFailure,
        hook: Arc<dyn Hook<P>>,
    ) -> Self {
        self.add_hook(plugin, on_failure, None, hook)
    }

    /// Binds a hook that has only the rights in `may`.
    pub(crate) fn narrowed<P: ExtensionPoint>(
        self,
        plugin: &str,
        may: &[&str],
        run: impl Fn(&Caller, &P::Payload) -> Result<P::Outcome, Failure> + Send + Sync + 'static,
    ) -> Self {
        let may = may.iter().map(|right| (*right).to_owned()).collect();
        let on_failure = P::KIND.default_failure_action();
        self.add_hook::<P>(plugin, on_failure, Some(may), Arc::new(Native(run)))
    }

    fn add_hook<P: ExtensionPoint>(
        mut self,
        plugin: &str,
        on_failure: OnFailure,
        may: Option<Vec<String>>,
        hook: Arc<dyn Hook<P>>,
    ) -> Self {
        let spec = HookSpec {
            deadline: Duration::from_millis(100),
            on_failure,
            may,
            ..HookSpec::for_native_hook::<P>(plugin)
        };
        self.hooks
            .push(Box::new(move |host| host.hook::<P>(spec, hook)));
        self
    }

    pub(crate) fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// A policy that asks, with an approver who gives these answers in turn.
    pub(crate) fn asking(mut self, answers: Vec<ApprovalAnswer>) -> Self {
        self.policy.mode = ToolPolicyOptions {
            has_terminal: true,
            ..ToolPolicyOptions::default()
        };
        self.approver = Arc::new(Answers {
            answers: Mutex::new(answers),
            ..Answers::default()
        });
        self
    }

    pub(crate) fn store(&self) -> SessionStore {
        SessionStore::new(self.folder.path().join("sessions"))
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("w")
    }

    /// Builds the agent on a new session.
    pub(crate) fn build(self) -> Running {
        let session = self
            .store()
            .create(&session_spec(&self.workspace()))
            .unwrap();
        self.build_on(session)
    }

    /// Builds the agent on a session.
    pub(crate) fn build_on(self, session: Session) -> Running {
        let provider = Scripted::new(Script::new(self.script.clone())).with_request_recording();
        let provider = Arc::new(provider.with_model_names(self.models.clone()));
        let session = Arc::new(session);
        let stored = Arc::new(Mutex::new(Vec::new()));
        let kept = stored.clone();
        let host = Host::builder()
            .provider(provider.clone(), "test-model")
            .home(self.folder.path().join("home"))
            .workspace(self.workspace())
            .store(self.store())
            .plugins(Arc::new(self.plugins))
            .built_in_tools(CommandConfinementMode::Free)
            .skills(self.skills)
            .subagent_presets(self.presets)
            .policy(Arc::new(self.policy))
            .approver(self.approver.clone())
            .config(self.config)
            .keep_values(move |plugin, key, value| {
                kept.lock().unwrap().push(format!("{plugin}/{key}={value}"));
            });
        let host = self.tools.into_iter().fold(host, HostBuilder::tool);
        let host = self.hooks.into_iter().fold(host, |host, bind| bind(host));
        // The plugins are loaded already, so `build` is ready at the first poll.
        let host = host.build().now_or_never().unwrap().unwrap();
        let agent = host.session().on(session.clone()).unwrap();
        let receiver = agent.events();
        Running {
            folder: self.folder,
            agent,
            provider,
            receiver,
            session,
            approver: self.approver,
            stored,
            events: Vec::new(),
            stream: Vec::new(),
        }
    }
}

/// An agent that is ready to run, and the events and effects that it has had so far.
pub(crate) struct Running {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) agent: rind::Session,
    pub(crate) provider: Arc<Scripted>,
    pub(crate) receiver: UnboundedReceiver<Stamped>,
    pub(crate) session: Arc<Session>,
    pub(crate) approver: Arc<Answers>,
    pub(crate) stored: Arc<Mutex<Vec<String>>>,
    /// Events of the main agent.
    pub(crate) events: Vec<Event>,
    /// Events of all agents, with time and position.
    pub(crate) stream: Vec<Stamped>,
}

impl Running {
    /// Runs one turn that nobody interrupts.
    pub(crate) async fn turn(&mut self, input: &str) -> TurnOutcome {
        let outcome = self.agent.turn(input).await;
        self.drain();
        outcome.unwrap()
    }

    /// Runs one turn and waits for the archival that is due after it.
    pub(crate) async fn archived_turn(&mut self, input: &str) -> TurnOutcome {
        let outcome = self.turn(input).await;
        self.agent.finish_archival().await;
        self.drain();
        outcome
    }

    /// Collects the events since the last call.
    pub(crate) fn drain(&mut self) {
        while let Ok(stamped) = self.receiver.try_recv() {
            self.stream.push(stamped);
        }
        let main = self
            .stream
            .iter()
            .filter(|stamped| stamped.is_from_main_agent());
        self.events = main.map(|stamped| stamped.event.clone()).collect();
    }

    /// Names of the events. Adjacent text deltas are merged, and hooks and events that only mark a
    /// start or an end are left out.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self.events.iter().map(Event::name).collect();
        let structure = [
            "hook",
            "step-end",
            "request-start",
            "request-end",
            "tool-call",
        ];
        names.retain(|name| !structure.contains(name));
        names.dedup_by(|a, b| a == b && *a == "text-delta");
        names
    }

    /// Messages of request `n` as it was sent, one short line each.
    pub(crate) fn request(&self, n: usize) -> Vec<String> {
        let bodies = self.provider.recorded_request_bodies();
        let messages = bodies[n]["messages"].as_array().unwrap().clone();
        messages.iter().map(wire_line).collect()
    }

    /// Messages of the session's conversation, one short line each.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.session.messages().iter().map(line).collect()
    }

    /// Tool results in the events: content, whether it is an error, and who refused the call.
    pub(crate) fn results(&self) -> Vec<(String, bool, Option<String>)> {
        let result = |event: &Event| match event {
            Event::ToolEnd {
                result, refused_by, ..
            } => Some((
                result.content.to_string(),
                result.is_error,
                refused_by.clone(),
            )),
            _ => None,
        };
        self.events.iter().filter_map(result).collect()
    }

    /// Outcomes of hooks as `point plugin outcome`.
    pub(crate) fn traces(&self) -> Vec<String> {
        let trace = |event: &Event| match event {
            Event::Hook { record } => {
                let outcome = serde_json::to_value(record.outcome).unwrap();
                let outcome = outcome.as_str().unwrap().to_owned();
                Some(format!("{} {} {outcome}", record.point, record.plugin))
            }
            _ => None,
        };
        self.events.iter().filter_map(trace).collect()
    }
}

/// Runs one turn and compares the complete list of events. Hooks are left out, and text deltas are
/// merged.
pub(crate) async fn check_turn(
    setup: Setup,
    input: &str,
    expected: &[&str],
) -> (Running, TurnOutcome) {
    let mut running = setup.build();
    let outcome = running.turn(input).await;
    assert_eq!(running.names(), expected);
    check_pairs(&running.session.messages());
    (running, outcome)
}

/// Checks that every call has exactly one result, right after it, and that no result lacks a call.
pub(crate) fn check_pairs(messages: &[Message]) {
    let mut open: Vec<String> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            for result in message.tool_results() {
                let at = open.iter().position(|id| *id == result.call_id);
                open.remove(at.unwrap_or_else(|| panic!("a result without a call: {result:?}")));
            }
            continue;
        }
        assert_eq!(open, Vec::<String>::new(), "calls without a result");
        open.extend(message.tool_calls().map(|call| call.id.clone()));
    }
    assert_eq!(
        open,
        Vec::<String>::new(),
        "calls without a result at the end"
    );
}

pub(crate) fn session_spec(workspace: &Path) -> SessionSpec {
    SessionSpec {
        workspace: workspace.to_owned(),
        provider: "scripted".to_owned(),
        model: "test-model".to_owned(),
    }
}

/// A message in short: `user: hi`, `assistant: text +read_file`, `tool: content`, `tool!: content` for an error.
pub(crate) fn line(message: &Message) -> String {
    let calls: String = message
        .tool_calls()
        .map(|call| format!(" +{}", call.name))
        .collect();
    let results: Vec<String> = message
        .tool_results()
        .map(|r| r.content.to_string())
        .collect();
    let is_error = message.tool_results().any(|result| result.is_error);
    match message.role {
        Role::User => format!("user: {}", message.joined_text()),
        Role::Assistant => format!("assistant: {}{calls}", message.joined_text()),
        Role::Tool => format!(
            "tool{}: {}",
            if is_error { "!" } else { "" },
            results.join("|")
        ),
    }
}

fn wire_line(message: &Value) -> String {
    let text = message["text"].as_str().unwrap_or_default();
    let list = |key: &str| message[key].as_array().cloned().unwrap_or_default();
    let calls: String = list("tool_calls")
        .iter()
        .map(|call| format!(" +{}", call["name"].as_str().unwrap()))
        .collect();
    let results = list("results");
    match message["role"].as_str().unwrap() {
        "tool" => {
            let is_error = results[0]["is_error"] == json!(true);
            let content = results[0]["content"].as_str().unwrap();
            format!("tool{}: {content}", if is_error { "!" } else { "" })
        }
        role => format!("{role}: {text}{calls}"),
    }
}
