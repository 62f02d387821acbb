//! Converts MCP servers of other agents into Rind's settings.
//!
//! Values of environment variables and headers are never copied, because most of them are secrets:
//! the settings contain their names, and the user puts the values into the environment or
//! `secrets.toml`.

use std::collections::BTreeMap;
use std::path::Path;

use rind_mcp::{ServerSettings, check_server_name, to_valid_server_name};
use serde_json::Value;

use super::ImportSourceAgent;
use super::file::{ImportFileReadError, parse_json_with_comments};
use super::plan::{ImportPlan, ImportedMcpServer};

/// MCP server in the settings of another agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtherAgentsMcpServer {
    /// Program that starts a local server; `None` for a server with a URL.
    pub command: Option<String>,
    /// Command-line arguments of the program.
    pub args: Vec<String>,
    /// Environment variables of the program, with their values.
    pub env: Vec<(String, String)>,
    /// URL of a server that is reached over HTTP; `None` for a local server.
    pub url: Option<String>,
    /// HTTP headers of each request, with their values.
    pub headers: Vec<(String, String)>,
    /// Whether the server is disabled in the other agent.
    pub is_off: bool,
}

/// Reads the servers, with their names, from the text of a project's file: `config.toml` for Codex,
/// otherwise `.mcp.json`.
///
/// # Errors
/// The text is not in the format of the file.
pub fn read_project_mcp_servers(
    agent: ImportSourceAgent,
    path: &Path,
    text: &str,
) -> Result<Vec<(String, OtherAgentsMcpServer)>, ImportFileReadError> {
    match agent {
        ImportSourceAgent::Codex => {
            let settings: Value =
                toml::from_str(text).map_err(|error| ImportFileReadError::new(path, error))?;
            let servers = json_object_entries(&settings["mcp_servers"]);
            Ok(servers
                .map(|(name, own)| (name.clone(), parse_codex_server(own)))
                .collect())
        }
        ImportSourceAgent::ClaudeCode | ImportSourceAgent::OpenCode => {
            let settings = parse_json_with_comments(path, text)?;
            let servers = json_object_entries(&settings["mcpServers"]);
            Ok(servers
                .map(|(name, own)| (name.clone(), parse_claude_server(own)))
                .collect())
        }
    }
}

fn json_object_entries(table: &Value) -> impl Iterator<Item = (&String, &Value)> {
    table.as_object().into_iter().flatten()
}

/// Reads an MCP server in the format of Claude Code's `.mcp.json`.
fn parse_claude_server(server: &Value) -> OtherAgentsMcpServer {
    OtherAgentsMcpServer {
        command: extract_json_string(&server["command"]),
        args: extract_json_list_strings(&server["args"]),
        env: extract_json_string_fields(&server["env"]),
        url: extract_json_string(&server["url"]),
        headers: extract_json_string_fields(&server["headers"]),
        is_off: server["disabled"] == true,
    }
}

/// Reads a server of Codex. A setting that contains only the name of a variable becomes a reference
/// such as `${NAME}`.
pub(crate) fn parse_codex_server(server: &Value) -> OtherAgentsMcpServer {
    let mut env = extract_json_string_fields(&server["env"]);
    let named = extract_json_list_strings(&server["env_vars"]).into_iter();
    env.extend(named.map(|name| (name.clone(), format!("${{{name}}}"))));
    let mut headers = extract_json_string_fields(&server["http_headers"]);
    let named = extract_json_string_fields(&server["env_http_headers"]).into_iter();
    headers.extend(named.map(|(header, variable)| (header, format!("${{{variable}}}"))));
    if let Some(variable) = extract_json_string(&server["bearer_token_env_var"]) {
        headers.push((
            "authorization".to_owned(),
            format!("Bearer ${{{variable}}}"),
        ));
    }
    OtherAgentsMcpServer {
        command: extract_json_string(&server["command"]),
        args: extract_json_list_strings(&server["args"]),
        env,
        url: extract_json_string(&server["url"]),
        headers,
        is_off: server["enabled"] == false,
    }
}

