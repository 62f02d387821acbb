//! Tells the macros where the contract is, and cargo to compile them again when it is there no
//! more: copies of the SDK at several places share one build in a shared target folder.

use std::env;
use std::path::Path;

fn main() {
    let crate_folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let wit = Path::new(&crate_folder).join("wit");
    // Plugins reach one SDK through their own symlinks, which may disappear before this build ends.
    let wit = wit.canonicalize().unwrap_or(wit);
    println!("cargo::rerun-if-changed={}", wit.display());
    println!("cargo::rerun-if-changed=src/build.rs");
    println!("cargo::rustc-env=RIND_WIT={}", wit.display());
}
