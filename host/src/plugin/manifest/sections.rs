//! Sections of a manifest, one type per table.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::units::{bytes, duration};
use crate::grant::{
    Credential, ExternalCall, GrantableFolder, HostPattern, for_each_external_call,
};
use crate::point::dispatch::ExtensionPointKind;
use crate::point::failure::OnFailure;

/// Options of one hook, or of one implementation of a plugin-defined point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HookOptions {
    /// Priority of the hook: lower runs first; 100 if absent.
    pub priority: Option<u16>,
    /// Action when the hook fails. If absent: `block` for gates and for `output-delta`, `skip` for
    /// the rest.
    pub on_failure: Option<OnFailure>,
    /// Whether the turn continues without waiting for the hook; observe points only.
    #[serde(default, rename = "async")]
    pub is_async: bool,
    /// Deadline of one call. The maximum is 5 s, 15 s for `async`, and 60 s for a plugin that was
    /// granted `model` or `agents`.
    #[serde(default, with = "duration")]
    pub timeout: Option<Duration>,
    /// Rights that the hook keeps, out of the rights that its point offers; all if absent. An
    /// outcome that uses any other right counts as a failure of the hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may: Option<Vec<String>>,
    /// Names of plugin settings. The hook is not called if each of these settings is absent,
    /// `false`, 0 or empty, because the hook would have nothing to do. Without this list, the hook
    /// is always called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_with: Option<Vec<String>>,
    /// Names of plugin settings that are lists of tool names; `pre-tool` and `post-tool` only. The
    /// hook is called only for calls of these tools. Without this list, the hook is called for all
    /// calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_tools: Option<Vec<String>>,
    /// Whether the hook is called only for answers that call no tool; `post-reason` only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_final: bool,
    /// Name of a plugin setting that is a number of bytes; `post-tool` only. The hook is called
    /// only for results whose text is longer. If the name or the setting is absent, the hook is
    /// called for all results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_over: Option<String>,
}

/// `[filesystem]`: requested directories, each `workspace[/sub]` or `data`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filesystem {
    /// Folders that the plugin requests to read.
    #[serde(default)]
    pub read: Vec<GrantableFolder>,
    /// Folders that the plugin requests to read and write.
    #[serde(default)]
    pub write: Vec<GrantableFolder>,
}

/// `[network]`: hosts to which the plugin requests connections.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Hosts at public addresses. `*.` in front matches all subdomains, `http://` disables TLS,
    /// `:port` selects another port, and `*` matches any host.
    #[serde(default)]
    pub hosts: Vec<HostPattern>,
    /// Hosts at loopback, private or link-local addresses, written as in `hosts`.
    #[serde(default)]
    pub private: Vec<HostPattern>,
    /// Headers that the host adds to requests, such as one that carries an API key.
    #[serde(default)]
    pub credentials: Vec<Credential>,
}

macro_rules! external {
    ($($(#[$doc:meta])* $call:ident, $key:ident, $words:literal;)*) => {
        /// `[external]`: functions of the host that the plugin requests to call.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct External {
            // Calls that are not requested are not serialized: a call that a later version adds
            // must not change the digests of existing manifests.
            $($(#[$doc])*
            #[serde(default, skip_serializing_if = "std::ops::Not::not")]
            pub $key: bool,)*
            /// Names of the tools that the plugin requests to call.
            #[serde(default)]
            pub tools: Vec<String>,
        }

        impl External {
            /// Returns the functions of the host that the plugin requests to call, except the
            /// function that calls tools.
            pub fn calls(&self) -> impl Iterator<Item = ExternalCall> {
                let keys = [$((self.$key, ExternalCall::$call)),*];
                keys.into_iter().filter_map(|(is_asked, call)| is_asked.then_some(call))
            }
        }
    };
}
for_each_external_call!(external);

/// `[limits]`: limits of one plugin. The host limits each value to a maximum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Maximum linear memory of an instance, over all its memories, such as `"64MiB"`.
    #[serde(default, with = "bytes")]
    pub memory: Option<u64>,
    /// Deadline of one call of the plugin, such as `"5s"` or `"500ms"`.
    #[serde(default, with = "duration")]
    pub timeout: Option<Duration>,
    /// Maximum total size of the files in the plugin's `data` directory, such as `"64MiB"`.
    /// Default: 64 MiB; at most 1 GiB.
    #[serde(default, with = "bytes")]
    pub data: Option<u64>,
    /// Maximum number of files and directories in the plugin's `data` directory. Default: 10,000;
    /// at most 100,000.
    pub files: Option<u64>,
    /// Maximum number of HTTP requests that the plugin may send in one session.
    pub requests: Option<u32>,
}

/// `[points.NAME]`: a point that the plugin defines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtensionPointDeclaration {
    /// Kind of the point: gate, mutate, collect or observe.
    pub kind: ExtensionPointKind,
    /// Purpose of the point, in words. Default: empty.
    #[serde(default)]
    pub description: String,
    /// Names of the plugins that may call the point, in addition to its owner. Default: none.
    /// Another plugin could use a listed name, and every implementer sees the payload that a caller
    /// passes.
    #[serde(default)]
    pub callers: Vec<String>,
    /// JSON Schema, as an object, of the payload that callers pass. Default: any value.
    #[serde(default)]
    pub payload: Option<Value>,
    /// JSON Schema, as an object, of the answers of implementers. Default: any value.
    #[serde(default)]
    pub result: Option<Value>,
}

/// `[tools.NAME]`: options of a tool that the component lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolOptions {
    /// Whether a second run with the same arguments has no further effect. If so, a call that was
    /// interrupted runs again when its turn continues.
    #[serde(default)]
    pub idempotent: bool,
    /// Name of another tool of the plugin, which takes the same arguments and answers `done` or
    /// `absent`. An interrupted call runs again only if the answer is `absent`.
    #[serde(default)]
    pub check: Option<String>,
}

/// `[compat]`: exceptions for components that import interfaces which they never use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Compat {
    /// `"inert"` links `wasi:sockets` to a context that denies everything.
    pub sockets: Option<SocketCompatMode>,
}

/// Value of `[compat] sockets`; `inert` is the only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SocketCompatMode {
    /// Sockets are linked, and every call is denied.
    Inert,
}
