//! Represents an MCP server: its settings, and the program or URL with permissions and limits.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;

use super::login::{ACCESS_TOKEN_SECRET_NAME, SharedServerLogin, StoredLogin};
use super::names::mcp_tool_source_name;
use super::settings::{McpProtocol, ServerSettings};
use rind_lib::egress::{
    CredentialTemplate, EgressOptions, MAX_REQUESTS_PER_SESSION_SETTING, SecretStore,
    SharedPluginEgress, is_forbidden_plugin_header,
};
use rind_lib::grant::{Capability, Credential, GrantedCapabilities, HostPattern};
use rind_lib::tool::FileChangeTrackingMethod;
use rind_lib::tool::builtin::CommandConfinementMode;
use rind_lib::tool::peer::PeerProcessSpec;

/// Headers that the transport sets and that the settings must not set.
const TRANSPORT_RESERVED_HEADERS: [&str; 5] = [
    "accept",
    "content-type",
    "last-event-id",
    "mcp-protocol-version",
    "mcp-session-id",
];

/// HTTP header that carries the access token of a login.
const AUTHORIZATION_HEADER_NAME: &str = "authorization";

/// Time that is added to a call's timeout to get the timeout of its HTTP request. The call's
/// timeout ends first, because its message is clearer.
const HTTP_TIMEOUT_MARGIN_OVER_CALL: Duration = Duration::from_secs(5);

/// MCP server with the settings and permissions that are needed to connect to it.
#[derive(Clone, Debug)]
pub struct McpServerConnectionSpec {
    /// Name of the MCP server in the settings.
    pub name: String,
    /// Name under which the operator's approval of the server's tools and prompts (the pin) is
    /// stored.
    pub pin: String,
    /// Settings of the MCP server.
    pub settings: ServerSettings,
    /// Program or URL through which the host reaches the MCP server.
    pub reach: McpServerProgramOrUrl,
    /// Whether the MCP server may change files of the workspace.
    pub changes_workspace: bool,
}

/// Program or URL through which the host reaches a server.
#[derive(Clone, Debug)]
pub enum McpServerProgramOrUrl {
    /// Server program, which is started for each session.
    Program(Box<PeerProcessSpec>),
    /// MCP server that is reached over HTTP.
    Http(McpServerUrlAndEgress),
}

/// URL of a server, and the egress through which requests to the server go.
#[derive(Clone, Debug)]
pub struct McpServerUrlAndEgress {
    /// Absolute URL of the MCP server.
    pub url: String,
    /// Permissions and limits of the HTTP requests to the MCP server.
    pub egress: Arc<SharedPluginEgress>,
    /// OAuth login whose access token is added to the requests.
    pub(crate) login: Option<Arc<SharedServerLogin>>,
}

impl McpServerUrlAndEgress {
    /// Creates the settings for reaching a server over HTTP. Its requests, including redirects, can
    /// reach only the server's host. The login in the file `login` is used if it is for the same
    /// URL and the settings set no `authorization` header.
    ///
    /// # Errors
    /// A setting or the login is invalid; the error is a sentence.
    pub fn new(
        name: &str,
        settings: &ServerSettings,
        secrets: Arc<dyn SecretStore>,
        login: &Path,
    ) -> Result<Self, String> {
        let url = settings.url.clone().unwrap_or_default();
        let host = host_pattern_of_url(&url)?;
        let mut capabilities = vec![Capability::Network(host.clone())];
        // Allow a private IP address that the settings contain. A host name could later resolve to
        // a private address, so names need the setting `private`.
        if settings.private || host.ip_address().is_some() || host.is_localhost() {
            capabilities.push(Capability::PrivateNetwork(host.clone()));
        }
        capabilities.extend(header_credentials(&host, &settings.headers)?);
        let (login, secrets) = match has_stored_login(settings, login)? {
            false => (None, secrets),
            true => {
                capabilities.push(Capability::Credential(Credential {
                    host,
                    header: AUTHORIZATION_HEADER_NAME.to_owned(),
                    value: format!("Bearer {{{ACCESS_TOKEN_SECRET_NAME}}}"),
                }));
                let (login, own) =
                    SharedServerLogin::new(name, &url, settings.private, login, secrets);
                (Some(login), own as Arc<dyn SecretStore>)
            }
        };
        let options = EgressOptions {
            secrets,
            deadline: Duration::from_secs(settings.timeout_seconds) + HTTP_TIMEOUT_MARGIN_OVER_CALL,
            ..EgressOptions::default()
        };
        let granted = Arc::new(GrantedCapabilities::new(capabilities));
        let origin = mcp_tool_source_name(name);
        Ok(Self {
            url,
            egress: SharedPluginEgress::new(
                options,
                origin.into(),
                granted,
                Some(MAX_REQUESTS_PER_SESSION_SETTING),
            ),
            login,
        })
    }
}

/// Whether a login file exists for the URL of the settings and the settings set no `authorization`
/// header.
fn has_stored_login(settings: &ServerSettings, file: &Path) -> Result<bool, String> {
    if settings.has_authorization_header() {
        return Ok(false);
    }
    let login = StoredLogin::read(file)?;
    Ok(login.is_some_and(|login| Some(&login.url) == settings.url.as_ref()))
}

