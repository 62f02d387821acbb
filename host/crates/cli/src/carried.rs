//! Plugins that the program carries: the core, and an example for demos. They are read from memory,
//! so there is nothing to install, and nothing that another process could replace while they are
//! loaded.
//!
//! The binary hands them to [`main`](super::main); the build script of its package compiles them.
//! Their folders lie below the path of the program itself, where no file can be.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use include_dir::{Dir, DirEntry};

use rind_lib::grant::held::HeldFolder;
use rind_lib::plugin::precompiled::Precompiled;
use rind_operator::managed::CarriedPlugins;

/// Folders `plugins` and `examples`, with a folder for each plugin, and `compiled` with the native
/// code of each component. A program has them once and for all.
static FILES: OnceLock<&'static Dir<'static>> = OnceLock::new();

const CORE: &str = "plugins";
const EXAMPLES: &str = "examples";
const COMPILED: &str = "compiled";

/// Fallback name of the program if the system does not report its path.
const PROGRAM: &str = "rind";

/// Sets the files, at the start of the program.
pub(super) fn carry_files(files: &'static Dir<'static>) {
    // `set` fails only at a second call in a process, and there is none.
    let _ = FILES.set(files);
}

/// Returns the carried plugins, for the operator's rules.
pub(super) fn carried_plugins() -> CarriedPlugins {
    CarriedPlugins {
        files: carried_files(),
        core: core_folder(),
        precompiled: carried_native_code(),
    }
}

pub(super) fn carried_files() -> HeldFolder {
    let mut files = Vec::new();
    for name in [CORE, EXAMPLES] {
        if let Some(plugins) = FILES.get().and_then(|carried| carried.get_dir(name)) {
            add_files(plugins, &mut files);
        }
    }
    HeldFolder::from_embedded(program_path(), files)
}

/// Returns the native code of the carried plugins. The name of each file is the digest of the
/// component.
fn carried_native_code() -> Precompiled {
    let folder = FILES.get().and_then(|carried| carried.get_dir(COMPILED));
    let files = folder.into_iter().flat_map(Dir::files);
    let code = files.filter_map(|file| {
        let digest = file.path().file_name()?.to_str()?;
        Some((format!("sha256:{digest}"), file.contents()))
    });
    #[expect(
        unsafe_code,
        reason = "the program carries what its build script compiled"
    )]
    // SAFETY: the build script compiled each file from the component of its name, with the settings of this engine, and the files
    // are part of the program.
    unsafe {
        Precompiled::new(code)
    }
}

pub(super) fn core_folder() -> PathBuf {
    program_path().join(CORE)
}

pub(super) fn examples_folder() -> PathBuf {
    program_path().join(EXAMPLES)
}

fn program_path() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| Path::new(PROGRAM).to_owned())
}

fn add_files(dir: &'static Dir<'static>, files: &mut Vec<(Vec<String>, &'static [u8])>) {
    for entry in dir.entries() {
        match entry {
            DirEntry::Dir(dir) => add_files(dir, files),
            DirEntry::File(file) => {
                let names = file.path().iter();
                let names = names.map(|name| name.to_string_lossy().into_owned());
                files.push((names.collect(), file.contents()));
            }
        }
    }
}
