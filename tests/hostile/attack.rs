//! One attack: a hostile program that runs as a plugin, its trigger, and the expected refusal.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rind::grant::Trust;
use rind::message::{EffectClass, ToolCall};
use rind::plugin::load::{FoundPluginSet, PluginSkipReason};
use rind::point::catalog::PreTool;
use rind::point::dispatch::CombinedHookVerdict;
use rind::point::payload::ProposedCall;
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::json;

use crate::programs::Program;

/// Trigger of an attack.
pub(crate) enum Stage {
    /// The plugin is loaded.
    Load,
    /// The plugin's tool `attack` is called.
    Tool,
    /// The plugin's hook on `pre-tool` is called twice.
    Gate,
    /// A function sets up and runs the attack, and returns the refusal.
    Own(fn() -> BoxFuture<'static, String>),
}

/// One attack.
pub(crate) struct Attack {
    /// Description of the attack.
    pub(crate) what: &'static str,
    /// Program to run.
    pub(crate) program: Program,
    /// Lines of the manifest after the name, version, description and component.
    pub(crate) manifest: String,
    /// Trust of the plugin.
    pub(crate) trust: Trust,
    /// Trigger of the attack.
    pub(crate) stage: Stage,
    /// Text that the refusal must contain.
    pub(crate) meets: &'static str,
}

/// Returns an attack by a managed plugin, the highest trust.
pub(crate) fn attack(
    what: &'static str,
    program: Program,
    stage: Stage,
    meets: &'static str,
) -> Attack {
    Attack {
        what,
        program,
        manifest: "side_effects = [\"none\"]\n[limits]\ntimeout = \"300ms\"\n".to_owned(),
        trust: Trust::Managed,
        stage,
        meets,
    }
}

impl Attack {
    /// Replaces the lines of the manifest.
    pub(crate) fn with(self, manifest: &str) -> Self {
        Self {
            manifest: manifest.to_owned(),
            ..self
        }
    }

    /// Replaces the trust of the plugin.
    pub(crate) fn from(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// Runs the attack. Returns the refusal, or a text with `PWNED` if it succeeded.
    pub(crate) async fn carry_out(&self) -> String {
        if let Stage::Own(run) = self.stage {
            return run().await;
        }
        let plugins = load(&self.program, &self.manifest, self.trust).await;
        if let Some(left) = plugins.left_out.first() {
            return match &left.why {
                PluginSkipReason::Failed(error) => error.to_string(),
                other => format!("{other:?}"),
            };
        }
        let session = Session::open(&plugins);
        match self.stage {
            Stage::Load | Stage::Own(_) => "PWNED: it was loaded".to_owned(),
            Stage::Tool => tool(&session, "attack").await,
            Stage::Gate => {
                let first = gate(&session).await;
                format!("{first} | {}", gate(&session).await)
            }
        }
    }
}

/// Loads a program as a plugin called `attacker`.
pub(crate) async fn load(program: &Program, manifest: &str, trust: Trust) -> FoundPluginSet {
    let mut host = Host::default();
    let folder = host.folder().join(trust.to_string());
    put(&folder.join("attacker"), program, manifest);
    host.options
        .sources
        .push(rind::plugin::discover::PluginSearchPath {
            trust,
            path: folder,
        });
    host.load().await
}

/// Loads `raw_tools` with the setting `how`, and registers its tools next to the built-in ones.
/// Returns the first refusal.
pub(crate) async fn raw_tools(how: &str) -> String {
    let mut host = Host::default();
    let folder = host.folder().join("managed");
    put(&folder.join("attacker"), &Program::Guest("raw_tools"), "");
    host.options
        .sources
        .push(rind::plugin::discover::PluginSearchPath {
            trust: Trust::Managed,
            path: folder,
        });
    host.set("attacker", "how", how);
    let plugins = host.load().await;
    match plugins.left_out.first().map(|left| &left.why) {
        Some(PluginSkipReason::Failed(error)) => error.to_string(),
        Some(other) => format!("{other:?}"),
        None => offered(&plugins),
    }
}

/// Registers the tools of plugins next to the built-in ones. Returns the reason of the first
/// refusal.
pub(crate) fn offered(plugins: &FoundPluginSet) -> String {
    let session = Session::open(plugins);
    let folder = tempfile::tempdir().unwrap();
    let workspace =
        Arc::new(rind::tool::workspace::Workspace::open_root_folder(folder.path()).unwrap());
    let mut registry = rind::tool::registry::ToolRegistry::default();
    let builtin = rind::tool::builtin::unconfined_built_in_tools(&workspace);
    let refused = builtin
        .into_iter()
        .chain(session.tools)
        .find_map(|tool| registry.add(tool).err());
    refused.map_or("PWNED: all were taken".to_owned(), |e| e.to_string())
}

/// Writes the attacker's component and manifest into a folder.
pub(crate) fn put(folder: &std::path::Path, program: &Program, manifest: &str) {
    std::fs::create_dir_all(folder).unwrap();
    program.write(&folder.join("attacker.wasm"));
    let config = "\n[config.properties.how]\ntype = \"string\"\n";
    let head = "name = \"attacker\"\nversion = \"0.1.0\"\ndescription = \"Attacks.\"\ncomponent = \"attacker.wasm\"\n";
    std::fs::write(
        folder.join("plugin.toml"),
        format!("{head}{manifest}{config}"),
    )
    .unwrap();
}

/// Calls a tool of the attacker.
pub(crate) async fn tool(session: &Session, name: &str) -> String {
    let name = format!("attacker:{name}");
    session.tool(&name, json!({})).await.content.to_string()
}

/// Dispatches a proposed call to the hooks on `pre-tool`, and returns their verdict as text.
pub(crate) async fn gate(session: &Session) -> String {
    let call = ProposedCall {
        call: ToolCall::new("c", "read_file", json!({"path": "a"})),
        effect_class: EffectClass::Read,
        plugin: None,
        check: Arc::new(|_| Ok(())),
    };
    let done = session
        .dispatcher
        .dispatch::<PreTool>(&session.caller, call)
        .await;
    match done.verdict {
        CombinedHookVerdict::Block(said) => format!("refused by {}: {}", said.plugin, said.text),
        other => format!("{other:?} {}", done.value.call.arguments),
    }
}
