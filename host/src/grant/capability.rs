//! Capabilities of plugins, and their notation in policy, flags and answers.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{ExternalCall, HostPattern};
use crate::text::is_deceptive;

/// A folder that stands outside the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Root {
    /// The folder that the agent works in.
    Workspace,
    /// The plugin's own folder, the same in every session.
    Data,
}

/// Whether a folder may be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Reading only.
    Read,
    /// Reading and writing.
    Write,
}

/// A folder that a plugin asks for: `workspace`, `workspace/docs` or `data`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Folder {
    /// Root of the folder.
    pub root: Root,
    /// Names of the folders below the root that lead there; empty for the root itself.
    pub below: Vec<String>,
}

impl Folder {
    /// Whether `other` is this folder or in it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.root == other.root && other.below.starts_with(&self.below)
    }
}

impl FromStr for Folder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (root, below) = text.split_once('/').unwrap_or((text, ""));
        let root = match root {
            "workspace" => Root::Workspace,
            "data" => Root::Data,
            _ => {
                return Err(format!(
                    "`{}` is not a folder: write `workspace`, `workspace/FOLDER` or `data`",
                    text.escape_debug()
                ));
            }
        };
        let names = below.trim_end_matches('/').split('/');
        let below: Vec<String> = names
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        let is_fine = |name: &String| {
            name != "."
                && name != ".."
                && !name.contains(['\\', ':'])
                && !name.contains(is_deceptive)
                && name.len() <= 255
        };
        if !below.iter().all(is_fine) || text.contains("//") {
            return Err(format!(
                "`{}` is not a folder: names between `/` may not be `.` or `..`, and hold neither `\\` nor `:` nor what \
                 cannot be seen",
                text.escape_debug()
            ));
        }
        if root == Root::Data && !below.is_empty() {
            return Err(format!("`{text}`: `data` is granted as a whole"));
        }
        Ok(Self { root, below })
    }
}

impl std::fmt::Display for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.root {
            Root::Workspace => "workspace",
            Root::Data => "data",
        })?;
        for name in &self.below {
            write!(f, "/{name}")?;
        }
        Ok(())
    }
}

serde_as_text!(Folder);

/// A header that the host adds to requests on their way out; the plugin never sees its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Hosts that get it.
    pub host: HostPattern,
    /// Name of the header, in lower case.
    pub header: String,
    /// Value of the header, with `{NAME}` for secrets that the operator keeps.
    pub value: String,
}

/// One thing that a plugin may be allowed to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Reading the conversation, and changing prompts, messages, tool calls, the model.
    Session,
    /// Reading, or reading and writing, a folder.
    Files(Access, Folder),
    /// Requests to hosts at public addresses.
    Network(HostPattern),
    /// Requests to hosts at loopback, private or link-local addresses.
    PrivateNetwork(HostPattern),
    /// Requests that carry a secret.
    Credential(Credential),
    /// A call that the host makes for the plugin: asking the model, running a subagent.
    ExternalCall(ExternalCall),
    /// Calling a tool that is not the plugin's own.
    Tool(String),
}

impl Capability {
    /// Whether having this is having `other`. Only folders contain one another.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Files(own, folder), Self::Files(access, other)) => {
                own >= access && folder.contains(other)
            }
            _ => self == other,
        }
    }
}

/// Displays it as in `policy.toml`, after `--grant` and in the list of answers.
impl std::fmt::Display for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session => f.write_str("session"),
            Self::Files(Access::Read, folder) => write!(f, "read:{folder}"),
            Self::Files(Access::Write, folder) => write!(f, "write:{folder}"),
            Self::Network(host) => write!(f, "network:{host}"),
            Self::PrivateNetwork(host) => write!(f, "private-network:{host}"),
            Self::Credential(Credential { host, header, .. }) => {
                write!(f, "credential:{header}@{host}")
            }
            Self::ExternalCall(call) => f.write_str(call.name()),
            Self::Tool(name) => write!(f, "tool:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads what [`Display`](std::fmt::Display) writes, but for credentials.
    impl From<&str> for Capability {
        fn from(text: &str) -> Self {
            let (kind, argument) = text.split_once(':').unwrap_or((text, ""));
            match kind {
                "session" => Self::Session,
                "read" => Self::Files(Access::Read, argument.parse().unwrap()),
                "write" => Self::Files(Access::Write, argument.parse().unwrap()),
                "network" => Self::Network(argument.parse().unwrap()),
                "private-network" => Self::PrivateNetwork(argument.parse().unwrap()),
                "tool" => Self::Tool(argument.to_owned()),
                call => Self::ExternalCall(ExternalCall::find(call).unwrap()),
            }
        }
    }
}
