//! Reads npm's settings: environment variables, the user's `.npmrc`, and the machine's `npmrc`.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::proxy::ConfiguredProxy;
use super::{
    ConfiguredRegistry, PackageClientEnvironment, basic_auth_header, parse_ini, parse_url,
    read_settings_file,
};
use crate::ecosystem::defaults;
use crate::registry::Url;

/// Folder into which npm installs the packages of a project.
const NODE_MODULES_FOLDER_NAME: &str = "node_modules";

/// Lines of npm's settings files, in the order of precedence.
struct NpmSettings {
    /// Key and value of each setting, and path of the settings file that sets it; the setting with
    /// the highest precedence comes first.
    lines: Vec<(String, String, String)>,
}

/// Finds the registry that npm is configured to use for a package.
pub(super) fn find_registry(
    environment: &PackageClientEnvironment,
    name: &str,
) -> anyhow::Result<Option<ConfiguredRegistry>> {
    let settings = NpmSettings::read_npmrc_files(environment)?;
    let scope = name
        .split_once('/')
        .map(|(scope, _)| format!("{scope}:registry"));
    let scoped = scope.and_then(|key| {
        let (value, path) = settings.find_npm_setting(&key)?;
        Some((value, format!("`{key}` in {path}")))
    });
    let variable = || {
        let (value, name) = find_npm_env_variable(environment, "npm_config_registry")?;
        Some((value, format!("the variable {name}")))
    };
    let general = || {
        let (value, path) = settings.find_npm_setting("registry")?;
        Some((value, format!("`registry` in {path}")))
    };
    let default = || {
        Some((
            defaults::DEFAULT_NPM_REGISTRY_URL?.to_owned(),
            "the defaults".to_owned(),
        ))
    };
    let found = scoped.or_else(variable).or_else(general).or_else(default);
    let Some((url, setting)) = found else {
        return Ok(None);
    };
    let url = expand_npmrc_variables(&url, environment)?;
    let authorization = match parse_url(&url) {
        Ok(parsed) => settings.find_authorization_header(&parsed, environment)?,
        Err(_) => None,
    };
    Ok(Some(ConfiguredRegistry {
        url,
        setting,
        authorization,
    }))
}

/// Finds the proxy of npm. Registries are reached over https, so `https-proxy` has precedence over
/// `proxy`.
pub(super) fn find_proxy(
    environment: &PackageClientEnvironment,
) -> anyhow::Result<Option<ConfiguredProxy>> {
    let settings = NpmSettings::read_npmrc_files(environment)?;
    let find = |key: &str| {
        let variable = format!("npm_config_{}", key.replace('-', "_"));
        let variable = find_npm_env_variable(environment, &variable);
        let variable = variable.map(|(value, name)| (value, format!("the variable {name}")));
        let (value, setting) = variable.or_else(|| {
            let (value, path) = settings.find_npm_setting(key)?;
            Some((value, format!("`{key}` in {path}")))
        })?;
        // npm writes `null` for a setting that is not set.
        let is_set = !matches!(value.as_str(), "" | "null" | "false");
        is_set.then_some((value, setting))
    };
    let Some((value, setting)) = find("https-proxy").or_else(|| find("proxy")) else {
        return Ok(None);
    };
    Ok(Some(ConfiguredProxy {
        address: expand_npmrc_variables(&value, environment)?,
        setting,
        exceptions: find("noproxy").map(|(value, _)| value),
        port: 80,
    }))
}

impl NpmSettings {
    fn read_npmrc_files(environment: &PackageClientEnvironment) -> anyhow::Result<Self> {
        let named = |name: &str| {
            let found = find_npm_env_variable(environment, name);
            found.map(|(path, _)| PathBuf::from(path))
        };
        let user =
            named("npm_config_userconfig").or_else(|| environment.path_in_home_folder(".npmrc"));
        let global = named("npm_config_globalconfig").or_else(|| global_npmrc_path(environment));
        let mut lines = Vec::new();
        for path in user.iter().chain(&global) {
            let Some(text) = read_settings_file(path)? else {
                continue;
            };
            let own = parse_ini(&text).into_iter();
            let own = own.filter(|setting| setting.section.is_empty());
            // Within a file, the last line with a key has precedence.
            lines.extend(own.rev().map(|setting| {
                let path = path.display().to_string();
                (setting.key.to_owned(), setting.value.to_owned(), path)
            }));
        }
        Ok(Self { lines })
    }

