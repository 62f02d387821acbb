//! Messages, exit codes and small behavior of the commands.
