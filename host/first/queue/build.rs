//! Does nothing. This build script exists only because cargo counts it when it orders its jobs (see
//! README.md).

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
}
