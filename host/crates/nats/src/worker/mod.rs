//! Workers: programs that share the turns of all sessions.
//!
//! An input is first stored in the inbox of its session, and then a wake message says that the
//! session has inputs. The wake contains nothing else, so no input is lost if wakes are lost,
//! repeated or reordered. A worker that gets a wake opens the session, which fences the previous
//! writer. It runs the inputs in order, removes each from the inbox once its turn has ended, and
//! finally acknowledges the wake. If the worker dies at any point, the wake is delivered again and
//! another worker does the same; the session runs each input only once, by its id.
//!
//! The module must not know how a turn is run: that is behind [`WorkerTurns`]. Start from
//! [`NatsWorker`], and from [`TurnInbox`] for senders of inputs.

mod control;
mod dead;
mod host_turns;
mod inbox;
mod queue;
mod session_work;
mod status;
mod sweep;
mod turns;
mod wait;
mod work;

pub use control::{WorkerStatus, WorkerWatch};
pub use dead::DeadInput;
pub use host_turns::HostTurns;
pub(crate) use inbox::root_address;
pub use inbox::{QueuedInput, TurnInbox};
pub(crate) use queue::{class_error, is_class};
pub use status::{ClusterStatus, QueueLength};
pub use turns::{ClaimedSession, TurnFailure, TurnsState, WorkerTurns};
pub use wait::EndedTurn;
pub use work::{NatsWorker, WorkerConfig, WorkerReport};
