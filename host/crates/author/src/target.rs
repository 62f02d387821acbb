//! Compilation target of plugins: whether a Rust toolchain has it, and how to install it.
//!
//! This file may depend only on the standard library, because build scripts include it.

use std::fs::File;
use std::path::{Path, PathBuf};

/// Compilation target of plugins, in Rust's notation.
pub(crate) const WASM_TARGET_TRIPLE: &str = "wasm32-wasip2";

/// Returns the directory of the target's standard library in the sysroot of a toolchain. The
/// directory exists only if the target is installed.
pub(crate) fn wasm_target_library_folder(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib").join(WASM_TARGET_TRIPLE)
}

/// Waits until no other process is adding a target to the toolchain, and returns a lock that is
/// released on drop.
///
/// rustup has no lock of its own: of two concurrent calls, one fails. Returns `None` if the
/// directory cannot be locked, as on some network file systems; the build then continues without a
/// lock.
pub(crate) fn acquire_toolchain_lock(sysroot: &Path) -> Option<File> {
    let folder = File::open(sysroot.join("lib/rustlib")).ok()?;
    folder.lock().ok()?;
    Some(folder)
}

/// Returns the arguments with which rustup adds the target to the toolchain of this sysroot; `None`
/// if that toolchain was not installed by rustup, because rustup would add the target to a
/// different one.
pub(crate) fn rustup_target_add_arguments(sysroot: &Path) -> Option<[&str; 5]> {
    let name = sysroot.file_name()?.to_str()?;
    let parent = sysroot.parent()?.file_name()?;
    (parent == "toolchains").then_some(["target", "add", "--toolchain", name, WASM_TARGET_TRIPLE])
}

/// Returns the message that the target is missing, and how to install it with rustup, on Debian and
/// with Nix.
pub(crate) fn wasm_target_missing_message(sysroot: &Path) -> String {
    format!(
        "the Rust in `{}` has no target {WASM_TARGET_TRIPLE}, and there is no rustup to add it. Plugins are compiled to it. Install it and \
         run the command again:\n\
         - rustup (https://rustup.rs): `rustup target add {WASM_TARGET_TRIPLE}`\n\
         - Debian, Ubuntu: `apt install rustup && rustup default stable` (from Debian 13 and Ubuntu 24.04). The package \
         `libstd-rust-dev-wasm32` is not enough: the linker `wasm-component-ld` is not packaged\n\
         - Nix: `nix-shell -p rustup`, then `rustup default stable`; or, with rust-overlay, \
         `rust-bin.stable.latest.default.override {{ targets = [ \"{WASM_TARGET_TRIPLE}\" ]; }}`",
        sysroot.display()
    )
}

/// Returns the message that rustup failed to add the target: the command, its output and the
/// remedy.
pub(crate) fn rustup_target_add_failed_message(
    sysroot: &Path,
    command: &str,
    output: &str,
) -> String {
    format!(
        "the Rust in `{}` has no target {WASM_TARGET_TRIPLE}, and `{command}` did not add it:\n{}\nRun that command with a network that \
         reaches https://static.rust-lang.org, as a user who may write to that folder, then run this one again",
        sysroot.display(),
        output.trim()
    )
}