/// Returns a pattern that matches only the host of a URL.
pub(crate) fn host_pattern_of_url(url: &str) -> Result<HostPattern, String> {
    let wrong = |why: &str| format!("`{}` {why}", url.escape_debug());
    let parsed: Uri = url.parse().map_err(|_| wrong("is not an address"))?;
    let scheme = parsed.scheme_str();
    let scheme = scheme.filter(|scheme| matches!(*scheme, "http" | "https"));
    let scheme = scheme.ok_or_else(|| wrong("does not begin with `https://` or `http://`"))?;
    let authority = parsed.authority().ok_or_else(|| wrong("names no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong(
            "contains a name or password; put it into `headers` as a secret",
        ));
    }
    let pattern: HostPattern = format!("{scheme}://{authority}").parse()?;
    if pattern.matches_every_host() || authority.as_str().contains('*') {
        return Err(wrong("names no host"));
    }
    Ok(pattern)
}

/// Converts the header settings of an MCP server into credentials. The egress adds them to requests
/// last, and masks them in answers.
fn header_credentials(
    host: &HostPattern,
    headers: &BTreeMap<String, String>,
) -> Result<Vec<Capability>, String> {
    let one = |(name, value): (&String, &String)| {
        let header = name.to_ascii_lowercase();
        let wrong = |why: &str| format!("the header `{}` {why}", name.escape_debug());
        if http::HeaderName::from_bytes(header.as_bytes()).is_err() {
            return Err(wrong("has no valid name"));
        }
        if is_forbidden_plugin_header(&header)
            || TRANSPORT_RESERVED_HEADERS.contains(&header.as_str())
        {
            return Err(wrong("is for the host to set"));
        }
        CredentialTemplate::parse(value).map_err(|why| wrong(&why))?;
        Ok(Capability::Credential(Credential {
            host: host.clone(),
            header,
            value: value.clone(),
        }))
    };
    headers.iter().map(one).collect()
}

impl McpServerConnectionSpec {
    /// Returns the timeout of one request to the server, such as a tool call.
    #[must_use]
    pub fn call_timeout(&self) -> Duration {
        Duration::from_secs(self.settings.timeout_seconds)
    }

    /// Returns the method by which the host detects files that the server's calls change.
    pub(crate) fn file_change_tracking_method(&self) -> FileChangeTrackingMethod {
        match self.changes_workspace {
            true => FileChangeTrackingMethod::Snapshot,
            false => FileChangeTrackingMethod::Unneeded,
        }
    }

    /// Returns the MCP protocol version that the host requests from the server.
    #[must_use]
    pub fn protocol_version(&self) -> McpProtocol {
        self.settings.protocol
    }

    /// Describes the permissions of the server, for approval prompts about its calls.
    #[must_use]
    pub fn describe_permissions(&self) -> Vec<String> {
        match &self.reach {
            McpServerProgramOrUrl::Http(server) => {
                vec![format!("sends the arguments to {}", server.url)]
            }
            McpServerProgramOrUrl::Program(program) => {
                let mut command = vec![self.settings.command.clone().unwrap_or_default()];
                command.extend(self.settings.args.iter().cloned());
                let run = format!("run `{}`", command.join(" "));
                if !can_never_run_unconfined(&program.commands.confining) {
                    return vec![
                        run,
                        "with all your rights: commands are not confined".to_owned(),
                    ];
                }
                let list = |verb: &str, folders: &[String]| {
                    (!folders.is_empty()).then(|| format!("{verb} {}", folders.join(", ")))
                };
                let network = match program.network {
                    true => "use the network",
                    false => "no network",
                };
                let words = [
                    Some(run),
                    list("read", &self.settings.read),
                    list("change", &self.settings.write),
                    Some(network.to_owned()),
                    list("see the variables", &self.settings.env),
                ];
                words.into_iter().flatten().collect()
            }
        }
    }
}

/// Whether commands run in a sandbox or are refused.
fn can_never_run_unconfined(confining: &CommandConfinementMode) -> bool {
    match confining {
        CommandConfinementMode::Confined(_)
        | CommandConfinementMode::RetryingConfinement(_)
        | CommandConfinementMode::Refused(_) => true,
        CommandConfinementMode::Free
        | CommandConfinementMode::Kept(_)
        | CommandConfinementMode::Unconfined { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use rind_lib::egress::EmptySecretStore;

    use super::*;

    fn server(url: &str, header: Option<(&str, &str)>) -> Result<McpServerUrlAndEgress, String> {
        let settings = ServerSettings {
            url: Some(url.to_owned()),
            headers: header
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into_iter()
                .collect(),
            ..ServerSettings::default()
        };
        McpServerUrlAndEgress::new(
            "s",
            &settings,
            Arc::new(EmptySecretStore),
            Path::new("/none/s.json"),
        )
    }

    #[test]
    fn an_address_is_one_host_and_secrets_are_named() {
        assert!(
            server(
                "https://a.example/mcp",
                Some(("Authorization", "Bearer {TOKEN}"))
            )
            .is_ok()
        );
        assert!(server("http://127.0.0.1:8000/mcp", None).is_ok());
        for (url, header, expected) in [
            ("a.example", None, "`https://` or"),
            ("ftp://a.example/x", None, "`https://` or"),
            ("https://*/mcp", None, ""),
            ("https://u:p@a.example/", None, "as a secret"),
            (
                "https://a.example",
                Some(("authorization", "Bearer abc")),
                "placeholder",
            ),
            (
                "https://a.example",
                Some(("Mcp-Session-Id", "{A}")),
                "for the host to set",
            ),
            (
                "https://a.example",
                Some(("host", "{A}")),
                "for the host to set",
            ),
            ("https://a.example", Some(("a b", "{A}")), "valid name"),
        ] {
            let why = server(url, header).unwrap_err();
            assert!(why.contains(expected), "{url}: {why}");
        }
    }
}
