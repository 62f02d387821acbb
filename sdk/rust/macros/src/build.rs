//! Passes the path of the contract (`wit/`) to the macros. Cargo recompiles them when that folder
//! changes or disappears: copies of the SDK in several places share one build in a shared target
//! folder.

use std::env;
use std::path::Path;

fn main() {
    let crate_folder = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let wit = Path::new(&crate_folder).join("wit");
    // Each plugin reaches the SDK through its own symlink, which may disappear before this build
    // ends.
    let wit = wit.canonicalize().unwrap_or(wit);
    println!("cargo::rerun-if-changed={}", wit.display());
    println!("cargo::rerun-if-changed=src/build.rs");
    println!("cargo::rustc-env=RIND_WIT={}", wit.display());
}
