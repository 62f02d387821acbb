//! Address at which `rind serve` listens, as it is written on the command line.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

/// Address of the HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenAddress {
    /// Address and port.
    Tcp(SocketAddr),
    /// Path of a Unix socket.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path.is_empty() {
                true => Err("`unix:` is followed by a path".to_owned()),
                false => Ok(Self::Unix(path.into())),
            };
        }
        let address = text.strip_prefix("http://").unwrap_or(text);
        let named = address.strip_prefix("localhost:");
        let address = named.map_or_else(|| address.to_owned(), |port| format!("127.0.0.1:{port}"));
        let address = address.parse::<SocketAddr>().map_err(|_| {
            "an address is an IP address and a port, such as 127.0.0.1:7463, or `unix:PATH`"
                .to_owned()
        })?;
        rind_serve::check_loopback(address)?;
        Ok(Self::Tcp(address))
    }
}
