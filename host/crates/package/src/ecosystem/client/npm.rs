//! Settings of npm: variables, `.npmrc` of the user, and `npmrc` of the machine.

use std::path::{Path, PathBuf};

use anyhow::Context;

use super::proxy::ConfiguredProxy;
use super::{
    ClientEnvironment, ConfiguredRegistry, basic_header, ini_settings, parse_url, read_settings,
};
use crate::ecosystem::defaults;
use crate::registry::Url;

/// Folder of a project's packages.
const MODULES: &str = "node_modules";

/// Settings of npm that concern registries, the stronger ones first.
struct NpmSettings {
    /// Key, value, and file.
    lines: Vec<(String, String, String)>,
}

/// Finds the registry of a package.
pub(super) fn find_registry(
    environment: &ClientEnvironment,
    name: &str,
) -> anyhow::Result<Option<ConfiguredRegistry>> {
    let settings = NpmSettings::read_files(environment)?;
    let scope = name
        .split_once('/')
        .map(|(scope, _)| format!("{scope}:registry"));
    let scoped = scope.and_then(|key| {
        let (value, path) = settings.find_key(&key)?;
        Some((value, format!("`{key}` in {path}")))
    });
    let variable = || {
        let (value, name) = npm_variable(environment, "npm_config_registry")?;
        Some((value, format!("the variable {name}")))
    };
    let general = || {
        let (value, path) = settings.find_key("registry")?;
        Some((value, format!("`registry` in {path}")))
    };
    let default = || Some((defaults::NPM?.to_owned(), "the defaults".to_owned()));
    let found = scoped.or_else(variable).or_else(general).or_else(default);
    let Some((url, setting)) = found else {
        return Ok(None);
    };
    let url = expand_variables(&url, environment)?;
    let authorization = match parse_url(&url) {
        Ok(parsed) => settings.find_authorization(&parsed, environment)?,
        Err(_) => None,
    };
    Ok(Some(ConfiguredRegistry {
        url,
        setting,
        authorization,
    }))
}

/// Finds the proxy of npm. Registries have https, so `https-proxy` is asked for first.
pub(super) fn find_proxy(
    environment: &ClientEnvironment,
) -> anyhow::Result<Option<ConfiguredProxy>> {
    let settings = NpmSettings::read_files(environment)?;
    let find = |key: &str| {
        let variable = format!("npm_config_{}", key.replace('-', "_"));
        let variable = npm_variable(environment, &variable);
        let variable = variable.map(|(value, name)| (value, format!("the variable {name}")));
        let (value, setting) = variable.or_else(|| {
            let (value, path) = settings.find_key(key)?;
            Some((value, format!("`{key}` in {path}")))
        })?;
        // npm writes `null` for a setting that was unset.
        let is_set = !matches!(value.as_str(), "" | "null" | "false");
        is_set.then_some((value, setting))
    };
    let Some((value, setting)) = find("https-proxy").or_else(|| find("proxy")) else {
        return Ok(None);
    };
    Ok(Some(ConfiguredProxy {
        address: expand_variables(&value, environment)?,
        setting,
        exceptions: find("noproxy").map(|(value, _)| value),
        port: 80,
    }))
}

impl NpmSettings {
    fn read_files(environment: &ClientEnvironment) -> anyhow::Result<Self> {
        let named = |name: &str| {
            let found = npm_variable(environment, name);
            found.map(|(path, _)| PathBuf::from(path))
        };
        let user = named("npm_config_userconfig").or_else(|| environment.in_home(".npmrc"));
        let global = named("npm_config_globalconfig").or_else(|| global_file(environment));
        let mut lines = Vec::new();
        for path in user.iter().chain(&global) {
            let Some(text) = read_settings(path)? else {
                continue;
            };
            let own = ini_settings(&text).into_iter();
            let own = own.filter(|setting| setting.section.is_empty());
            // The last line of a key applies.
            lines.extend(own.rev().map(|setting| {
                let path = path.display().to_string();
                (setting.key.to_owned(), setting.value.to_owned(), path)
            }));
        }
        Ok(Self { lines })
    }

    /// Returns the value of a key, and the file with it.
    fn find_key(&self, key: &str) -> Option<(String, String)> {
        let mut lines = self.lines.iter();
        let (_, value, path) = lines.find(|(own, ..)| own == key)?;
        Some((value.clone(), path.clone()))
    }

    /// Returns the header for a registry: credentials belong to a host and path, and hold for all
    /// paths below.
    fn find_authorization(
        &self,
        registry: &Url,
        environment: &ClientEnvironment,
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
                let found = keys.iter().find_map(|key| self.find_key(key));
                found
                    .map(|(value, _)| expand_variables(&value, environment))
                    .transpose()
            };
            if let Some(token) = value("_authToken")? {
                return Ok(Some(format!("Bearer {token}")));
            }
            if let Some(basic) = value("_auth")? {
                return Ok(Some(format!("Basic {basic}")));
            }
            if let (Some(user), Some(password)) = (value("username")?, value("_password")?) {
                return Ok(Some(basic_header(&format!(
                    "{user}:{}",
                    decode_password(&password)
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

fn decode_password(text: &str) -> Option<String> {
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text);
    String::from_utf8(bytes.ok()?).ok()
}

/// Returns a variable of npm and its name, which may be in capitals as well.
fn npm_variable(environment: &ClientEnvironment, name: &str) -> Option<(String, String)> {
    environment.first_variable(&[name, &name.to_ascii_uppercase()])
}

/// Returns the settings file of the machine: `etc/npmrc` in the folder that npm is installed under.
fn global_file(environment: &ClientEnvironment) -> Option<PathBuf> {
    let prefix = npm_variable(environment, "npm_config_prefix");
    let prefix = prefix.map(|(path, _)| PathBuf::from(path)).or_else(|| {
        let path = environment.variable("PATH")?;
        // A project could have a `node` of its own, with settings of its own beside it.
        let is_of_project = |folder: &&str| !folder.starts_with('/') || folder.contains(MODULES);
        let folders = path.split(':').filter(|folder| !is_of_project(folder));
        let mut programs = folders.map(|folder| Path::new(folder).join("node"));
        let node = programs.find(|program| program.is_file())?;
        let node = node.canonicalize().ok()?;
        node.parent().and_then(Path::parent).map(Path::to_owned)
    })?;
    Some(prefix.join("etc/npmrc"))
}

/// Replaces `${NAME}` by variables, and `${NAME?}` by nothing if it is not set.
fn expand_variables(text: &str, environment: &ClientEnvironment) -> anyhow::Result<String> {
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
        match environment.variable(name) {
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
