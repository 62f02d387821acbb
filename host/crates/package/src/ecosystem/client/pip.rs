//! Reads the settings of pip and uv: environment variables, and `pip.conf` and `uv.toml` of the
//! user and of the machine. Settings of a virtual environment and of a project are ignored.

use std::path::PathBuf;

use toml::Table;

use super::proxy::ConfiguredProxy;
use super::{
    ConfiguredRegistry, PackageClientEnvironment, parse_ini, read_settings_file, read_toml_table,
};

/// Environment variables with the address of a package index, in the order of precedence.
const INDEX_URL_ENVIRONMENT_VARIABLES: [&str; 3] =
    ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"];

/// Value of `PIP_CONFIG_FILE` that makes pip read no settings file.
const EMPTY_PIP_CONFIG_FILE_PATH: &str = "/dev/null";

/// Finds the configured index of Python packages. Additional indexes (`extra-index-url`) are
/// ignored: with two indexes, an attacker could publish a package of the same name in the other
/// one.
pub(super) fn find_registry(
    environment: &PackageClientEnvironment,
) -> anyhow::Result<Option<ConfiguredRegistry>> {
    if let Some((value, name)) =
        environment.find_first_set_variable(&INDEX_URL_ENVIRONMENT_VARIABLES)
    {
        return Ok(Some(ConfiguredRegistry {
            url: strip_uv_index_name(&value).to_owned(),
            setting: format!("the variable {name}"),
            authorization: None,
        }));
    }
    for path in pip_settings_paths(environment) {
        let Some(text) = read_settings_file(&path)? else {
            continue;
        };
        let settings = parse_ini(&text);
        let find = |section: &str| {
            let mut all = settings.iter().rev();
            all.find(|setting| {
                setting.section == section && setting.key.replace('_', "-") == "index-url"
            })
        };
        if let Some(setting) = find("install").or_else(|| find("global")) {
            return Ok(Some(ConfiguredRegistry {
                url: setting.value.to_owned(),
                setting: format!("`index-url` in {}", path.display()),
                authorization: None,
            }));
        }
    }
    for path in list_uv_settings_paths(environment) {
        let table = read_toml_table(&path)?;
        if let Some((url, key)) = table.as_ref().and_then(find_uv_index_url) {
            return Ok(Some(ConfiguredRegistry {
                url: url.to_owned(),
                setting: format!("`{key}` in {}", path.display()),
                authorization: None,
            }));
        }
    }
    Ok(None)
}

/// Finds the proxy of pip. uv has no proxy setting besides the shared environment variables.
pub(super) fn find_proxy(
    environment: &PackageClientEnvironment,
) -> anyhow::Result<Option<ConfiguredProxy>> {
    let found = |address: &str, setting: String| {
        (!address.is_empty()).then(|| ConfiguredProxy {
            address: address.to_owned(),
            setting,
            exceptions: None,
            port: 80,
        })
    };
    if let Some(address) = environment.env_variable("PIP_PROXY") {
        return Ok(found(&address, "the variable PIP_PROXY".to_owned()));
    }
    for path in pip_settings_paths(environment) {
        let Some(text) = read_settings_file(&path)? else {
            continue;
        };
        let settings = parse_ini(&text);
        let find = |section: &str| {
            let mut all = settings.iter().rev();
            all.find(|setting| setting.section == section && setting.key == "proxy")
        };
        if let Some(setting) = find("install").or_else(|| find("global")) {
            return Ok(found(
                setting.value,
                format!("`proxy` in {}", path.display()),
            ));
        }
    }
    Ok(None)
}

/// Returns the URL of the default index in uv's settings, and the key that sets it.
fn find_uv_index_url(table: &Table) -> Option<(&str, &'static str)> {
    let indexes = table.get("index").and_then(toml::Value::as_array);
    let tables = indexes
        .into_iter()
        .flatten()
        .filter_map(|index| index.as_table());
    let mut default = tables.filter(|index| {
        index
            .get("default")
            .is_some_and(|is| is.as_bool() == Some(true))
    });
    let named = default.next().and_then(|index| index.get("url")?.as_str());
    let general = || table.get("index-url")?.as_str();
    let url = named.map(|url| (url, "[[index]]"));
    url.or_else(|| Some((general()?, "index-url")))
}

/// Lists the paths of uv's settings files, in the order of precedence.
fn list_uv_settings_paths(environment: &PackageClientEnvironment) -> Vec<PathBuf> {
    if let Some(named) = environment.env_variable("UV_CONFIG_FILE") {
        return vec![PathBuf::from(named)];
    }
    if environment.env_variable("UV_NO_CONFIG").is_some() {
        return Vec::new();
    }
    let user = find_user_config_folder(environment).map(|folder| folder.join("uv/uv.toml"));
    let machine = ["/etc/xdg/uv/uv.toml", "/etc/uv/uv.toml"].map(PathBuf::from);
    user.into_iter().chain(machine).collect()
}

/// Returns the folder for the user's configuration files; `None` if it is not known.
fn find_user_config_folder(environment: &PackageClientEnvironment) -> Option<PathBuf> {
    let named = environment
        .env_variable("XDG_CONFIG_HOME")
        .map(PathBuf::from);
    named.or_else(|| environment.path_in_home_folder(".config"))
}

/// Lists the paths of pip's settings files, in the order of precedence.
fn pip_settings_paths(environment: &PackageClientEnvironment) -> Vec<PathBuf> {
    let named = environment.env_variable("PIP_CONFIG_FILE");
    if named.as_deref() == Some(EMPTY_PIP_CONFIG_FILE_PATH) {
        return Vec::new();
    }
    let config = find_user_config_folder(environment);
    let files = [
        named.map(PathBuf::from),
        config.map(|folder| folder.join("pip/pip.conf")),
        environment.path_in_home_folder(".pip/pip.conf"),
        Some(PathBuf::from("/etc/xdg/pip/pip.conf")),
        Some(PathBuf::from("/etc/pip.conf")),
    ];
    files.into_iter().flatten().collect()
}

/// Removes the name that uv allows in front of the address of an index.
fn strip_uv_index_name(value: &str) -> &str {
    let is_name = |text: &str| {
        text.chars()
            .all(|c| c.is_alphanumeric() || "-_.".contains(c))
    };
    match value.split_once('=') {
        Some((name, url)) if is_name(name) => url,
        _ => value,
    }
}
