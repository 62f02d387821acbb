//! Selects the user's environment variables to pass to commands and scripts: variables that build
//! tools need, and variables named in the settings. A variable that looks like a secret is passed
//! only if the settings contain its full name.
//!
//! This module must not depend on the program that runs. Start from [`VariablesToPass`].

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::environment::{
    base_environment, noninteractive_env_variables, set_environment_variable,
    variables_of_this_process,
};
use rind_base::secret::SecretScanner;

/// Variables that are passed by default: locations and versions of tools, and build options.
const DEFAULT_PASSED_VARIABLES: &[&str] = &[
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

/// Hosts of servers that a command starts itself. They are reached without a proxy. The value is
/// used for `NO_PROXY` and `no_proxy`.
const NO_PROXY_HOSTS: &str = "localhost,127.0.0.1,::1";

/// Substrings by which the name of an environment variable indicates a secret.
const SECRET_VARIABLE_NAME_SUBSTRINGS: &[&str] = &[
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

/// Words that mark a variable as secret if they occur between underscores in its name. The complete
/// word must match, so `PATH` is not a secret.
const SECRET_VARIABLE_NAME_WORDS: &[&str] = &["PASS", "PAT", "PIN", "PW", "PWD", "SESSION"];

/// Minimum length in bytes of a secret that is masked in output. Shorter values also occur within
/// ordinary words.
const MIN_MASKED_SECRET_BYTES: usize = 8;

/// Names of additional variables to pass. An entry is a full name, or a prefix that is written with
/// a `*` at the end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct VariablesToPass {
    names: Vec<String>,
    prefixes: Vec<String>,
    /// Whether all variables are passed, including secrets.
    is_all: bool,
}

impl VariablesToPass {
    /// Passes all variables, including secrets, for commands that the user types.
    #[must_use]
    pub fn with_all_variables() -> Self {
        Self {
            is_all: true,
            ..Self::default()
        }
    }

    /// Returns the complete environment of a command: the base variables, the variables that keep
    /// programs from waiting for a user, and the passed variables. If a variable occurs several
    /// times, the last value applies.
    #[must_use]
    pub fn command_environment(&self) -> Vec<(OsString, OsString)> {
        if self.is_all {
            let mut env: Vec<_> = variables_of_this_process().collect();
            for (name, value) in noninteractive_env_variables() {
                set_environment_variable(&mut env, name, value);
            }
            return env;
        }
        let mut env = base_environment();
        env.extend(noninteractive_env_variables());
        for (name, value) in self.filter_environment(variables_of_this_process()) {
            set_environment_variable(&mut env, name, value);
        }
        exclude_loopback_from_proxies(&mut env);
        env
    }

    /// Returns the names and values of passed variables that look like secrets, to be masked in
    /// output.
    #[must_use]
    pub fn secret_variables(&self) -> Vec<(String, String)> {
        self.secret_values_in_env(variables_of_this_process())
    }

    fn secret_values_in_env(
        &self,
        env: impl Iterator<Item = (OsString, OsString)>,
    ) -> Vec<(String, String)> {
        let texts = self
            .filter_environment(env)
            .filter_map(|(name, value)| Some((name, value.into_string().ok()?)));
        let is_secret = |(name, value): &(String, String)| {
            value.len() >= MIN_MASKED_SECRET_BYTES
                && is_likely_secret_variable(name, value)
                && !(self.is_all && is_path_or_desktop_variable(name, value))
        };
        texts.filter(is_secret).collect()
    }

    fn filter_environment(
        &self,
        env: impl Iterator<Item = (OsString, OsString)>,
    ) -> impl Iterator<Item = (String, OsString)> {
        env.filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            self.can_pass_variable(&name, &value.to_string_lossy())
                .then_some((name, value))
        })
    }

    fn can_pass_variable(&self, name: &str, value: &str) -> bool {
        if self.is_all || self.names.iter().any(|named| named == name) {
            return true;
        }
        let is_wanted = DEFAULT_PASSED_VARIABLES.contains(&name)
            || self
                .prefixes
                .iter()
                .any(|prefix| name.starts_with(prefix.as_str()));
        is_wanted && !is_likely_secret_variable(name, value)
    }
}

