//! A session in memory that plugins reach through their handle, and that records their actions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

use futures_util::future::BoxFuture;
use rind::message::{Message, Parts};
use rind::plugin::load::FoundPluginSet;
use rind::plugin::open::SessionPlugins;
use rind::plugin::startable::StartablePluginSet;
use rind::point::caller::{Caller, PluginCallContext};
use rind::point::defined::PluginDefinedPoints;
use rind::point::dispatch::HookDispatcher;
use rind::point::handle::{
    AgentHandle, HostFunctionError, PluginDefinedPointResult, PluginModelReply, PluginModelRequest,
    PluginStateWriteMode, SubagentTask,
};
use rind::point::outcome::{Effect, Level};
use rind::point::trace::{AccessRecord, DispatchReportSink, TraceRecord};
use rind::tool::{SharedTool, ToolCtx, ToolOutput};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

/// Recorded actions of plugins in a session, and the data that plugins may read.
#[derive(Default)]
pub struct Memory {
    /// Log lines: plugin, level and text.
    pub log: Mutex<Vec<(String, Level, String)>>,
    /// Effects, each with the plugin's name.
    pub effects: Mutex<Vec<(String, Effect)>>,
    /// State by plugin and key.
    pub state: Mutex<BTreeMap<(String, String), String>>,
    /// Trace records.
    pub traces: Mutex<Vec<TraceRecord>>,
    /// Accesses of plugins outside of their sandbox.
    pub accesses: Mutex<Vec<AccessRecord>>,
    /// Bytes of blobs by their id.
    pub blobs: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Messages that plugins may read.
    pub messages: Mutex<Vec<Message>>,
    /// Appended entries: plugin, name, value.
    pub appended: Mutex<Vec<(String, String, Value)>>,
    /// The reference is weak, because the dispatcher owns the hooks, which own this handle.
    points: OnceLock<(Weak<HookDispatcher>, PluginDefinedPoints)>,
}

impl AgentHandle for Memory {
    fn write_log_line(&self, plugin: &str, level: Level, text: &str) {
        self.log
            .lock()
            .unwrap()
            .push((plugin.to_owned(), level, text.to_owned()));
    }

    fn apply_effect(&self, plugin: &str, effect: Effect) {
        self.effects
            .lock()
            .unwrap()
            .push((plugin.to_owned(), effect));
    }

    fn record_access(&self, record: AccessRecord) {
        self.accesses.lock().unwrap().push(record);
    }

    fn state_get(&self, plugin: &str, key: &str) -> Option<String> {
        self.state
            .lock()
            .unwrap()
            .get(&(plugin.to_owned(), key.to_owned()))
            .cloned()
    }

    fn set_plugin_state_value(
        &self,
        plugin: &str,
        key: &str,
        value: Option<&str>,
        _: PluginStateWriteMode,
    ) -> Result<(), HostFunctionError> {
        let mut state = self.state.lock().unwrap();
        let key = (plugin.to_owned(), key.to_owned());
        match value {
            Some(value) => state.insert(key, value.to_owned()),
            None => state.remove(&key),
        };
        let total: usize = state.values().map(String::len).sum();
        if total > 64 << 20 {
            Err(HostFunctionError::Limit("the state is full".to_owned()))
        } else {
            Ok(())
        }
    }

    fn state_keys(&self, plugin: &str, prefix: &str) -> Vec<String> {
        let state = self.state.lock().unwrap();
        state
            .keys()
            .filter(|(p, key)| p == plugin && key.starts_with(prefix))
            .map(|(_, key)| key.clone())
            .collect()
    }

    fn inspect_last_messages(&self, _: &Caller, last: usize, view: &mut dyn FnMut(&[Message])) {
        let messages = self.messages.lock().unwrap();
        view(&messages[messages.len().saturating_sub(last)..]);
    }

    fn read_blob<'a>(&'a self, id: &'a str) -> BoxFuture<'a, Result<Vec<u8>, HostFunctionError>> {
        let bytes = self.blobs.lock().unwrap().get(id).cloned();
        let bytes =
            bytes.ok_or_else(|| HostFunctionError::NotFound("its bytes are missing".to_owned()));
        Box::pin(async { bytes })
    }

    fn append_custom_entry(
        &self,
        plugin: &str,
        name: &str,
        value: Value,
    ) -> Result<(), HostFunctionError> {
        self.appended
            .lock()
            .unwrap()
            .push((plugin.to_owned(), name.to_owned(), value));
        Ok(())
    }

