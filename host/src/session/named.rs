//! Collects the blobs that entries refer to.
//!
//! Owns which entry refers to which blob, for the examination and for the copying of a session.
//! Start from [`NamedBlobs::follow_entry`].

use std::collections::{BTreeMap, BTreeSet};

use super::entry::Body;
use crate::message::{Blob, Message};

/// Names of the blobs that the entries of a session refer to.
#[derive(Debug, Default)]
pub(super) struct NamedBlobs {
    /// Names of the blobs with images and other bytes of messages.
    pub(super) content: BTreeSet<String>,
    /// Names of the blobs with texts of system prompts. If one is missing, nothing else is
    /// affected.
    pub(super) prompts: BTreeSet<String>,
    /// Names of the blobs with large state values, by plugin and key.
    pub(super) state: BTreeMap<(String, String), String>,
}

impl NamedBlobs {
    /// Adds the blobs of one entry. A later value of a plugin replaces the earlier one.
    pub(super) fn follow_entry(&mut self, body: &Body) {
        match body {
            Body::TurnStart { attached, .. } => self.add_content(attached),
            Body::Message { message } => self.add_content(message.blobs()),
            Body::Replaced { messages, .. } => {
                self.add_content(messages.iter().flat_map(Message::blobs));
            }
            Body::ToolEnd {
                result: Some(result),
                ..
            } => self.add_content(result.content.blobs()),
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

    fn add_content<'a>(&mut self, blobs: impl IntoIterator<Item = &'a Blob>) {
        let blobs = blobs.into_iter();
        self.content.extend(blobs.map(|blob| blob.id.clone()));
    }
}
