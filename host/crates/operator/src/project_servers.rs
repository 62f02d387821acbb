//! Reads MCP servers in files of a project: `.mcp.json`, and the settings of Codex.
//!
//! The files are read and trusted together with the project, so a change needs a new approval. A
//! file cannot give permissions to its servers. A server has only the folders, network and
//! variables that the operator's own settings give to a server of the same name with `project =
//! true`. References to variables in a file are replaced only for the names in `env` of those
//! settings.
//!
//! Start from [`list_project_servers`].

use std::path::Path;

use super::mcp::NamedMcpServerSettings;
use super::secrets::OperatorSecrets;
use rind_import::{
    ImportSourceAgent, OtherAgentsMcpServer, convert_server_name, read_project_mcp_servers,
};
use rind_lib::grant::held::InMemoryFolder;
use rind_lib::paths::RindPaths;
use rind_mcp::{McpConfig, ServerSettings};

/// Files of a project that may name servers, each with the agent whose format it has. If two name
/// the same server, the first one applies.
pub(super) const PROJECT_MCP_SERVER_FILES: [(&str, ImportSourceAgent); 2] = [
    (".mcp.json", ImportSourceAgent::ClaudeCode),
    (".codex/config.toml", ImportSourceAgent::Codex),
];

/// Maximum size in bytes of a project's file that defines MCP servers.
const MAX_MCP_SERVER_FILE_BYTES: usize = 1 << 20;

/// Maximum number of MCP servers that one file of a project may define.
const MAX_MCP_SERVERS_PER_FILE: usize = 50;

/// MCP server that a file of a project defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectMcpServer {
    /// Name of the server, converted to one that Rind's settings allow.
    pub name: String,
    /// File of the project that names the server, such as `.mcp.json`.
    pub place: &'static str,
    foreign: OtherAgentsMcpServer,
}

/// Parses the servers in the content of the file `place`, one of [`PROJECT_MCP_SERVER_FILES`].
///
/// # Errors
/// The file is too large or not in its format, or the name of a server is invalid.
pub(super) fn parse_mcp_server_file(
    place: &'static str,
    bytes: &[u8],
) -> Result<Vec<ProjectMcpServer>, String> {
    if bytes.len() > MAX_MCP_SERVER_FILE_BYTES {
        return Err(format!(
            "the file has {} bytes, at most {MAX_MCP_SERVER_FILE_BYTES} are read",
            bytes.len()
        ));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())?;
    let agent = PROJECT_MCP_SERVER_FILES
        .iter()
        .find(|(own, _)| *own == place);
    let agent = agent.map_or(ImportSourceAgent::ClaudeCode, |(_, agent)| *agent);
    let found = read_project_mcp_servers(agent, Path::new(place), text)
        .map_err(|error| error.to_string())?;
    if found.len() > MAX_MCP_SERVERS_PER_FILE {
        return Err(format!(
            "the file defines {} MCP servers, but may define at most {MAX_MCP_SERVERS_PER_FILE}",
            found.len()
        ));
    }
    let mut servers: Vec<ProjectMcpServer> = Vec::new();
    for (theirs, foreign) in found {
        let name = convert_server_name(&theirs)?;
        if servers.iter().any(|other| other.name == name) {
            return Err(format!(
                "two servers of the file would get the same name `{name}` in Rind; rename one of \
                 them"
            ));
        }
        servers.push(ProjectMcpServer {
            name,
            place,
            foreign,
        });
    }
    Ok(servers)
}

/// Returns the servers in the files of a project. Skips invalid files, which were reported when the
/// project was read.
#[must_use]
pub fn list_project_servers(paths: &RindPaths, held: &InMemoryFolder) -> Vec<ProjectMcpServer> {
    let mut all: Vec<ProjectMcpServer> = Vec::new();
    for (place, _) in PROJECT_MCP_SERVER_FILES {
        let bytes = held.file_content(&paths.workspace.join(place));
        let found = bytes.and_then(|bytes| parse_mcp_server_file(place, bytes).ok());
        for server in found.unwrap_or_default() {
            if !all.iter().any(|other| other.name == server.name) {
                all.push(server);
            }
        }
    }
    all
}

