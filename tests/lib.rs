//! Shared parts of the end-to-end tests: guests that are compiled once, plugin folders with them, a
//! session in memory, and the real program with its own folders.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

pub mod acp;
pub mod api;
pub mod bytes;
pub mod cli;
pub mod fuzz;
pub mod guests;
pub mod secrets;
pub mod server;
pub mod session;
