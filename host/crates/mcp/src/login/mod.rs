//! Logins at servers over HTTP: OAuth 2.1 as the protocol profiles it.
//!
//! The protocol's library runs the flow: metadata of the server (RFC 9728) and of its authorization
//! server (RFC 8414, OpenID Connect), PKCE, registration of the client, `state`, and `iss` (RFC
//! 9207). This module decides where requests of the flow may go ([`egress`]), which metadata is
//! accepted ([`flow`]), where tokens are kept ([`file`]) and how they are revoked ([`revoke`]), and
//! gives the access token to the egress
//! of the server, which adds it last and masks it in answers ([`token`]). It must not know the
//! terminal or the browser.
//!
//! A token is bound to the address of its server and to the issuer that gave it. When either
//! changes, the person has to log in again.
//!
//! Start from [`LoginFlow`].

mod egress;
mod file;
mod flow;
mod revoke;
mod token;

pub use file::{StoredLogin, login_file, remove_login};
pub use flow::{LoginFlow, LoginRequest, Redirected};
pub use revoke::{TokenRevocation, revoke_login};
pub(crate) use token::{ServerLogin, TOKEN_NAME};

use http::HeaderValue;
use rind_lib::text::clean_line;

/// Longest text of a server in an error, in bytes.
const MAX_ERROR_BYTES: usize = 400;

/// Returns the parameter of a `www-authenticate` header, such as `scope`.
pub(crate) fn challenge_parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    loop {
        let at = rest.find(name)?;
        let begins = rest
            .get(..at)
            .is_none_or(|before| before.is_empty() || before.ends_with([' ', ',', '\t']));
        rest = rest.get(at + name.len()..)?;
        let Some(value) = rest.strip_prefix('=').filter(|_| begins) else {
            continue;
        };
        let value = match value.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => value.split([',', ' ']).next(),
        };
        return value.map(str::to_owned);
    }
}

/// Describes what to do when a server refuses a request for lack of a login.
pub(crate) fn login_words(name: &str, challenge: &str) -> String {
    let lacks_scope =
        challenge_parameter(challenge, "error").as_deref() == Some("insufficient_scope");
    let scopes = challenge_parameter(challenge, "scope").filter(|_| lacks_scope);
    match scopes {
        Some(scopes) => {
            let scopes = clean_line(&scopes, MAX_ERROR_BYTES);
            let flags: Vec<String> = scopes
                .split_whitespace()
                .map(|scope| format!(" --scope {scope}"))
                .collect();
            format!(
                "wants a login with more rights; run `rind mcp login {name}{}`",
                flags.concat()
            )
        }
        None => format!(
            "wants authorization; run `rind mcp login {name}`, or put a token into `headers` of its settings, as `Bearer {{TOKEN}}`"
        ),
    }
}

/// Returns a header as text; empty if it is not valid text.
pub(crate) fn header_text(value: Option<&HeaderValue>) -> String {
    let text = value.and_then(|value| value.to_str().ok());
    text.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_challenge_are_read_by_their_whole_name() {
        let challenge =
            "Bearer error=\"insufficient_scope\", error_scope=\"x\", scope=\"a b\", realm=r";
        for (name, expected) in [
            ("scope", Some("a b")),
            ("error", Some("insufficient_scope")),
            ("realm", Some("r")),
            ("resource_metadata", None),
        ] {
            let found = challenge_parameter(challenge, name);
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        assert!(
            login_words("docs", challenge).ends_with("`rind mcp login docs --scope a --scope b`")
        );
        assert!(login_words("docs", "Bearer scope=\"a\"").contains("wants authorization"));
    }
}
