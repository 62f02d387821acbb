//! Adds the target of plugins in the first seconds of a build, or fails it there.

use std::env;

#[path = "../src/author/target.rs"]
mod target;

mod ensure;

fn main() {
    // Not the folder of the target: rustup would make it newer than this run, and the next build would compile everything
    // again. A target that is removed later is added by the build script of `rind`.
    for file in ["build.rs", "ensure.rs", "../src/author/target.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if let Err(text) = ensure::ensure(&rustc) {
        text.lines()
            .for_each(|line| println!("cargo::error={line}"));
    }
}
