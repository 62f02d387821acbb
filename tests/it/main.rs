//! End-to-end tests, one binary.

mod tool;
