//! Sessions on NATS JetStream: a store that many machines share.
//!
//! The crate owns the mapping of sessions to subjects of JetStream streams, the leases that keep a
//! session from being worked on twice, and the one property that everything rests on: an append
//! says which message of the session it follows, and the server refuses it if that message is not
//! the last one (compare-and-swap). Clocks and leases only save work. Consensus, queues and
//! replication are the server's. The crate must not know the agent loop, how
//! plugins are loaded, or the terminal.
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

pub use config::{DeclaredSync, NatsConfig};
pub use durability::{DurabilityFinding, DurabilityReport};
pub use error::NatsError;
pub use plugin_set::{
    NextSet, PluginSetKey, PluginSetRecord, PluginSets, SetChanges, SetFile, SetPlugin, SignedSet,
    check_public_key, file_names,
};
pub use quota::{QuotaLimits, QuotaRefusal, QuotaReport, QuotaUse, TenantQuotas, TurnUse};
pub use sessions::NatsSessions;
pub use snapshot::{LostFiles, SnapshotFailure, SnapshotLimits, WorkspaceSnapshots};
pub use version::ServerVersion;
