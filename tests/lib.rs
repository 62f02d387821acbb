//! Parts that the end-to-end tests share: guests compiled once, plugin folders made of them, a session in memory, and the real
//! program in folders of its own.
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
