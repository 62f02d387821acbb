//! Decides on permissions of plugins: turns declared side effects, requests and trust into grants.
//!
//! This module defines side effects, trust and capabilities, the operator's policy, the stored
//! answers, and the decision. The decision is a pure function. The module neither links components,
//! opens files of plugins nor implements questions, and it does not depend on how a plugin is
//! implemented. Only text that the operator wrote, typed or answered can widen a grant.
//!
//! Start from [`decide::decide_grant`].

/// Makes serde read and write a type as its text form.
macro_rules! serde_as_text {
    ($type:ty) => {
        impl TryFrom<String> for $type {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }
    };
}

pub mod answers;
pub mod ask;
mod capability;
#[doc(hidden)]
pub mod decide;
mod external_call;
mod granted;
#[doc(hidden)]
pub mod held;
mod host;
#[doc(hidden)]
pub mod pattern;
pub mod policy;
#[doc(hidden)]
pub mod project;
mod request;
mod side_effect;
#[doc(hidden)]
pub mod table;
mod trust;
mod words;

pub use capability::{Capability, Credential, FolderAccess, GrantableFolder, RootFolderKind};
pub use external_call::ExternalCall;
pub(crate) use external_call::for_each_external_call;
pub use granted::GrantedCapabilities;
pub use host::{HostPattern, UrlScheme};
pub use request::{GrantRequest, GrantRequestHash, OfferedTool};
pub use side_effect::SideEffect;
pub use trust::Trust;
pub use words::{describe_capability, describe_combined_risk};
