//! Skills at run time: how they are invoked, how they restrict an agent while they are active, and
//! when they end.
//!
//! Owns all steps from an invocation to an active skill, which are the same for the user, the model
//! and plugins. The gate checks that the invoker may use the skill, that its requirements are met,
//! that the arguments match, and that the user has confirmed it; then the skill becomes active, and
//! the model receives its text. A skill normally ends with its turn, and a conversational one when
//! the user ends it; compaction and a resume of the session do not end it. The format of skill
//! files belongs to `crate::skill`. Start from `gate::SkillInvocationChecker::invoke_skill`.

mod about;
pub(super) mod active;
mod again;
pub(super) mod catalogue;
mod enter;
mod first_use;
pub(super) mod fork;
pub(super) mod gate;
pub(super) mod memory;
mod model;
mod model_memory;
mod parts;
mod person;
pub(super) mod presets;
mod read;
pub(super) mod ready;
pub(super) mod scope;
pub(super) mod tool;
