//! Connects to the NATS servers, and refuses a server that cannot keep sessions.

use std::time::Duration;

use async_nats::{Client, ConnectOptions, ServerAddr};

use crate::error::sanitize_source_error;
use crate::log::MAX_LOG_MESSAGE_PAYLOAD_BYTES;
use crate::{NatsConfig, NatsError, NatsServerVersion};

/// Maximum time for the first connection to one NATS server.
const SERVER_CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Minimum `max_payload` of a usable server, in bytes: the size of the largest session message and
/// its headers.
const MIN_SERVER_MAX_PAYLOAD_BYTES: usize = MAX_LOG_MESSAGE_PAYLOAD_BYTES + (8 << 10);

/// Connects with the credentials and certificates of the settings. `name` is the name of the client
/// connection, which the monitoring tools of NATS show.
pub(crate) async fn connect(config: &NatsConfig, name: &str) -> Result<Client, NatsError> {
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| NatsError::Connect {
        server: config.redacted_server_addresses(),
        source: sanitize_source_error(source),
    };
    let mut options = ConnectOptions::new()
        .name(name)
        .connection_timeout(SERVER_CONNECT_TIMEOUT)
        .request_timeout(Some(Duration::from_secs(5)))
        .reconnect_delay_callback(|attempts| {
            let wait = u64::try_from(attempts)
                .unwrap_or(u64::MAX)
                .saturating_mul(50);
            Duration::from_millis(wait.min(1_000))
        });
    if let Some((user, password)) = credentials_from_server_urls(&config.servers) {
        options = options.user_and_password(user, password);
    }
    if let Some(path) = &config.credentials {
        options = options
            .credentials_file(path)
            .await
            .map_err(|source| NatsError::Config {
                what: format!("the credentials in {}", path.display()),
                why: source.to_string(),
            })?;
    }
    if let Some(path) = &config.root_certificates {
        options = options
            .add_root_certificates(path.clone())
            .require_tls(true);
    }
    if let Some((certificate, key)) = &config.client_certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    let client = options
        .connect(config.servers.as_slice())
        .await
        .map_err(|source| failed(Box::new(source)))?;
    check_server_supports_sessions(&client, config)?;
    Ok(client)
}

/// Returns the user name and password of the first address that contains them. The client library
/// ignores credentials in addresses.
fn credentials_from_server_urls(servers: &[String]) -> Option<(String, String)> {
    servers.iter().find_map(|server| {
        let address: ServerAddr = server.parse().ok()?;
        let user = decode_percent_encoding(address.username()?)?;
        Some((
            user,
            decode_percent_encoding(address.password().unwrap_or_default())?,
        ))
    })
}

/// Decodes the percent-encoding (`%XX`) of a part of an address.
fn decode_percent_encoding(text: &str) -> Option<String> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.ok().map(std::borrow::Cow::into_owned)
}

/// Checks that the version and configuration of the server support sessions.
pub(crate) fn check_server_supports_sessions(
    client: &Client,
    config: &NatsConfig,
) -> Result<NatsServerVersion, NatsError> {
    let info = client.server_info();
    let version = NatsServerVersion::parse(&info.version).filter(|version| version.is_supported());
    let Some(version) = version else {
        return Err(NatsError::OldServer {
            server: config.redacted_server_addresses(),
            found: rind_lib::text::escape_and_truncate_line(&info.version, 40),
        });
    };
    if !info.jetstream {
        return Err(NatsError::NoJetStream {
            server: config.redacted_server_addresses(),
        });
    }
    if info.max_payload < MIN_SERVER_MAX_PAYLOAD_BYTES {
        return Err(NatsError::Config {
            what: format!(
                "`max_payload: {}` of {}",
                info.max_payload,
                config.redacted_server_addresses()
            ),
            why: format!(
                "a message of a session has up to {MIN_SERVER_MAX_PAYLOAD_BYTES} bytes; raise this limit of the NATS server, whose default is 1 MB"
            ),
        });
    }
    Ok(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_of_an_address_are_used_as_they_are_meant() {
        let servers = |text: &str| vec!["nats://a:4222".to_owned(), text.to_owned()];
        let user = credentials_from_server_urls(&servers("nats://me:p%40ss%3A@b:4222"));
        assert_eq!(user, Some(("me".to_owned(), "p@ss:".to_owned())));
        let user = credentials_from_server_urls(&servers("tls://me@b"));
        assert_eq!(user, Some(("me".to_owned(), String::new())));
        assert_eq!(
            credentials_from_server_urls(&servers("nats://b:4222")),
            None
        );
    }
}
