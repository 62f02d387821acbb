//! Finds credentials for OCI registries in `~/.docker/config.json` and the helpers it names, and
//! the environment in which npm, pip and cargo find their settings.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use docker_credential::{CredentialRetrievalError, DockerCredential};

use super::super::environment::{environment_variable, process_environment};
use rind_package::ecosystem::PackageClientEnvironment;
use rind_package::registry::{RegistryCredentials, RegistryCredentialsLookup};
use rind_package::source::SourceFetchSettings;

/// Returns this user's credentials for registries and settings for package managers, with which
/// plugins are fetched.
pub(super) fn settings_for_fetching_plugins() -> SourceFetchSettings {
    SourceFetchSettings {
        credentials: registry_credentials_lookup(),
        clients: PackageClientEnvironment {
            variable: Arc::new(environment_variable),
            home: process_environment().home.clone(),
        },
    }
}

/// Returns a function that finds the credentials for a host when a registry requests them. Hosts
/// without an entry are accessed anonymously.
pub(super) fn registry_credentials_lookup() -> RegistryCredentialsLookup {
    Arc::new(|host| {
        match docker_credential::get_credential(host) {
            Ok(DockerCredential::UsernamePassword(user, password)) => {
                Ok(RegistryCredentials::Password { user, password })
            }
            Ok(DockerCredential::IdentityToken(_)) => bail!(
                "`docker login {host}` stored an identity token, which is not supported; log in with a password or an access token"
            ),
            Err(
                CredentialRetrievalError::NoCredentialConfigured
                | CredentialRetrievalError::ConfigNotFound,
            ) => Ok(RegistryCredentials::Anonymous),
            // The library reports a missing file as `ConfigNotFound` only if the home has no folder
            // `.docker`.
            Err(CredentialRetrievalError::ConfigReadError) if !has_docker_config() => {
                Ok(RegistryCredentials::Anonymous)
            }
            // Do not show the output of a helper, because it may contain a password.
            Err(CredentialRetrievalError::HelperFailure { helper, .. }) => {
                bail!(
                    "docker's credential helper `{helper}` has no credentials for {host}; run `docker login {host}`"
                )
            }
            Err(error) => bail!("cannot read docker's credentials for {host}: {error}"),
        }
    })
}

/// Whether docker's configuration file exists.
fn has_docker_config() -> bool {
    let home = || Some(PathBuf::from(environment_variable("HOME")?).join(".docker"));
    let folder = environment_variable("DOCKER_CONFIG")
        .map(PathBuf::from)
        .or_else(home);
    folder.is_some_and(|folder| folder.join("config.json").exists())
}
