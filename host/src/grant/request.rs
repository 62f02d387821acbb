//! Defines the request of a plugin for permissions, and the pin that ties an answer to exactly this
//! request.
//!
//! The pin covers everything that could change the plugin's behavior or the question. Start from
//! [`GrantRequest`].

use serde::Serialize;
use serde_json::{Value, json};

use super::{Capability, SideEffect, Trust};

/// A tool that a plugin offers, with the texts that the model and the user see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OfferedTool {
    /// Name of the tool that the plugin offers.
    pub name: String,
    /// Description of the tool, which the model reads.
    pub description: String,
    /// JSON Schema of the tool's parameters, as text.
    pub parameters: String,
}

/// Request of a plugin for permissions, with all plugin-specific inputs of the decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRequest {
    /// Name of the plugin that requests permissions.
    pub plugin: String,
    /// Version of the plugin, for display.
    pub version: String,
    /// Description of the plugin, written by its author.
    pub description: String,
    /// Trust of the plugin, possibly lowered by its manifest.
    pub trust: Trust,
    /// Directory of the plugin if its name is not verified (project, local); otherwise empty.
    pub source: String,
    /// Digest of the plugin's component; empty if the plugin has none.
    pub digest: String,
    /// Manifest as JSON. Its hooks, limits and default settings can change the plugin's behavior
    /// even if the component stays the same.
    pub manifest: String,
    /// Side effects that the plugin's manifest declares.
    pub side_effects: Vec<SideEffect>,
    /// Capabilities that the plugin requests.
    pub capabilities: Vec<Capability>,
    /// Tools that the plugin offers to the model.
    pub tools: Vec<OfferedTool>,
    /// Whether the plugin's hooks see parts of the conversation.
    pub has_hooks: bool,
}

/// Hash that ties an answer to a request. Other bytes, another manifest or another tool description
/// produce another pin.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GrantRequestHash(String);

impl GrantRequestHash {
    /// Returns the hash of the request as 64 hexadecimal digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl GrantRequest {
    /// Computes the hash that ties the operator's answers to exactly this request.
    #[must_use]
    pub fn compute_pin_hash(&self) -> GrantRequestHash {
        let capabilities: Vec<Value> = self.capabilities.iter().map(full_capability_json).collect();
        // Hash the JSON form, so that two different requests never produce the same bytes.
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
        GrantRequestHash(
            blake3::hash(json.to_string().as_bytes())
                .to_hex()
                .to_string(),
        )
    }
}

impl GrantRequest {
    /// Computes the digest of everything that decides the plugin's behavior: component, manifest
    /// and tool descriptions, but not its location. `policy.toml` identifies a plugin by this
    /// digest.
    #[must_use]
    pub fn compute_content_digest(&self) -> String {
        let json = json!([self.digest, self.manifest, self.tools]);
        format!(
            "blake3:{}",
            blake3::hash(json.to_string().as_bytes()).to_hex()
        )
    }
}

/// Returns the complete form of a capability as JSON. Unlike the text form, it contains the value
/// of a credential.
fn full_capability_json(capability: &Capability) -> Value {
    match capability {
        Capability::Credential(credential) => {
            json!([capability.to_string(), credential.value])
        }
        _ => Value::from(capability.to_string()),
    }
}
