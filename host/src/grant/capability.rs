//! Defines the capabilities of plugins, and their text form in policy, flags and answers.
//!
//! The text form is also shown to the operator. Start from [`Capability`].

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{ExternalCall, HostPattern};
use crate::text::is_deceptive_character;

/// Root of a directory that a plugin can be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RootFolderKind {
    /// Directory in which the agent works.
    Workspace,
    /// Data directory of the plugin, shared by all sessions.
    Data,
}

/// Access to a directory: reading, or reading and writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FolderAccess {
    /// Files may be read but not changed.
    Read,
    /// Files may be read, created, changed and removed.
    Write,
}

/// A directory that a plugin requests: `workspace`, `workspace/docs` or `data`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct GrantableFolder {
    /// Root directory below which the granted directory is.
    pub root: RootFolderKind,
    /// Path components below the root; empty for the root itself.
    pub below: Vec<String>,
}

impl GrantableFolder {
    /// Whether `other` is this directory or a directory inside it.
    #[must_use]
    pub fn contains(&self, other: &Self) -> bool {
        self.root == other.root && other.below.starts_with(&self.below)
    }
}

impl FromStr for GrantableFolder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (root, below) = text.split_once('/').unwrap_or((text, ""));
        let root = match root {
            "workspace" => RootFolderKind::Workspace,
            "data" => RootFolderKind::Data,
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
                && !name.contains(is_deceptive_character)
                && name.len() <= 255
        };
        if !below.iter().all(is_fine) || text.contains("//") {
            return Err(format!(
                "`{}` is not a folder: names between `/` may not be `.` or `..`, and hold neither `\\` nor `:` nor what \
                 cannot be seen",
                text.escape_debug()
            ));
        }
        if root == RootFolderKind::Data && !below.is_empty() {
            return Err(format!(
                "`{text}`: a folder within `data` cannot be granted; write `data`, which is granted as a whole"
            ));
        }
        Ok(Self { root, below })
    }
}

impl std::fmt::Display for GrantableFolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.root {
            RootFolderKind::Workspace => "workspace",
            RootFolderKind::Data => "data",
        })?;
        for name in &self.below {
            write!(f, "/{name}")?;
        }
        Ok(())
    }
}

serde_as_text!(GrantableFolder);

/// A header with a secret that the host adds to requests of a plugin. The plugin never sees the
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    /// Hosts to which the header with the credential is sent.
    pub host: HostPattern,
    /// Name of the header that contains the credential, in lower case.
    pub header: String,
    /// Value of the header, with `{NAME}` instead of the operator's secrets.
    pub value: String,
}

/// A permission of a plugin.
///
/// Capabilities are requested in the manifest, decided by
/// [`decide_grant`](super::decide::decide_grant), and fixed once the plugin is linked. For example,
/// `read:workspace/docs` is the text form of a [`Capability::Files`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Capability {
    /// Read the conversation, and change prompts, messages, tool calls and the model.
    Session,
    /// Reads, or reads and changes, files in a directory.
    Files(FolderAccess, GrantableFolder),
    /// Sends requests to these hosts at public addresses.
    Network(HostPattern),
    /// Send requests to hosts at loopback, private or link-local addresses.
    PrivateNetwork(HostPattern),
    /// Sends requests with a header that contains a secret of the operator.
    Credential(Credential),
    /// Have the host make a call for the plugin, such as asking the model.
    ExternalCall(ExternalCall),
    /// Calls this tool, which is not the plugin's own.
    Tool(String),
}

impl Capability {
    /// Whether a grant of this capability also grants `other`. Apart from equal capabilities, only
    /// directories can include one another.
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

/// Displays the text form, as in `policy.toml`, after `--grant` and in the list of answers.
///
/// For example:
///
/// ```text
/// session
/// read:workspace/docs
/// network:*.example.com:8443
/// private-network:http://127.0.0.1:8080
/// credential:authorization@api.github.com
/// tool:read_file
/// ```
impl std::fmt::Display for Capability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Session => f.write_str("session"),
            Self::Files(FolderAccess::Read, folder) => write!(f, "read:{folder}"),
            Self::Files(FolderAccess::Write, folder) => write!(f, "write:{folder}"),
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

    /// Converts from the output of [`Display`](std::fmt::Display), except for credentials.
    impl From<&str> for Capability {
        fn from(text: &str) -> Self {
            let (kind, argument) = text.split_once(':').unwrap_or((text, ""));
            match kind {
                "session" => Self::Session,
                "read" => Self::Files(FolderAccess::Read, argument.parse().unwrap()),
                "write" => Self::Files(FolderAccess::Write, argument.parse().unwrap()),
                "network" => Self::Network(argument.parse().unwrap()),
                "private-network" => Self::PrivateNetwork(argument.parse().unwrap()),
                "tool" => Self::Tool(argument.to_owned()),
                call => Self::ExternalCall(ExternalCall::find_by_name(call).unwrap()),
            }
        }
    }
}
