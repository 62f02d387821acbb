//! Selects the user's environment variables to pass to commands and scripts: variables that build
//! tools need, and variables named in the settings. A variable that looks like a secret is passed
//! only if the settings contain its full name.
//!
//! This module must not know which program runs. Start from [`Passed`].

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::environment::{base_environment, own_variables, set_variable, unattended_variables};
use rind_base::secret::Scanner;

/// Variables that are passed by default: locations and versions of tools, and build options.
const USUAL: &[&str] = &[
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "AR",
    "BUN_INSTALL",
    "CARGO_BUILD_JOBS",
    "CARGO_HOME",
    "CARGO_NET_OFFLINE",
    "CC",
    "CFLAGS",
    "CI",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "CXX",
    "CXXFLAGS",
    "DENO_DIR",
    "DOTNET_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "GOBIN",
    "GOFLAGS",
    "GOMODCACHE",
    "GOPATH",
    "GOROOT",
    "GOTOOLCHAIN",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "JAVA_HOME",
    "JDK_HOME",
    "LDFLAGS",
    "LOGNAME",
    "M2_HOME",
    "MAVEN_HOME",
    "NIX_PATH",
    "NODE_ENV",
    "NODE_PATH",
    "NVM_DIR",
    "PKG_CONFIG_PATH",
    "PNPM_HOME",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "PYTHONPATH",
    "RBENV_ROOT",
    "RBENV_VERSION",
    "RUBYLIB",
    "RUSTFLAGS",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "RUST_BACKTRACE",
    "SOURCE_DATE_EPOCH",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "TZ",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    "ALL_PROXY",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "all_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Hosts of servers that a command starts itself, which are reached without a proxy. Used for both
/// spellings of the variable.
const NO_PROXY: &str = "localhost,127.0.0.1,::1";

/// Substrings of the names of secret variables.
const SECRET_PARTS: &[&str] = &[
    "APIKEY",
    "AUTH",
    "COOKIE",
    "CREDENTIAL",
    "DATABASE_URL",
    "DSN",
    "KEY",
    "PASSWD",
    "PASSPHRASE",
    "PASSWORD",
    "PRIVATE",
    "SECRET",
    "TOKEN",
];

/// Words between underscores in the names of secret variables. A word must match completely: `PATH`
/// is not a secret.
const SECRET_WORDS: &[&str] = &["PASS", "PAT", "PIN", "PW", "PWD", "SESSION"];

/// Minimum length in bytes of a secret that is masked in output. Shorter values also occur within
/// ordinary words.
const MIN_SECRET_BYTES: usize = 8;

/// Names of additional variables to pass: full names, and prefixes, which are written with a `*` at
/// the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Passed {
    names: Vec<String>,
    prefixes: Vec<String>,
    /// Whether all variables are passed, including secrets.
    is_all: bool,
}

impl Passed {
    /// Passes all variables, including secrets, for commands that the user types.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            is_all: true,
            ..Self::default()
        }
    }

    /// Returns the complete environment of a command: the base variables, the variables that keep
    /// programs from waiting for a user, and the passed variables. The later ones override the
    /// earlier ones.
    #[must_use]
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        if self.is_all {
            let mut env: Vec<_> = own_variables().collect();
            for (name, value) in unattended_variables() {
                set_variable(&mut env, name, value);
            }
            return env;
        }
        let mut env = base_environment();
        env.extend(unattended_variables());
        for (name, value) in self.passed(own_variables()) {
            set_variable(&mut env, name, value);
        }
        keep_loopback_from_proxies(&mut env);
        env
    }

    /// Returns the names and values of passed variables that look like secrets, to be masked in
    /// output.
    #[must_use]
    pub fn secrets(&self) -> Vec<(String, String)> {
        self.secrets_in(own_variables())
    }

    fn secrets_in(&self, env: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
        let texts = self
            .passed(env)
            .filter_map(|(name, value)| Some((name, value.into_string().ok()?)));
        let is_secret = |(name, value): &(String, String)| {
            value.len() >= MIN_SECRET_BYTES
                && looks_like_secret(name, value)
                && !(self.is_all && is_place(name, value))
        };
        texts.filter(is_secret).collect()
    }

    fn passed(
        &self,
        env: impl Iterator<Item = (OsString, OsString)>,
    ) -> impl Iterator<Item = (String, OsString)> {
        env.filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            self.passes(&name, &value.to_string_lossy())
                .then_some((name, value))
        })
    }

    fn passes(&self, name: &str, value: &str) -> bool {
        if self.is_all || self.names.iter().any(|named| named == name) {
            return true;
        }
        let is_wanted = USUAL.contains(&name)
            || self
                .prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.as_str()));
        is_wanted && !looks_like_secret(name, value)
    }
}

impl TryFrom<Vec<String>> for Passed {
    type Error = String;

    fn try_from(patterns: Vec<String>) -> Result<Self, String> {
        let mut passed = Self::default();
        for pattern in patterns {
            let (text, is_prefix) = match pattern.strip_suffix('*') {
                Some(prefix) => (prefix, true),
                None => (pattern.as_str(), false),
            };
            let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            let is_name = text.bytes().all(is_word)
                && !text.starts_with(|first: char| first.is_ascii_digit());
            if !is_name || (text.is_empty() && !is_prefix) {
                return Err(format!(
                    "`{pattern}` is not the name of an environment variable; write a name such as `MY_SETTING`, or a prefix \
                     such as `MY_*`"
                ));
            }
            let list = if is_prefix {
                &mut passed.prefixes
            } else {
                &mut passed.names
            };
            list.push(text.to_owned());
        }
        Ok(passed)
    }
}

