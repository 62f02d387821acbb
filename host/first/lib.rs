//! Empty: the build script does the work of this crate.
