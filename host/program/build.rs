//! Compiles the plugins that are part of the program, and writes their files to the folder from
//! which `program/main.rs` includes them.
//!
//! The plugins are compiled here and not committed, because a committed component could differ from
//! its source, and every change of the SDK or the contract changes all of them. They are compiled
//! by this script and not only for releases, so that every way to build the program, including
//! `cargo install`, produces the same program. One call of cargo compiles them, with the flags and
//! the target folder of `rind plugin build`, so that each command can reuse the crates that the
//! other has compiled. The script then also precompiles the plugins to native code, so that the
//! program compiles nothing at its first start, and packs everything. Without the feature `cli`,
//! for a program that embeds the host, the script does none of this.

use std::error::Error;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs, io};

#[path = "../crates/author/src/compilation.rs"]
mod compilation;
#[path = "../src/plugin/engine_config.rs"]
mod engine_config;
#[path = "../first/ensure.rs"]
mod ensure;
#[path = "../crates/author/src/target.rs"]
mod target;

use compilation::{
    CARGO_ENV_ALLOWLIST, CARGO_ENV_PREFIX_ALLOWLIST, CargoBuildEnvironment, PLUGIN_CARGO_PROFILE,
};
use engine_config::GuestMemoryReservation;
use sha2::{Digest, Sha256};
use target::WASM_TARGET_TRIPLE;
use wasmtime::Engine;

/// Names of the plugins that are compiled into the program.
const EMBEDDED_CORE_PLUGINS: [&str; 10] = include!("../../plugins/core.json");

/// Plugins that are part of the program but that only demos load.
const EMBEDDED_DEMO_PLUGINS: [&str; 1] = ["hello"];

/// Files and folders of a plugin's folder that belong to the plugin, in addition to its component.
const EMBEDDED_PLUGIN_FILES_AND_FOLDERS: [&str; 4] =
    ["plugin.toml", "README.md", "prompts", "skills"];

/// Sources from which the components are compiled, in addition to the plugins' own folders. Cargo
/// watches them for changes.
const SHARED_COMPONENT_SOURCES: [&str; 8] = [
    "Cargo.lock",
    "Cargo.toml",
    "plugins/core.json",
    "sdk/audit",
    "sdk/rust/Cargo.toml",
    "sdk/rust/src",
    "sdk/rust/macros",
    "wit",
];

/// Environment variables that are passed to cargo in addition to [`CARGO_ENV_ALLOWLIST`] and
/// [`CARGO_ENV_PREFIX_ALLOWLIST`]: for the paths of programs, the home folder and temporary files,
/// and for the number of parallel jobs.
const EXTRA_CARGO_ENVIRONMENT_VARIABLES: [&str; 4] = ["PATH", "HOME", "TMPDIR", "CARGO_MAKEFLAGS"];

/// Links the bins of an unoptimized build without `-pie`. Such a program has half a million
/// addresses, which the dynamic linker would adjust at every start, and tests start the program
/// thousands of times: a run took 111 ms in place of 79. Optimized programs stay
/// position-independent, so that their addresses are random.
fn link_unoptimized_program_at_fixed_addresses() {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    let is_gnu_linux = is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu");
    if is_gnu_linux && is("PROFILE", "debug") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    link_unoptimized_program_at_fixed_addresses();
    for file in [
        "../first/ensure.rs",
        "../crates/author/src/compilation.rs",
        "../crates/author/src/target.rs",
        "../src/plugin/engine_config.rs",
    ] {
        println!("cargo::rerun-if-changed={file}");
    }
    if env::var_os("CARGO_FEATURE_CLI").is_none() {
        return;
    }
    if let Err(error) = pack_plugins() {
        let error = format!("the plugins that the program carries were not compiled: {error}");
        error
            .lines()
            .for_each(|line| println!("cargo::error={line}"));
    }
}

