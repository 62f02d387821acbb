//! Plugins that the program carries: the core, and an example for demos. They are read from memory,
//! so there is nothing to install, and nothing that another process could replace while they are
//! loaded.
//!
//! The binary hands them to [`main`](super::main) packed; the build script of its package compiles
//! them. Their folders lie below the path of the program itself, where no file can be.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use rind_embed::PackedFolder;
use rind_lib::grant::held::{HeldFiles, HeldFolder};
use rind_lib::plugin::precompiled::{PackedCode, Precompiled};
use rind_operator::managed::CarriedPlugins;

/// Plugins that a program carries.
#[derive(Debug)]
pub struct Carried {
    /// Folders `plugins` and `examples`, with a folder for each plugin.
    pub files: PackedFolder,
    /// Native code of each component, packed as [`Precompiled`] describes.
    pub native: &'static [PackedCode],
}

/// Plugins of this program, which has them once and for all.
static CARRIED: OnceLock<&'static Carried> = OnceLock::new();

/// Files of the plugins by the components of their paths.
static FILES: LazyLock<HeldFiles> = LazyLock::new(|| {
    let carried = CARRIED.get().copied().into_iter();
    let files = carried.flat_map(|carried| carried.files.files());
    let named = files.map(|(path, content)| {
        let names = path.split('/').map(str::to_owned);
        (names.collect(), Cow::Borrowed(content))
    });
    named.collect()
});

const CORE: &str = "plugins";
const EXAMPLES: &str = "examples";

/// Fallback name of the program if the system does not report its path.
const PROGRAM: &str = "rind";

/// Sets the plugins, at the start of the program.
pub(super) fn set_carried(carried: &'static Carried) {
    // `set` fails only at a second call in a process, and there is none.
    let _ = CARRIED.set(carried);
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
    HeldFolder::from_embedded(program_path(), || &FILES)
}

fn carried_native_code() -> Precompiled {
    let packed = CARRIED.get().map_or(&[][..], |carried| carried.native);
    #[expect(
        unsafe_code,
        reason = "the program carries what its build script compiled"
    )]
    // SAFETY: the build script compiled each code from the component of its digest, with the settings of this engine, and they are
    // part of the program.
    unsafe {
        Precompiled::new(packed)
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
