//! Installs the Rust target for plugins at the beginning of a build, so that a failure ends the
//! build within seconds.

use std::env;

#[path = "../crates/author/src/target.rs"]
mod target;

mod ensure;

fn main() {
    // Do not let cargo watch the folder of the compilation target in the toolchain: rustup writes
    // it after this script starts, so the next build would recompile everything. If the target is
    // removed later, the build script of `rind` adds it again.
    for file in ["build.rs", "ensure.rs", "../crates/author/src/target.rs"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    if let Err(text) = ensure::install_missing_wasm_target(&rustc) {
        text.lines()
            .for_each(|line| println!("cargo::error={line}"));
    }
}
