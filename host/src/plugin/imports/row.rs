//! Row of the table of imports: the requirement, what the import gives, its limits.

use wasmtime::component::Linker;

use super::super::host::HostState;
use crate::grant::{Capability, ExternalCall, Granted, SideEffect};
use crate::plugin::manifest::Manifest;

/// Adds one interface to a linker.
pub(super) type Link = fn(&mut Linker<HostState>) -> wasmtime::Result<()>;

/// Requirement for importing an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// No requirement.
    Nothing,
    /// The side effect and the capability `session`.
    Session,
    /// The side effect `filesystem`. Every call is judged by the granted folders, so it is linked without any as well.
    Folder,
    /// The side effect `network` and a granted host.
    Host,
    /// A line under `[external]` and the capability of its name.
    Call(ExternalCall),
    /// Names under `[external] tools` and one of these tools.
    Tool,
    /// A line under `[compat]`.
    InertSockets,
}

impl Needs {
    /// Describes what the manifest lacks, after the name of the import.
    pub(in super::super) fn missing(self, manifest: &Manifest) -> Option<String> {
        let effect = match self {
            Self::Nothing | Self::InertSockets => None,
            Self::Session => Some(SideEffect::Session),
            Self::Folder => Some(SideEffect::Filesystem),
            Self::Host => Some(SideEffect::Network),
            Self::Call(_) | Self::Tool => Some(SideEffect::External),
        };
        if let Some(effect) = effect.filter(|effect| !manifest.has(*effect)) {
            let line = format!("side_effects = [\"{effect}\"]");
            return Some(format!("which needs `{line}` in plugin.toml"));
        }
        let external = manifest.external.as_ref();
        let line = match self {
            Self::Call(call) => {
                let is_there = external.is_some_and(|e| e.calls().any(|own| own == call));
                (!is_there).then(|| format!("{} = true", call.name()))
            }
            Self::Tool => {
                let is_there = external.is_some_and(|e| !e.tools.is_empty());
                (!is_there).then(|| "tools = [\"NAME\"]".to_owned())
            }
            Self::InertSockets if manifest.compat.sockets.is_none() => {
                return Some(
                    "which no plugin may have: use `rind:plugin/http` and declare `network`, or write `[compat] sockets = \
                     \"inert\"` if it only imports and never uses them"
                        .to_owned(),
                );
            }
            _ => None,
        };
        line.map(|line| format!("which needs `{line}` under `[external]` in plugin.toml"))
    }

    pub(in super::super) fn is_met_by(self, capability: &Capability) -> bool {
        match (self, capability) {
            (Self::Session, Capability::Session)
            | (Self::Host, Capability::Network(_) | Capability::PrivateNetwork(_))
            | (Self::Tool, Capability::Tool(_)) => true,
            (Self::Call(call), Capability::ExternalCall(own)) => call == *own,
            _ => false,
        }
    }

    /// Returns the reason why it is not linked with this grant, after "but"; `None` when it is.
    pub(in super::super) fn refusal(self, granted: &Granted) -> Option<String> {
        let has = |needs: Self| {
            granted
                .capabilities()
                .iter()
                .any(|own| needs.is_met_by(own))
        };
        match self {
            Self::Nothing | Self::Folder | Self::InertSockets => None,
            _ if has(self) => None,
            Self::Session => Some("`session` was not granted".to_owned()),
            Self::Call(call) => Some(format!("`{}` was not granted", call.name())),
            Self::Tool => Some("no tool was granted".to_owned()),
            Self::Host => Some(
                "no host was granted: list those that it talks to under `[network] hosts` in plugin.toml"
                    .to_owned(),
            ),
        }
    }
}

/// Displays the capability, as docs write it.
impl std::fmt::Display for Needs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Nothing => f.write_str("–"),
            Self::Session => f.write_str("`session`"),
            Self::Folder => f.write_str("`read:…` or `write:…`"),
            Self::Host => f.write_str("`network:…` or `private-network:…`"),
            Self::Call(call) => write!(f, "`{}`", call.name()),
            Self::Tool => f.write_str("`tool:…`"),
            Self::InertSockets => f.write_str("`[compat] sockets = \"inert\"`"),
        }
    }
}

/// An upper bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// A count, with what is counted.
    Count(u32, &'static str),
    /// A size in bytes, with what is measured.
    Bytes(usize, &'static str),
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Count(n, of) if n >= 1000 => write!(f, "{},{:03} {of}", n / 1000, n % 1000),
            Self::Count(n, of) => write!(f, "{n} {of}"),
            Self::Bytes(n, of) if n >= 1 << 20 => write!(f, "{} MiB {of}", n >> 20),
            Self::Bytes(n, of) if n >= 1 << 10 => write!(f, "{} KiB {of}", n >> 10),
            Self::Bytes(n, of) => write!(f, "{n} bytes {of}"),
        }
    }
}

/// A host interface, or a group of them.
#[derive(Clone, Copy, Debug)]
pub struct ImportRow {
    /// Name within `rind:plugin`, or the first part of a name in another package.
    pub name: &'static str,
    /// Requirement for importing it.
    pub needs: Needs,
    /// The access it gives, in a few words.
    pub gives: &'static str,
    /// Limits of the import.
    pub limits: &'static [Limit],
    /// Whether a call waits for what others do: then the plugin's instance is not counted as hanging.
    pub(in super::super) waits: bool,
    /// Links it; `None` where another row's function links this one too.
    pub(super) link: Option<Link>,
}

impl ImportRow {
    /// A row of an interface that needs nothing, without limits.
    pub(super) const fn new(name: &'static str, gives: &'static str, link: Option<Link>) -> Self {
        Self {
            name,
            needs: Needs::Nothing,
            gives,
            limits: &[],
            waits: false,
            link,
        }
    }

    pub(super) const fn needs(self, needs: Needs) -> Self {
        Self { needs, ..self }
    }

    pub(super) const fn limits(self, limits: &'static [Limit]) -> Self {
        Self { limits, ..self }
    }

    pub(super) const fn waits(self) -> Self {
        let waits = true;
        Self { waits, ..self }
    }

    /// Whether it is an interface of the contract.
    #[must_use]
    pub fn is_own(&self) -> bool {
        !self.name.contains(':')
    }
}
