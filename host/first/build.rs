//! Installs the Rust target for plugins in the first seconds of a build, or fails the build there.

use std::env;

#[path = "../crates/author/src/target.rs"]
mod target;

mod ensure;

fn main() {
    // Do not watch the folder of the target: rustup would make it newer than this run, and the next
    // build would recompile everything. If the target is removed later, the build script of `rind`
    // adds it again.
    for file in ["build.rs", "ensure.rs", "../crates/author/src/target.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if let Err(text) = ensure::ensure(&rustc) {
        text.lines()
            .for_each(|line| println!("cargo::error={line}"));
    }
}
