//! Tests of messages, exit codes and details of the commands.

mod author;
mod found;
mod output;
mod permissions;
mod sessions;
