//! Cases of plugins: turns with a scripted model in the real sandbox, and what they are expected to do.
//!
//! Owns the format of case files (`file`), the run of a case (`run`), and the comparison (`expect`). A case runs with all
//! that the plugin asks for, in folders of its own; requests are answered from the case after every check of the real way
//! out. Each runs warm (one instance) and cold (a fresh one for each call), two turns each, because the contract lets the host
//! throw an instance away at any moment: a plugin that then acts differently fails.
//!
//! Start from [`run::run`].

pub mod expect;
pub mod file;
pub mod run;

pub use file::{Case, CaseFile};
pub use run::{CaseOutcome, Runner, run};
