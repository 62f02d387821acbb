//! Defines the sources of slash commands, their rank when a name is looked up, and their display
//! names.

use rind_lib::grant::Trust;
use rind_lib::skill::Source;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SlashCommandOrigin {
    BuiltIn,
    /// Template in the folder `prompts` next to the user's settings.
    User,
    Plugin(Trust, String),
    /// Template in the folder `.rind/prompts` of the project.
    Project,
    /// A skill, with its trust and the place where it was found.
    Skill(Trust, Source),
    /// Prompt of the MCP server with this name.
    Server(String),
}

impl SlashCommandOrigin {
    /// Returns the rank in name lookup; the lowest is first. Commands of the project rank after
    /// those of the user.
    pub(super) fn name_lookup_rank(&self) -> (u8, &str) {
        match self {
            Self::BuiltIn => (0, ""),
            Self::User => (1, ""),
            Self::Plugin(trust, name) => (command_precedence_by_trust(*trust), name),
            Self::Project => (5, ""),
            Self::Skill(trust, Source::Plugin(name)) => (command_precedence_by_trust(*trust), name),
            // Rank skills after the templates of the same origin.
            Self::Skill(Trust::User, _) => (1, "skills"),
            Self::Skill(Trust::Project, _) => (5, "skills"),
            Self::Skill(trust, _) => (command_precedence_by_trust(*trust), "skills"),
            Self::Server(name) => (8, name),
        }
    }

    /// Returns the prefix that selects a command among several with the same name, as in
    /// `prefix:name`.
    pub(super) fn command_name_prefix(&self) -> &str {
        match self {
            Self::BuiltIn => "rind",
            Self::User => "user",
            Self::Plugin(_, name) | Self::Skill(_, Source::Plugin(name)) | Self::Server(name) => {
                name
            }
            Self::Project => "project",
            Self::Skill(..) => "skill",
        }
    }
}

impl std::fmt::Display for SlashCommandOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::User => f.write_str("your prompts"),
            Self::Plugin(_, name) => write!(f, "plugin {name}"),
            Self::Project => f.write_str("the project's prompts"),
            Self::Server(name) => write!(f, "MCP server {name}"),
            Self::Skill(_, source) => match source {
                Source::User | Source::ClaudeUser | Source::AgentsUser => {
                    f.write_str("your skills")
                }
                Source::Project | Source::ClaudeProject | Source::AgentsProject => {
                    f.write_str("the project's skills")
                }
                Source::Plugin(name) => write!(f, "skills of plugin {name}"),
                Source::Local => f.write_str("skills of the command line"),
            },
        }
    }
}

/// Returns the precedence of the commands of a plugin with this trust; a lower number takes
/// precedence.
fn command_precedence_by_trust(trust: Trust) -> u8 {
    match trust {
        Trust::Managed => 2,
        Trust::Package => 3,
        Trust::User => 4,
        Trust::Project => 6,
        Trust::Local => 7,
    }
}
