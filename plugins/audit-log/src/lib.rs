//! Keeps a hash-chained log of what happens in every session, without its texts.

mod event;
mod keep;

#[rind_sdk::plugin]
mod audit_log {
    use crate::{event, keep};
    use rind_sdk::prelude::*;

    #[hook]
    fn message_end(message: Message) -> Result<(), Error> {
        keep::append(&event::message(&message))
    }

    #[hook]
    fn post_output(shown: String) -> Result<(), Error> {
        keep::append(&[event::output(&shown)])
    }

    #[hook]
    fn turn_end(summary: TurnSummary) -> Result<(), Error> {
        keep::append(&[event::turn_end(&summary)])
    }

    #[hook]
    fn skill_activated(skill: SkillInfo) -> Result<(), Error> {
        keep::append(&[event::skill(&skill)])
    }

    #[hook]
    fn skill_ended(skill: SkillInfo) -> Result<(), Error> {
        keep::append(&[event::skill(&skill)])
    }

    #[hook]
    fn error(failure: Failure) -> Result<(), Error> {
        keep::append(&[event::failure(&failure)])
    }
}