impl ProjectMcpServer {
    /// Describes the server for the question in which the user is asked to trust the project.
    #[must_use]
    pub fn describe(&self) -> String {
        let foreign = &self.foreign;
        let target = match (&foreign.command, &foreign.url) {
            (Some(command), _) => {
                let words: Vec<&str> = std::iter::once(command)
                    .chain(&foreign.args)
                    .map(String::as_str)
                    .collect();
                format!("runs `{}`", words.join(" "))
            }
            (None, Some(url)) => format!("is at {url}"),
            (None, None) => "has neither a program nor an address".to_owned(),
        };
        let names = |what: &str, pairs: &[(String, String)]| {
            let names: Vec<&str> = pairs.iter().map(|(name, _)| name.as_str()).collect();
            match names.is_empty() {
                true => String::new(),
                false => format!(", {what} {}", names.join(", ")),
            }
        };
        format!(
            "{target}{}{} ({})",
            names("with the variables", &foreign.env),
            names("with the headers", &foreign.headers),
            self.place
        )
    }

    /// Creates the MCP server with the permissions that the operator's settings give to a server of
    /// this name.
    ///
    /// # Errors
    /// The server is invalid, or needs a variable that the operator has not allowed or that is not
    /// set.
    pub(super) fn with_permissions(
        &self,
        config: &McpConfig,
        secrets: &OperatorSecrets,
    ) -> Result<NamedMcpServerSettings, String> {
        let none = ServerSettings::default();
        let rights = config.0.get(&self.name).unwrap_or(&none);
        let foreign = &self.foreign;
        let value_of = |variable: &str| {
            let is_allowed = rights.env.iter().any(|own| own == variable);
            match is_allowed {
                true => Ok(secrets.variable_or_secret(variable)),
                false => Err(format!(
                    "the server needs the variable `{variable}`, which you have not allowed; to \
                     allow it, write `project = true` and `env = [\"{variable}\"]` under [mcp.{}] \
                     in your config.toml",
                    self.name
                )),
            }
        };
        for (what, text) in [("command", &foreign.command), ("url", &foreign.url)] {
            if text.as_ref().is_some_and(|text| text.contains("${")) {
                return Err(format!(
                    "the server's `{what}` contains a variable, and variables are not replaced \
                     there"
                ));
            }
        }
        let args = foreign
            .args
            .iter()
            .map(|word| replace_variables(word, &value_of));
        let env = foreign.env.iter().map(|(name, value)| {
            require_variable_name(name)?;
            Ok::<_, String>((name.clone(), replace_variables(value, &value_of)?))
        });
        let headers = foreign.headers.iter();
        let headers = headers.map(|(name, value)| {
            Ok::<_, String>((
                name.to_ascii_lowercase(),
                header_value_to_secret_template(value, &value_of)?,
            ))
        });
        Ok(NamedMcpServerSettings {
            name: self.name.clone(),
            settings: ServerSettings {
                enabled: rights.enabled && !foreign.is_off,
                command: foreign.command.clone(),
                args: foreign.args.clone(),
                url: foreign.url.clone(),
                headers: headers.collect::<Result<_, String>>()?,
                // Leave this empty: the function that creates the server adds the names of its
                // variables.
                env: Vec::new(),
                project: false,
                ..rights.clone()
            },
            env: env.collect::<Result<_, String>>()?,
            args: Some(args.collect::<Result<_, String>>()?),
            place: Some(self.place),
        })
    }
}

/// Checks that a text can be the name of an environment variable.
fn require_variable_name(name: &str) -> Result<(), String> {
    let is_fine = !name.is_empty() && !name.contains(['=', '\0']);
    match is_fine {
        true => Ok(()),
        false => Err(format!(
            "`{}` is not the name of a variable",
            name.escape_debug()
        )),
    }
}

type ProjectVariableLookupFn<'a> = dyn Fn(&str) -> Result<Option<String>, String> + 'a;

