//! Defines the default table: the ruling for each trust and capability, without a policy.

use serde::Serialize;

use super::{Capability, FolderAccess, RootFolderKind, Trust};

/// Ruling on a capability that depends only on the plugin's trust.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapabilityRuling {
    /// The capability is never granted, even if the operator approves it.
    Deny,
    Ask,
    Allow,
}

display_as_in_json!(CapabilityRuling);

/// Returns the ruling that applies to a plugin of this trust if no policy mentions the capability.
/// A higher trust never has a stricter ruling; a test checks that.
#[must_use]
pub fn default_capability_ruling(trust: Trust, capability: &Capability) -> CapabilityRuling {
    let allowed_to = |least: Trust| {
        if trust <= least {
            CapabilityRuling::Allow
        } else {
            CapabilityRuling::Ask
        }
    };
    match capability {
        Capability::Files(_, folder) if folder.root == RootFolderKind::Data => {
            CapabilityRuling::Allow
        }
        Capability::Files(FolderAccess::Read, _) | Capability::Session => allowed_to(Trust::User),
        Capability::Network(_) => allowed_to(Trust::Package),
        Capability::PrivateNetwork(_) => CapabilityRuling::Ask,
        Capability::Files(FolderAccess::Write, _)
        | Capability::Credential(_)
        | Capability::ExternalCall(_)
        | Capability::Tool(_) => allowed_to(Trust::Managed),
    }
}
