//! Servers of NATS for tests: real ones, on loopback, with ports and folders of their own.
//!
//! Start from [`NatsServers`]. A test that needs a server fails if none can be had: none is skipped.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on fails"
)]

mod machine;
mod program;
mod proxy;
mod servers;
mod tenant;
mod terminal;

pub use machine::{HttpAnswer, Machine};
pub use program::{old_server_program, server_program};
pub use proxy::{FaultProxy, ProxyFault};
pub use servers::{NatsServers, ServerSetup, process_memory_and_files};
pub use tenant::{FloodCounts, N_NOISY, TimedTenant, TurnMoment, flood};
pub use terminal::Terminal;
