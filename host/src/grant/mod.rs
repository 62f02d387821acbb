//! What a plugin may touch: side effects, requests and trust become grants.
//!
//! Owns the words (side effect, trust, capability) and the decision. It is pure but for the file of remembered answers: it
//! links nothing, opens nothing and asks nobody, and must not know what a plugin is made of. Only what the operator wrote
//! or answered can widen a grant.
//!
//! Start from [`Capability`].

mod capability;
mod granted;
mod host;
mod side_effect;
mod trust;
mod words;

pub use capability::{Access, Capability, Credential, Folder, Root};
pub use granted::Granted;
pub use host::{HostPattern, Scheme};
pub use side_effect::SideEffect;
pub use trust::Trust;
pub use words::{combined, in_words};