/// Replaces `${NAME}` and `${NAME:-DEFAULT}` by the values of variables. Inserts the default if the
/// variable is not set or not allowed.
fn replace_variables(text: &str, value_of: &ProjectVariableLookupFn<'_>) -> Result<String, String> {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inner, after)) = after.split_once('}') else {
            break;
        };
        whole.push_str(before);
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner, None),
        };
        let value = match (value_of(name), default) {
            (Ok(Some(value)), _) => value,
            (_, Some(default)) => default.to_owned(),
            (Ok(None), None) => {
                return Err(format!(
                    "the server needs the variable `{}`, which neither the environment nor \
                     secrets.toml sets",
                    name.escape_debug()
                ));
            }
            (Err(why), None) => return Err(why),
        };
        whole.push_str(&value);
        rest = after;
    }
    whole.push_str(rest);
    match whole.contains('\0') {
        true => Err("a value of the server contains a NUL character".to_owned()),
        false => Ok(whole),
    }
}

/// Converts the value of a header into a template with the names of secrets, which the egress
/// replaces by their values.
fn header_value_to_secret_template(
    value: &str,
    value_of: &ProjectVariableLookupFn<'_>,
) -> Result<String, String> {
    let mut template = String::new();
    let mut rest = value;
    loop {
        let (literal, reference) = match rest.split_once("${") {
            Some((before, after)) => (before, Some(after)),
            None => (rest, None),
        };
        // Refuse other braces: in a template, they would refer to secrets that the operator has not
        // allowed.
        if literal.contains(['{', '}']) {
            return Err(
                "a header of the server has a `{` or `}` that is not part of a variable such as \
                 `${NAME}`"
                    .to_owned(),
            );
        }
        template.push_str(literal);
        let Some(reference) = reference else {
            return Ok(template);
        };
        let (name, after) = reference
            .split_once('}')
            .ok_or("a header of it has a `${` without `}`")?;
        if value_of(name)?.is_none() {
            return Err(format!(
                "the server needs the variable `{}`, which neither the environment nor \
                 secrets.toml sets",
                name.escape_debug()
            ));
        }
        template.push_str(&format!("{{{name}}}"));
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_of(name: &str) -> Result<Option<String>, String> {
        match name {
            "OPEN" => Ok(Some("value".to_owned())),
            "UNSET" => Ok(None),
            other => Err(format!("{other} is not allowed")),
        }
    }

    #[test]
    fn variables_are_replaced_where_the_operator_allows_them() {
        for (text, expected) in [
            ("a ${OPEN} ${OPEN:-x}", Ok("a value value")),
            ("${UNSET:-b}${AWS_KEY:-c}", Ok("bc")),
            ("$OPEN ${OPEN", Ok("$OPEN ${OPEN")),
            ("${UNSET}", Err("neither the environment")),
            ("${AWS_KEY}", Err("not allowed")),
            ("${}", Err("not allowed")),
        ] {
            match (replace_variables(text, &value_of), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        for (text, expected) in [
            ("Bearer ${OPEN}", Some("Bearer {OPEN}")),
            ("Bearer ${AWS_KEY}", None),
            ("Bearer {AWS_KEY}", None),
            ("${OPEN} {AWS_KEY}", None),
            ("{AWS_KEY} ${OPEN}", None),
            ("${{AWS_KEY}", None),
            ("plain", Some("plain")),
        ] {
            let found = header_value_to_secret_template(text, &value_of).ok();
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn files_that_are_wrong_name_no_server() {
        for (place, text) in [
            (".mcp.json", "{"),
            (".mcp.json", r#"{"mcpServers": {"日本": {"command": "x"}}}"#),
            (
                ".mcp.json",
                r#"{"mcpServers": {"a b": {"command": "x"}, "a-b": {"command": "y"}}}"#,
            ),
            (".codex/config.toml", "x = "),
        ] {
            assert!(
                parse_mcp_server_file(place, text.as_bytes()).is_err(),
                "{text}"
            );
        }
        let long = vec![b' '; MAX_MCP_SERVER_FILE_BYTES + 1];
        assert!(parse_mcp_server_file(".mcp.json", &long).is_err());
        let many: Vec<String> = (0..=MAX_MCP_SERVERS_PER_FILE)
            .map(|n| format!("\"s{n}\": {{}}"))
            .collect();
        let many = format!("{{\"mcpServers\": {{{}}}}}", many.join(","));
        assert!(parse_mcp_server_file(".mcp.json", many.as_bytes()).is_err());
        assert_eq!(
            parse_mcp_server_file(".codex/config.toml", b"model = \"x\""),
            Ok(Vec::new())
        );
    }
}
