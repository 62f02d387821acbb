//! The sweep: stores wake messages that inputs lack.
//!
//! A sender stores an input before its wake message. If it dies in between, no worker learns of the
//! input.

use std::collections::BTreeSet;
use std::time::Duration;

use rind_lib::session::SessionAddress;

use super::inbox::TurnInbox;
use crate::NatsError;
use crate::names::last_id;

/// Interval between the sweeps of a worker.
const EVERY: Duration = Duration::from_secs(10);

/// Sweeps at the interval [`EVERY`], until the task is cancelled.
pub(crate) async fn sweep_inputs(inbox: TurnInbox) {
    loop {
        if let Err(error) = sweep_once(&inbox).await {
            tracing::debug!(%error, "the search for inputs without a wake message failed");
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Stores a wake for each session that has inputs but no wake.
async fn sweep_once(inbox: &TurnInbox) -> Result<(), NatsError> {
    let link = &inbox.parts.link;
    let inputs = link.subjects(&inbox.names.stream("IN"), ">").await?;
    if inputs.is_empty() {
        return Ok(());
    }
    let wakes = link.subjects(&inbox.names.stream("WAKE"), ">").await?;
    let awake: BTreeSet<String> = wakes.iter().map(|subject| last_id(subject)).collect();
    for subject in inputs {
        let id = last_id(&subject);
        if awake.contains(&id) {
            continue;
        }
        let Some(at) = SessionAddress::parse(&id) else {
            continue;
        };
        if let Some(input) = inbox.first_input(&at).await? {
            inbox.wake(&at, &input.class).await?;
        }
    }
    Ok(())
}