/// Converts a name into a valid server name: lowercase letters, digits and `-`.
///
/// # Errors
/// The name contains no letter or digit that a server name could have.
pub fn convert_server_name(name: &str) -> Result<String, String> {
    let own = to_valid_server_name(name);
    check_server_name(&own)
        .map_err(|_| format!("`{name}` has no letters or digits for the name of a server"))?;
    Ok(own)
}

/// Adds the servers of a table in the format of `.mcp.json` to the plan.
pub(crate) fn add_mcp_json_servers(table: &Value, path: &Path, plan: &mut ImportPlan) {
    for (name, server) in table.as_object().into_iter().flatten() {
        if server["type"] == "sse" {
            plan.record_setting_not_imported(path, format!("MCP server `{name}`"), "the transport SSE was replaced in the protocol by Streamable HTTP; ask the server's operator for its new address");
            continue;
        }
        add_mcp_server_to_plan(name, parse_claude_server(server), path, plan);
    }
}

/// Adds one server to the plan, or reports why it is not imported.
pub(crate) fn add_mcp_server_to_plan(
    name: &str,
    foreign: OtherAgentsMcpServer,
    path: &Path,
    plan: &mut ImportPlan,
) {
    let what = format!("MCP server `{name}`");
    let own = match convert_server_name(name) {
        Ok(own) => own,
        Err(why) => return plan.record_setting_not_imported(path, what, why),
    };
    if plan.servers.iter().any(|server| server.name == own) {
        let why = format!("another server is called `{own}` already");
        return plan.record_setting_not_imported(path, what, why);
    }
    let mut settings = ServerSettings {
        enabled: !foreign.is_off,
        command: foreign.command,
        args: foreign.args,
        url: foreign.url,
        ..ServerSettings::default()
    };
    if settings.command.is_some() {
        for (variable, value) in foreign.env {
            if referenced_variable_name(&value) != Some(&*variable) {
                let why = format!(
                    "the value is not copied, because it may be a secret: put {variable} into your environment or secrets.toml"
                );
                plan.record_setting_not_imported(path, format!("{what}: env {variable}"), why);
            }
            settings.env.push(variable);
        }
    }
    if settings
        .url
        .as_ref()
        .is_some_and(|url| url.contains("${") || url.contains("{env:"))
    {
        let why = "its address has a variable, which is not replaced here: add it with `rind mcp add` and the whole address, with a secret in a header where the server takes one there";
        return plan.record_setting_not_imported(path, what, why);
    }
    if settings.url.is_some() {
        settings.headers = replace_headers_by_secrets(&own, foreign.headers, &what, path, plan);
    }
    if settings
        .args
        .iter()
        .any(|word| referenced_variable_name(word).is_some() || word.contains("${"))
    {
        plan.record_setting_not_imported(
            path,
            format!("{what}: args"),
            "Rind does not replace variables in arguments: write the values",
        );
    }
    if let Err(why) = settings.check_settings() {
        return plan.record_setting_not_imported(path, what, format!("it {why}"));
    }
    if let Some(needs) = settings
        .command
        .as_deref()
        .and_then(missing_server_permission_hint)
    {
        plan.record_setting_not_imported(path, format!("{what}: rights"), needs);
    }
    plan.servers.push(ImportedMcpServer {
        name: own,
        settings,
    });
}

/// Replaces the values of HTTP headers by references to secrets, and reports each secret that the
/// user must set.
fn replace_headers_by_secrets(
    server: &str,
    headers: Vec<(String, String)>,
    what: &str,
    path: &Path,
    plan: &mut ImportPlan,
) -> BTreeMap<String, String> {
    let own = headers.into_iter().map(|(header, value)| {
        let (before, value) = match value.split_once(' ') {
            Some((scheme, value)) if scheme.eq_ignore_ascii_case("bearer") => ("Bearer ", value),
            _ => ("", &*value),
        };
        let name = referenced_variable_name(value).map(str::to_owned).unwrap_or_else(|| {
            let name = to_secret_name(&format!("{server}_{header}"));
            let why = format!("the value is not copied, because it may be a secret: put it into secrets.toml as {name}");
            plan.record_setting_not_imported(path, format!("{what}: header {header}"), why);
            name
        });
        (header.to_ascii_lowercase(), format!("{before}{{{name}}}"))
    });
    own.collect()
}

