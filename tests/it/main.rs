//! End-to-end tests, one binary.

mod aimock;
mod provider;
