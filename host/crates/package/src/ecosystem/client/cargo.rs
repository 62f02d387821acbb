//! Reads cargo's settings: environment variables, and `config.toml` and `credentials.toml` in
//! cargo's home folder.

use std::path::PathBuf;

use anyhow::{Context, bail, ensure};
use toml::Table;

use super::proxy::ConfiguredProxy;
use super::{ConfiguredRegistry, PackageClientEnvironment, read_toml_table};

/// Name under which cargo's configuration lists its default registry.
const DEFAULT_CARGO_SOURCE_NAME: &str = "crates-io";

/// Prefix of the URL of a sparse index in cargo's configuration.
const SPARSE_INDEX_URL_PREFIX: &str = "sparse+";

/// Maximum length of a chain of cargo's `replace-with` settings, which may be circular.
const MAX_SOURCE_REPLACEMENT_CHAIN_LENGTH: usize = 8;

/// Settings of cargo that concern registries.
struct CargoRegistrySettings<'a> {
    environment: &'a PackageClientEnvironment,
    config: Table,
    credentials: Table,
    /// Path of cargo's configuration file, for messages.
    path: PathBuf,
}

/// Finds the index that cargo is configured to use for crates.
pub(super) fn find_registry(
    environment: &PackageClientEnvironment,
) -> anyhow::Result<Option<ConfiguredRegistry>> {
    let settings = CargoRegistrySettings::read_files(environment)?;
    match settings.default_registry_name() {
        Some(name) if name != DEFAULT_CARGO_SOURCE_NAME => {
            settings.find_named_registry(&name).map(Some)
        }
        _ => settings.find_replacement_registry(),
    }
}

/// Finds the proxy of cargo. Git's settings, which cargo reads as a fallback, are ignored.
pub(super) fn find_proxy(
    environment: &PackageClientEnvironment,
) -> anyhow::Result<Option<ConfiguredProxy>> {
    let settings = CargoRegistrySettings::read_files(environment)?;
    let variable = environment.env_variable("CARGO_HTTP_PROXY");
    let variable = variable.map(|value| (value, "the variable CARGO_HTTP_PROXY".to_owned()));
    let found = variable.or_else(|| {
        let value = find_nested_toml_string(&settings.config, &["http", "proxy"])?;
        Some((
            value,
            format!("`http.proxy` in {}", settings.path.display()),
        ))
    });
    let found = found.filter(|(address, _)| !address.is_empty());
    Ok(found.map(|(address, setting)| ConfiguredProxy {
        address,
        setting,
        exceptions: None,
        // Default proxy port of libcurl, which cargo uses.
        port: 1080,
    }))
}

