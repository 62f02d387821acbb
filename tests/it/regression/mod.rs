//! Tests of cases that once failed; the tables in `tests/regressions` list each with its present
//! outcome.

mod confinement;
mod guards;
mod limits;
mod packages;
mod questions;
mod streaming;
mod words;
