//! Request of a plugin for permissions, and the pin that ties an answer to exactly this request.

use serde::Serialize;
use serde_json::{Value, json};

use super::{Capability, SideEffect, Trust};

/// A tool that a plugin offers, as far as its words reach the model and the person who is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfferedTool {
    /// Name of the tool.
    pub name: String,
    /// Description of the tool.
    pub description: String,
    /// JSON Schema as text.
    pub parameters: String,
}

/// Request of a plugin: all its inputs to a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Name of the plugin.
    pub plugin: String,
    /// Version of the plugin, for people.
    pub version: String,
    /// Description of the plugin, in its own words.
    pub description: String,
    /// Trust of the plugin, or less when its manifest says so.
    pub trust: Trust,
    /// The folder it came from, for plugins whose name is not verified (project, local). Otherwise empty.
    pub source: String,
    /// Digest of its component; empty without one.
    pub digest: String,
    /// Manifest as JSON. Hooks, limits and defaults of its settings decide what the same bytes do.
    pub manifest: String,
    /// Side effects that it declares.
    pub side_effects: Vec<SideEffect>,
    /// Capabilities that it asks for.
    pub capabilities: Vec<Capability>,
    /// Tools of the plugin.
    pub tools: Vec<OfferedTool>,
    /// Whether its hooks are shown parts of the conversation.
    pub has_hooks: bool,
}

/// Pin that an answer is valid for: other bytes, another manifest or another tool description make another pin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pin(String);

impl Pin {
    /// 64 hex digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Request {
    /// The pin of this request.
    #[must_use]
    pub fn pin(&self) -> Pin {
        let capabilities: Vec<Value> = self.capabilities.iter().map(whole).collect();
        // As JSON, so that no two requests run together into the same bytes.
        let json = json!([
            "rind grant 1",
            self.plugin,
            self.trust,
            self.source,
            self.digest,
            self.manifest,
            self.side_effects,
            capabilities,
            self.tools,
        ]);
        Pin(blake3::hash(json.to_string().as_bytes())
            .to_hex()
            .to_string())
    }
}

impl Request {
    /// Digest of everything that decides what the plugin does, wherever it stands: component, manifest, words of its tools.
    /// This is what `policy.toml` names it by.
    #[must_use]
    pub fn content(&self) -> String {
        let json = json!([self.digest, self.manifest, self.tools]);
        format!(
            "blake3:{}",
            blake3::hash(json.to_string().as_bytes()).to_hex()
        )
    }
}

/// A capability with all that belongs to it: its text leaves the value of a credential out.
fn whole(capability: &Capability) -> Value {
    match capability {
        Capability::Credential(credential) => {
            json!([capability.to_string(), credential.value])
        }
        _ => Value::from(capability.to_string()),
    }
}
