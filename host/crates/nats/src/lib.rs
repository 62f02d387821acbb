//! Sessions on NATS JetStream: a store that many machines share.
//!
//! The crate maps sessions to subjects of JetStream streams, and keeps leases so that only one
//! program works on a session. Its correctness rests on one property: an append names the message
//! of the session that it follows, and the server refuses the append if that message is not the
//! last one (compare-and-swap). Clocks and leases only avoid duplicate work. Consensus, queues and
//! replication are left to the server. The crate must not know the agent loop, how plugins are
//! loaded, or the terminal.
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