/// Converts a text into the name of a secret: uppercase letters, digits and `_`.
fn to_secret_name(text: &str) -> String {
    let upper = text.to_ascii_uppercase();
    let fits = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    upper.chars().map(fits).collect()
}

/// Returns the variable's name if the complete value is a reference: `${NAME}`, `$NAME` or
/// `{env:NAME}`.
fn referenced_variable_name(value: &str) -> Option<&str> {
    let name = value
        .strip_prefix("${")
        .or_else(|| value.strip_prefix("{env:"))
        .and_then(|rest| rest.strip_suffix('}'))
        .or_else(|| value.strip_prefix('$'))?;
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    (!name.is_empty() && name.chars().all(fits)).then_some(name)
}

/// Describes the permissions that the user must add for a server whose program is a package runner
/// or container client, such as `npx`.
fn missing_server_permission_hint(command: &str) -> Option<&'static str> {
    let name = command.rsplit('/').next().unwrap_or(command);
    match name {
        "npx" | "bunx" | "pnpx" => Some(
            "it loads packages: give it `network = true` and `write = [\"~/.npm\"]`, or install the package and name its program",
        ),
        "uvx" | "pipx" => Some(
            "it loads packages: give it `network = true` and `write = [\"~/.cache/uv\"]`, or install the package and name its program",
        ),
        "docker" | "podman" => {
            Some("it needs the socket of the container daemon, which no confined program reaches")
        }
        _ => None,
    }
}

/// Returns the content of a JSON string; `None` for other JSON values.
pub(crate) fn extract_json_string(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

/// Returns the strings in a JSON list; other items are skipped.
pub(crate) fn extract_json_list_strings(value: &Value) -> Vec<String> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(extract_json_string)
        .collect()
}

/// Returns the keys and values of a JSON object whose values are strings.
pub(crate) fn extract_json_string_fields(value: &Value) -> Vec<(String, String)> {
    let entries = value.as_object().into_iter().flatten();
    entries
        .filter_map(|(name, value)| Some((name.clone(), extract_json_string(value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn servers_are_taken_over_without_their_secrets() {
        let table = json!({
            "My Docs": { "command": "python3", "args": ["server.py"], "env": { "TOKEN": "ghp_secret", "HOME_PAGE": "${HOME_PAGE}" } },
            "issues": { "type": "http", "url": "https://x.example/mcp", "headers": { "Authorization": "Bearer ${ISSUES}", "X-Key": "k123" } },
            "old": { "type": "sse", "url": "https://x.example/sse" },
            "my_docs": { "command": "other" },
            "nothing": {},
            "packages": { "command": "npx", "args": ["-y", "server"] },
        });
        let mut plan = ImportPlan::default();
        add_mcp_json_servers(&table, Path::new(".mcp.json"), &mut plan);
        let names: Vec<&str> = plan.servers.iter().map(|server| &*server.name).collect();
        assert_eq!(names, ["my-docs", "issues", "packages"]);
        assert_eq!(plan.servers[0].settings.env, ["TOKEN", "HOME_PAGE"]);
        let headers = &plan.servers[1].settings.headers;
        assert_eq!(headers["authorization"], "Bearer {ISSUES}");
        assert_eq!(headers["x-key"], "{ISSUES_X_KEY}");
        assert!(!plan.servers[2].settings.network);
        let text = serde_json::to_string(&plan).unwrap();
        assert!(
            !text.contains("ghp_secret") && !text.contains("k123"),
            "{text}"
        );
        let lost: Vec<&str> = plan.losses.iter().map(|loss| &*loss.what).collect();
        assert_eq!(
            lost,
            [
                "MCP server `My Docs`: env TOKEN",
                "MCP server `issues`: header X-Key",
                "MCP server `old`",
                "MCP server `my_docs`",
                "MCP server `nothing`",
                "MCP server `packages`: rights",
            ]
        );
    }

    #[test]
    fn names_of_servers_become_names_of_here() {
        assert_eq!(
            convert_server_name("GitHub Server (prod)").unwrap(),
            "github-server-prod"
        );
        assert_eq!(
            convert_server_name("a-very-long-name-of-a-server").unwrap(),
            "a-very-long-name-of-a-se"
        );
        assert!(convert_server_name("日本").is_err());
    }
}
