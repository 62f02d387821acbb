//! Inboxes, through which messages are sent to running loops.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use crate::lock::lock_ignoring_poison;
use crate::point::loop_handle::{
    IncomingLoopMessage, MAX_LOOP_MESSAGE_BYTES, MAX_QUEUED_LOOP_MESSAGES,
};

/// Reason why the inbox of a loop did not accept a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoopInboxError {
    /// No loop of this plugin is running.
    #[error("no loop of plugin `{plugin}` is running in this host")]
    Unknown {
        /// Name of the plugin to whose loop the message was sent.
        plugin: String,
    },
    /// The loop's inbox is full, because the loop has not read earlier messages.
    #[error(
        "{MAX_QUEUED_LOOP_MESSAGES} messages are already waiting for the loop of `{plugin}`; try again when it has read some"
    )]
    Full {
        /// Name of the plugin whose inbox is full.
        plugin: String,
    },
    /// The message exceeds the maximum size of a message to a loop.
    #[error(
        "a message to a loop may have at most {MAX_LOOP_MESSAGE_BYTES} bytes, but this one has {bytes}"
    )]
    TooLong {
        /// Size of the refused message in bytes.
        bytes: usize,
    },
}

/// Inboxes of the loops of a host. Cheap to clone. A message is kept in memory until the loop reads
/// it, and is lost when the host ends.
#[derive(Clone, Debug, Default)]
pub struct LoopInboxes(Arc<Mutex<BTreeMap<String, Option<Sender<IncomingLoopMessage>>>>>);

impl LoopInboxes {
    /// Creates the inboxes for the loops of these plugins. An inbox accepts no messages until its
    /// loop runs.
    pub(super) fn for_plugins(plugins: impl Iterator<Item = String>) -> Self {
        let closed = plugins.map(|plugin| (plugin, None));
        Self(Arc::new(Mutex::new(closed.collect())))
    }

    pub(super) fn open_inbox(&self, plugin: &str, inbox: Sender<IncomingLoopMessage>) {
        lock_ignoring_poison(&self.0).insert(plugin.to_owned(), Some(inbox));
    }

    /// Sends a message to the loop of a plugin, without waiting for the loop. `sender` names the
    /// channel through which the message arrived, such as `http`.
    ///
    /// # Errors
    /// No loop of the plugin runs, its inbox is full, or the message is too long.
    pub fn send_message(
        &self,
        plugin: &str,
        sender: impl Into<String>,
        text: impl Into<String>,
    ) -> Result<(), LoopInboxError> {
        let text = text.into();
        if text.len() > MAX_LOOP_MESSAGE_BYTES {
            return Err(LoopInboxError::TooLong { bytes: text.len() });
        }
        let named = || plugin.to_owned();
        let inbox = lock_ignoring_poison(&self.0).get(plugin).cloned().flatten();
        let Some(inbox) = inbox else {
            return Err(LoopInboxError::Unknown { plugin: named() });
        };
        let message = IncomingLoopMessage {
            sender: sender.into(),
            text,
        };
        inbox.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => LoopInboxError::Full { plugin: named() },
            TrySendError::Closed(_) => LoopInboxError::Unknown { plugin: named() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_cannot_be_taken_is_refused_with_the_reason() {
        let inboxes = LoopInboxes::for_plugins(["heart".to_owned()].into_iter());
        let send = |plugin: &str, text: String| inboxes.send_message(plugin, "test", text);
        let closed = send("heart", "hello".to_owned()).unwrap_err();
        assert_eq!(
            closed.to_string(),
            "no loop of plugin `heart` is running in this host"
        );
        let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
        inboxes.open_inbox("heart", sender);
        send("heart", "hello".to_owned()).unwrap();
        let full = send("heart", "again".to_owned()).unwrap_err();
        assert!(matches!(full, LoopInboxError::Full { .. }), "{full}");
        let long = send("heart", "x".repeat(MAX_LOOP_MESSAGE_BYTES + 1)).unwrap_err();
        assert!(matches!(long, LoopInboxError::TooLong { .. }), "{long}");
        assert_eq!(receiver.try_recv().unwrap().text, "hello");
        drop(receiver);
        let ended = send("heart", "hello".to_owned()).unwrap_err();
        assert!(matches!(ended, LoopInboxError::Unknown { .. }), "{ended}");
    }
}
