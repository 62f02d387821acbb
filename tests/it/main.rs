//! End-to-end tests, one binary.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod aimock;
mod author;
mod cli;
mod contract;
mod dispatch;
mod fuzz;
mod harness;
mod leak;
mod load;
mod points;
mod properties;
mod provider;
mod sandbox;
mod secret;
mod session;
mod tidy;
mod tool;
mod turn;
