//! Installs the Rust target for plugins, from a build script.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use super::target;

/// Adds the target to the toolchain of `rustc` if the target is missing, and tells the user about
/// it.
///
/// # Errors
/// The target is missing and cannot be added. The message says how to install it.
pub(crate) fn ensure(rustc: &OsStr) -> Result<(), String> {
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
    let folder = target::folder(sysroot);
    let _lock = target::lock(sysroot);
    if folder.is_dir() {
        return Ok(());
    }
    let Some(arguments) = target::rustup_arguments(sysroot) else {
        return Err(target::missing(sysroot));
    };
    let command = format!("rustup {}", arguments.join(" "));
    let added = Command::new("rustup")
        .args(arguments)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .map_err(|_| target::missing(sysroot))?;
    if !added.status.success() || !folder.is_dir() {
        let said = String::from_utf8_lossy(&added.stderr);
        return Err(target::not_added(sysroot, &command, &said));
    }
    tell(&format!(
        "added the target {} to the Rust in `{}` with `{command}`",
        target::TARGET,
        sysroot.display()
    ));
    Ok(())
}

/// Prints a message once, to the terminal. Cargo would repeat a warning at every later build, so a
/// warning is only the fallback if there is no terminal.
fn tell(text: &str) {
    let terminal = OpenOptions::new().write(true).open("/dev/tty");
    // The control sequence erases cargo's progress bar, which is in this line.
    let told = terminal.and_then(|mut terminal| writeln!(terminal, "\r\x1b[K  {text}"));
    if told.is_err() {
        println!("cargo::warning={text}");
    }
}
