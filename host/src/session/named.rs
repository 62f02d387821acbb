//! Collects the blobs that entries refer to.
//!
//! Owns the knowledge of which types of entries refer to blobs. Used to examine and to copy
//! sessions.
//! Start from [`ReferencedBlobNames::add_entry_blobs`].

use std::collections::{BTreeMap, BTreeSet};

use super::entry::Body;
use crate::message::{Blob, Message};

/// Names of the blobs to which the entries of one session refer.
#[derive(Debug, Default)]
pub(super) struct ReferencedBlobNames {
    /// Names of the blobs with images and other bytes of messages.
    pub(super) content: BTreeSet<String>,
    /// Names of the blobs with texts of system prompts. A missing blob of this kind does not affect
    /// the rest of the session.
    pub(super) prompts: BTreeSet<String>,
    /// Names of the blobs with large state values, by plugin and key.
    pub(super) state: BTreeMap<(String, String), String>,
}

impl ReferencedBlobNames {
    /// Adds the blobs to which one entry refers. If the entry changes a plugin's value, the blob of
    /// the earlier value is removed from `state`.
    pub(super) fn add_entry_blobs(&mut self, body: &Body) {
        match body {
            Body::TurnStart { attached, .. } => self.add_content_blobs(attached),
            Body::Message { message } => self.add_content_blobs(message.blobs()),
            Body::Replaced { messages, .. } => {
                self.add_content_blobs(messages.iter().flat_map(Message::blobs));
            }
            Body::ToolEnd {
                result: Some(result),
                ..
            } => self.add_content_blobs(result.content.blobs()),
            Body::Prompt { sent, .. } => self.prompts.extend(sent.iter().cloned()),
            Body::State {
                plugin, key, blob, ..
            } => {
                let key = (plugin.clone(), key.clone());
                match blob {
                    Some(blob) => drop(self.state.insert(key, blob.clone())),
                    None => drop(self.state.remove(&key)),
                }
            }
            _ => {}
        }
    }

    fn add_content_blobs<'a>(&mut self, blobs: impl IntoIterator<Item = &'a Blob>) {
        let blobs = blobs.into_iter();
        self.content.extend(blobs.map(|blob| blob.id.clone()));
    }
}
