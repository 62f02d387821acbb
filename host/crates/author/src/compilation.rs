//! Flags and environment variables for compiling plugins in Rust, shared by `rind plugin build` and
//! the build script in `host/program`.
//!
//! The same source must produce the same bytes, regardless of its location and of who compiles it;
//! with the same flags, the two also share their build artifacts. This file may depend only on the
//! standard library, because the build script includes it.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::target::WASM_TARGET_TRIPLE;

/// Name of the cargo profile with which plugins are compiled, and of its subdirectory in the target
/// directory.
pub(crate) const PLUGIN_CARGO_PROFILE: &str = "plugin";

/// Settings of the profile. They are passed on the command line, so that every crate gets them
/// without declaring the profile.
const PLUGIN_PROFILE_SETTINGS: [&str; 10] = [
    "inherits=\"release\"",
    // Components are stripped anyway.
    "debug=false",
    "opt-level=3",
    "lto=true",
    "codegen-units=1",
    "strip=true",
    "panic=\"abort\"",
    // Macros run on this machine and are not part of a component, so compile them fast: without
    // optimization and with a single codegen unit.
    "build-override.opt-level=0",
    "build-override.debug=false",
    "build-override.codegen-units=1",
];

/// Environment variables that cargo and rustc get: location and settings of the toolchain, and
/// network access. All others are removed: variables from a surrounding `cargo run` are about
/// another crate (`CARGO_MANIFEST_DIR`, `RUSTFLAGS`, `LD_LIBRARY_PATH`), and build scripts must not
/// see API keys.
pub(crate) const CARGO_ENV_ALLOWLIST: &[&str] = &[
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CARGO_BUILD_JOBS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUSTUP_DIST_SERVER",
    "RUSTUP_UPDATE_ROOT",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];

/// Name prefixes of further environment variables that cargo and rustc get.
pub(crate) const CARGO_ENV_PREFIX_ALLOWLIST: &[&str] = &["CARGO_NET_", "CARGO_HTTP_"];

/// Paths and toolchain of the machine that compiles plugins.
pub(crate) struct CargoBuildEnvironment<'a> {
    pub(crate) workspace: &'a Path,
    /// Output of `rustc -vV`, which tells the version and the host platform.
    pub(crate) version: &'a str,
    /// Root directory of the Rust toolchain, from `rustc --print sysroot`.
    pub(crate) sysroot: &'a Path,
    /// Directory of build artifacts and generated sources; `None` if it is cargo's default within
    /// the workspace.
    pub(crate) target_dir: Option<PathBuf>,
    /// Directory where cargo stores the sources of dependencies.
    pub(crate) cargo_home: Option<PathBuf>,
    /// Whether cargo's configuration has `[target.…]` flags for the target of plugins. Cargo then
    /// ignores the flags under `[build]`.
    pub(crate) has_target_flags: bool,
}

impl CargoBuildEnvironment<'_> {
    /// Returns the arguments of `cargo build`, except for the packages to build.
    pub(crate) fn cargo_build_arguments(&self) -> Vec<OsString> {
        let mut folders = vec![self.workspace_path_remapping()];
        folders.extend(self.external_path_remappings());
        self.cargo_command_arguments("build", &folders)
    }

    /// Returns the arguments of `cargo rustc` for one package whose target directory is shared with
    /// other plugins. The workspace's path is remapped only in the flags of the package itself: the
    /// flags of its dependencies must be the same for all plugins, so that cargo reuses the
    /// compiled dependencies.
    #[allow(
        dead_code,
        reason = "the build script, which includes this file, compiles one workspace"
    )]
    pub(crate) fn cargo_rustc_arguments(&self, package: &str) -> Vec<OsString> {
        let mut args = self.cargo_command_arguments("rustc", &self.external_path_remappings());
        args.extend(["--lib", "-p", package].map(OsString::from));
        args.extend(["--message-format=json-render-diagnostics", "--"].map(OsString::from));
        let (folder, name) = self.workspace_path_remapping();
        args.push(format!("--remap-path-prefix={}={name}", folder.display()).into());
        args
    }

    fn cargo_command_arguments(&self, command: &str, names: &[(PathBuf, String)]) -> Vec<OsString> {
        let mut args: Vec<OsString> = [
            command,
            "--target",
            WASM_TARGET_TRIPLE,
            "--profile",
            PLUGIN_CARGO_PROFILE,
        ]
        .map(OsString::from)
        .to_vec();
        for setting in PLUGIN_PROFILE_SETTINGS {
            args.push("--config".into());
            args.push(format!("profile.{PLUGIN_CARGO_PROFILE}.{setting}").into());
        }
        args.push("--config".into());
        args.push(self.path_remap_config(names).into());
        args
    }

    fn workspace_path_remapping(&self) -> (PathBuf, String) {
        (self.workspace.to_owned(), "/plugin".to_owned())
    }

    /// Returns the directories outside the workspace whose paths can end up in a component, each
    /// with the name that replaces it in the component.
    fn external_path_remappings(&self) -> Vec<(PathBuf, String)> {
        let mut lines = self.version.lines();
        let commit = lines.find_map(|line| line.strip_prefix("commit-hash: "));
        let library = self.sysroot.join("lib/rustlib/src/rust");
        // The precompiled standard library contains paths with this name, so use it also if the
        // library's source is installed.
        let mut folders = vec![(library, format!("/rustc/{}", commit.unwrap_or("unknown")))];
        let named = [&self.target_dir, &self.cargo_home].into_iter();
        folders.extend(
            named
                .zip(["/target", "/cargo"])
                .filter_map(|(folder, name)| Some((folder.clone()?, name.to_owned()))),
        );
        folders
    }

    /// Returns the cargo configuration whose flags replace paths of this machine in components. It
    /// is not passed as `RUSTFLAGS`, because that would replace the workspace's own flags.
    fn path_remap_config(&self, names: &[(PathBuf, String)]) -> String {
        let flags = names.iter().map(|(folder, name)| {
            quote_toml_string(&format!("--remap-path-prefix={}={name}", folder.display()))
        });
        let flags: Vec<String> = flags.collect();
        let flags = flags.join(", ");
        match self.has_target_flags {
            true => format!("target.{WASM_TARGET_TRIPLE}.rustflags=[{flags}]"),
            false => format!("build.rustflags=[{flags}]"),
        }
    }
}

fn quote_toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(character));
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_any_name_are_remapped() {
        let machine = CargoBuildEnvironment {
            workspace: Path::new("/a \"b\\c\u{7f}\n"),
            version: "rustc 1.95.0\ncommit-hash: abc\nhost: x",
            sysroot: Path::new("/rust"),
            target_dir: Some("/t".into()),
            cargo_home: None,
            has_target_flags: false,
        };
        let arguments = machine.cargo_build_arguments();
        let setting = arguments.last().unwrap().to_str().unwrap();
        let table: toml::Table = setting.parse().unwrap();
        let flags = table["build"]["rustflags"].as_array().unwrap();
        let flags: Vec<_> = flags.iter().map(|flag| flag.as_str().unwrap()).collect();
        assert_eq!(
            flags,
            [
                "--remap-path-prefix=/a \"b\\c\u{7f}\n=/plugin",
                "--remap-path-prefix=/rust/lib/rustlib/src/rust=/rustc/abc",
                "--remap-path-prefix=/t=/target",
            ]
        );
    }
}
