//! Skills at work: how they are invoked, what they keep an agent to while they are active, when they end.
//!
//! Owns the way from an invocation to an active skill, the same for the person, the model and plugins: may it be invoked by whom,
//! is there what it needs, do the arguments fit, has the person let it be used; then it is active, and the model is given its
//! text. One that returns ends with its turn, one that converses when the person says so; neither compaction nor a resumed
//! session ends it. What files say of skills is `crate::skill`'s. Start from
//! `gate::Gate::invoke`.

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
mod read;
pub(super) mod ready;
pub(super) mod scope;
pub(super) mod tool;
