//! Table of grants: the ruling for each trust and capability, without a policy.

use serde::Serialize;

use super::{Access, Capability, Root, Trust};

/// Ruling on a capability, before the operator is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ruling {
    /// Never granted.
    Deny,
    Ask,
    Allow,
}

display_as_in_json!(Ruling);

/// Returns the ruling of the table. More trust never allows less; a test checks that.
#[must_use]
pub fn ceiling(trust: Trust, capability: &Capability) -> Ruling {
    let allowed_to = |least: Trust| {
        if trust <= least {
            Ruling::Allow
        } else {
            Ruling::Ask
        }
    };
    match capability {
        Capability::Files(_, folder) if folder.root == Root::Data => Ruling::Allow,
        Capability::Files(Access::Read, _) | Capability::Session => allowed_to(Trust::User),
        Capability::Network(_) => allowed_to(Trust::Package),
        Capability::PrivateNetwork(_) => Ruling::Ask,
        Capability::Files(Access::Write, _)
        | Capability::Credential(_)
        | Capability::ExternalCall(_)
        | Capability::Tool(_) => allowed_to(Trust::Managed),
    }
}
