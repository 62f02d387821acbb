//! Answers the authentication challenge of a registry, with a token from the registry's token
//! server or with a password.
//!
//! The token server may be on another host, but only over https (or on this machine, for a local
//! registry). Headers with credentials and tokens are marked as sensitive, so that logs omit them.

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_auth::ChallengeRef;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Client, Url};
use serde::Deserialize;

use super::reference::is_loopback_host;
use super::transfer;

/// Maximum size in bytes of the token server's response; usual tokens have 1 to 4 KiB.
const MAX_TOKEN_RESPONSE_BYTES: u64 = 64 << 10;

/// Credentials with which the operator authenticates to an OCI registry.
pub enum RegistryCredentials {
    Anonymous,
    Password { user: String, password: String },
}

impl RegistryCredentials {
    fn authorization_header(&self) -> anyhow::Result<Option<HeaderValue>> {
        let Self::Password { user, password } = self else {
            return Ok(None);
        };
        let text = STANDARD.encode(format!("{user}:{password}"));
        sensitive_header_value(&format!("Basic {text}")).map(Some)
    }
}

/// Creates a header value that is marked as sensitive, so that no log shows it.
pub(super) fn sensitive_header_value(text: &str) -> anyhow::Result<HeaderValue> {
    let mut value = HeaderValue::from_str(text)
        .context("the credentials have a character that an HTTP header cannot contain")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Returns the value of the header `Authorization` that answers a challenge. A requested token
/// allows the access that `scope` names. Returns `None` if the registry asks for a password and no
/// credentials are configured.
pub(super) async fn answer_auth_challenge(
    client: &Client,
    challenges: &str,
    credentials: &RegistryCredentials,
    scope: &str,
    is_local: bool,
) -> anyhow::Result<Option<HeaderValue>> {
    let challenges = http_auth::parse_challenges(challenges);
    let challenges = challenges
        .map_err(|_| anyhow::anyhow!("the registry's request for credentials cannot be parsed"))?;
    let find = |scheme: &str| {
        let mut all = challenges.iter();
        all.find(|challenge| challenge.scheme.eq_ignore_ascii_case(scheme))
    };
    if let Some(bearer) = find("bearer") {
        return fetch_bearer_token(client, bearer, credentials, scope, is_local)
            .await
            .map(Some);
    }
    if find("basic").is_some() {
        return credentials.authorization_header();
    }
    bail!("the registry asks for credentials of a kind that is not known")
}

async fn fetch_bearer_token(
    client: &Client,
    challenge: &ChallengeRef<'_>,
    credentials: &RegistryCredentials,
    scope: &str,
    is_local: bool,
) -> anyhow::Result<HeaderValue> {
    #[derive(Deserialize)]
    struct RegistryToken {
        token: Option<String>,
        access_token: Option<String>,
    }
    let parameter = |name: &str| {
        let mut all = challenge.params.iter();
        let found = all.find(|(own, _)| own.eq_ignore_ascii_case(name))?;
        Some(found.1.to_unescaped())
    };
    let realm = parameter("realm").context("the registry's challenge contains no token server")?;
    let mut url =
        Url::parse(&realm).context("the address of the registry's token server is not a URL")?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let is_safe =
        url.scheme() == "https" || (url.scheme() == "http" && is_local && is_loopback_host(&host));
    ensure!(
        is_safe && url.username().is_empty() && url.password().is_none(),
        "the address of the registry's token server, `{}`, is not https",
        rind_lib::text::escape_and_truncate_line(&realm, 200)
    );
    let service = parameter("service");
    let service = service.iter().map(|service| ("service", service.as_str()));
    url.query_pairs_mut()
        .extend_pairs(service)
        .append_pair("scope", scope);
    let mut request = client.get(url);
    if let Some(header) = credentials.authorization_header()? {
        request = request.header(AUTHORIZATION, header);
    }
    let answer = transfer::send_request(request, &host).await?;
    let status = answer.status();
    ensure!(
        status.as_u16() == 200,
        "the token server {host} answered {status}: check the credentials with `docker login`"
    );
    let bytes = transfer::read_response_body(answer, MAX_TOKEN_RESPONSE_BYTES, "the token").await?;
    let token: RegistryToken = serde_json::from_slice(&bytes)
        .map_err(|_| anyhow::anyhow!("the token server {host} answered without a token"))?;
    let token = token.token.or(token.access_token);
    let token =
        token.with_context(|| format!("the token server {host} answered without a token"))?;
    sensitive_header_value(&format!("Bearer {token}"))
}
