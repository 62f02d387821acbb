//! End-to-end tests, one binary.

mod author;
mod harness;
mod session;
mod tool;
mod turn;
