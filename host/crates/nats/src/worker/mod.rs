//! Distributes the turns of all sessions over workers.
//!
//! An input is first stored in the inbox of its session, and then a wake message notifies the
//! workers that the session has inputs. A wake does not contain the input, so no input is lost if
//! wakes are lost, repeated or reordered. A worker that gets a wake opens the session, which fences
//! the previous writer. The worker runs the inputs in order, removes each from the inbox once its
//! turn has ended, and finally acknowledges the wake. If the worker dies at any point, the wake is
//! delivered to another worker, which does the same. The ids of the inputs ensure that the session
//! runs each input only once.
//!
//! The module must not know how a turn is run, which [`WorkerTurnExecutor`] hides. Start from
//! [`NatsWorker`] for workers, and from [`SessionInboxClient`] for senders of inputs.

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

pub use control::{NatsWorkerStatusHandle, WorkerStatus};
pub use dead::DeadLetter;
pub use host_turns::HostTurnRunner;
pub(crate) use inbox::root_session_address;
pub use inbox::{QueuedInput, SessionInboxClient};
pub(crate) use queue::{invalid_worker_class_error, is_worker_class_name};
pub use status::{ClusterStatus, QueueLength};
pub use turns::{ClaimedSession, WorkerTurnExecutor, WorkerTurnExecutorState, WorkerTurnFailure};
pub use wait::EndedTurnResult;
pub use work::{NatsWorker, WorkerActivityCounts, WorkerConfig};
