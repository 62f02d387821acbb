//! Settings of MCP servers: the section `[mcp]`, with a table for each server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use rind_lib::config::{Section, number};

/// Maximum length of a server's name, in bytes. The names of its tools begin with it, and are
/// limited too.
const MAX_SERVER_NAME_BYTES: usize = 24;

/// Default timeout of a tool call, in seconds.
const DEFAULT_CALL_TIMEOUT_SECONDS: u64 = 120;

/// Settings of the MCP servers, keyed by the servers' names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct McpConfig(pub BTreeMap<String, ServerSettings>);

impl Section for McpConfig {
    const NAME: &'static str = "mcp";
}

/// Protocol version that the host requests from a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum McpProtocol {
    /// Version 2025-11-25 by `initialize`; if the server refuses that, version 2026-07-28.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// Version 2025-11-25 or an earlier one, by `initialize`.
    #[serde(rename = "2025-11-25")]
    Initialize,
    /// Version 2026-07-28, by `server/discover`.
    #[serde(rename = "2026-07-28")]
    Discover,
}

/// Settings of one MCP server: a program to start, or an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Whether sessions use the server. Default: yes.
    pub enabled: bool,
    /// Program of the server, which is started confined at the first call of one of its tools.
    pub command: Option<String>,
    /// Arguments of the program. A word that begins with `~/` is a path in the home folder.
    pub args: Vec<String>,
    /// Names of variables that the program gets in addition to the usual ones. Their values come
    /// from the environment or from `secrets.toml`.
    pub env: Vec<String>,
    /// Directories and files that the program may read: absolute, below `~/`, or `workspace`.
    pub read: Vec<String>,
    /// Directories that the program may also change. Each must exist.
    pub write: Vec<String>,
    /// Whether the program may open network connections. Default: no.
    pub network: bool,
    /// Maximum memory of all processes of the program together, in MiB. Default: `memory_mb` in
    /// `[sandbox]`.
    #[serde(
        deserialize_with = "number::within_if_set::<16, 0x0400_0000, _, _>",
        skip_serializing_if = "Option::is_none"
    )]
    pub memory_mb: Option<u64>,
    /// Address of a server that is reached over Streamable HTTP, instead of a program.
    pub url: Option<String>,
    /// Headers of every request to it, with `{NAME}` instead of secrets.
    pub headers: BTreeMap<String, String>,
    /// Whether the name in the address may resolve to a loopback or private address, also for
    /// logins at the server. Default: no.
    pub private: bool,
    /// Id of a client that you registered at the authorization server, for `rind mcp login`. Without
    /// it, a client is registered at each login.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Name of the secret of that client, in the environment or in `secrets.toml`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Scopes that a login asks for. Default: those that the server names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Version of the MCP protocol that is requested from the server. Default: auto.
    pub protocol: McpProtocol,
    /// Whether these are rights for a server that a project's file, such as `.mcp.json`, defines:
    /// the file contains its program or address. Default: no.
    #[serde(skip_serializing_if = "is_false_flag")]
    pub project: bool,
    /// Timeout of a tool call or another request, in seconds. Default: 120.
    #[serde(deserialize_with = "number::within::<1, 3_600, _, _>")]
    pub timeout_seconds: u64,
}

fn is_false_flag(flag: &bool) -> bool {
    !flag
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            enabled: true,
            command: None,
            args: Vec::new(),
            env: Vec::new(),
            read: Vec::new(),
            write: Vec::new(),
            network: false,
            memory_mb: None,
            url: None,
            headers: BTreeMap::new(),
            private: false,
            client_id: None,
            client_secret: None,
            scopes: Vec::new(),
            protocol: McpProtocol::Auto,
            project: false,
            timeout_seconds: DEFAULT_CALL_TIMEOUT_SECONDS,
        }
    }
}

impl ServerSettings {
    /// Checks the constraints that the types do not express.
    ///
    /// # Errors
    /// A sentence about the first violation.
    pub fn check_settings(&self) -> Result<(), String> {
        if self.project {
            let is_target = self.command.is_some() || self.url.is_some();
            if is_target || !self.args.is_empty() || !self.headers.is_empty() {
                return Err("has `project`, so that `command`, `args`, `url` and `headers` come from the file of the project; remove them".to_owned());
            }
            return Ok(());
        }
        match (&self.command, &self.url) {
            (Some(_), Some(_)) => {
                Err("has `command` and `url`; a server is a program or an address".to_owned())
            }
            (None, None) => Err(
                "has neither `command` for a program nor `url` for an address".to_owned(),
            ),
            (Some(command), None) if command.trim().is_empty() => {
                Err("has an empty `command`".to_owned())
            }
            (Some(_), None) if self.has_url_settings() => Err(
                "has `headers`, `private`, `client_id`, `client_secret` or `scopes`, which only a server with `url` has".to_owned(),
            ),
            (None, Some(_)) if self.client_secret.is_some() && self.client_id.is_none() => Err(
                "has `client_secret` without `client_id`".to_owned(),
            ),
            (None, Some(_)) if self.has_command_settings() => Err(
                "has `url`, so that `args`, `env`, `read`, `write`, `network` and `memory_mb` mean nothing; remove them"
                    .to_owned(),
            ),
            _ => Ok(()),
        }
    }