impl TryFrom<Vec<String>> for VariablesToPass {
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

impl From<VariablesToPass> for Vec<String> {
    fn from(passed: VariablesToPass) -> Self {
        let prefixes = passed.prefixes.into_iter().map(|prefix| prefix + "*");
        passed.names.into_iter().chain(prefixes).collect()
    }
}

/// Whether the name or the value of a variable looks like a secret. A proxy URL with a password
/// does, for example.
fn is_likely_secret_variable(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_VARIABLE_NAME_SUBSTRINGS
        .iter()
        .any(|part| name.contains(part))
        || name
            .split('_')
            .any(|word| SECRET_VARIABLE_NAME_WORDS.contains(&word))
        || has_url_with_credentials(value)
        || is_proxy_variable(&name) && value.contains('@')
        || SecretScanner::shared().mask_secrets(value).is_some()
}

/// Whether a variable contains a path or describes the desktop, such as `PWD`, `SSH_AUTH_SOCK` or
/// `DESKTOP_SESSION`. The name of such a variable looks like that of a secret, but masking its
/// value would hide ordinary words and paths.
fn is_path_or_desktop_variable(name: &str, value: &str) -> bool {
    let is_of_desktop = ["DBUS_", "DESKTOP_", "XDG_"];
    is_of_desktop.iter().any(|prefix| name.starts_with(prefix))
        || (value.starts_with('/') && Path::new(value).exists())
}

/// Whether a text contains a URL with a user or a password, `scheme://user:password@host`.
fn has_url_with_credentials(text: &str) -> bool {
    text.split("://").skip(1).any(|rest| {
        let host = rest.split(['/', '?', '#', ' ', ',']).next();
        host.is_some_and(|host| host.contains('@'))
    })
}

/// Whether a variable with this name (in upper or lower case) contains the address of a proxy.
/// Programs accept a proxy address without a scheme and with any character in the password, so an
/// `@` in the value of such a variable suffices as evidence of credentials.
fn is_proxy_variable(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with("_proxy") && name != "no_proxy"
}

/// Adds the loopback hosts to `NO_PROXY`, so that programs connect directly to servers that the
/// command starts.
fn exclude_loopback_from_proxies(env: &mut Vec<(OsString, OsString)>) {
    if !env
        .iter()
        .any(|(name, _)| is_proxy_variable(&name.to_string_lossy()))
    {
        return;
    }
    for name in ["NO_PROXY", "no_proxy"] {
        let held = env.iter().find(|(held, _)| held == name);
        let held = held.map(|(_, value)| value.to_string_lossy().into_owned());
        let value = match held.filter(|held| !held.is_empty()) {
            Some(held) => format!("{held},{NO_PROXY_HOSTS}"),
            None => NO_PROXY_HOSTS.to_owned(),
        };
        set_environment_variable(env, name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed_variables(patterns: &[&str]) -> VariablesToPass {
        let patterns: Vec<String> = patterns.iter().map(|text| (*text).to_owned()).collect();
        VariablesToPass::try_from(patterns).unwrap()
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
        let found = VariablesToPass::with_all_variables().secret_values_in_env(env.into_iter());
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["MY_API_TOKEN", "KEY_FILE"]);
    }

    #[test]
    fn usual_variables_and_named_ones_are_passed_and_secrets_only_by_their_whole_name() {
        let settings = passed_variables(&["MY_SETTING", "APP_*", "DEPLOY_TOKEN", "*"]);
        for (name, value) in [
            ("JAVA_HOME", "/opt/java"),
            ("http_proxy", "http://proxy:3128"),
            ("MY_SETTING", "1"),
            ("APP_MODE", "dev"),
            ("DEPLOY_TOKEN", "t0k3n-of-mine"),
            ("PYTHONPATH", "/opt/py"),
        ] {
            assert!(settings.can_pass_variable(name, value), "{name}");
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
            assert!(!settings.can_pass_variable(name, value), "{name}");
        }
        let none = VariablesToPass::default();
        assert!(none.can_pass_variable("CI", "true") && !none.can_pass_variable("MY_SETTING", "1"));
    }

    #[test]
    fn only_names_and_prefixes_are_settings() {
        for text in ["", "A=b", "$A", "*A", "A*B", "1A", "A B", "ä"] {
            let error = VariablesToPass::try_from(vec![text.to_owned()]).unwrap_err();
            assert!(error.contains("a name such as"), "{text}: {error}");
        }
        let list: Vec<String> = passed_variables(&["A", "B_*", "*"]).into();
        assert_eq!(list, ["A", "B_*", "*"]);
    }

    #[test]
    fn a_proxy_is_not_asked_for_servers_on_loopback() {
        let proxied = |env: &[(&str, &str)]| {
            let mut env = env
                .iter()
                .map(|(name, value)| (name.into(), value.into()))
                .collect();
            exclude_loopback_from_proxies(&mut env);
            let found = env.into_iter().find(|(name, _)| name == "no_proxy");
            found.map(|(_, value)| value.into_string().unwrap())
        };
        assert_eq!(proxied(&[("CI", "1"), ("no_proxy", "a")]).unwrap(), "a");
        assert_eq!(proxied(&[("CI", "1")]), None);
        let with = [("https_proxy", "http://p"), ("no_proxy", "a")];
        assert_eq!(proxied(&with).unwrap(), "a,localhost,127.0.0.1,::1");
    }
}