impl From<Passed> for Vec<String> {
    fn from(passed: Passed) -> Self {
        let prefixes = passed.prefixes.into_iter().map(|prefix| prefix + "*");
        passed.names.into_iter().chain(prefixes).collect()
    }
}

/// Whether the name or the value of a variable looks like a secret. A proxy URL with a password
/// does, for example.
fn looks_like_secret(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_PARTS.iter().any(|part| name.contains(part))
        || name.split('_').any(|word| SECRET_WORDS.contains(&word))
        || has_user_info(value)
        || is_proxy(&name) && value.contains('@')
        || Scanner::shared().mask(value).is_some()
}

/// Whether a variable contains a path or describes the desktop although its name looks like that of
/// a secret, such as `PWD`, `SSH_AUTH_SOCK` or `DESKTOP_SESSION`. Masking such values would hide
/// ordinary words and paths.
fn is_place(name: &str, value: &str) -> bool {
    let is_of_desktop = ["DBUS_", "DESKTOP_", "XDG_"];
    is_of_desktop.iter().any(|prefix| name.starts_with(prefix))
        || (value.starts_with('/') && Path::new(value).exists())
}

/// Whether a text contains a URL with a user or a password, `scheme://user:password@host`.
fn has_user_info(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let host = rest.split(['/', '?', '#', ' ', ',']).next();
        host.is_some_and(|host| host.contains('@'))
    })
}

/// Whether a variable with this name (in upper or lower case) contains the address of a proxy.
/// Programs accept a proxy address without a scheme and with any character in the password, so for
/// these variables an `@` suffices as evidence of credentials.
fn is_proxy(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("_proxy") && name != "no_proxy"
}

/// Excludes loopback from proxies, so that programs connect directly to servers that the command
/// starts.
fn keep_loopback_from_proxies(env: &mut Vec<(OsString, OsString)>) {
    if !env
        .iter()
        .any(|(name, _)| is_proxy(&name.to_string_lossy()))
    {
        return;
    }
    for name in ["NO_PROXY", "no_proxy"] {
        let held = env.iter().find(|(held, _)| held == name);
        let held = held.map(|(_, value)| value.to_string_lossy().into_owned());
        let value = match held.filter(|held| !held.is_empty()) {
            Some(held) => format!("{held},{NO_PROXY}"),
            None => NO_PROXY.to_owned(),
        };
        set_variable(env, name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(patterns: &[&str]) -> Passed {
        let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        Passed::try_from(patterns).unwrap()
    }

    #[test]
    fn with_everything_secrets_are_masked_and_places_are_not() {
        let env = [
            ("MY_API_TOKEN", "t0k3n-of-mine"),
            ("PWD", "/usr/bin"),
            ("SSH_AUTH_SOCK", "/usr/bin"),
            ("DESKTOP_SESSION", "wordofmine"),
            ("KEY_FILE", "/not/there/at/all"),
        ];
        let env = env.map(|(name, value)| (name.into(), value.into()));
        let found = Passed::everything().secrets_in(env.into_iter());
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["MY_API_TOKEN", "KEY_FILE"]);
    }

    #[test]
    fn usual_variables_and_named_ones_are_passed_and_secrets_only_by_their_whole_name() {
        let settings = passed(&["MY_SETTING", "APP_*", "DEPLOY_TOKEN", "*"]);
        for (name, value) in [
            ("JAVA_HOME", "/opt/java"),
            ("http_proxy", "http://proxy:3128"),
            ("MY_SETTING", "1"),
            ("APP_MODE", "dev"),
            ("DEPLOY_TOKEN", "t0k3n-of-mine"),
            ("PYTHONPATH", "/opt/py"),
        ] {
            assert!(settings.passes(name, value), "{name}");
        }
        for (name, value) in [
            ("APP_TOKEN", "x"),
            ("app_api_key", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("PGPASSWORD", "x"),
            ("DB_PASS", "x"),
            ("GITHUB_PAT", "x"),
            ("APP_CREDENTIALS", "x"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("HTTP_PROXY", "http://me:word@proxy:3128"),
            ("HTTPS_PROXY", "me:word@proxy:3128"),
            ("https_proxy", "http://me:wo/rd@proxy:3128"),
            ("APP_REMOTE", "https://me:word@example.com/x"),
            ("APP_NOTE", "ghp_Zx9Kq2Lm7Vb4Nt8Rw1Yp6Hd3Jf5Gc0AsQeU1"),
        ] {
            assert!(!settings.passes(name, value), "{name}");
        }
        let none = Passed::default();
        assert!(none.passes("CI", "true") && !none.passes("MY_SETTING", "1"));
    }

    #[test]
    fn only_names_and_prefixes_are_settings() {
        for text in ["", "A=b", "$A", "*A", "A*B", "1A", "A B", "ä"] {
            let error = Passed::try_from(vec![text.to_owned()]).unwrap_err();
            assert!(error.contains("a name such as"), "{text}: {error}");
        }
        let list: Vec<String> = passed(&["A", "B_*", "*"]).into();
        assert_eq!(list, ["A", "B_*", "*"]);
    }

    #[test]
    fn a_proxy_is_not_asked_for_servers_on_loopback() {
        let proxied = |env: &[(&str, &str)]| {
            let mut env = env
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect();
            keep_loopback_from_proxies(&mut env);
            let found = env.into_iter().find(|(name, _)| name == "no_proxy");
            found.map(|(_, value)| value.into_string().unwrap())
        };
        assert_eq!(proxied(&[("CI", "1"), ("no_proxy", "a")]).unwrap(), "a");
        assert_eq!(proxied(&[("CI", "1")]), None);
        let with = [("https_proxy", "http://p"), ("no_proxy", "a")];
        assert_eq!(proxied(&with).unwrap(), "a,localhost,127.0.0.1,::1");
    }
}
