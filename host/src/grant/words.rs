//! Capabilities in plain words, for questions and reports. Pure, printable and on one line whatever a manifest says.

use super::{Access, Capability, ExternalCall, Folder, Granted, Root};
use crate::text::clean;

/// Longest name of a manifest's that is shown, in bytes.
const MAX_NAME_BYTES: usize = 300;

/// A name that a manifest made up: a second line of it would look like the host's own words.
fn named(text: &str) -> String {
    clean(text, MAX_NAME_BYTES)
}

/// Describes a capability, as a phrase after "may": "read files in workspace/docs".
#[must_use]
pub fn in_words(capability: &Capability) -> String {
    match capability {
        Capability::Session => {
            "read the conversation and change prompts, messages, tool calls and the model"
                .to_owned()
        }
        Capability::Files(access, folder) => files(*access, folder),
        Capability::Network(host) if host.is_any() => {
            format!("talk to any host ({})", host.with_scheme())
        }
        Capability::Network(host) => format!("talk to {}", host.with_scheme()),
        Capability::PrivateNetwork(host) => {
            let host = host.with_scheme();
            format!("talk to {host} at addresses inside your network")
        }
        Capability::Credential(credential) => {
            let secrets = secrets(&credential.value);
            let what = match &secrets[..] {
                [] => format!("a fixed header {}", named(&credential.header)),
                [one] => format!("the secret {one}"),
                more => format!("the secrets {}", more.join(" and ")),
            };
            let host = credential.host.with_scheme();
            format!("send {what} to {host}, without seeing it")
        }
        Capability::ExternalCall(call) => call.words().to_owned(),
        Capability::Tool(name) => format!("call the tool {}", named(name)),
    }
}

fn files(access: Access, folder: &Folder) -> String {
    let verb = match access {
        Access::Read => "read",
        Access::Write => "read and write",
    };
    match folder.root {
        Root::Data => format!("{verb} files in its own folder"),
        Root::Workspace => format!("{verb} files in {}", named(&folder.to_string())),
    }
}

/// Names between braces.
fn secrets(value: &str) -> Vec<String> {
    let mut names: Vec<String> = value
        .split('{')
        .skip(1)
        .filter_map(|rest| Some(named(rest.split_once('}')?.0)))
        .collect();
    names.dedup();
    names
}

/// Describes what capabilities allow together that are harmless alone: a plugin that sees the conversation or files of the
/// workspace and has network access can send the one to the other. `None` when there is no such pair. `has_hooks` says whether
/// the plugin's hooks are shown parts of the conversation, which takes no capability.
#[must_use]
pub fn combined(granted: &Granted, has_hooks: bool) -> Option<String> {
    let mut seen = Vec::new();
    if has_hooks || granted.has(&Capability::Session) {
        seen.push("in the conversation".to_owned());
    }
    let folders = granted.folders();
    let mut names: Vec<String> = folders
        .iter()
        .filter(|(_, folder)| folder.root == Root::Workspace)
        .map(|(_, folder)| named(&folder.to_string()))
        .collect();
    names.dedup();
    if !names.is_empty() {
        seen.push(format!("in {}", names.join(", ")));
    }
    // A tool that is called for it may read anything that the agent may.
    if granted.tools().next().is_some()
        || granted.has(&Capability::ExternalCall(ExternalCall::Agents))
    {
        seen.push("through tools of the agent".to_owned());
    }
    let hosts = granted.hosts().chain(granted.private_hosts());
    let mut hosts: Vec<String> = hosts
        .map(|host| {
            if host.is_any() {
                format!("any host ({})", host.with_scheme())
            } else {
                host.with_scheme()
            }
        })
        .collect();
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

    fn host(text: &str) -> crate::grant::HostPattern {
        text.parse().unwrap()
    }

    fn files(access: Access, folder: &str) -> Capability {
        Capability::Files(access, folder.parse().unwrap())
    }

    #[test]
    fn every_capability_is_said_in_words() {
        let credential = |value: &str| {
            Capability::Credential(Credential {
                host: host("api.github.com"),
                header: "authorization".into(),
                value: value.into(),
            })
        };
        let table = [
            (
                Capability::Session,
                "read the conversation and change prompts, messages, tool calls and the model",
            ),
            (
                files(Access::Read, "workspace/docs"),
                "read files in workspace/docs",
            ),
            (
                files(Access::Write, "workspace"),
                "read and write files in workspace",
            ),
            (
                files(Access::Write, "data"),
                "read and write files in its own folder",
            ),
            (
                Capability::Network(host("api.github.com")),
                "talk to https://api.github.com",
            ),
            (
                Capability::Network(host("*")),
                "talk to any host (https://*)",
            ),
            (
                Capability::PrivateNetwork(host("http://127.0.0.1:8080")),
                "talk to http://127.0.0.1:8080 at addresses inside your network",
            ),
            (
                credential("Bearer {GITHUB_TOKEN}"),
                "send the secret GITHUB_TOKEN to https://api.github.com, without seeing it",
            ),
            (
                credential("{USER}:{PASSWORD}"),
                "send the secrets USER and PASSWORD to https://api.github.com, without seeing it",
            ),
            (
                credential("fixed"),
                "send a fixed header authorization to https://api.github.com, without seeing it",
            ),
            (
                Capability::ExternalCall(ExternalCall::Model),
                "ask the model, which costs tokens",
            ),
            (
                Capability::ExternalCall(ExternalCall::Agents),
                "run subagents with tools of the agent, which costs tokens",
            ),
            (
                credential("{A\n  it may nothing}"),
                "send the secret A   it may nothing to https://api.github.com, without seeing it",
            ),
            (
                Capability::Tool("read\u{1b}_file".into()),
                "call the tool read\\u{1b}_file",
            ),
            (
                Capability::Tool("a\n  it may nothing".into()),
                "call the tool a   it may nothing",
            ),
        ];
        for (capability, expected) in table {
            assert_eq!(in_words(&capability), expected);
        }
    }

    #[test]
    fn what_reading_and_reaching_out_come_to_is_said() {
        let say =
            |capabilities: &[Capability]| combined(&Granted::new(capabilities.to_vec()), false);
        let network = Capability::Network(host("a.b"));
        assert_eq!(say(std::slice::from_ref(&network)), None);
        assert_eq!(say(&[Capability::Session]), None);
        assert_eq!(
            combined(&Granted::new(vec![network.clone()]), true).unwrap(),
            "could send what it reads in the conversation to https://a.b"
        );
        assert_eq!(say(&[files(Access::Read, "data"), network.clone()]), None);
        assert_eq!(
            say(&[Capability::Session, network.clone()]).unwrap(),
            "could send what it reads in the conversation to https://a.b"
        );
        let private = Capability::PrivateNetwork(host("http://10.0.0.1"));
        assert_eq!(
            say(&[
                files(Access::Read, "workspace/docs"),
                network.clone(),
                private
            ])
            .unwrap(),
            "could send what it reads in workspace/docs to https://a.b, http://10.0.0.1"
        );
        assert_eq!(
            say(&[Capability::Tool("read_file".into()), network]).unwrap(),
            "could send what it reads through tools of the agent to https://a.b"
        );
    }
}
