//! Runs test cases of plugins: turns with a scripted model, or single hooks, in the real sandbox.
//! Compares the observed behavior with the expected one.
//!
//! `file` is the format of case files with their `steps`, checked by `words` and read by `read`
//! through `folder`; `event` and `payload` are for cases that call a hook directly. `run` runs a
//! case, with the required plugins (`needed`), the host (`setup`), its directories (`workspace`)
//! and test doubles (`doubles`). `seen` is the observed behavior, compared by `expect` and
//! `snapshot`; `oversight` finds mistakes in the case itself; `last` stores costs for the next run.
//! `suite` runs the cases of a plugin that `select` selects, and `coverage` counts what they
//! reached.
//!
//! A case runs with all permissions that the plugin requests; requests pass every check of the real
//! egress and are then answered from the case. Each case runs warm (one instance) and cold (a fresh
//! instance per call), two turns each, because the host may discard an instance at any moment. A
//! case fails if the plugin behaves differently in the two runs.
//!
//! Cases of skills (`skill`) are turns of a host without plugins, with the same files, directories
//! and doubles.
//!
//! Start from [`run::run_case`].

mod coverage;
mod doubles;
mod error;
pub mod event;
pub mod expect;
pub mod file;
mod folder;
mod ids;
pub mod last;
#[doc(hidden)]
pub mod log;
#[doc(hidden)]
pub mod needed;
mod oversight;
mod payload;
mod read;
pub mod run;
pub mod seen;
mod select;
mod setup;
pub mod skill;
pub mod snapshot;
pub mod steps;
pub mod suite;
mod words;
mod workspace;

pub use file::{CaseFile, PluginCase};
pub use run::{CaseCost, CaseOutcome, CaseRunner, run_case};
pub use seen::ObservedTurn;
pub use suite::CaseSuite;
