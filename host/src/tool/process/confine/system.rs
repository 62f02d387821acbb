//! What programs need of a machine to work at all: the system's folders, and those of the home folder with tools in them.

use std::path::{Path, PathBuf};

/// Devices without anything behind them.
pub const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Programs, libraries and settings of the system. `/proc` is readable, but of processes outside only what everybody may see.
/// Not `/var`, `/run`, `/tmp` and `/dev/shm`: they hold other programs' data and the sockets that lead to them.
const SYSTEM: &[&str] = &[
    "/bin",
    "/etc",
    "/gnu/store",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
    // Where links in `/etc` lead: programs, and how names are looked up.
    "/run/current-system",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/systemd/resolve",
];

/// Tools in the home folder and what they cannot do without. None of them holds a key: `~/.npmrc`, Cargo's
/// `credentials.toml` and `~/.config/git/credentials`, for three, are not among them.
const TOOLS: &[&str] = &[
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".config/git/attributes",
    ".config/git/config",
    ".config/git/ignore",
    ".gitconfig",
    ".gitignore_global",
    ".local/bin",
    ".local/lib",
    ".local/share/pnpm",
    ".nvm",
    ".pyenv",
    ".rustup",
    ".volta/bin",
    ".volta/tools",
    "go",
];

/// Folders of the system that are there.
#[must_use]
pub fn system_folders() -> Vec<PathBuf> {
    there(SYSTEM.iter().map(PathBuf::from))
}

/// What is there of the tools in `home`.
#[must_use]
pub fn tool_folders(home: &Path) -> Vec<PathBuf> {
    there(TOOLS.iter().map(|name| home.join(name)))
}

fn there(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.filter(|path| path.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_git_keeps_passwords_is_not_opened_with_its_settings() {
        let home = tempfile::tempdir().unwrap();
        let git = home.path().join(".config/git");
        std::fs::create_dir_all(&git).unwrap();
        for name in ["config", "ignore", "credentials"] {
            std::fs::write(git.join(name), "").unwrap();
        }
        let opened = tool_folders(home.path());
        let is_open = |name: &str| opened.iter().any(|path| git.join(name).starts_with(path));
        assert!(is_open("config") && is_open("ignore"));
        assert!(!is_open("credentials"));
    }
}
