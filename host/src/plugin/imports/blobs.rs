//! `rind:plugin/blobs`: content that is not text. Always linked; each read checks that the plugin
//! may read that blob.

use super::super::bindings::rind::plugin::blobs;
use super::super::convert::GuestHandlePayload;
use super::super::host::HostState;
use crate::grant::Capability;
use crate::message::{Blob, Message};
use crate::point::handle::HostFunctionError;
use crate::point::trace::AccessOutcome;

/// Maximum length of one read of a blob, in bytes.
pub(super) const MAX_BLOB_READ_BYTES: u64 = 8 << 20;

impl blobs::Host for HostState {
    async fn read(
        &mut self,
        id: String,
        offset: u64,
        length: u64,
    ) -> Result<Vec<u8>, HostFunctionError> {
        if !may_read_blob(self, &id) {
            let why = "it was not shown to the plugin in this call, and any other needs `session`, which was not granted";
            let log = self.access_log();
            log.record_failed_file_access(&format!("read blob {id}"), AccessOutcome::Denied, why);
            let text = format!("the blob cannot be read: {why}");
            return Err(HostFunctionError::Denied(text));
        }
        let handle = self.backing.handle.clone();
        let bytes = handle.read_blob(&id).await?;
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let end = offset.saturating_add(length.min(MAX_BLOB_READ_BYTES));
        Ok(bytes[place(offset)..place(end)].to_vec())
    }
}

/// Whether the plugin may read a blob: the blob was passed to the plugin in this call, or the
/// plugin may read the session.
fn may_read_blob(host: &HostState, id: &str) -> bool {
    let is_it = |blob: &Blob| blob.id == id;
    let is_lent = || match &host.call.lent {
        Some(GuestHandlePayload::Conversation(messages)) => contains_blob(messages, id),
        Some(GuestHandlePayload::Slice(slice)) => contains_blob(&slice.messages, id),
        Some(GuestHandlePayload::FinishedCall(finished)) => {
            finished.result.content.blobs().any(is_it)
        }
        Some(GuestHandlePayload::WireRequest(_) | GuestHandlePayload::WireResponse(_)) | None => {
            false
        }
    };
    host.backing.granted.has_capability(&Capability::Session)
        || host.call.shown.iter().any(is_it)
        || is_lent()
}

fn contains_blob(messages: &[Message], id: &str) -> bool {
    let mut blobs = messages.iter().flat_map(Message::blobs);
    blobs.any(|blob| blob.id == id)
}
