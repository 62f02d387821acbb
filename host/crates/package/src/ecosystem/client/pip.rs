//! Settings of pip and uv: variables, and `pip.conf` of the user and of the machine. That of a
//! virtual environment is ignored, which may be in a project.

use std::path::PathBuf;

use super::{ClientEnvironment, ConfiguredRegistry, ini_settings, read_settings};

/// Variables with the address of an index, the stronger ones first.
const VARIABLES: [&str; 3] = ["PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL"];

/// Value of `PIP_CONFIG_FILE` with which pip reads no file.
const NO_FILE: &str = "/dev/null";

/// Finds the index of Python packages. Additional indexes are ignored: a name could be taken from
/// either.
pub(super) fn find_registry(
    environment: &ClientEnvironment,
) -> anyhow::Result<Option<ConfiguredRegistry>> {
    if let Some((value, name)) = environment.first_variable(&VARIABLES) {
        return Ok(Some(ConfiguredRegistry {
            url: without_name(&value).to_owned(),
            setting: format!("the variable {name}"),
            authorization: None,
        }));
    }
    for path in settings_files(environment) {
        let Some(text) = read_settings(&path)? else {
            continue;
        };
        let settings = ini_settings(&text);
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
    Ok(None)
}

/// Lists the settings files of pip, the stronger ones first.
fn settings_files(environment: &ClientEnvironment) -> Vec<PathBuf> {
    let named = environment.variable("PIP_CONFIG_FILE");
    if named.as_deref() == Some(NO_FILE) {
        return Vec::new();
    }
    let config = environment.variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| environment.in_home(".config"));
    let files = [
        named.map(PathBuf::from),
        config.map(|folder| folder.join("pip/pip.conf")),
        environment.in_home(".pip/pip.conf"),
        Some(PathBuf::from("/etc/xdg/pip/pip.conf")),
        Some(PathBuf::from("/etc/pip.conf")),
    ];
    files.into_iter().flatten().collect()
}

/// Removes the name of an index, which uv allows before the address.
///
/// For example:
///
/// ```text
/// ours=https://a.example/simple   ->  https://a.example/simple
/// ```
fn without_name(value: &str) -> &str {
    let is_name = |text: &str| {
        text.chars()
            .all(|c| c.is_alphanumeric() || "-_.".contains(c))
    };
    match value.split_once('=') {
        Some((name, url)) if is_name(name) => url,
        _ => value,
    }
}
