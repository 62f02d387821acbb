//! Reads the settings of the ordinary clients (npm, pip, uv, cargo): the address of a registry and
//! its credentials.
//!
//! Only the settings of the user and of the machine are read. Settings in the current folder are
//! ignored, because a malicious project could set its own registry in them. A settings file that
//! exists but cannot be read is an error: otherwise the default, public registry would be used, and
//! would learn the names of private packages.

mod cargo;
mod netrc;
mod npm;
mod pip;
mod proxy;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::OFlags;
use toml::Table;

use super::PackageKind;
use super::defaults::default_registry_url;
use super::reference::PackageReference;
use crate::contents::{open_file_with_flags, read_open_file_with_limit};
use crate::registry::{RegistryAddress, Url, is_loopback_host, parse_url};

/// Maximum size of a client's settings file in bytes. Usual ones have some hundred bytes.
const MAX_CLIENT_SETTINGS_FILE_BYTES: u64 = 1 << 20;

/// Environment variables that contain the addresses of proxies.
const PROXY_ENVIRONMENT_VARIABLES: [&str; 6] = [
    "HTTPS_PROXY",
    "https_proxy",
    "HTTP_PROXY",
    "http_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Function that looks up an environment variable by name. Returns `None` if the variable is unset
/// or empty.
pub type EnvVariableLookupFn = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Environment variables and home folder, with which the settings of the clients (npm, pip, cargo)
/// are found.
#[derive(Clone)]
pub struct PackageClientEnvironment {
    /// Looks up an environment variable.
    pub variable: EnvVariableLookupFn,
    /// Home folder of the user; `None` if it is not known.
    pub home: Option<PathBuf>,
}

impl PackageClientEnvironment {
    fn env_variable(&self, name: &str) -> Option<String> {
        (self.variable)(name)
    }

    /// Returns the value and the name of the first environment variable in `names` that is set.
    fn find_first_set_variable(&self, names: &[&str]) -> Option<(String, String)> {
        let mut set = names
            .iter()
            .filter_map(|name| Some((self.env_variable(name)?, (*name).to_owned())));
        set.next()
    }

    /// Returns the path of a file in the home folder; `None` if the home folder is not known.
    fn path_in_home_folder(&self, path: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(path))
    }
}

/// Address of a package registry as set in a client's settings.
struct ConfiguredRegistry {
    url: String,
    /// Name of the setting that contains the address, for messages.
    setting: String,
    /// Value of the header `Authorization` for the registry; `None` without credentials.
    authorization: Option<String>,
}

/// Finds the address of a package's registry in the same settings as the package's ordinary client.
pub(super) fn find_registry(
    environment: &PackageClientEnvironment,
    reference: &PackageReference,
) -> anyhow::Result<RegistryAddress> {
    let found = match reference.kind {
        PackageKind::Npm => npm::find_registry(environment, &reference.name)?,
        PackageKind::Pypi => pip::find_registry(environment)?,
        PackageKind::Crates => cargo::find_registry(environment)?,
    };
    let found = found.or_else(|| {
        let url = default_registry_url(reference.kind)?;
        Some(ConfiguredRegistry {
            url: url.to_owned(),
            setting: "the defaults".to_owned(),
            authorization: None,
        })
    });
    let (setting, login) = match reference.kind {
        PackageKind::Npm => (
            "`registry` in ~/.npmrc or the variable npm_config_registry",
            "set `//HOST/:_authToken` in ~/.npmrc, as `npm login` does",
        ),
        PackageKind::Pypi => (
            "the variable PIP_INDEX_URL or `index-url` in pip.conf",
            "put them into ~/.netrc, or into the address in PIP_INDEX_URL or pip.conf, as https://USER:PASSWORD@HOST/",
        ),
        PackageKind::Crates => (
            "`[source]` in config.toml of cargo's home",
            "set the token with `cargo login`",
        ),
    };
    let found = found.with_context(|| format!("no registry is configured: set {setting}"))?;
    let mut address = validate_registry_address(found, login, environment)?;
    address.proxy = proxy::find_proxy(environment, reference.kind)?;
    let own = address
        .proxy
        .iter()
        .filter_map(|proxy| proxy.url.host_str());
    address.proxies.extend(own.map(str::to_owned));
    // npm and cargo do not read `.netrc`.
    if reference.kind == PackageKind::Pypi && address.authorization.is_none() {
        let host = address.base.host_str().unwrap_or_default();
        let login = netrc::find_netrc_login(environment, host)?;
        address.authorization = login.map(|login| basic_auth_header(&login));
    }
    Ok(address)
}

