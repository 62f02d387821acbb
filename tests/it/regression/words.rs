//! Messages, exit codes and small behavior of the commands.

mod author;
mod found;
mod output;
mod permissions;
mod sessions;
