//! Keeps a hash-chained log of what happens in every session, without its texts.

mod event;
mod keep;

#[rind_sdk::plugin]
mod audit_log {
    use crate::{event, keep};
    use rind_sdk::prelude::*;

    #[hook]
    fn message_end(message: Message) -> Result<(), Error> {
        keep::append_events(&event::message_events(&message))
    }

    #[hook]
    fn post_output(shown: String) -> Result<(), Error> {
        keep::append_events(&[event::create_output_audit_event(&shown)])
    }

    #[hook]
    fn turn_end(summary: TurnSummary) -> Result<(), Error> {
        keep::append_events(&[event::turn_end_event(&summary)])
    }

    #[hook]
    fn skill_activated(skill: SkillInfo) -> Result<(), Error> {
        keep::append_events(&[event::skill_event(&skill)])
    }

    #[hook]
    fn skill_ended(skill: SkillInfo) -> Result<(), Error> {
        keep::append_events(&[event::skill_event(&skill)])
    }

    #[hook]
    fn error(failure: Failure) -> Result<(), Error> {
        keep::append_events(&[event::failure_event(&failure)])
    }
}
