//! Installs the Rust target for plugins when a build script calls it.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::target;

/// Adds the target to the toolchain of `rustc` if the target is missing, and informs the user.
///
/// # Errors
/// `rustc` cannot be run, or the target is missing and cannot be added. In the second case, the
/// message says how to install the target.
pub(crate) fn install_missing_wasm_target(rustc: &OsStr) -> Result<(), String> {
    let program = rustc.display();
    let asked = Command::new(rustc)
        .args(["--print", "sysroot"])
        .output()
        .map_err(|error| format!("cannot run `{program} --print sysroot`: {error}"))?;
    if !asked.status.success() {
        let said = String::from_utf8_lossy(&asked.stderr);
        return Err(format!(
            "`{program} --print sysroot` failed: {}\n{said}",
            asked.status
        ));
    }
    let sysroot = String::from_utf8_lossy(&asked.stdout);
    let sysroot = Path::new(sysroot.trim());
    let folder = target::wasm_target_library_folder(sysroot);
    let _lock = target::acquire_toolchain_lock(sysroot);
    if folder.is_dir() {
        return Ok(());
    }
    let Some(arguments) = target::rustup_target_add_arguments(sysroot) else {
        return Err(target::wasm_target_missing_message(sysroot));
    };
    let command = format!("rustup {}", arguments.join(" "));
    let added = Command::new("rustup")
        .args(arguments)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .map_err(|_| target::wasm_target_missing_message(sysroot))?;
    if !added.status.success() || !folder.is_dir() {
        let said = String::from_utf8_lossy(&added.stderr);
        return Err(target::rustup_target_add_failed_message(
            sysroot, &command, &said,
        ));
    }
    print_message_to_terminal(&format!(
        "added the target {} to the Rust toolchain in `{}` with `{command}`",
        target::WASM_TARGET_TRIPLE,
        sysroot.display()
    ));
    Ok(())
}

/// Prints a message to the terminal. Cargo would repeat a warning at every later build, so a
/// warning is used only if there is no terminal.
fn print_message_to_terminal(text: &str) {
    let terminal = OpenOptions::new().write(true).open("/dev/tty");
    // The control sequence erases cargo's progress bar, which is in this line.
    let told = terminal.and_then(|mut terminal| writeln!(terminal, "\r\x1b[K  {text}"));
    if told.is_err() {
        println!("cargo::warning={text}");
    }
}
