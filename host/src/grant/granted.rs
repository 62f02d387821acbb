//! Permissions that one plugin was granted.

use super::{Access, Capability, Credential, Folder, HostPattern};

/// The capabilities of one plugin. What is not in it, the plugin cannot do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Granted {
    capabilities: Vec<Capability>,
}

impl Granted {
    /// Exactly these.
    #[must_use]
    pub fn new(mut capabilities: Vec<Capability>) -> Self {
        capabilities.sort();
        capabilities.dedup();
        Self { capabilities }
    }

    /// All of them, in order.
    #[must_use]
    pub fn capabilities(&self) -> &[Capability] {
        &self.capabilities
    }

    /// Whether a capability, or one that covers it, was granted.
    #[must_use]
    pub fn has(&self, wanted: &Capability) -> bool {
        self.capabilities.iter().any(|own| own.covers(wanted))
    }

    /// Folders and what may be done there. A folder that may be written may be read, and stands here once.
    #[must_use]
    pub fn folders(&self) -> Vec<(Access, Folder)> {
        let all = self.capabilities.iter().filter_map(|own| match own {
            Capability::Files(access, folder) => Some((*access, folder.clone())),
            _ => None,
        });
        let mut folders: Vec<(Access, Folder)> = all.collect();
        let writable: Vec<Folder> = folders
            .iter()
            .filter(|(access, _)| *access == Access::Write)
            .map(|(_, folder)| folder.clone())
            .collect();
        folders.retain(|(access, folder)| *access == Access::Write || !writable.contains(folder));
        folders
    }

    /// Hosts at public addresses.
    pub fn hosts(&self) -> impl Iterator<Item = &HostPattern> {
        self.capabilities.iter().filter_map(|own| match own {
            Capability::Network(host) => Some(host),
            _ => None,
        })
    }

    /// Hosts at loopback, private or link-local addresses.
    pub fn private_hosts(&self) -> impl Iterator<Item = &HostPattern> {
        self.capabilities.iter().filter_map(|own| match own {
            Capability::PrivateNetwork(host) => Some(host),
            _ => None,
        })
    }

    /// Whether any host may be talked to.
    #[must_use]
    pub fn has_network(&self) -> bool {
        self.hosts().next().is_some() || self.private_hosts().next().is_some()
    }

    /// Headers that the host adds.
    pub fn credentials(&self) -> impl Iterator<Item = &Credential> {
        self.capabilities.iter().filter_map(|own| match own {
            Capability::Credential(credential) => Some(credential),
            _ => None,
        })
    }

    /// Whether the host makes calls for the plugin, whose answers it may have to wait for.
    #[must_use]
    pub fn has_external_call(&self) -> bool {
        let is_call = |own: &Capability| matches!(own, Capability::ExternalCall(_));
        self.capabilities.iter().any(is_call)
    }

    /// Tools that the plugin may call.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.capabilities.iter().filter_map(|own| match own {
            Capability::Tool(name) => Some(name.as_str()),
            _ => None,
        })
    }
}
