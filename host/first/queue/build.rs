//! Empty: cargo counts it (see README.md).

fn main() {
    println!("cargo::rerun-if-changed=../build.rs");
}
