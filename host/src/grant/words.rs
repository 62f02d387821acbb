//! Capabilities in plain words.

use super::{Access, Capability};

/// What a plugin with this capability may do, as the end of "it may …".
#[must_use]
pub fn in_words(capability: &Capability) -> String {
    match capability {
        Capability::Session => {
            "read the conversation and change prompts, messages, tool calls and the model"
                .to_owned()
        }
        Capability::Files(Access::Read, folder) => format!("read files in {folder}"),
        Capability::Files(Access::Write, folder) => format!("read and write files in {folder}"),
        Capability::Network(host) => format!("talk to {host}"),
        Capability::PrivateNetwork(host) => format!("talk to {host} inside your own network"),
        Capability::Credential(credential) => {
            format!("send a secret to {}, without seeing it", credential.host)
        }
        Capability::Model => "ask the model, which costs tokens".to_owned(),
        Capability::Agents => "run subagents".to_owned(),
        Capability::Tool(name) => format!("call the tool {name}"),
    }
}
