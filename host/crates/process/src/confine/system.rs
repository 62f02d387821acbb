//! Lists the files of the system and of the user's tools that a confined program may read.
//!
//! The lists contain only paths of programs, libraries and settings, and leave out files that
//! contain keys. Start from [`readable_system_paths`] and [`list_tool_folders_in_home`].

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::environment::split_path_list;

/// Device files that every confined program may use, because they are harmless.
pub const SAFE_DEVICE_PATHS: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
];

/// Programs, libraries and settings of the system. `/proc` is readable, but for processes outside
/// of the confinement only the information that every user can read. `/var`, `/run`, `/tmp` and
/// `/dev/shm` are left out: they contain data and sockets of other programs.
const READABLE_SYSTEM_PATHS: &[&str] = &[
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
    // Targets of symlinks in `/etc`: programs, and the settings for name lookup.
    "/run/current-system",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/run/systemd/resolve",
];

/// Paths of tools, and of the files that they need, in the home directory. No path contains a key:
/// for example, `~/.npmrc`, `~/.gitconfig`, Cargo's `credentials.toml` and
/// `~/.config/git/credentials` are left out.
const READABLE_HOME_TOOL_PATHS: &[&str] = &[
    ".cargo/bin",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/env",
    ".cargo/git",
    ".cargo/registry",
    ".config/git/attributes",
    ".config/git/ignore",
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

/// System files that only root may read: passwords, and private keys of the machine. They are
/// hidden from a command of root, which does not need them.
const HIDDEN_SYSTEM_SECRET_PATHS: &[&str] = &[
    "/etc/NetworkManager/system-connections",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/letsencrypt",
    "/etc/security/opasswd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
];

pub(super) fn system_secret_paths() -> Vec<PathBuf> {
    filter_existing_paths(HIDDEN_SYSTEM_SECRET_PATHS.iter().map(PathBuf::from))
}

/// Returns the existing paths of the system's programs, libraries and settings.
#[must_use]
pub fn readable_system_paths() -> Vec<PathBuf> {
    filter_existing_paths(READABLE_SYSTEM_PATHS.iter().map(PathBuf::from))
}

/// Returns the existing paths of tools in `home`. Settings files that may contain a password or
/// token are skipped.
#[must_use]
pub fn list_tool_folders_in_home(home: &Path) -> Vec<PathBuf> {
    let mut found =
        filter_existing_paths(READABLE_HOME_TOOL_PATHS.iter().map(|name| home.join(name)));
    found.retain(|path| !path.is_file() || is_file_free_of_secrets(path));
    found
}

/// Environment variables with directories of tools and libraries, either one path or several
/// separated by `:`.
const TOOL_FOLDER_ENVIRONMENT_VARIABLES: &[&str] = &[
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "BUN_INSTALL",
    "CONDA_PREFIX",
    "DOTNET_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "GOBIN",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GRADLE_HOME",
    "JAVA_HOME",
    "JDK_HOME",
    "M2_HOME",
    "MAVEN_HOME",
    "NODE_PATH",
    "NVM_DIR",
    "PKG_CONFIG_PATH",
    "PNPM_HOME",
    "PYENV_ROOT",
    "PYTHONPATH",
    "RBENV_ROOT",
    "RUBYLIB",
    "RUSTUP_HOME",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "VIRTUAL_ENV",
];

/// Entries of Cargo's home directory that the program may read. As in [`READABLE_HOME_TOOL_PATHS`],
/// none contains a key.
const READABLE_CARGO_HOME_ENTRIES: &[&str] =
    &["bin", "config", "config.toml", "env", "git", "registry"];

/// Returns the tool directories that the environment variables of a command name. Settings files
/// that may contain a password or token are skipped.
#[must_use]
pub fn list_toolchain_folders_in_env(env: &[(OsString, OsString)]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (name, value) in env {
        if name == "CARGO_HOME" {
            let parts = READABLE_CARGO_HOME_ENTRIES
                .iter()
                .map(|part| Path::new(value).join(part));
            found.extend(parts.filter(|path| !path.is_file() || is_file_free_of_secrets(path)));
        } else if TOOL_FOLDER_ENVIRONMENT_VARIABLES
            .iter()
            .any(|tool| name == tool)
        {
            found.extend(split_path_list(value).flat_map(exclude_secrets_from_tool_folder));
        }
    }
    found.retain(|path| path.is_absolute());
    filter_existing_paths(found.into_iter())
}

/// Names of files with keys that tools keep directly in their directory, such as
/// `~/.gem/credentials`.
const TOOL_CREDENTIAL_FILE_NAMES: &[&str] = &[
    ".condarc",
    ".netrc",
    ".npmrc",
    ".pypirc",
    "auth.json",
    "credentials",
    "credentials.json",
    "gradle.properties",
    "settings-security.xml",
    "settings.xml",
];

/// Subdirectories of a tool directory that remain readable although the directory contains a key
/// file.
const READABLE_TOOL_SUBFOLDER_NAMES: &[&str] = &[
    "bin",
    "bundle",
    "extensions",
    "gems",
    "lib",
    "repository",
    "ruby",
    "specifications",
    "wrapper",
];

/// Returns a tool directory or, if it contains a key file, only its subdirectories with programs
/// and libraries.
fn exclude_secrets_from_tool_folder(folder: PathBuf) -> Vec<PathBuf> {
    let has_keys = TOOL_CREDENTIAL_FILE_NAMES
        .iter()
        .any(|file| folder.join(file).exists());
    match has_keys {
        true => READABLE_TOOL_SUBFOLDER_NAMES
            .iter()
            .map(|part| folder.join(part))
            .collect(),
        false => vec![folder],
    }
}

/// Words whose occurrence in a settings file indicates that it contains a secret.
const SETTINGS_FILE_SECRET_WORDS: &[&str] =
    &["token", "password", "passwd", "secret", "credential"];

/// Whether a file contains neither a secret word nor a URL with a user name. Returns false if the
/// file cannot be read.
fn is_file_free_of_secrets(path: &Path) -> bool {
    let Ok(text) = std::fs::read_to_string(path) else {
        return false;
    };
    let text = text.to_lowercase();
    let has_user = |rest: &str| {
        rest.split(['/', '"', '\'', '\n', ' '])
            .next()
            .is_some_and(|host| host.contains('@'))
    };
    !SETTINGS_FILE_SECRET_WORDS
        .iter()
        .any(|word| text.contains(word))
        && !text.split("://").skip(1).any(has_user)
}

fn filter_existing_paths(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    paths.filter(|path| path.exists()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_cargo_are_opened_only_without_secrets() {
        for (text, is_opened) in [
            (
                "[build]\njobs = 4\n[net]\nproxy = \"http://proxy:3128/a@b\"\n",
                true,
            ),
            ("[registry]\ntoken = \"x\"\n", false),
            (
                "[source.own]\nregistry = \"https://me:pass@example.com/index\"\n",
                false,
            ),
        ] {
            let home = tempfile::tempdir().unwrap();
            let settings = home.path().join(".cargo/config.toml");
            std::fs::create_dir(home.path().join(".cargo")).unwrap();
            std::fs::write(&settings, text).unwrap();
            assert_eq!(
                list_tool_folders_in_home(home.path()).contains(&settings),
                is_opened,
                "{text}"
            );
        }
    }

    #[test]
    fn folders_of_tools_that_variables_name_are_opened_without_the_keys_in_them() {
        let folder = tempfile::tempdir().unwrap();
        let cargo = folder.path().join("cargo");
        for name in ["bin", "registry", "secrets"] {
            std::fs::create_dir_all(cargo.join(name)).unwrap();
        }
        std::fs::write(cargo.join("credentials.toml"), "token").unwrap();
        let (bin, registry) = (cargo.join("bin"), cargo.join("registry"));
        let python = format!("{}:{}:relative", bin.display(), registry.display());
        let env = [
            ("CARGO_HOME".into(), cargo.clone().into_os_string()),
            ("PYTHONPATH".into(), python.into()),
            ("JAVA_HOME".into(), cargo.join("missing").into_os_string()),
            ("MY_HOME".into(), cargo.join("secrets").into_os_string()),
        ];
        let opened = list_toolchain_folders_in_env(&env);
        assert_eq!(opened, [bin.clone(), registry.clone(), bin, registry]);
    }

    #[test]
    fn a_tool_folder_with_a_key_file_is_opened_in_part() {
        let home = tempfile::tempdir().unwrap();
        for folder in ["gems", "other"] {
            std::fs::create_dir_all(home.path().join(folder)).unwrap();
        }
        let env = [("GEM_HOME".into(), home.path().as_os_str().to_owned())];
        assert_eq!(list_toolchain_folders_in_env(&env), [home.path()]);
        std::fs::write(home.path().join("credentials"), "").unwrap();
        assert_eq!(
            list_toolchain_folders_in_env(&env),
            [home.path().join("gems")]
        );
    }

    #[test]
    fn where_git_keeps_passwords_is_not_opened_with_what_it_ignores() {
        let home = tempfile::tempdir().unwrap();
        let git = home.path().join(".config/git");
        std::fs::create_dir_all(&git).unwrap();
        for name in ["attributes", "config", "ignore", "credentials"] {
            std::fs::write(git.join(name), "").unwrap();
        }
        let opened = list_tool_folders_in_home(home.path());
        let is_open = |name: &str| opened.iter().any(|path| git.join(name).starts_with(path));
        assert!(is_open("attributes") && is_open("ignore"));
        // Settings files may contain passwords and tokens too.
        assert!(!is_open("credentials") && !is_open("config"));
    }
}
