//! Skills: guidance in Markdown that the model reads on demand, with rules about the tools to use
//! meanwhile.
//!
//! This module owns the formats, the search for skills, the choice between skills of the same name,
//! and the text that the model sees. It must not know the agent, the terminal or processes: a skill
//! declares here that it restricts tools or asks to skip approval questions, and the agent enforces
//! the former and decides about the latter. Nothing in a skill is executed here. Start from
//! [`SessionSkills`] and [`Skill`].

/// JSON Schema of the front matter of a skill.
pub const FRONT_MATTER_JSON_SCHEMA: &str = include_str!("schema.json");

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

pub use catalogue::{MAX_CATALOGUE_DESCRIPTION_CHARS, SkillCatalogue, compute_catalogue_budget};
pub use check::{ToolsAndPluginsForSkill, check_skill, find_misspelt_tools};
pub use expand::SkillArguments;
pub use find::{
    SKILL_FILE_NAME, SKILLS_FOLDER_NAME, SkillSearchDirectory, discover_skills,
    project_skill_roots, user_skill_roots,
};
#[doc(hidden)]
pub use find::{SKILL_JSON_FILE_NAME, is_skipped_folder_name, read_skill_content};
pub use left_out::{OmittedSkill, SkillOmissionReason};
pub use model::{
    AllRequirementsMetLookup, Diagnostic, ProgramAndVariableLookup, Severity, ShadowedSkill, Skill,
    SkillExecutionContext, SkillInvocationRule, SkillLifetime, SkillRequirements, Source,
    SourcePackage, UnusableSkill,
};
pub use name::normalize_skill_name;
#[doc(hidden)]
pub use origin::is_portable_skill_name;
pub use origin::{InstalledSkillRecord, Origin, read_front_matter_name};
pub use parse::{FORMAT, MAX_FILE_BYTES, SkillFile, list_known_keys, parse_text};
pub use scope::{RequestedApprovalExemption, SkillToolNamePattern, ToolScope};
pub use snapshot::SessionSkills;
#[doc(hidden)]
pub use write::write_front_matter;
pub use write::{
    SkillWriteError, UnconvertibleSkillKey, find_skill_difference, to_agent_skills_format,
    to_v1_format,
};
