//! Empty: what this crate does is in its build script.
