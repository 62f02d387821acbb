//! Cases that broke once; `tests/regressions` lists them with their outcome.

mod confinement;
mod guards;
mod limits;
mod packages;
mod questions;
mod streaming;
mod words;
