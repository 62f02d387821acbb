//! Tests of plugins that act through a running agent: ask a model, call tools, run subagents. Real components in a real
//! session.

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

/// A host with the guest under each of these names, which do something of their own as `settings` says: plugin, point, what.
/// Only the first has its tool: two of one name would be refused.
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

/// An agent that is let do everything, with the guest as `host` has it.
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

/// The same with the guest as it is.
async fn setup(script: Vec<Reply>) -> Setup {
    setup_of(&host(&["external"], &[]), script).await
}

/// The model calls the guest's tool.
fn act(arguments: Value) -> Reply {
    Reply::call("act", arguments)
}

fn done() -> Reply {
    Reply::text("done")
}

/// The guest asks the model.
fn ask(prompt: &str) -> Value {
    json!({"what": "ask", "text": prompt})
}

/// The guest calls a tool.
fn call(name: &str, arguments: Value) -> Value {
    json!({"what": "call", "text": name, "arguments": arguments})
}

/// The guest reads a file of the workspace.
fn read(path: &str) -> Value {
    call("read_file", json!({"path": path}))
}

/// The guest runs a subagent.
fn run(prompt: &str, tools: &[&str]) -> Value {
    json!({"what": "run", "text": prompt, "tools": tools})
}

/// Runs one turn in which the model calls the guest's tool, and says what came of that.
async fn acted(running: &mut Running) -> String {
    running.turn("go on with the work").await;
    last_result(running)
}

/// The last result that the model was told.
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

/// `target outcome` of every access.
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
    let (entries, notices) = store(running).read(&id).unwrap();
    assert_eq!(notices, Vec::<String>::new());
    entries.into_iter().map(|entry| entry.body).collect()
}

/// Counts the calls of the plugin's hook at the point, in the main agent.
fn n_fired(running: &Running, point: &str, plugin: &str) -> usize {
    let is_it = |line: &&String| line.starts_with(&format!("{point} {plugin} "));
    running.traces().iter().filter(is_it).count()
}
