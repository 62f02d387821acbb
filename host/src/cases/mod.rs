//! Cases of plugins: turns with a scripted model, or single hooks, in the real sandbox, and what they are expected to do.
//!
//! Owns the format of case files (`file`, read in `folder`; `event` and `payload` for those that call a hook alone), the run of a
//! case (`run`, with the plugins that it needs, `needed`, and the host of `setup`, in the folders of `workspace` and with the
//! `doubles` of what it must not reach), what it did (`seen`), the comparison (`expect`, `snapshot`), what it never came to
//! (`oversight`), and what it cost beside the last run (`last`). `suite` runs all cases of a plugin.
//!
//! A case runs with all that the plugin asks for; requests are answered from the case after every check of the real way out.
//! Each runs warm (one instance) and cold (a fresh one for each call), two turns each, because the contract lets the host throw
//! an instance away at any moment: a plugin that then acts differently fails.
//!
//! Cases of skills (`skill`) are turns of a host without plugins, with the same files, folders and doubles.
//!
//! Start from [`run::run`].

mod doubles;
pub mod event;
pub mod expect;
pub mod file;
mod folder;
pub mod last;
pub(crate) mod log;
pub(crate) mod needed;
mod oversight;
mod payload;
pub mod run;
pub mod seen;
mod setup;
pub mod skill;
pub mod snapshot;
pub mod suite;
mod workspace;

pub use file::{Case, CaseFile};
pub use run::{CaseOutcome, Cost, Runner, run};
pub use seen::Seen;
pub use suite::Suite;