impl<'a> CargoRegistrySettings<'a> {
    fn read_files(environment: &'a PackageClientEnvironment) -> anyhow::Result<Self> {
        let home = environment.env_variable("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| environment.path_in_home_folder(".cargo"));
        let home = home.unwrap_or_default();
        // Cargo prefers the older file name, which has no `.toml`.
        let read = |name: &str| -> anyhow::Result<(Table, PathBuf)> {
            for path in [home.join(name), home.join(format!("{name}.toml"))] {
                if let Some(table) = read_toml_table(&path)? {
                    return Ok((table, path));
                }
            }
            Ok((Table::new(), home.join(format!("{name}.toml"))))
        };
        let ((config, path), (credentials, _)) = match home.as_os_str().is_empty() {
            true => Default::default(),
            false => (read("config")?, read("credentials")?),
        };
        Ok(Self {
            environment,
            config,
            credentials,
            path,
        })
    }

    fn default_registry_name(&self) -> Option<String> {
        let variable = self.environment.env_variable("CARGO_REGISTRY_DEFAULT");
        variable.or_else(|| find_nested_toml_string(&self.config, &["registry", "default"]))
    }

    /// Returns the registry with this name in the table `[registries]`.
    fn find_named_registry(&self, name: &str) -> anyhow::Result<ConfiguredRegistry> {
        let variable = self.find_registry_env_variable(name, "INDEX");
        let index = variable
            .or_else(|| find_nested_toml_string(&self.config, &["registries", name, "index"]));
        let shown = name.escape_debug();
        let index = index.with_context(|| {
            let path = self.path.display();
            format!(
                "cargo uses the registry `{shown}`, but {path} has no `registries.{shown}.index`"
            )
        })?;
        self.parse_sparse_registry(
            &index,
            &format!("`registries.{shown}` of cargo"),
            Some(name),
        )
    }

    /// Follows the `replace-with` settings from the default source to the source that replaces it.
    fn find_replacement_registry(&self) -> anyhow::Result<Option<ConfiguredRegistry>> {
        let mut name = DEFAULT_CARGO_SOURCE_NAME.to_owned();
        for _ in 0..MAX_SOURCE_REPLACEMENT_CHAIN_LENGTH {
            let source = |key: &str| find_nested_toml_string(&self.config, &["source", &name, key]);
            let setting = format!(
                "`source.{}` in {}",
                name.escape_debug(),
                self.path.display()
            );
            if let Some(next) = source("replace-with") {
                let is_source = find_nested_toml_table(&self.config, &["source", &next]).is_some();
                if !is_source {
                    return self.find_named_registry(&next).map(Some);
                }
                name = next;
                continue;
            }
            if let Some(index) = source("registry") {
                return self.parse_sparse_registry(&index, &setting, None).map(Some);
            }
            let other = ["local-registry", "directory", "git"];
            ensure!(
                !other.iter().any(|key| source(key).is_some()),
                "{setting} is not a sparse index: name one with `registry = \"{SPARSE_INDEX_URL_PREFIX}https://…\"`"
            );
            if name == DEFAULT_CARGO_SOURCE_NAME {
                return Ok(None);
            }
            bail!("{setting} names no registry");
        }
        bail!(
            "the sources in {} replace each other in a circle",
            self.path.display()
        )
    }

    fn parse_sparse_registry(
        &self,
        index: &str,
        setting: &str,
        name: Option<&str>,
    ) -> anyhow::Result<ConfiguredRegistry> {
        let Some(url) = index.strip_prefix(SPARSE_INDEX_URL_PREFIX) else {
            bail!(
                "{setting} is not a sparse index, whose address begins with {SPARSE_INDEX_URL_PREFIX}https://"
            );
        };
        let token = name.and_then(|name| self.find_registry_token(name));
        Ok(ConfiguredRegistry {
            url: url.to_owned(),
            setting: setting.to_owned(),
            authorization: token.or_else(|| self.find_index_token(index)),
        })
    }

    fn find_registry_token(&self, name: &str) -> Option<String> {
        let variable = self.find_registry_env_variable(name, "TOKEN");
        let files = [&self.credentials, &self.config];
        variable.or_else(|| {
            let mut files = files.into_iter();
            files.find_map(|table| find_nested_toml_string(table, &["registries", name, "token"]))
        })
    }

    /// Returns the token of the first named registry that has this index.
    fn find_index_token(&self, index: &str) -> Option<String> {
        let registries = find_nested_toml_table(&self.config, &["registries"])?;
        let has_index = |name: &&String| {
            let own = find_nested_toml_string(registries, &[name, "index"]);
            own.is_some_and(|own| own == index)
        };
        let mut names = registries.keys();
        self.find_registry_token(names.find(has_index)?)
    }

    /// Returns the value of the environment variable that sets `key` of the registry `name`, for
    /// example `CARGO_REGISTRIES_NAME_INDEX`.
    fn find_registry_env_variable(&self, name: &str, key: &str) -> Option<String> {
        let name = name.to_ascii_uppercase().replace(['-', '.'], "_");
        self.environment
            .env_variable(&format!("CARGO_REGISTRIES_{name}_{key}"))
    }
}

fn find_nested_toml_table<'t>(table: &'t Table, path: &[&str]) -> Option<&'t Table> {
    path.iter()
        .try_fold(table, |table, key| table.get(*key)?.as_table())
}

fn find_nested_toml_string(table: &Table, path: &[&str]) -> Option<String> {
    let (last, above) = path.split_last()?;
    let value = find_nested_toml_table(table, above)?.get(*last)?;
    value.as_str().map(str::to_owned)
}
