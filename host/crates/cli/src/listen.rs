//! Parses the address at which a server listens, and opens the socket with the token that requests
//! must have.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::Context;

use rind_lib::paths::RindPaths;
use rind_serve::ApiListener;
use rind_serve::access::ApiAccessSecrets;

/// Address on which an HTTP server of the program listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListenAddress {
    /// Loopback IP address and port.
    Tcp(SocketAddr),
    /// Path of the Unix socket.
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
                true => Err("`unix:` must be followed by a path".to_owned()),
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
        rind_serve::check_loopback_address(address)?;
        Ok(Self::Tcp(address))
    }
}

/// Open socket on which a server listens, with the access checks for its requests.
pub(super) struct AuthenticatedListener {
    pub(super) access: ApiAccessSecrets,
    pub(super) listener: ApiListener,
    /// Path of the file with the token that clients must send.
    pub(super) token: PathBuf,
}

/// Listens at the address. Requests need the token in the file `token_file` of the data folder,
/// which is created if missing.
///
/// # Errors
/// The token cannot be read or written, or the address is in use.
pub(super) async fn open_token_protected_listener(
    address: &ListenAddress,
    paths: &RindPaths,
    token_file: &str,
) -> anyhow::Result<AuthenticatedListener> {
    // Write the token before listening, so that a client that finds the socket also finds the
    // token.
    let token = paths.data.join(token_file);
    let failed = || format!("cannot read the token of the server in {}", token.display());
    rind_lib::disk::create_private_folder(&paths.data).with_context(failed)?;
    let access = ApiAccessSecrets::from_token_file(&token).with_context(failed)?;
    let listener = match address {
        ListenAddress::Tcp(address) => ApiListener::bind_tcp(*address).await,
        ListenAddress::Unix(path) => ApiListener::bind_unix(path),
    };
    let listener = listener.with_context(|| format!("cannot listen at {address}"))?;
    Ok(AuthenticatedListener {
        access: access.with_server_port(listener.port()),
        listener,
        token,
    })
}
