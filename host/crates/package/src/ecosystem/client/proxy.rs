//! Finds proxies in the settings of npm, pip and cargo. As in these clients themselves, a proxy in
//! these settings has precedence over shared variables such as `HTTPS_PROXY`.

use anyhow::{Context, ensure};

use super::super::PackageKind;
use super::{PackageClientEnvironment, cargo, npm, pip};
use crate::registry::{RegistryProxy, parse_url};

/// Proxy that a package client's settings or the environment name.
pub(super) struct ConfiguredProxy {
    /// Address of the proxy, with or without a scheme.
    pub(super) address: String,
    /// Name of the setting that contains the proxy's address, for messages.
    pub(super) setting: String,
    /// Hosts that are reached without the proxy, in the client's notation.
    pub(super) exceptions: Option<String>,
    /// Port that is used if `address` names none.
    pub(super) port: u16,
}

/// Finds the proxy in a client's settings. Returns `None` if the settings name no proxy; the shared
/// variables such as `HTTPS_PROXY` apply then.
///
/// # Errors
/// A settings file cannot be read, or names a proxy that cannot be used. No message shows the
/// address, which may contain a password.
pub(super) fn find_proxy(
    environment: &PackageClientEnvironment,
    kind: PackageKind,
) -> anyhow::Result<Option<RegistryProxy>> {
    let found = match kind {
        PackageKind::Npm => npm::find_proxy(environment)?,
        PackageKind::Pypi => pip::find_proxy(environment)?,
        PackageKind::Crates => cargo::find_proxy(environment)?,
    };
    found.map(validate_proxy).transpose()
}

fn validate_proxy(found: ConfiguredProxy) -> anyhow::Result<RegistryProxy> {
    let ConfiguredProxy {
        address,
        setting,
        exceptions,
        port,
    } = found;
    let address = match address.contains("://") {
        true => address,
        false => format!("http://{address}"),
    };
    let parsed = parse_url(&address);
    let mut url = parsed.with_context(|| format!("{setting} is not the address of a proxy"))?;
    let scheme = url.scheme().to_owned();
    ensure!(
        matches!(scheme.as_str(), "http" | "https"),
        "{setting} names a proxy of the kind `{}`, and only those for HTTP are used: name one there, or set HTTPS_PROXY and take the setting away",
        rind_lib::text::escape_and_truncate_line(&scheme, 40)
    );
    ensure!(
        url.host_str().is_some_and(|host| !host.is_empty()),
        "{setting} names no host"
    );
    if scheme == "http" && url.port().is_none() && !address.trim_end_matches('/').ends_with(":80") {
        // `set_port` fails only for URLs without a host, which were refused above.
        let _ = url.set_port(Some(port));
    }
    Ok(RegistryProxy {
        url,
        setting,
        exceptions,
    })
}