    fn has_url_settings(&self) -> bool {
        let is_client = self.client_id.is_some() || self.client_secret.is_some();
        !self.headers.is_empty() || self.private || is_client || !self.scopes.is_empty()
    }

    /// Whether the settings set an `authorization` header, so that no login is used.
    #[must_use]
    pub fn has_authorization_header(&self) -> bool {
        let mut names = self.headers.keys();
        names.any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    fn has_command_settings(&self) -> bool {
        let lists = [&self.args, &self.env, &self.read, &self.write];
        self.network || self.memory_mb.is_some() || lists.iter().any(|list| !list.is_empty())
    }

    /// Returns the digest of the settings that decide which server is reached and with which
    /// rights. A pin is valid only for settings with this digest. Timeout, memory limit and client
    /// registration are not part of it.
    #[must_use]
    pub fn connection_settings_digest(&self) -> String {
        let same = Self {
            enabled: true,
            timeout_seconds: DEFAULT_CALL_TIMEOUT_SECONDS,
            memory_mb: None,
            client_id: None,
            client_secret: None,
            scopes: Vec::new(),
            ..self.clone()
        };
        // Serialization cannot fail, because all types in the settings exist in JSON.
        let text = serde_json::to_vec(&same).unwrap_or_default();
        format!("blake3:{}", blake3::hash(&text).to_hex())
    }
}

/// Checks the name of a server, which becomes part of its tools' names.
///
/// # Errors
/// The name is invalid; the error is a sentence.
pub fn check_server_name(name: &str) -> Result<(), String> {
    let is_fine = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_edge = |byte: Option<u8>| byte == Some(b'-');
    if (1..=MAX_SERVER_NAME_BYTES).contains(&name.len())
        && name.bytes().all(is_fine)
        && !is_edge(name.bytes().next())
        && !is_edge(name.bytes().last())
    {
        return Ok(());
    }
    Err(format!(
        "`{}` is not a name for a server: 1 to {MAX_SERVER_NAME_BYTES} of a-z, 0-9 and `-`, which must not be the first or last character",
        name.escape_debug()
    ))
}

/// Derives a server name from any text: lowercase ASCII letters and digits, `-` in place of other
/// characters between them, truncated to the maximum length. Empty if the text has no ASCII letters
/// or digits.
#[must_use]
pub fn to_valid_server_name(text: &str) -> String {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let lower = text.to_ascii_lowercase();
    let words = lower.split(|c| !fits(c)).filter(|word| !word.is_empty());
    let mut name = words.collect::<Vec<_>>().join("-");
    name.truncate(MAX_SERVER_NAME_BYTES);
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_was_made_of_a_text_is_one_unless_it_is_empty() {
        for (text, name) in [
            ("docs", "docs"),
            ("My Server_2", "my-server-2"),
            ("GitHub Server (prod)", "github-server-prod"),
            ("a-name-of-more-than-24-letters", "a-name-of-more-than-24-l"),
            ("a-name-of-twenty-three--x", "a-name-of-twenty-three-x"),
            ("--é--", ""),
            ("日本", ""),
        ] {
            assert_eq!(to_valid_server_name(text), name);
            assert_eq!(check_server_name(name).is_err(), name.is_empty(), "{name}");
        }
    }

    #[test]
    fn a_server_is_a_program_or_an_address_and_nothing_in_between() {
        let check = |text: &str| {
            toml::from_str::<ServerSettings>(text)
                .unwrap()
                .check_settings()
        };
        assert_eq!(check("command = \"x\"\nnetwork = true"), Ok(()));
        assert_eq!(check("url = \"https://a.example/mcp\""), Ok(()));
        for (text, expected) in [
            ("", "neither"),
            (
                "command = \"x\"\nurl = \"https://a.example\"",
                "`command` and `url`",
            ),
            ("command = \" \"", "empty"),
            (
                "command = \"x\"\nprivate = true",
                "only a server with `url`",
            ),
            (
                "url = \"https://a.example\"\nargs = [\"x\"]",
                "mean nothing",
            ),
        ] {
            let why = check(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
        assert!(toml::from_str::<ServerSettings>("commend = \"x\"").is_err());
        assert!(toml::from_str::<ServerSettings>("timeout_seconds = 0").is_err());
    }

    #[test]
    fn a_pin_is_for_what_a_server_is_and_may_do() {
        let settings = ServerSettings {
            command: Some("x".to_owned()),
            ..ServerSettings::default()
        };
        let mut other = settings.clone();
        (other.enabled, other.timeout_seconds) = (false, 5);
        other.memory_mb = Some(64);
        assert_eq!(
            settings.connection_settings_digest(),
            other.connection_settings_digest()
        );
        other.network = true;
        assert_ne!(
            settings.connection_settings_digest(),
            other.connection_settings_digest()
        );
    }

    #[test]
    fn names_are_short_and_plain() {
        for good in ["a", "docs", "my-docs-2"] {
            assert_eq!(check_server_name(good), Ok(()));
        }
        for bad in [
            "",
            "-a",
            "a-",
            "A",
            "a_b",
            "a:b",
            "../a",
            "a\u{1b}",
            &"a".repeat(25),
        ] {
            assert!(check_server_name(bad).is_err(), "{bad}");
        }
    }
}
