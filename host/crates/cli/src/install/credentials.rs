//! Finds credentials for OCI registries in `~/.docker/config.json` and the helpers it names, and
//! the environment in which npm, pip and cargo find their settings.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::bail;
use docker_credential::{CredentialRetrievalError, DockerCredential};

use super::super::environment::{operator_environment, variable};
use rind_package::ecosystem::ClientEnvironment;
use rind_package::registry::{FindCredentials, RegistryCredentials};
use rind_package::source::SourceAccess;

/// Returns this user's credentials for registries and settings for package managers, with which
/// plugins are fetched.
pub(super) fn source_access() -> SourceAccess {
    SourceAccess {
        credentials: find_credentials(),
        clients: ClientEnvironment {
            variable: Arc::new(variable),
            home: operator_environment().home.clone(),
        },
    }
}

/// Returns a function that finds the credentials for a host when a registry requests them. Hosts
/// without an entry are accessed anonymously.
pub(super) fn find_credentials() -> FindCredentials {
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
    let home = || Some(PathBuf::from(variable("HOME")?).join(".docker"));
    let folder = variable("DOCKER_CONFIG").map(PathBuf::from).or_else(home);
    folder.is_some_and(|folder| folder.join("config.json").exists())
}
