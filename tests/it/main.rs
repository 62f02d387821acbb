//! End-to-end tests, one binary.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on fails")]

mod author;
mod contract;
mod dispatch;
mod load;
mod points;
mod sandbox;
mod tool;