    fn call_plugin_defined_point<'a>(
        &'a self,
        plugin: &'a str,
        name: &'a str,
        payload: Value,
        caller: Caller,
    ) -> BoxFuture<'a, Result<PluginDefinedPointResult, HostFunctionError>> {
        Box::pin(async move {
            let (dispatcher, points) = self.points.get().unwrap();
            let dispatcher = dispatcher.upgrade().unwrap();
            points
                .call_point(&dispatcher, plugin, name, payload, &caller)
                .await
        })
    }

    fn ask_model<'a>(
        &'a self,
        _: &'a Arc<str>,
        _: PluginModelRequest,
        _: Caller,
    ) -> BoxFuture<'a, Result<PluginModelReply, HostFunctionError>> {
        no_agent()
    }

    fn run_agent<'a>(
        &'a self,
        _: &'a Arc<str>,
        _: SubagentTask,
        _: Caller,
    ) -> BoxFuture<'a, Result<String, HostFunctionError>> {
        no_agent()
    }

    fn call_tool<'a>(
        &'a self,
        _: &'a Arc<str>,
        _: String,
        _: Value,
        _: Caller,
    ) -> BoxFuture<'a, Result<Parts, HostFunctionError>> {
        no_agent()
    }
}

fn no_agent<T: Send + 'static>() -> BoxFuture<'static, Result<T, HostFunctionError>> {
    Box::pin(async {
        Err(HostFunctionError::Failed(
            "there is no agent here".to_owned(),
        ))
    })
}

impl DispatchReportSink for Memory {
    fn record_hook_trace(&self, record: TraceRecord) {
        self.traces.lock().unwrap().push(record);
    }

    fn handle_hook_effect(&self, plugin: &Arc<str>, effect: Effect) {
        AgentHandle::apply_effect(self, plugin, effect);
    }
}

/// Loaded plugins in a session.
pub struct Session {
    /// Actions of the plugins.
    pub memory: Arc<Memory>,
    /// Dispatcher of the plugins' hooks.
    pub dispatcher: Arc<HookDispatcher>,
    /// Tools of the plugins.
    pub tools: Vec<SharedTool>,
    /// Caller for hooks: session `s`, turn 1, step 2, agent `main`.
    pub caller: Caller,
}

impl Session {
    /// Opens a session with all loaded plugins.
    #[must_use]
    pub fn open(plugins: &FoundPluginSet) -> Self {
        let memory = Arc::new(Memory::default());
        let handle: Arc<dyn AgentHandle> = memory.clone();
        let SessionPlugins {
            registry,
            tools,
            points,
            ..
        } = StartablePluginSet::try_from_plugin_set(plugins)
            .unwrap()
            .open_plugins(&handle)
            .unwrap();
        let dispatcher = Arc::new(HookDispatcher::new(Arc::new(registry), memory.clone()));
        assert!(
            memory
                .points
                .set((Arc::downgrade(&dispatcher), points))
                .is_ok()
        );
        let context = PluginCallContext {
            session: "s".into(),
            turn: 1,
            step: 2,
            agent: "main".into(),
            ..PluginCallContext::default()
        };
        Self {
            memory,
            dispatcher,
            tools,
            caller: Caller::new(context),
        }
    }

    /// Runs a plugin's tool without checks, policy or deadline. `name` is the tool's, or `plugin:tool`.
    pub async fn tool(&self, name: &str, arguments: Value) -> ToolOutput {
        let is_it = |tool: &&SharedTool| {
            let spec = tool.spec();
            spec.name == name
                || format!(
                    "{}:{}",
                    spec.plugin.as_deref().unwrap_or_default(),
                    spec.name
                ) == name
        };
        let tool = self
            .tools
            .iter()
            .find(is_it)
            .unwrap_or_else(|| panic!("no tool `{name}`"));
        let ctx = ToolCtx::new(self.caller.clone(), CancellationToken::new());
        tool.run(arguments, &ctx).await
    }

    /// Returns the value that a plugin keeps in the session under a key.
    #[must_use]
    pub fn state(&self, plugin: &str, key: &str) -> String {
        self.memory
            .state_get(plugin, key)
            .unwrap_or_else(|| format!("{plugin} keeps no `{key}`"))
    }
}
