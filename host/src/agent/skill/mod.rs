//! Skills at work: how they are invoked, how they restrict an agent while they are active, when
//! they end.
//!
//! Owns the way from an invocation to an active skill, the same for the person, the model and
//! plugins. It checks that this invoker may use the skill, that its requirements are met, that the
//! arguments fit and that the person has confirmed it; then the skill is active, and the model is
//! given its text. One that returns ends with its turn, one that converses when the person says so;
//! neither compaction nor a resumed session ends it. The format of skill files belongs to
//! `crate::skill`. Start from `gate::SkillGate::invoke_skill`.

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
