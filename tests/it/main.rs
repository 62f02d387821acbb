//! End-to-end tests, one binary.

mod author;
mod tool;
