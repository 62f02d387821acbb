//! Proxies in the settings of the ordinary clients. Like theirs, a proxy in such a file is stronger
//! than the variables that all programs share.

use anyhow::{Context, ensure};

use super::super::PackageKind;
use super::{ClientEnvironment, cargo, npm, pip};
use crate::registry::{RegistryProxy, parse_url};

/// Proxy in a client's settings.
pub(super) struct ConfiguredProxy {
    /// Address, with or without a scheme.
    pub(super) address: String,
    /// Setting with the address, for messages.
    pub(super) setting: String,
    /// Hosts that are reached without it, as the client lists them.
    pub(super) exceptions: Option<String>,
    /// Port of an address without one.
    pub(super) port: u16,
}

/// Finds the proxy of a client. Without one, the variables of the environment apply.
///
/// # Errors
/// A file cannot be read, or names a proxy that cannot be used. No message shows the address, which
/// may hold a password.
pub(super) fn find_proxy(
    environment: &ClientEnvironment,
    kind: PackageKind,
) -> anyhow::Result<Option<RegistryProxy>> {
    let found = match kind {
        PackageKind::Npm => npm::find_proxy(environment)?,
        PackageKind::Pypi => pip::find_proxy(environment)?,
        PackageKind::Crates => cargo::find_proxy(environment)?,
    };
    found.map(checked_proxy).transpose()
}

fn checked_proxy(found: ConfiguredProxy) -> anyhow::Result<RegistryProxy> {
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
        rind_lib::text::clean_line(&scheme, 40)
    );
    ensure!(
        url.host_str().is_some_and(|host| !host.is_empty()),
        "{setting} names no host"
    );
    if scheme == "http" && url.port().is_none() && !address.trim_end_matches('/').ends_with(":80") {
        // Setting the port fails only without a host.
        let _ = url.set_port(Some(port));
    }
    Ok(RegistryProxy {
        url,
        setting,
        exceptions,
    })
}
