//! `[network]`: what the format alone cannot say of hosts and credentials.

use super::Network;
use crate::egress::address::{self, Class};
use crate::egress::{Template, is_refused};
use crate::grant::{Credential, HostPattern};

/// Checks the section. Errors name the entry and the list where it belongs.
pub(super) fn check(section: &Network) -> Result<(), String> {
    for host in &section.hosts {
        let kind = host.address().map(address::kind);
        match kind {
            Some(kind) if kind.class == Class::Never => return Err(never(host, kind.name)),
            Some(kind) if kind.class == Class::Private => {
                return Err(format!(
                    "[network] hosts: `{host}` is {}; list it under `private`",
                    kind.name
                ));
            }
            None if host.is_localhost() => {
                return Err(format!(
                    "[network] hosts: `{host}` is this machine; list it under `private`"
                ));
            }
            _ => {}
        }
    }
    for host in &section.private {
        if host.is_any() {
            return Err(format!(
                "[network] private: `{host}` would be every machine of the operator's network; name those that are meant"
            ));
        }
        let kind = host.address().map(address::kind);
        match kind {
            Some(kind) if kind.class == Class::Never => return Err(never(host, kind.name)),
            Some(kind) if kind.class == Class::Public => {
                return Err(format!(
                    "[network] private: `{host}` is {}; list it under `hosts`",
                    kind.name
                ));
            }
            _ => {}
        }
    }
    let hosts: Vec<&HostPattern> = section.hosts.iter().chain(&section.private).collect();
    section
        .credentials
        .iter()
        .try_for_each(|credential| check_credential(credential, &hosts))
}

fn never(host: &HostPattern, name: &str) -> String {
    format!("[network]: `{host}` is {name}, which no plugin may reach")
}

fn check_credential(credential: &Credential, hosts: &[&HostPattern]) -> Result<(), String> {
    let Credential {
        host,
        header,
        value,
    } = credential;
    let at = format!("[[network.credentials]] for `{host}`");
    let is_fine = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b);
    if header.is_empty() || header.len() > 64 || !header.bytes().all(is_fine) {
        return Err(format!(
            "{at}: the header `{}` is not made of 1 to 64 of a-z, 0-9, `-` and `_`",
            header.escape_debug()
        ));
    }
    if is_refused(header) {
        return Err(format!(
            "{at}: the header `{header}` is for the host to set"
        ));
    }
    Template::parse(value).map_err(|why| format!("{at}: the value {why}"))?;
    if !hosts.iter().any(|listed| listed.covers(host)) {
        return Err(format!(
            "{at}: no entry of `hosts` or `private` lets the plugin talk to all of `{host}`"
        ));
    }
    Ok(())
}
