//! Stores sessions on NATS JetStream, so that many machines share them.
//!
//! The crate maps sessions to subjects of JetStream streams, and uses leases so that only one
//! program works on a session. Correctness depends on one property: an append contains the sequence
//! of the session's last message that the writer knows, and the server refuses the append if there
//! is a later message (compare-and-swap). Clocks and leases only avoid duplicate work. The servers
//! implement consensus, queues and replication. The crate must not know the agent loop, how plugins
//! are loaded, or the terminal.
//!
//! Start from [`NatsSessions`], which implements [`rind_lib::session::Sessions`].

mod append;
mod blobs;
pub mod call;
mod client;
mod config;
mod durability;
mod error;
mod journal;
mod lease;
mod link;
mod log;
mod names;
mod plugin_set;
mod quota;
mod replay;
mod runtime;
mod sessions;
mod setup;
mod snapshot;
mod version;
pub mod worker;
mod writer;

pub use config::{DeclaredDiskSyncInterval, NatsConfig};
pub use durability::{DurabilityFinding, DurabilityReport};
pub use error::NatsError;
pub use plugin_set::{
    NextPluginSetPosition, PluginSetChangeSubscription, PluginSetFile, PluginSetPlugin,
    PluginSetRecord, PluginSetSigningKey, SignedPluginSet, TenantPluginSetStore, check_public_key,
    split_plugin_file_path,
};
pub use quota::{
    QuotaExceededError, QuotaReport, TenantQuotaClient, TenantQuotaLimits, TenantUsage,
    TurnTokensAndCost,
};
pub use sessions::NatsSessions;
pub use snapshot::{
    LostFileChangesReport, SnapshotSizeLimits, SnapshotStoreError, WorkspaceSnapshotStore,
};
pub use version::NatsServerVersion;