fn pack_plugins() -> Result<(), Box<dyn Error>> {
    let workspace = PathBuf::from(required_variable("CARGO_MANIFEST_DIR")?).join("../..");
    let workspace = workspace.canonicalize()?;
    let out = PathBuf::from(required_variable("OUT_DIR")?);
    for source in SHARED_COMPONENT_SOURCES {
        println!(
            "cargo::rerun-if-changed={}",
            workspace.join(source).display()
        );
    }
    let target_dir = compile_plugins(&workspace, &out)?;
    // Use the best compression only for a release, because it takes seconds.
    let level = if required_variable("PROFILE")? == "release" {
        rind_embed::RELEASE_COMPRESSION_LEVEL
    } else {
        rind_embed::FAST_COMPRESSION_LEVEL
    };
    let mut components = Vec::new();
    let mut files = Vec::new();
    for (names, kind) in [
        (&EMBEDDED_CORE_PLUGINS[..], "plugins"),
        (&EMBEDDED_DEMO_PLUGINS[..], "examples"),
    ] {
        for name in names {
            let from = workspace.join("plugins").join(name);
            let file = format!("{}.wasm", name.replace('-', "_"));
            let component = target_dir
                .join(WASM_TARGET_TRIPLE)
                .join(PLUGIN_CARGO_PROFILE)
                .join(&file);
            let component = fs::read(&component)
                .map_err(|error| format!("{}: {error}", component.display()))?;
            let to = format!("{kind}/{name}");
            files.extend(
                collect_plugin_files(&from, &to).map_err(|error| format!("{to}: {error}"))?,
            );
            files.push((format!("{to}/{file}"), component.clone()));
            components.push(component);
        }
    }
    fs::write(
        out.join("carried.tar.zst"),
        rind_embed::pack_files(&files, level)?,
    )?;
    precompile_components(&components, level, &out)
}

/// Writes the native code of each component to a file named after the component's digest, and the
/// Rust expression that includes these files. All components but the first are compressed with the
/// first as a dictionary, because they resemble it.
fn precompile_components(
    components: &[Vec<u8>],
    level: i32,
    out: &Path,
) -> Result<(), Box<dyn Error>> {
    let mut list = String::from("&[\n");
    match create_engine() {
        Ok(engine) => {
            let mut base = Vec::new();
            for component in components {
                let digest = Sha256::digest(component);
                let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                let code = engine.precompile_component(component)?;
                let file = out.join(&name);
                fs::write(
                    &file,
                    rind_embed::compress_with_dictionary(&base, &code, level)?,
                )?;
                writeln!(list, "(\"sha256:{name}\", include_bytes!({file:?})),")?;
                if base.is_empty() {
                    base = code;
                }
            }
        }
        // The compiler that is linked into this script generates code only for the architecture of
        // the build machine, so a cross-compiled program contains no native code.
        Err(error) => {
            println!(
                "cargo::warning=the first start of the program will compile its plugins: {error:#}"
            );
        }
    }
    list.push(']');
    Ok(fs::write(out.join("native.rs"), list)?)
}

/// Creates the engine for the platform that the program is built for.
fn create_engine() -> Result<Engine, Box<dyn Error>> {
    let is_x86_64 = required_variable("CARGO_CFG_TARGET_ARCH")? == "x86_64";
    let mut config = engine_config::config(GuestMemoryReservation::for_processor(is_x86_64));
    config.target(required_variable("TARGET")?.to_str().unwrap_or_default())?;
    if is_x86_64 {
        // Allow the instructions of the x86-64-v3 level, which Intel and AMD processors have had
        // since 2013 and 2015. The engine checks whether the processor has the instructions of code
        // that it loads; on an older processor it compiles the component again.
        #[expect(
            unsafe_code,
            reason = "the setting names instructions, and code with others than the processor's is refused when it is loaded"
        )]
        // SAFETY: the preset only allows more instructions. It changes no rule that generated code
        // relies on.
        unsafe {
            config.cranelift_flag_enable("x86-64-v3");
        }
    }
    Ok(Engine::new(&config)?)
}

