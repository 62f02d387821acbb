//! Sessions on disk: what outlives a crash.
