//! Skills: guidance in Markdown that the model reads on demand, with rules about the tools to use
//! meanwhile.
//!
//! This module owns the formats, the search for skills, the choice between skills of the same name,
//! and the text that the model sees. It must not know the agent, the terminal or processes: a skill
//! declares here that it restricts tools or asks to skip approval questions, and the agent enforces
//! the former and decides about the latter. Nothing in a skill is executed here. Start from
//! [`Skills`] and [`Skill`].

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
pub use check::{Surroundings, check, misspelt_tools};
pub use expand::SkillArguments;
pub use find::{FILE, FOLDER, Root, discover, project_roots, user_roots};
#[doc(hidden)]
pub use find::{SIDE_FILE, is_skipped, read_content};
pub use left_out::{LeftOutCause, LeftOutSkill};
pub use model::{
    AllAvailable, Available, Context, Diagnostic, GeneratedFrom, Interaction, Invocation, Requires,
    Severity, Shadowed, Skill, Source, Unusable,
};
pub use name::key;
#[doc(hidden)]
pub use origin::is_plain_name;
pub use origin::{Installed, Origin, label};
pub use parse::{FORMAT, MAX_FILE_BYTES, SkillFile, known_keys, parse_text};
pub use scope::{ToolPattern, ToolScope, UnaskedCall};
pub use snapshot::Skills;
#[doc(hidden)]
pub use write::front_matter;
pub use write::{FormatLoss, WriteError, difference, to_open, to_v1};