/// Compiles every plugin. Returns the target folder with the components.
fn compile_plugins(workspace: &Path, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let rustc = required_variable("RUSTC")?;
    // The package `rind-first` has already installed the target, but it may have been removed
    // since.
    ensure::install_missing_wasm_target(&rustc)?;
    let sysroot = read_command_output(&rustc, &["--print", "sysroot"])?;
    let sysroot = Path::new(sysroot.trim());
    let version = read_command_output(&rustc, &["-vV"])?;
    let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".cargo"));
    let machine = CargoBuildEnvironment {
        workspace,
        version: &version,
        sysroot,
        target_dir: env::var_os("CARGO_TARGET_DIR").map(PathBuf::from),
        cargo_home: env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home),
        has_target_flags: false,
    };
    // Derive the target folder from the output folder: cargo does not tell build scripts about its
    // flag `--target-dir`.
    let target_dir = find_target_dir(out)
        .ok_or_else(|| format!("the target folder of {} is not known", out.display()))?;
    let mut cargo = Command::new(required_variable("CARGO")?);
    cargo
        .args(machine.cargo_build_arguments())
        .arg("--target-dir")
        .arg(target_dir)
        .current_dir(workspace)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    for (name, value) in env::vars_os() {
        let text = name.to_string_lossy();
        let is_passed = EXTRA_CARGO_ENVIRONMENT_VARIABLES.contains(&&*text)
            || CARGO_ENV_ALLOWLIST.contains(&&*text)
            || CARGO_ENV_PREFIX_ALLOWLIST
                .iter()
                .any(|prefix| text.starts_with(prefix));
        if is_passed {
            cargo.env(name, value);
        }
    }
    for name in EMBEDDED_CORE_PLUGINS.iter().chain(&EMBEDDED_DEMO_PLUGINS) {
        cargo.args(["-p", name]);
    }
    let output = cargo.output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo failed: {}\n{said}", output.status).into());
    }
    Ok(target_dir.to_owned())
}

/// Returns the target folder that contains the output folder of a build script. Cargo marks a
/// target folder that it creates with a tag file; a folder that existed before, such as a mounted
/// volume, is found by its position above `PLUGIN_CARGO_PROFILE/build/PACKAGE/out`.
fn find_target_dir(out: &Path) -> Option<&Path> {
    let marked = |folder: &&Path| folder.join("CACHEDIR.TAG").is_file();
    out.ancestors().find(marked).or_else(|| {
        let above = out.ancestors().nth(4)?;
        // With `--target`, the path contains an additional folder that is named after the target.
        let is_of_target = above.file_name() == env::var_os("TARGET").as_deref();
        if is_of_target {
            above.parent()
        } else {
            Some(above)
        }
    })
}

/// Returns the files of a plugin, with paths below `to`, and makes cargo watch them.
fn collect_plugin_files(
    from: &Path,
    to: &str,
) -> io::Result<Vec<rind_embed::PackedFilePathAndContent>> {
    for source in ["src", "Cargo.toml"] {
        println!("cargo::rerun-if-changed={}", from.join(source).display());
    }
    let mut files = Vec::new();
    for part in EMBEDDED_PLUGIN_FILES_AND_FOLDERS {
        let path = from.join(part);
        if path.is_dir() {
            let below = rind_embed::read_folder_files(&path)?.into_iter();
            files.extend(below.map(|(name, content)| (format!("{to}/{part}/{name}"), content)));
        } else if path.exists() {
            files.push((format!("{to}/{part}"), fs::read(&path)?));
        } else {
            continue;
        }
        println!("cargo::rerun-if-changed={}", path.display());
    }
    Ok(files)
}

fn required_variable(name: &str) -> Result<std::ffi::OsString, String> {
    env::var_os(name).ok_or_else(|| format!("cargo did not set {name}"))
}

fn read_command_output(program: &OsStr, args: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new(program).args(args).output()?;
    if !output.status.success() {
        let program = program.display();
        return Err(format!("`{program} {}` failed: {}", args.join(" "), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
