//! Logs in at HTTP servers with the profile of OAuth 2.1 that MCP specifies.
//!
//! The protocol's library runs the flow: metadata of the server (RFC 9728) and of its authorization
//! server (RFC 8414, OpenID Connect), PKCE, client registration, `state`, and `iss` (RFC 9207).
//! This module decides which hosts the flow may reach ([`egress`]), which metadata are accepted
//! ([`flow`]), where tokens are stored ([`file`]) and how they are revoked ([`revoke`]). It passes
//! the access token to the server's egress, which adds it to requests last and masks it in answers
//! ([`token`]). It must not know the terminal or the browser.
//!
//! A token is bound to the URL of its server and to its issuer. If either changes, the user has to
//! log in again.
//!
//! Start from [`PendingBrowserLogin`].

mod egress;
mod file;
mod flow;
mod revoke;
mod token;

pub use file::{StoredLogin, login_file_path, remove_login};
pub use flow::{LoginOutcome, McpLoginParameters, PendingBrowserLogin};
pub use revoke::{TokenRevocationOutcome, revoke_login_tokens};
pub(crate) use token::{ACCESS_TOKEN_SECRET_NAME, SharedServerLogin};

use http::HeaderValue;

/// Maximum length, in bytes, of the text from a server that an error quotes.
const MAX_QUOTED_SERVER_TEXT_BYTES: usize = 400;

/// Returns the parameter `name`, such as `scope`, of the challenge in a `www-authenticate` header.
pub(crate) fn auth_challenge_parameter(challenge: &str, name: &str) -> Option<String> {
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

/// Describes how to log in after a server refused a request. The suggested command contains the
/// scopes of this challenge, because the server may name other scopes in a later challenge.
pub(crate) fn login_required_text(name: &str, challenge: &str) -> String {
    let lacks_scope =
        auth_challenge_parameter(challenge, "error").as_deref() == Some("insufficient_scope");
    let flags = scope_arguments_for_login(challenge);
    let command = format!("`rind mcp login {name}{}`", flags.as_deref().unwrap_or(""));
    match (lacks_scope, flags) {
        (true, Some(_)) => format!("requires a login with more rights; run {command}"),
        (true, None) => format!(
            "requires a login with more rights, but does not name them in a usable form; run {command} with the `--scope` that its documentation names"
        ),
        (false, _) => format!(
            "requires a login; run {command}, or put a token into `headers` of its settings, as `Bearer {{TOKEN}}`"
        ),
    }
}

/// Returns the scopes of a challenge as command-line arguments, which the user copies into a shell.
/// `None` if there are no scopes, or if a scope contains a character that a shell could interpret.
fn scope_arguments_for_login(challenge: &str) -> Option<String> {
    let scopes = auth_challenge_parameter(challenge, "scope")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/+@,=".contains(c);
    if scopes.len() > MAX_QUOTED_SERVER_TEXT_BYTES
        || !scopes.chars().all(|c| c == ' ' || is_plain(c))
    {
        return None;
    }
    let flags: Vec<String> = scopes
        .split(' ')
        .filter(|scope| !scope.is_empty())
        .map(|scope| format!(" --scope={scope}"))
        .collect();
    (!flags.is_empty()).then(|| flags.concat())
}

/// Returns the value of a header as text; empty if the header is missing or its value is not valid
/// text.
pub(crate) fn header_value_text(value: Option<&HeaderValue>) -> String {
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
            let found = auth_challenge_parameter(challenge, name);
            assert_eq!(found.as_deref(), expected, "{name}");
        }
        assert!(
            login_required_text("docs", challenge)
                .ends_with("`rind mcp login docs --scope=a --scope=b`")
        );
        let words = login_required_text("docs", "Bearer scope=\"a\"");
        assert!(words.starts_with("requires a login; run `rind mcp login docs --scope=a`"));
    }

    #[test]
    fn a_scope_that_a_shell_could_run_is_no_part_of_a_command() {
        for scope in [
            "a;reboot",
            "`id`",
            "$(id)",
            "a|b",
            "a&b",
            "a>b",
            "a\u{1b}[2J",
            "a'b",
            "é",
            "",
        ] {
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            let words = login_required_text("docs", &challenge);
            assert!(words.contains("run `rind mcp login docs` with"), "{words}");
            let challenge = format!("Bearer scope=\"{scope}\"");
            let words = login_required_text("docs", &challenge);
            assert!(words.contains("run `rind mcp login docs`, or"), "{words}");
        }
    }
}
