//! Resolves host names to addresses, once for each request.
//!
//! `target` checks the addresses from [`HostNameResolver`], and [`PinnedHostAddresses`] passes only
//! those to the HTTP library. There is no second lookup, which could return other addresses (DNS
//! rebinding).

use std::io;
use std::net::{IpAddr, SocketAddr};

use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolving};

/// Resolves host names to IP addresses.
pub trait HostNameResolver: Send + Sync {
    /// Returns all addresses of `host`, which is a name and not an address. Called once for each
    /// request and each redirect.
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Resolver that asks the operating system for the addresses.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDnsResolver;

impl HostNameResolver for SystemDnsResolver {
    fn resolve<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// The addresses of one host that `target` has checked. No other host name is resolved.
pub(super) struct PinnedHostAddresses {
    pub(super) host: String,
    pub(super) addresses: Vec<SocketAddr>,
}

impl reqwest::dns::Resolve for PinnedHostAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let is_it = name.as_str().eq_ignore_ascii_case(&self.host);
        let addresses = is_it.then(|| self.addresses.clone());
        Box::pin(async move {
            match addresses {
                Some(all) => Ok(Box::new(all.into_iter()) as Addrs),
                None => Err("the host name was not resolved before".into()),
            }
        })
    }
}
