//! End-to-end tests, one binary.

mod harness;
mod session;
mod turn;
