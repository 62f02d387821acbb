//! Tests of plugins that act through a running agent: they ask a model, call tools, and run
//! subagents. Real components in a real session.

mod agents;
mod model;
mod tools;

use rind::event::{Event, Stamped};
use rind::grant::Trust;
use rind::point::trace::AccessRecord;
use rind::provider::scripted::Reply;
use rind::session::{Body, SessionStore};
use rind_tests::guests::Host;
use serde_json::{Value, json};

use crate::harness::{Running, Setup};

/// A host with the guest installed under each of these names. `settings` make a plugin act at a
/// point: plugin, point, action. Only the first plugin's tool is offered, since all tools have the
/// same name.
pub(crate) fn host(names: &[&str], settings: &[(&str, &str, Value)]) -> Host {
    let mut host = Host::default();
    for name in names {
        host.plugin(Trust::Managed, "external", |manifest| {
            manifest.replace("name = \"external\"", &format!("name = \"{name}\""))
        });
    }
    for (plugin, key, act) in settings {
        let act: toml::Value = serde_json::from_value(act.clone()).unwrap();
        host.set(plugin, key, act);
    }
    host
}

/// An agent under a policy that allows everything, with the plugins of `host`.
async fn setup_of(host: &Host, script: Vec<Reply>) -> Setup {
    let mut setup = Setup::new(script);
    setup.plugins = host.load().await;
    assert!(
        setup.plugins.left_out.is_empty(),
        "{:?}",
        setup.plugins.left_out
    );
    setup
}

/// An agent with the guest `external` and no settings.
async fn setup(script: Vec<Reply>) -> Setup {
    setup_of(&host(&["external"], &[]), script).await
}

/// The model's call of the guest's tool.
fn act(arguments: Value) -> Reply {
    Reply::call("act", arguments)
}

fn done() -> Reply {
    Reply::text("done")
}

/// Action: ask the model.
fn ask(prompt: &str) -> Value {
    json!({"what": "ask", "text": prompt})
}

/// Action: call a tool.
fn call(name: &str, arguments: Value) -> Value {
    json!({"what": "call", "text": name, "arguments": arguments})
}

/// Action: read a file of the workspace.
fn read(path: &str) -> Value {
    call("read_file", json!({"path": path}))
}

/// Action: run a subagent.
fn run(prompt: &str, tools: &[&str]) -> Value {
    json!({"what": "run", "text": prompt, "tools": tools})
}

/// Runs one turn in which the model calls the guest's tool, and returns that call's result.
async fn acted(running: &mut Running) -> String {
    running.turn("go on with the work").await;
    last_result(running)
}

/// The last tool result of the conversation.
fn last_result(running: &Running) -> String {
    let messages = running.session.messages();
    let results = messages.iter().flat_map(|m| m.tool_results());
    results.last().unwrap().content.to_string()
}

fn accesses(running: &Running) -> Vec<AccessRecord> {
    let access = |event: &Event| match event {
        Event::Access { record } => Some(record.clone()),
        _ => None,
    };
    running.events.iter().filter_map(access).collect()
}

/// Each access of a plugin as `target outcome`.
fn access_lines(running: &Running) -> Vec<String> {
    let line = |record: AccessRecord| {
        let outcome = serde_json::to_value(record.outcome).unwrap();
        format!("{} {}", record.target, outcome.as_str().unwrap())
    };
    accesses(running).into_iter().map(line).collect()
}

fn store(running: &Running) -> SessionStore {
    SessionStore::new(running.folder.path().join("sessions"))
}

/// The entries of a session; `below` is empty or `/agents/ID`.
fn entries(running: &Running, below: &str) -> Vec<Body> {
    let id = format!("{}{below}", running.session.id());
    let (entries, notices) = store(running).read_entries(&id).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    entries.into_iter().map(|entry| entry.body).collect()
}

/// Counts the calls of the plugin's hook at the point, in the main agent.
fn n_fired(running: &Running, point: &str, plugin: &str) -> usize {
    let is_it = |line: &&String| line.starts_with(&format!("{point} {plugin} "));
    running.traces().iter().filter(is_it).count()
}
