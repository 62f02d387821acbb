//! Messages, exit codes and small behavior of the commands.

mod author;
mod found;
mod output;
mod reach;
mod sessions;
