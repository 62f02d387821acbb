//! Revokes the tokens of a login at the authorization server that issued them (RFC 7009).
//!
//! Start from [`revoke_login_tokens`].

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rmcp::transport::auth::AuthorizationMetadata;
use serde_json::Value;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::egress::LoginHttpClient;
use super::file::StoredLogin;
use super::flow::{create_authorization_manager, fetch_issuer_metadata};
use crate::probe::SessionlessAgentHandle;
use rind_lib::egress::{EgressRequest, EgressRequestBody, PluginRequestTimeouts};

/// Outcome of revoking the tokens of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenRevocationOutcome {
    /// The authorization server no longer accepts the tokens.
    Revoked,
    /// The authorization server has no endpoint for revoking tokens.
    NotOffered,
    /// The stored login has no tokens.
    NoTokens,
}

/// Revokes the tokens of a login at the server `name`: first the refresh token, with which most
/// servers also revoke its access tokens, then the access token. The login's file is not changed.
/// With `is_private`, host names may resolve to private addresses.
///
/// # Errors
/// Reason, phrased to follow "its tokens". Tokens are not shown.
pub async fn revoke_login_tokens(
    name: &str,
    login: &StoredLogin,
    is_private: bool,
) -> Result<TokenRevocationOutcome, String> {
    let tokens = login.tokens_with_kinds();
    if tokens.is_empty() {
        return Ok(TokenRevocationOutcome::NoTokens);
    }
    let of_login = |why: String| format!("could not be revoked: the login {why}");
    let egress = LoginHttpClient::new(
        name,
        &login.url,
        is_private,
        Arc::new(SessionlessAgentHandle),
    );
    let egress = egress.map_err(of_login)?;
    let manager = create_authorization_manager(&login.url, &egress)
        .await
        .map_err(of_login)?;
    let metadata = fetch_issuer_metadata(&manager, &egress, &login.issuer).await;
    let metadata = metadata.map_err(|fault| of_login(fault.describe(&login.issuer, &egress)))?;
    let Some(url) = revocation_endpoint(&metadata) else {
        return Ok(TokenRevocationOutcome::NotOffered);
    };
    let client = OAuthClientCredentials::new(&metadata, login);
    for (kind, token) in tokens {
        let request = client.build_revocation_request(url, kind, &token);
        let answered = egress.send(request).await;
        let response = answered.map_err(|error| format!("could not be revoked: {error}"))?;
        // RFC 7009, 2.2: the server answers with 200 even for an unknown token.
        if response.status != 200 {
            return Err(format!(
                "could not be revoked: the authorization server answered with {}",
                response.status
            ));
        }
    }
    Ok(TokenRevocationOutcome::Revoked)
}

/// Returns the URL of the revocation endpoint (RFC 8414); `None` if there is none.
pub(super) fn revocation_endpoint(metadata: &AuthorizationMetadata) -> Option<&str> {
    let field = metadata.additional_fields.get("revocation_endpoint");
    field.and_then(Value::as_str)
}

/// Id and secret of the OAuth client, which authenticate the revocation request.
struct OAuthClientCredentials {
    id: String,
    secret: Option<String>,
    /// Whether the client secret is sent in the body instead of the `authorization` header.
    is_in_body: bool,
}

impl OAuthClientCredentials {
    fn new(metadata: &AuthorizationMetadata, login: &StoredLogin) -> Self {
        let fields = &metadata.additional_fields;
        let methods = ["revocation", "token"]
            .iter()
            .find_map(|own| fields.get(&format!("{own}_endpoint_auth_methods_supported")));
        let has = |method: &str| {
            let all = methods.and_then(Value::as_array);
            all.is_some_and(|all| all.iter().any(|own| own == method))
        };
        Self {
            id: login.client_id().unwrap_or_default(),
            secret: login.client_secret.clone(),
            is_in_body: has("client_secret_post") && !has("client_secret_basic"),
        }
    }

    fn build_revocation_request(&self, url: &str, kind: &str, token: &str) -> EgressRequest {
        let mut body = Serializer::new(String::new());
        body.append_pair("token", token)
            .append_pair("token_type_hint", kind);
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let mut headers = vec![
            header("accept", "application/json"),
            header("content-type", "application/x-www-form-urlencoded"),
        ];
        match &self.secret {
            Some(secret) if !self.is_in_body => {
                // RFC 6749, 2.3.1: id and secret are form-encoded before they are joined.
                let encode = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encode(&self.id), encode(secret));
                let value = format!("Basic {}", STANDARD.encode(pair));
                headers.push(header("authorization", &value));
            }
            secret => {
                body.append_pair("client_id", &self.id);
                if let Some(secret) = secret {
                    body.append_pair("client_secret", secret);
                }
            }
        }
        EgressRequest {
            method: "POST".to_owned(),
            url: url.to_owned(),
            headers,
            body: EgressRequestBody::Whole(body.finish().into_bytes()),
            timeouts: PluginRequestTimeouts::default(),
        }
    }
}
