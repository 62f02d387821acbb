//! End-to-end tests, one binary.

mod aimock;
mod author;
mod harness;
mod provider;
mod session;
mod tool;
mod turn;
