//! Flags and variables that plugins in Rust are compiled with, by `rind plugin build` and by the build script of this crate.
//!
//! The same source is to give the same bytes wherever it lies and whoever compiles it; with the same flags, what one of the two
//! compiled serves the other. Needs nothing but the standard library, because the build script includes this file.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::target::TARGET;

/// Name of the cargo profile, and of its folder in the target folder.
pub(crate) const PROFILE: &str = "plugin";

/// The profile. Given on the command line, so that any crate gets it without writing it.
const SETTINGS: [&str; 8] = [
    "inherits=\"release\"",
    // A component is stripped of it anyway.
    "debug=false",
    "opt-level=3",
    "lto=true",
    "codegen-units=1",
    "strip=true",
    "panic=\"abort\"",
    // Macros run here and are not part of a component: in one part each they are compiled soonest.
    "build-override.codegen-units=1",
];

/// Variables that say where the toolchain and its settings are and how to reach the network. All others are left out: those
/// that a surrounding `cargo run` sets are about another crate (`CARGO_MANIFEST_DIR`, `RUSTFLAGS`, `LD_LIBRARY_PATH`), and
/// build scripts must not see keys.
pub(crate) const NAMES: &[&str] = &[
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

/// Beginnings of the names of further ones.
pub(crate) const PREFIXES: &[&str] = &["CARGO_NET_", "CARGO_HTTP_"];

/// Machine that plugins are compiled on.
pub(crate) struct Machine<'a> {
    pub(crate) workspace: &'a Path,
    /// Output of `rustc -vV`.
    pub(crate) version: &'a str,
    /// Output of `rustc --print sysroot`.
    pub(crate) sysroot: &'a Path,
    /// Target folder that cargo was told; a workspace's own is within the workspace.
    pub(crate) target_dir: Option<PathBuf>,
    /// Folder where cargo keeps the sources of what is depended on.
    pub(crate) cargo_home: Option<PathBuf>,
    /// Whether cargo's settings have flags for this target alone, beside which those of all targets have no effect.
    pub(crate) has_target_flags: bool,
}

impl Machine<'_> {
    /// Returns the arguments of `cargo build`, without the packages.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> = ["build", "--target", TARGET, "--profile", PROFILE]
            .map(OsString::from)
            .to_vec();
        for setting in SETTINGS {
            args.push("--config".into());
            args.push(format!("profile.{PROFILE}.{setting}").into());
        }
        args.push("--config".into());
        args.push(self.remap().into());
        args
    }

    /// Returns the setting that keeps the folders of this machine out of components. As a setting and not as `RUSTFLAGS`, which
    /// would take the place of a workspace's own flags.
    fn remap(&self) -> String {
        let mut lines = self.version.lines();
        let commit = lines.find_map(|line| line.strip_prefix("commit-hash: "));
        let library = self.sysroot.join("lib/rustlib/src/rust");
        let mut folders = vec![
            (self.workspace.to_owned(), "/plugin".to_owned()),
            // The standard library's own name for it, also where its source is installed.
            (library, format!("/rustc/{}", commit.unwrap_or("unknown"))),
        ];
        let named = [&self.target_dir, &self.cargo_home].into_iter();
        folders.extend(
            named
                .zip(["/target", "/cargo"])
                .filter_map(|(folder, name)| Some((folder.clone()?, name.to_owned()))),
        );
        let flags = folders.iter().map(|(folder, name)| {
            quoted(&format!("--remap-path-prefix={}={name}", folder.display()))
        });
        let flags: Vec<String> = flags.collect();
        let flags = flags.join(", ");
        match self.has_target_flags {
            true => format!("target.{TARGET}.rustflags=[{flags}]"),
            false => format!("build.rustflags=[{flags}]"),
        }
    }
}

fn quoted(text: &str) -> String {
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
        let machine = Machine {
            workspace: Path::new("/a \"b\\c\u{7f}\n"),
            version: "rustc 1.95.0\ncommit-hash: abc\nhost: x",
            sysroot: Path::new("/rust"),
            target_dir: Some("/t".into()),
            cargo_home: None,
            has_target_flags: false,
        };
        let arguments = machine.arguments();
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
