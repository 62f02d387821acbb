//! Defines patterns of capabilities in policy and flags, such as `network`, `network:*.github.com`
//! and `read:workspace/docs`.
//!
//! For example:
//!
//! ```text
//! pattern            capability           allowed by it     denied by it
//! read               write:workspace/a    no                yes
//! write              read:workspace/a     yes               no
//! write:workspace    write:workspace/a    yes               yes
//! network:*.b        network:a.b          yes               yes
//! network:a.b        network:*.b          no                yes
//! tool:read_*        tool:bash            no                no
//! ```

use globset::{Glob, GlobMatcher};
use serde::Deserialize;

use super::{Capability, ExternalCall, FolderAccess, GrantableFolder, HostPattern};

/// Pattern of capabilities, as in a line of the policy.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct CapabilityPattern {
    text: String,
    what: ParsedCapabilityPattern,
}

#[derive(Clone, Debug)]
enum ParsedCapabilityPattern {
    Session,
    /// Access to this directory; `None` means every directory.
    Files(FolderAccess, Option<GrantableFolder>),
    Network(Option<HostPattern>),
    PrivateNetwork(Option<HostPattern>),
    /// Credentials that are sent to these hosts; `None` means every credential.
    Credential(Option<HostPattern>),
    ExternalCall(ExternalCall),
    Tool(Option<GlobMatcher>),
}

impl CapabilityPattern {
    /// Whether a rule that allows this pattern allows the complete capability `wanted`.
    #[must_use]
    pub fn covers(&self, wanted: &Capability) -> bool {
        match (&self.what, wanted) {
            (ParsedCapabilityPattern::Session, Capability::Session) => true,
            (ParsedCapabilityPattern::ExternalCall(own), Capability::ExternalCall(call)) => {
                own == call
            }
            (ParsedCapabilityPattern::Files(own, folder), Capability::Files(access, wanted)) => {
                own >= access && folder.as_ref().is_none_or(|own| own.contains(wanted))
            }
            (ParsedCapabilityPattern::Network(own), Capability::Network(host))
            | (ParsedCapabilityPattern::PrivateNetwork(own), Capability::PrivateNetwork(host)) => {
                own.as_ref().is_none_or(|own| own.covers(host))
            }
            (ParsedCapabilityPattern::Credential(own), Capability::Credential(credential)) => {
                own.as_ref().is_none_or(|own| own.covers(&credential.host))
            }
            (ParsedCapabilityPattern::Tool(glob), Capability::Tool(name)) => {
                glob.as_ref().is_none_or(|glob| glob.is_match(name))
            }
            _ => false,
        }
    }

    /// Whether a rule that denies this pattern denies at least a part of `wanted`. A grant cannot
    /// be split, so `wanted` is then denied completely.
    #[must_use]
    pub fn denies_part_of(&self, wanted: &Capability) -> bool {
        match (&self.what, wanted) {
            // A rule that denies reading a directory also denies writing it.
            (ParsedCapabilityPattern::Files(denied, own), Capability::Files(access, wanted)) => {
                access >= denied
                    && own
                        .as_ref()
                        .is_none_or(|own| own.contains(wanted) || wanted.contains(own))
            }
            (ParsedCapabilityPattern::Network(Some(own)), Capability::Network(host))
            | (
                ParsedCapabilityPattern::PrivateNetwork(Some(own)),
                Capability::PrivateNetwork(host),
            ) => own.covers(host) || host.covers(own),
            (
                ParsedCapabilityPattern::Credential(Some(own)),
                Capability::Credential(credential),
            ) => own.covers(&credential.host) || credential.host.covers(own),
            _ => self.covers(wanted),
        }
    }
}

impl std::str::FromStr for CapabilityPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(2, ':');
        let (kind, argument) = (parts.next().unwrap_or_default(), parts.next());
        let folder = || argument.map(str::parse).transpose();
        let host = || argument.map(str::parse).transpose();
        // The displayed form `credential:HEADER@HOST` is accepted, too; its header is ignored.
        let credential = |text: &str| text.rsplit_once('@').map_or(text, |(_, host)| host).parse();
        let tool = |glob| match Glob::new(glob) {
            Ok(glob) => Ok(glob.compile_matcher()),
            Err(e) => Err(format!("`{text}`: {}", e.kind())),
        };
        let by_name = match kind {
            "session" => Some(ParsedCapabilityPattern::Session),
            _ => ExternalCall::find_by_name(kind).map(ParsedCapabilityPattern::ExternalCall),
        };
        let what = match kind {
            _ if by_name.is_some() && argument.is_some() => {
                return Err(format!("`{text}`: `{kind}` takes no value"));
            }
            "read" => ParsedCapabilityPattern::Files(FolderAccess::Read, folder()?),
            "write" => ParsedCapabilityPattern::Files(FolderAccess::Write, folder()?),
            "network" => ParsedCapabilityPattern::Network(host()?),
            "private-network" => ParsedCapabilityPattern::PrivateNetwork(host()?),
            "credential" => ParsedCapabilityPattern::Credential(argument.map(credential).transpose()?),
            "tool" => ParsedCapabilityPattern::Tool(argument.map(tool).transpose()?),
            _ => by_name.ok_or_else(|| {
                let calls: Vec<&str> = ExternalCall::ALL.iter().map(|call| call.name()).collect();
                format!(
                    "`{}` is not a capability: write session, read:FOLDER, write:FOLDER, network:HOST, private-network:HOST, \
                     credential:HOST, {} or tool:NAME; without `:` all of a kind are meant",
                    text.escape_debug(),
                    calls.join(", ")
                )
            })?,
        };
        Ok(Self {
            text: text.to_owned(),
            what,
        })
    }
}

serde_as_text!(CapabilityPattern);

impl CapabilityPattern {
    /// Returns the text of the pattern as it was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for CapabilityPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allowing_covers_the_whole_and_denying_touches_a_part() {
        let table = [
            ("session", "session", true, true),
            ("session", "read:workspace", false, false),
            ("read", "read:workspace/a", true, true),
            ("read", "write:workspace/a", false, true),
            ("write", "read:workspace/a", true, false),
            ("write:workspace", "write:workspace/a", true, true),
            ("write:workspace/a", "write:workspace", false, true),
            ("write:workspace/a", "write:workspace/b", false, false),
            ("network", "network:a.b", true, true),
            ("network:*.b", "network:a.b", true, true),
            ("network:a.b", "network:*.b", false, true),
            ("network:a.b", "network:*", false, true),
            ("network:a.b", "network:a.b:8443", false, false),
            ("network", "private-network:10.0.0.1", false, false),
            ("tool:read_*", "tool:read_file", true, true),
            ("tool:read_*", "tool:bash", false, false),
        ];
        for (pattern, wanted, covers, touches) in table {
            let pattern: CapabilityPattern = pattern.parse().unwrap();
            let wanted = Capability::from(wanted);
            let found = (pattern.covers(&wanted), pattern.denies_part_of(&wanted));
            assert_eq!(found, (covers, touches), "{pattern} {wanted}");
        }
    }

    #[test]
    fn what_is_no_capability_says_what_is() {
        for text in "|sesion|read:/etc|network:a b|model:x|tool:[".split('|') {
            let error = text.parse::<CapabilityPattern>().unwrap_err();
            assert!(error.contains('`'), "{error}");
        }
    }
}
