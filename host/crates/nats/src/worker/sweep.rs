//! The sweep: sends the missing wake messages of inputs.
//!
//! An input is stored before its wake message, so a sender that ends between the two leaves an
//! input that no worker knows of.

use std::collections::BTreeSet;
use std::time::Duration;

use rind_lib::session::SessionAddress;

use super::inbox::TurnInbox;
use crate::NatsError;
use crate::names::last_id;

/// Interval of the sweeps of a worker.
const EVERY: Duration = Duration::from_secs(10);

/// Sweeps forever.
pub(crate) async fn sweep_inputs(inbox: TurnInbox) {
    loop {
        if let Err(error) = sweep_once(&inbox).await {
            tracing::debug!(%error, "the search for inputs without a wake message failed");
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Wakes the sessions that have inputs and no wake.
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
