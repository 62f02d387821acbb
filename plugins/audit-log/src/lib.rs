//! Keeps a hash-chained log of what happens in every session, without its texts.

mod chain;
mod event;
mod keep;

#[rind_sdk::plugin]
mod audit_log {
    use crate::{event, keep};
    use rind_sdk::prelude::*;

    #[hook]
    fn message_end(ctx: &CallContext, message: Message) -> Result<(), Error> {
        keep::append(ctx, &event::message(&message))
    }

    #[hook]
    fn post_output(ctx: &CallContext, shown: String) -> Result<(), Error> {
        keep::append(ctx, &[event::output(&shown)])
    }

    #[hook]
    fn turn_end(ctx: &CallContext, summary: TurnSummary) -> Result<(), Error> {
        keep::append(ctx, &[event::turn_end(&summary)])
    }

    #[hook]
    fn error(ctx: &CallContext, failure: Failure) -> Result<(), Error> {
        keep::append(ctx, &[event::failure(&failure)])
    }
}
