//! Skills: guidance in Markdown that the model reads when it needs it, with what it may use meanwhile.
//!
//! Owns the formats, where skills are found, which of a name is used, and their text as the model gets it. It must not know
//! the agent, the terminal or processes: a skill restricts tools and asks to be spared questions here, and the agent enforces
//! the one and decides about the other. Nothing of a skill is ever run here. Start from [`Skills`] and [`Skill`].

/// JSON Schema of the front matter of a skill.
pub const SCHEMA: &str = include_str!("schema.json");

mod about;
mod bundle;
mod catalogue;
mod check;
mod expand;
mod find;
mod left_out;
mod model;
mod name;
mod origin;
mod parse;
mod scope;
mod snapshot;
mod write;

pub use catalogue::{Catalogue, MAX_ENTRY_CHARS, budget_chars};
pub use check::{Surroundings, check};
pub use expand::SkillArguments;
pub use find::{FILE, FOLDER, Root, discover, project_roots, user_roots};
#[cfg(feature = "cli")]
pub(crate) use find::{SIDE_FILE, content, is_skipped};
pub use left_out::{LeftOutCause, LeftOutSkill};
pub use model::{
    AllAvailable, Available, Context, Diagnostic, GeneratedFrom, Interaction, Invocation, Requires,
    Severity, Shadowed, Skill, Source, Unusable,
};
pub use name::key;
#[cfg(feature = "cli")]
pub(crate) use origin::is_plain_name;
pub use origin::{Installed, Origin, label};
pub use parse::{FORMAT, MAX_FILE_BYTES, SkillFile, known_keys, parse_text};
pub use scope::{Spare, ToolPattern, ToolScope};
pub use snapshot::Skills;
#[cfg(feature = "cli")]
pub(crate) use write::front_matter;
pub use write::{Lost, WriteError, difference, to_open, to_v1};
