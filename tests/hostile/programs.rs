//! Hostile programs: the examples of `tests/guests/hostile`, components as WebAssembly text, and raw bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rind_tests::guests::workspace;

/// A program that an attack runs as a plugin's component.
pub(crate) enum Program {
    /// Name of an example in `tests/guests/hostile`.
    Guest(&'static str),
    /// A component in the text format.
    Wat(String),
    /// Raw bytes of the component file.
    Bytes(Vec<u8>),
    /// A sparse file of this size in bytes.
    Hole(u64),
}

impl Program {
    /// Writes the program to `path`.
    pub(crate) fn write(&self, path: &Path) {
        match self {
            Self::Guest(name) => {
                fs::copy(built().join(format!("{name}.wasm")), path).unwrap();
            }
            Self::Wat(text) => fs::write(path, wat::parse_str(text).unwrap()).unwrap(),
            Self::Bytes(bytes) => fs::write(path, bytes).unwrap(),
            Self::Hole(bytes) => fs::File::create(path).unwrap().set_len(*bytes).unwrap(),
        }
    }
}

/// Returns the folder of the compiled examples, one component each. The first caller compiles them.
pub(crate) fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // Uses the regular target folder, so that later runs find the compiled examples.
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace().join("target"), |path| workspace().join(path))
            .join("hostile");
        let mut cargo = Command::new("cargo");
        cargo
            .args([
                "build",
                "--quiet",
                "--locked",
                "--examples",
                "-p",
                "guest-hostile",
            ])
            .args(["--target", "wasm32-wasip2", "--profile", "hostile"])
            .args(["--config", "profile.hostile.inherits=\"release\""])
            .args(["--config", "profile.hostile.panic=\"abort\""])
            .args(["--config", "profile.hostile.strip=true"])
            .args(["--config", "profile.hostile.opt-level=1"])
            .args(["--config", "profile.hostile.package.\"*\".opt-level=1"])
            .arg("--target-dir")
            .arg(&target)
            .current_dir(workspace())
            .env_remove("CARGO_TARGET_DIR")
            .env_remove("LD_LIBRARY_PATH");
        assert!(
            cargo.status().unwrap().success(),
            "the programs do not build"
        );
        target.join("wasm32-wasip2/hostile/examples")
    })
}

/// Returns a component that instantiates one core module, whose start function runs.
pub(crate) fn started(module: &str) -> Program {
    Program::Wat(format!(
        "(component (core module $m {module}) (core instance (instantiate $m)))"
    ))
}

/// A component that imports an interface and does nothing else.
pub(crate) fn imports(name: &str, content: &str) -> Program {
    Program::Wat(format!(
        "(component (import \"{name}\" (instance {content})))"
    ))
}
