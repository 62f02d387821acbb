//! Row of the table of imports: the requirement for importing an interface, the access that it
//! gives, and its limits.

use wasmtime::component::Linker;

use super::super::host::HostState;
use crate::grant::{Capability, ExternalCall, GrantedCapabilities, SideEffect};
use crate::plugin::manifest::Manifest;

/// Function that makes an interface available to components through a linker.
pub(super) type LinkInterfaceFn = fn(&mut Linker<HostState>) -> wasmtime::Result<()>;

/// Requirement that a plugin must meet to import an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceImportRequirement {
    /// Every plugin may import the interface.
    Nothing,
    /// The side effect `session` and the capability `session` are needed.
    Session,
    /// The side effect `filesystem`. Every call checks the granted directories, so the interface is
    /// linked even if no directory is granted.
    Folder,
    /// The side effect `network`, and at least one granted host.
    Host,
    /// An entry under `[external]` and the capability of the same name.
    Call(ExternalCall),
    /// Tool names under `[external] tools`, and the capability for one tool.
    Tool,
    /// The manifest must set `sockets` under `[compat]`.
    InertSockets,
}

impl InterfaceImportRequirement {
    /// Describes the entry that the manifest lacks, in words that follow the name of the import;
    /// `None` if the manifest has it.
    pub(in super::super) fn describe_missing_manifest_entry(
        self,
        manifest: &Manifest,
    ) -> Option<String> {
        let effect = match self {
            Self::Nothing | Self::InertSockets => None,
            Self::Session => Some(SideEffect::Session),
            Self::Folder => Some(SideEffect::Filesystem),
            Self::Host => Some(SideEffect::Network),
            Self::Call(_) | Self::Tool => Some(SideEffect::External),
        };
        if let Some(effect) = effect.filter(|effect| !manifest.has_side_effect(*effect)) {
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

    pub(in super::super) fn is_satisfied_by(self, capability: &Capability) -> bool {
        match (self, capability) {
            (Self::Session, Capability::Session)
            | (Self::Host, Capability::Network(_) | Capability::PrivateNetwork(_))
            | (Self::Tool, Capability::Tool(_)) => true,
            (Self::Call(call), Capability::ExternalCall(own)) => call == *own,
            _ => false,
        }
    }

    /// Returns the reason why the interface is not linked with these grants, phrased to follow
    /// "but"; `None` if it is linked.
    pub(in super::super) fn refusal_reason(self, granted: &GrantedCapabilities) -> Option<String> {
        let has = |needs: Self| {
            granted
                .capabilities()
                .iter()
                .any(|own| needs.is_satisfied_by(own))
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

/// Formats the requirement in the words of the documentation.
impl std::fmt::Display for InterfaceImportRequirement {
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

/// Limit on the use of an interface that a plugin imports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterfaceUsageLimit {
    /// Maximum number of the items that the text names.
    Count(u32, &'static str),
    /// Maximum size, in bytes, of what the text names.
    Bytes(usize, &'static str),
}

impl std::fmt::Display for InterfaceUsageLimit {
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

/// Interface that plugins can import, or several interfaces with a common name prefix.
#[derive(Clone, Copy, Debug)]
pub struct ImportableInterface {
    /// Name of an interface in `rind:plugin`, or a name prefix in another package.
    pub name: &'static str,
    /// Requirement that a plugin must meet to import the interface.
    pub needs: InterfaceImportRequirement,
    /// Short description, for users, of the access that the interface gives.
    pub gives: &'static str,
    /// Limits on the use of the interface.
    pub limits: &'static [InterfaceUsageLimit],
    /// Whether a call of the import may wait for other work. While the call waits, the plugin's
    /// instance is not considered hung.
    pub(in super::super) waits: bool,
    /// Function that links the interface; `None` if the function of another row also links this
    /// interface.
    pub(super) link: Option<LinkInterfaceFn>,
}

impl ImportableInterface {
    /// Creates a row for an interface without requirements and limits.
    pub(super) const fn new(
        name: &'static str,
        gives: &'static str,
        link: Option<LinkInterfaceFn>,
    ) -> Self {
        Self {
            name,
            needs: InterfaceImportRequirement::Nothing,
            gives,
            limits: &[],
            waits: false,
            link,
        }
    }

    pub(super) const fn with_import_requirement(self, needs: InterfaceImportRequirement) -> Self {
        Self { needs, ..self }
    }

    pub(super) const fn with_usage_limits(self, limits: &'static [InterfaceUsageLimit]) -> Self {
        Self { limits, ..self }
    }

    pub(super) const fn with_calls_that_wait(self) -> Self {
        let waits = true;
        Self { waits, ..self }
    }

    /// Whether the interface belongs to the plugin contract `rind:plugin`.
    #[must_use]
    pub fn is_contract_interface(&self) -> bool {
        !self.name.contains(':')
    }
}
