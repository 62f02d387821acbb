//! Defines the set of permissions that were granted to one plugin.

use super::{Capability, Credential, ExternalCall, FolderAccess, GrantableFolder, HostPattern};

/// Capabilities that were granted to one plugin, which may do nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantedCapabilities {
    capabilities: Vec<Capability>,
}

impl GrantedCapabilities {
    /// Creates the set of exactly these capabilities.
    #[must_use]
    pub fn new(mut capabilities: Vec<Capability>) -> Self {
        capabilities.sort();
        capabilities.dedup();
        Self { capabilities }
    }

    /// Returns the granted capabilities, sorted.
    #[must_use]
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    /// Whether a capability was granted, itself or by another capability that includes it.
    #[must_use]
    pub fn has_capability(&self, wanted: &Capability) -> bool {
        self.capabilities.iter().any(|own| own.covers(wanted))
    }

    /// Returns the granted directories with their access. A directory granted for reading and for
    /// writing is listed once, as writable.
    #[must_use]
    pub fn folders(&self) -> Vec<(FolderAccess, GrantableFolder)> {
        let all = self.capabilities.iter().filter_map(|own| match own {
            Capability::Files(access, folder) => Some((*access, folder.clone())),
            _ => None,
        });
        let mut folders: Vec<(FolderAccess, GrantableFolder)> = all.collect();
        let writable: Vec<GrantableFolder> = folders
            .iter()
            .filter(|(access, _)| *access == FolderAccess::Write)
            .map(|(_, folder)| folder.clone())
            .collect();
        folders.retain(|(access, folder)| {
            *access == FolderAccess::Write || !writable.contains(folder)
        });
        folders
    }

    /// Returns the hosts that may be reached at public addresses.
    pub fn public_hosts(&self) -> impl Iterator<Item = &HostPattern> {
        self.capabilities.iter().filter_map(|own| match own {
            Capability::Network(host) => Some(host),
            _ => None,
        })
    }

    /// Returns the hosts that may be reached at loopback, private or link-local addresses.
    pub fn private_hosts(&self) -> impl Iterator<Item = &HostPattern> {
        self.capabilities.iter().filter_map(|own| match own {
            Capability::PrivateNetwork(host) => Some(host),
            _ => None,
        })
    }

    /// Whether the plugin may send requests to at least one host.
    #[must_use]
    pub fn has_network(&self) -> bool {
        self.public_hosts().next().is_some() || self.private_hosts().next().is_some()
    }

    /// Returns the credentials, each a header that the host adds to requests.
    pub fn credentials(&self) -> impl Iterator<Item = &Credential> {
        self.capabilities.iter().filter_map(|own| match own {
            Capability::Credential(credential) => Some(credential),
            _ => None,
        })
    }

    /// Whether the plugin's hooks may ask the model or run subagents, so that a call of a hook may
    /// take as long as an answer of a model. The capability `turns` does not matter, because hooks
    /// cannot run turns.
    #[must_use]
    pub fn may_hooks_call_model_or_subagents(&self) -> bool {
        let is_call = |own: &Capability| {
            matches!(
                own,
                Capability::ExternalCall(ExternalCall::Model | ExternalCall::Agents)
            )
        };
        self.capabilities.iter().any(is_call)
    }

    /// Whether the plugin has no capability other than [`Capability::Session`].
    #[must_use]
    pub fn has_no_capability_besides_session(&self) -> bool {
        self.capabilities
            .iter()
            .all(|own| *own == Capability::Session)
    }

    /// Returns the names of the tools that the plugin may call.
    pub fn callable_tools(&self) -> impl Iterator<Item = &str> {
        self.capabilities.iter().filter_map(|own| match own {
            Capability::Tool(name) => Some(name.as_str()),
            _ => None,
        })
    }
}
