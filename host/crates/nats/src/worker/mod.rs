//! Workers: programs that share the turns of all sessions.
//!
//! An input is stored in the inbox of its session first, and then a wake says "look at this
//! session". A wake carries nothing else, so losing, repeating or reordering wakes loses no input.
//! A worker that gets a wake opens the session, which fences the process that had it before, runs the inputs
//! in their order, removes each from the inbox once its turn has ended, and then acknowledges the
//! wake. If it dies at any point, the wake comes back and another worker does the same; the session
//! takes each input once by its id.
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
