//! Real NATS servers for tests, on loopback, with their own ports and folders.
//!
//! Start from [`NatsServers`]. A test that needs a server is never skipped: it fails if no server
//! is available.

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
