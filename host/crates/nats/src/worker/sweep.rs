//! Stores missing wake messages (the sweep).
//!
//! A sender stores an input before the wake message. If the sender dies in between, no worker is
//! notified of the input.

use std::collections::BTreeSet;
use std::time::Duration;

use rind_lib::session::SessionAddress;

use super::inbox::SessionInboxClient;
use crate::NatsError;
use crate::names::id_in_last_subject_token;

/// Interval between two sweeps of a worker, which store missing wake messages.
const MISSING_WAKE_MESSAGES_SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Stores a wake message for each session that has inputs but none, at the interval
/// [`MISSING_WAKE_MESSAGES_SWEEP_INTERVAL`], until the task is cancelled.
pub(crate) async fn store_missing_wake_messages_periodically(inbox: SessionInboxClient) {
    loop {
        if let Err(error) = store_missing_wake_messages(&inbox).await {
            tracing::debug!(%error, "the search for inputs without a wake message failed");
        }
        tokio::time::sleep(MISSING_WAKE_MESSAGES_SWEEP_INTERVAL).await;
    }
}

/// Stores a wake message for each session that has inputs but no wake message.
async fn store_missing_wake_messages(inbox: &SessionInboxClient) -> Result<(), NatsError> {
    let link = &inbox.parts.link;
    let inputs = link
        .list_subjects(&inbox.names.stream_name("IN"), ">")
        .await?;
    if inputs.is_empty() {
        return Ok(());
    }
    let wakes = link
        .list_subjects(&inbox.names.stream_name("WAKE"), ">")
        .await?;
    let awake: BTreeSet<String> = wakes
        .iter()
        .map(|subject| id_in_last_subject_token(subject))
        .collect();
    for subject in inputs {
        let id = id_in_last_subject_token(&subject);
        if awake.contains(&id) {
            continue;
        }
        let Some(at) = SessionAddress::parse(&id) else {
            continue;
        };
        if let Some(input) = inbox.first_queued_input(&at).await? {
            inbox.send_session_wake(&at, &input.class).await?;
        }
    }
    Ok(())
}
