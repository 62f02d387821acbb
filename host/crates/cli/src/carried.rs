//! Provides the plugins that are embedded in the program: the core plugins, and an example for
//! demos. They are read from memory, so nothing has to be installed, and no other process can
//! replace them while they are loaded.
//!
//! The build script of the binary's package compiles the plugins, and the binary passes them to
//! [`main`](super::main). Their folders get virtual paths below the path of the executable file,
//! where no real file can exist.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, OnceLock};

use rind_embed::EmbeddedPackedFolder;
use rind_lib::grant::held::{InMemoryFiles, InMemoryFolder};
use rind_lib::plugin::precompiled::{CompressedNativeCode, PrecompiledComponents};
use rind_operator::managed::EmbeddedPlugins;

/// Plugins that are embedded in a program, with their native code.
#[derive(Debug)]
pub struct EmbeddedPluginFiles {
    /// Folders `plugins` and `examples`, with a folder for each plugin.
    pub files: EmbeddedPackedFolder,
    /// Native code of each plugin's component, packed as [`PrecompiledComponents`] describes.
    pub native: &'static [CompressedNativeCode],
}

/// Embedded plugins of this program, set once at its start.
static EMBEDDED_PLUGINS: OnceLock<&'static EmbeddedPluginFiles> = OnceLock::new();

/// Files of the embedded plugins. The key is the path as a list of its components.
static EMBEDDED_PLUGIN_FILES: LazyLock<InMemoryFiles> = LazyLock::new(|| {
    let carried = EMBEDDED_PLUGINS.get().copied().into_iter();
    let files = carried.flat_map(|carried| carried.files.files());
    let named = files.map(|(path, content)| {
        let names = path.split('/').map(str::to_owned);
        (names.collect(), Cow::Borrowed(content))
    });
    named.collect()
});

const CORE_PLUGINS_FOLDER: &str = "plugins";
const EXAMPLE_PLUGINS_FOLDER: &str = "examples";

/// Fallback name of the program if the system does not report its path.
const FALLBACK_OWN_EXECUTABLE_NAME: &str = "rind";

/// Sets the embedded plugins, at the start of the program.
pub(super) fn set_embedded_plugins(carried: &'static EmbeddedPluginFiles) {
    // `set` fails only if it is called twice in a process, which does not happen.
    let _ = EMBEDDED_PLUGINS.set(carried);
}

/// Returns the embedded plugins in the form that loading needs: their files, the folder of the core
/// plugins, and native code.
pub(super) fn embedded_plugins() -> EmbeddedPlugins {
    EmbeddedPlugins {
        files: embedded_plugin_files(),
        core: core_plugins_folder(),
        precompiled: precompiled_embedded_plugins(),
    }
}

pub(super) fn embedded_plugin_files() -> InMemoryFolder {
    InMemoryFolder::from_embedded(own_program_path(), || &EMBEDDED_PLUGIN_FILES)
}

fn precompiled_embedded_plugins() -> PrecompiledComponents {
    let packed = EMBEDDED_PLUGINS
        .get()
        .map_or(&[][..], |carried| carried.native);
    #[expect(
        unsafe_code,
        reason = "the program carries what its build script compiled"
    )]
    // SAFETY: the build script compiled each native code from the component with that digest, with
    // the settings of this engine, and the code is part of the program.
    unsafe {
        PrecompiledComponents::new(packed)
    }
}

pub(super) fn core_plugins_folder() -> PathBuf {
    own_program_path().join(CORE_PLUGINS_FOLDER)
}

pub(super) fn example_plugins_folder() -> PathBuf {
    own_program_path().join(EXAMPLE_PLUGINS_FOLDER)
}

fn own_program_path() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| Path::new(FALLBACK_OWN_EXECUTABLE_NAME).to_owned())
}