/// Checks a configured address. Moves credentials in the URL into the header `Authorization`, so
/// that no message shows them.
fn validate_registry_address(
    found: ConfiguredRegistry,
    login: &'static str,
    environment: &PackageClientEnvironment,
) -> anyhow::Result<RegistryAddress> {
    let ConfiguredRegistry {
        url,
        setting,
        mut authorization,
    } = found;
    let mut base = parse_url(&url).with_context(|| format!("{setting} is not a URL"))?;
    if let Some(password) = read_url_credentials(&base) {
        authorization = Some(basic_auth_header(&password));
    }
    // These setters fail only for URLs without a host, which are refused below.
    let _ = base.set_username("");
    let _ = base.set_password(None);
    base.set_query(None);
    base.set_fragment(None);
    let host = base.host_str().unwrap_or_default().to_owned();
    let is_safe = base.scheme() == "https" || (base.scheme() == "http" && is_loopback_host(&host));
    ensure!(
        is_safe && !host.is_empty(),
        "{setting} names `{}`, which is neither https nor on this machine: its answers could be tampered with in transit",
        rind_lib::text::escape_and_truncate_line(base.as_str(), 200)
    );
    if !base.path().ends_with('/') {
        let path = format!("{}/", base.path());
        base.set_path(&path);
    }
    Ok(RegistryAddress {
        base,
        authorization,
        setting,
        login,
        proxy: None,
        proxies: proxy_hosts_from_env(environment),
    })
}

/// Returns the percent-decoded `USER:PASSWORD` of a URL; `None` if both are empty.
fn read_url_credentials(url: &Url) -> Option<String> {
    let decoded = |text: &str| decode_percent_encoding(text);
    let password = url.password().map(decoded).unwrap_or_default();
    let user = decoded(url.username());
    (!user.is_empty() || !password.is_empty()).then(|| format!("{user}:{password}"))
}

/// Decodes `%XX` sequences; other text stays unchanged.
fn decode_percent_encoding(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let code = after.get(..2);
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (code, after.get(2..)) {
            (Some(code), Some(left)) => {
                bytes.push(code);
                rest = left;
            }
            _ => {
                bytes.push(b'%');
                rest = after;
            }
        }
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the value of the header `Authorization` for a text `USER:PASSWORD`.
fn basic_auth_header(credentials: &str) -> String {
    format!("Basic {}", STANDARD.encode(credentials))
}

/// Lists the hosts of the proxies in the environment variables. Connections to these hosts are
/// allowed even if their IP addresses are private.
fn proxy_hosts_from_env(environment: &PackageClientEnvironment) -> Vec<String> {
    let host = |name: &&str| {
        let text = environment.env_variable(name)?;
        let text = match text.contains("://") {
            true => text,
            false => format!("http://{text}"),
        };
        parse_url(&text).ok()?.host_str().map(str::to_owned)
    };
    PROXY_ENVIRONMENT_VARIABLES
        .iter()
        .filter_map(host)
        .collect()
}

/// Reads a settings file; `None` if the file does not exist.
fn read_settings_file(path: &Path) -> anyhow::Result<Option<String>> {
    let shown = path.display();
    // Users set `/dev/null` as the settings file to make a client read none.
    if path == Path::new("/dev/null") {
        return Ok(None);
    }
    let file = match open_file_with_flags(path, OFlags::empty()) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => {
            return Err(error).with_context(|| {
                format!("cannot read the settings file {shown}, which may set the registry")
            });
        }
    };
    let bytes = read_open_file_with_limit(file, path, MAX_CLIENT_SETTINGS_FILE_BYTES)?;
    let text = String::from_utf8(bytes);
    text.map(Some)
        .with_context(|| format!("{shown} is not UTF-8"))
}

/// Reads a settings file in TOML; `None` if the file does not exist.
fn read_toml_table(path: &Path) -> anyhow::Result<Option<Table>> {
    let Some(text) = read_settings_file(path)? else {
        return Ok(None);
    };
    // The parser's error is dropped: it quotes the line, which may contain a token.
    let table = text.parse::<Table>().ok();
    let table = table.with_context(|| format!("{} is not TOML", path.display()))?;
    Ok(Some(table))
}

/// Setting in an INI file: a line `KEY = VALUE` with its section.
struct IniSetting<'a> {
    /// Name of the section; empty for lines before the first section.
    section: &'a str,
    key: &'a str,
    /// Value of the setting, without quotes.
    value: &'a str,
}

/// Lists the lines `KEY = VALUE` of an INI file, with their sections.
fn parse_ini(text: &str) -> Vec<IniSetting<'_>> {
    let mut section = "";
    let mut settings = Vec::new();
    for line in text.lines().map(str::trim) {
        let named = line.strip_prefix('[');
        if let Some(name) = named.and_then(|rest| rest.strip_suffix(']')) {
            section = name.trim();
        } else if !line.starts_with(['#', ';'])
            && let Some((key, value)) = line.split_once('=')
        {
            let value = value.trim();
            let quoted = ['"', '\'']
                .iter()
                .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
            settings.push(IniSetting {
                section,
                key: key.trim(),
                value: quoted.unwrap_or(value),
            });
        }
    }
    settings
}

#[cfg(test)]
mod tests;
