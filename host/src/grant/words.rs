//! Describes capabilities in plain words, for questions and reports.
//!
//! All functions are pure. The output is a single printable line for any text of a manifest.

use super::{
    Capability, ExternalCall, FolderAccess, GrantableFolder, GrantedCapabilities, HostPattern,
    RootFolderKind,
};
use crate::text::escape_and_truncate_line;

/// Maximum length of a name from a manifest that is displayed, in bytes.
const MAX_DISPLAYED_MANIFEST_NAME_BYTES: usize = 300;

/// Cleans a name from a manifest: a line break in it could imitate a line of the host.
fn clean_manifest_name(text: &str) -> String {
    escape_and_truncate_line(text, MAX_DISPLAYED_MANIFEST_NAME_BYTES)
}

/// Describes a capability as a phrase that follows "the plugin may", such as "read files in
/// workspace/docs".
///
/// For example:
///
/// ```text
/// write:workspace           read and write files in workspace
/// network:api.github.com    talk to https://api.github.com
/// model                     ask the model, which costs tokens
/// tool:read_file            call the tool read_file
/// ```
#[must_use]
pub fn describe_capability(capability: &Capability) -> String {
    match capability {
        Capability::Session => {
            "read the conversation and change prompts, messages, tool calls and the model"
                .to_owned()
        }
        Capability::Files(access, folder) => describe_folder_access(*access, folder),
        Capability::Network(host) => format!("talk to {}", describe_network_host(host)),
        Capability::PrivateNetwork(host) => {
            let host = host.text_with_scheme();
            format!("talk to {host} at addresses inside your network")
        }
        Capability::Credential(credential) => {
            let secrets = credential_secret_names(&credential.value);
            let what = match &secrets[..] {
                [] => format!("a fixed header {}", clean_manifest_name(&credential.header)),
                [one] => format!("the secret {one}"),
                more => format!("the secrets {}", more.join(" and ")),
            };
            let host = credential.host.text_with_scheme();
            format!("send {what} to {host}, without seeing it")
        }
        Capability::ExternalCall(call) => call.words().to_owned(),
        Capability::Tool(name) => format!("call the tool {}", clean_manifest_name(name)),
    }
}

fn describe_network_host(host: &HostPattern) -> String {
    let name = host.text_with_scheme();
    if host.matches_every_host() {
        format!("any host ({name})")
    } else {
        name
    }
}

fn describe_folder_access(access: FolderAccess, folder: &GrantableFolder) -> String {
    let verb = match access {
        FolderAccess::Read => "read",
        FolderAccess::Write => "read and write",
    };
    match folder.root {
        RootFolderKind::Data => format!("{verb} files in its own folder"),
        RootFolderKind::Workspace => format!(
            "{verb} files in {}",
            clean_manifest_name(&folder.to_string())
        ),
    }
}

/// Returns the names of the secrets in a credential's value, which are written between braces.
fn credential_secret_names(value: &str) -> Vec<String> {
    let mut names: Vec<String> = value
        .split('{')
        .skip(1)
        .filter_map(|rest| Some(clean_manifest_name(rest.split_once('}')?.0)))
        .collect();
    names.dedup();
    names
}

/// Describes the risk of capabilities that are harmless alone but not together: a plugin that sees
/// the conversation or the workspace and has network access can send it to a host. Returns `None`
/// if there is no such combination. `has_hooks` tells whether hooks of the plugin see parts of the
/// conversation, which needs no capability.
#[must_use]
pub fn describe_combined_risk(granted: &GrantedCapabilities, has_hooks: bool) -> Option<String> {
    let mut seen = Vec::new();
    if has_hooks || granted.has_capability(&Capability::Session) {
        seen.push("in the conversation".to_owned());
    }
    let folders = granted.folders();
    let mut names: Vec<String> = folders
        .iter()
        .filter(|(_, folder)| folder.root == RootFolderKind::Workspace)
        .map(|(_, folder)| clean_manifest_name(&folder.to_string()))
        .collect();
    names.dedup();
    if !names.is_empty() {
        seen.push(format!("in {}", names.join(", ")));
    }
    // With these capabilities, as with a capability to call tools, the plugin can read everything
    // that the agent can read.
    let through_agent = [
        ExternalCall::Agents,
        ExternalCall::Turns,
        ExternalCall::AgentLoop,
    ];
    let is_through_agent = through_agent
        .iter()
        .any(|call| granted.has_capability(&Capability::ExternalCall(*call)));
    if granted.callable_tools().next().is_some() || is_through_agent {
        seen.push("through tools of the agent".to_owned());
    }
    let hosts = granted.public_hosts().chain(granted.private_hosts());
    let mut hosts: Vec<String> = hosts.map(describe_network_host).collect();
    hosts.dedup();
    if seen.is_empty() || hosts.is_empty() {
        return None;
    }
    Some(format!(
        "could send what it reads {} to {}",
        seen.join(" and "),
        hosts.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::Credential;
    use crate::table::parse_table_rows;

    #[test]
    fn every_capability_has_a_description() {
        let table = "
session => read the conversation and change prompts, messages, tool calls and the model
read:workspace/docs => read files in workspace/docs
write:workspace => read and write files in workspace
write:data => read and write files in its own folder
network:api.github.com => talk to https://api.github.com
network:* => talk to any host (https://*)
private-network:http://127.0.0.1:8080 => talk to http://127.0.0.1:8080 at addresses inside your network
model => ask the model, which costs tokens
agents => run subagents with tools of the agent, which costs tokens
turns => run turns of the agent from its loop, with all tools and without a person, which costs tokens
tool:read\u{1b}_file => call the tool read\\u{1b}_file
tool:a⏎  it may nothing => call the tool a   it may nothing
";
        for [capability, expected] in parse_table_rows(table) {
            assert_eq!(describe_capability(&capability.as_str().into()), expected);
        }
        for (value, what) in [
            ("Bearer {GITHUB_TOKEN}", "the secret GITHUB_TOKEN"),
            ("{USER}:{PASSWORD}", "the secrets USER and PASSWORD"),
            ("fixed", "a fixed header authorization"),
            ("{A\n  it may nothing}", "the secret A   it may nothing"),
        ] {
            let credential = Capability::Credential(Credential {
                host: "api.github.com".parse().unwrap(),
                header: "authorization".into(),
                value: value.into(),
            });
            let expected = format!("send {what} to https://api.github.com, without seeing it");
            assert_eq!(describe_capability(&credential), expected);
        }
    }

    #[test]
    fn what_reading_and_reaching_out_come_to_is_said() {
        let table = "
network:a.b =>
session =>
read:data network:a.b =>
network:a.b (hooks) => in the conversation to https://a.b
session network:a.b => in the conversation to https://a.b
read:workspace/docs network:a.b private-network:http://10.0.0.1 => in workspace/docs to https://a.b, http://10.0.0.1
tool:read_file network:a.b => through tools of the agent to https://a.b
turns network:a.b => through tools of the agent to https://a.b
";
        for [capabilities, expected] in parse_table_rows(table) {
            let all = capabilities.split(' ').filter(|word| *word != "(hooks)");
            let granted = GrantedCapabilities::new(all.map(Capability::from).collect());
            let said = describe_combined_risk(&granted, capabilities.ends_with("(hooks)"));
            let is_any = !expected.is_empty();
            let expected = is_any.then(|| format!("could send what it reads {expected}"));
            assert_eq!(said, expected, "{capabilities}");
        }
    }
}
