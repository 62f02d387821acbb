//! Checks the hosts and the credentials in `[network]` for mistakes that the TOML parser accepts.
//!
//! For example:
//!
//! ```toml
//! [network]
//! hosts = ["*.example.com"]
//! private = ["http://127.0.0.1:8080"]
//!
//! [[network.credentials]]
//! host = "api.example.com"
//! header = "authorization"
//! value = "Bearer {TOKEN}"
//! ```

use super::Network;
use crate::egress::address::{self, IpAddressClass};
use crate::egress::{CredentialTemplate, is_forbidden_plugin_header};
use crate::grant::{Credential, HostPattern};

/// Checks the section `[network]`. An error names the invalid entry and, if the entry is in the
/// wrong list, the correct list.
pub(super) fn check_network_section(section: &Network) -> Result<(), String> {
    let lists = [
        ("hosts", &section.hosts, IpAddressClass::Private, "private"),
        ("private", &section.private, IpAddressClass::Public, "hosts"),
    ];
    for (list, hosts, misplaced, other) in lists {
        for host in hosts {
            if list == "private" && host.matches_every_host() {
                return Err(format!(
                    "[network] private: `{host}` would allow every machine of the operator's network; list the hosts that the plugin needs"
                ));
            }
            let what = match host.ip_address().map(address::classify_address) {
                Some(kind) if kind.class == IpAddressClass::Never => {
                    let name = kind.name;
                    return Err(format!(
                        "[network]: `{host}` is {name}, which no plugin may reach"
                    ));
                }
                Some(kind) if kind.class == misplaced => kind.name,
                None if list == "hosts" && host.is_localhost() => "this machine",
                _ => continue,
            };
            return Err(format!(
                "[network] {list}: `{host}` is {what}; list it under `{other}`"
            ));
        }
    }
    let hosts: Vec<&HostPattern> = section.hosts.iter().chain(&section.private).collect();
    section
        .credentials
        .iter()
        .try_for_each(|credential| check_credential(credential, &hosts))
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
            "{at}: the name of the header `{}` is not made of 1 to 64 of a-z, 0-9, `-` and `_`",
            header.escape_debug()
        ));
    }
    if is_forbidden_plugin_header(header) {
        return Err(format!(
            "{at}: remove the header `{header}`, which only the host may set"
        ));
    }
    CredentialTemplate::parse(value).map_err(|why| format!("{at}: the value {why}"))?;
    if !hosts.iter().any(|listed| listed.covers(host)) {
        return Err(format!(
            "{at}: no entry of `hosts` or `private` lets the plugin talk to all of `{host}`"
        ));
    }
    Ok(())
}
