//! The sections of a manifest, each a table of its own.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::units::{bytes, duration};
use crate::grant::{Credential, ExternalCall, Folder, HostPattern, for_each_external_call};
use crate::point::dispatch::PointKind;
use crate::point::failure::OnFailure;

/// Options of one hook, or of one implementation of a plugin-defined point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookOptions {
    /// Lower runs first; 100 when absent.
    pub priority: Option<u16>,
    /// Action when the hook fails; `block` for gates and `skip` for the rest when absent.
    pub on_failure: Option<OnFailure>,
    /// Whether the turn goes on without waiting; observe points only.
    #[serde(default, rename = "async")]
    pub is_async: bool,
    /// Deadline of one call; at most the host's 5 s, 15 s for `async`, 60 s for a plugin that was granted `model` or `agents`.
    #[serde(default, with = "duration")]
    pub timeout: Option<Duration>,
    /// The rights of its point that it keeps; all when absent. An outcome that does more is the hook's failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may: Option<Vec<String>>,
}

/// `[filesystem]`: folders that the plugin asks for, `workspace[/sub]` or `data`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// Folders to read.
    #[serde(default)]
    pub read: Vec<Folder>,
    /// Folders to read and write.
    #[serde(default)]
    pub write: Vec<Folder>,
}

/// `[network]`: hosts that the plugin asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Hosts at public addresses: `*.` in front for all names below one, `http://` for no TLS, `:port` for another port,
    /// `*` for any host.
    #[serde(default)]
    pub hosts: Vec<HostPattern>,
    /// Hosts at loopback, private or link-local addresses.
    #[serde(default)]
    pub private: Vec<HostPattern>,
    /// Headers that the host adds.
    #[serde(default)]
    pub credentials: Vec<Credential>,
}

macro_rules! external {
    ($($(#[$doc:meta])* $call:ident, $key:ident, $words:literal;)*) => {
        /// `[external]`: calls of the host that the plugin asks for.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct External {
            // What is not asked for is not written: a further call must not change the digests of other manifests.
            $($(#[$doc])*
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub $key: bool,)*
            /// Calling these tools.
            #[serde(default)]
            pub tools: Vec<String>,
        }

        impl External {
            /// Calls that are asked for.
            pub fn calls(&self) -> impl Iterator<Item = ExternalCall> {
                let keys = [$((self.$key, ExternalCall::$call)),*];
                keys.into_iter().filter_map(|(is_asked, call)| is_asked.then_some(call))
            }
        }
    };
}
for_each_external_call!(external);

/// `[limits]`: lower bounds than the host's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Linear memory over all memories of an instance, as `"64MiB"`.
    #[serde(default, with = "bytes")]
    pub memory: Option<u64>,
    /// Deadline of one call, as `"5s"` or `"500ms"`.
    #[serde(default, with = "duration")]
    pub timeout: Option<Duration>,
    /// Bytes of all files in the plugin's `data` folder, as `"64MiB"`, which it is when absent; at most 1 GiB.
    #[serde(default, with = "bytes")]
    pub data: Option<u64>,
    /// Files and folders in the plugin's `data` folder; 10,000 when absent, at most 100,000.
    pub files: Option<u64>,
    /// HTTP requests in one session.
    pub requests: Option<u32>,
}

/// `[points.NAME]`: a point that the plugin defines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PointDeclaration {
    /// Kind of the point.
    pub kind: PointKind,
    /// Purpose of the point.
    #[serde(default)]
    pub description: String,
    /// Names of the plugins that may call it besides its owner; none when absent. A name says nothing of where a plugin is from,
    /// and what a caller passes is shown to every implementer.
    #[serde(default)]
    pub callers: Vec<String>,
    /// JSON Schema of what implementers are shown, an object; anything when absent.
    #[serde(default)]
    pub payload: Option<Value>,
    /// JSON Schema of what they answer, an object; anything when absent.
    #[serde(default)]
    pub result: Option<Value>,
}

/// `[compat]`: concessions to guests that import more than they use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compat {
    /// `"inert"` links `wasi:sockets` to a context that denies everything.
    pub sockets: Option<InertSockets>,
}

/// The only value of `[compat] sockets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InertSockets {
    /// Linked, and denied at every call.
    Inert,
}