    /// Returns the value of a key and the path of the file that sets it.
    fn find_npm_setting(&self, key: &str) -> Option<(String, String)> {
        let mut lines = self.lines.iter();
        let (_, value, path) = lines.find(|(own, ..)| own == key)?;
        Some((value.clone(), path.clone()))
    }

    /// Returns the value of the header `Authorization` for a registry. npm stores credentials per
    /// host and path; they also apply to all longer paths.
    fn find_authorization_header(
        &self,
        registry: &Url,
        environment: &PackageClientEnvironment,
    ) -> anyhow::Result<Option<String>> {
        let host = registry.host_str().unwrap_or_default();
        let port = registry.port().map(|port| format!(":{port}"));
        let port = port.unwrap_or_default();
        let mut path = format!("{}/", registry.path().trim_end_matches('/'));
        loop {
            let place = format!("//{host}{port}{path}");
            let value = |name: &str| {
                let places = [place.as_str(), place.trim_end_matches('/')];
                let keys = places.map(|place| format!("{place}:{name}"));
                let found = keys.iter().find_map(|key| self.find_npm_setting(key));
                found
                    .map(|(value, _)| expand_npmrc_variables(&value, environment))
                    .transpose()
            };
            if let Some(token) = value("_authToken")? {
                return Ok(Some(format!("Bearer {token}")));
            }
            if let Some(basic) = value("_auth")? {
                return Ok(Some(format!("Basic {basic}")));
            }
            if let (Some(user), Some(password)) = (value("username")?, value("_password")?) {
                return Ok(Some(basic_auth_header(&format!(
                    "{user}:{}",
                    decode_base64_password(&password)
                        .with_context(|| format!("`{place}:_password` of npm is not base64"))?
                ))));
            }
            let above = path.trim_end_matches('/').rfind('/');
            match above {
                Some(at) => path.truncate(at + 1),
                None => return Ok(None),
            }
        }
    }
}

fn decode_base64_password(text: &str) -> Option<String> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    String::from_utf8(bytes.ok()?).ok()
}

/// Returns the value and the name of an npm variable, whose name may be in lower or in upper case.
fn find_npm_env_variable(
    environment: &PackageClientEnvironment,
    name: &str,
) -> Option<(String, String)> {
    environment.find_first_set_variable(&[name, &name.to_ascii_uppercase()])
}

/// Returns the path of npm's settings file for the whole machine: `etc/npmrc` below the prefix in
/// which npm is installed.
fn global_npmrc_path(environment: &PackageClientEnvironment) -> Option<PathBuf> {
    let prefix = find_npm_env_variable(environment, "npm_config_prefix");
    let prefix = prefix.map(|(path, _)| PathBuf::from(path)).or_else(|| {
        let path = environment.env_variable("PATH")?;
        // Skip folders of projects in `PATH`, because a project could contain a `node` program with
        // a malicious settings file beside it.
        let is_of_project =
            |folder: &&str| !folder.starts_with('/') || folder.contains(NODE_MODULES_FOLDER_NAME);
        let folders = path.split(':').filter(|folder| !is_of_project(folder));
        let mut programs = folders.map(|folder| Path::new(folder).join("node"));
        let node = programs.find(|program| program.is_file())?;
        let node = node.canonicalize().ok()?;
        node.parent().and_then(Path::parent).map(Path::to_owned)
    })?;
    Some(prefix.join("etc/npmrc"))
}

/// Replaces `${NAME}` by the value of the environment variable. Replaces `${NAME?}` in the same
/// way, or by the empty string if the variable is not set.
fn expand_npmrc_variables(
    text: &str,
    environment: &PackageClientEnvironment,
) -> anyhow::Result<String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, left)) = after.split_once('}') else {
            break;
        };
        expanded.push_str(before);
        let (name, is_optional) = match name.strip_suffix('?') {
            Some(name) => (name, true),
            None => (name, false),
        };
        match environment.env_variable(name) {
            Some(value) => expanded.push_str(&value),
            None if is_optional => {}
            None => anyhow::bail!(
                "the settings of npm use the environment variable `{}`, which is not set",
                name.escape_debug()
            ),
        }
        rest = left;
    }
    expanded.push_str(rest);
    Ok(expanded)
}
