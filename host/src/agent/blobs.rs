//! Moves content that is not text (blobs): stores bytes from tools in the session, and reads images
//! from the session for the model.
//!
//! Files are read and written on blocking threads. A blob that cannot be stored or read never fails
//! a turn: a line of text replaces the blob.

use std::sync::Arc;

use super::spec::AgentSpec;
use crate::message::{Blob, Content, Message, Part, Parts, PromptImageAttachment};
use crate::provider::{Request, RequestImagesByBlobId};
use crate::session::{Error, Session, SessionBlobs};
use crate::text::format_error_chain;
use crate::tool::ToolOutput;

/// Stores the binary parts of a tool's output in the session of the main agent, also for tools of
/// subagents, because plugins have access only to that session.
pub(super) async fn store_blobs(root: &Session, output: ToolOutput) -> Parts {
    if output.content.blobs().next().is_none() {
        return output.content;
    }
    let blobs = root.blobs().clone();
    let content = output.content.clone();
    let kept = tokio::task::spawn_blocking(move || store_output_blobs(&blobs, output)).await;
    kept.unwrap_or_else(|_| content.text().into_owned().into())
}

/// Stores images that a user attached to an input, and returns the references to them for the
/// message.
pub(super) async fn store_attachments(
    root: &Session,
    attached: Arc<[PromptImageAttachment]>,
) -> Vec<Content> {
    if attached.is_empty() {
        return Vec::new();
    }
    let blobs = root.blobs().clone();
    let keep = {
        let attached = attached.clone();
        move || -> Vec<Content> {
            let kept = attached
                .iter()
                .map(
                    |PromptImageAttachment { blob, bytes }| match blobs.put(blob, bytes) {
                        Ok(()) => Content::Blob(blob.clone()),
                        Err(error) => Content::from_text(
                            blob.unshown_blob_placeholder(&format_error_chain(&error)),
                        ),
                    },
                );
            kept.collect()
        }
    };
    let kept = tokio::task::spawn_blocking(keep).await;
    kept.unwrap_or_else(|_| {
        let lost = attached
            .iter()
            .map(|one| one.blob.unshown_blob_placeholder("it was not kept"));
        lost.map(Content::from_text).collect()
    })
}

/// Returns the references to stored bytes in the content of a message.
pub(super) fn list_blobs(content: &[Content]) -> Vec<Blob> {
    let blobs = content.iter().filter_map(|part| match part {
        Content::Blob(blob) => Some(blob.clone()),
        _ => None,
    });
    blobs.collect()
}

/// Reads the images of a request. Reads none if the model does not accept images.
pub(super) async fn load_images(
    spec: &AgentSpec,
    root: &Session,
    request: &Request,
) -> RequestImagesByBlobId {
    let blobs = request.messages.iter().flat_map(Message::blobs);
    let found: Vec<Blob> = blobs.cloned().collect();
    if found.is_empty() {
        return RequestImagesByBlobId::default();
    }
    if !spec.provider.takes_images(&request.model) {
        let why = format!(
            "the model {} is not known to take images (provider.images = true sends them)",
            request.model
        );
        return RequestImagesByBlobId::omit_all(&found.iter().collect::<Vec<_>>(), &why);
    }
    let blobs = root.blobs().clone();
    let read = move |blob: &Blob| {
        blobs
            .get(&blob.id)
            .map_err(|error| describe_blob_error(&error))
    };
    let choose = move || {
        RequestImagesByBlobId::select_newest_within_limits(&found.iter().collect::<Vec<_>>(), read)
    };
    let chosen = tokio::task::spawn_blocking(choose).await;
    chosen.unwrap_or_default()
}

fn store_output_blobs(blobs: &SessionBlobs, mut output: ToolOutput) -> Parts {
    let mut bytes = output.bytes.iter();
    for part in output.content.iter_mut() {
        let Part::Blob(blob) = part else { continue };
        let kept = match bytes.next() {
            Some(bytes) => blobs
                .put(blob, bytes)
                .map_err(|error| format_error_chain(&error)),
            // The tool returned a reference to a blob that the session already has.
            None => blobs
                .get(&blob.id)
                .map(drop)
                .map_err(|error| describe_blob_error(&error)),
        };
        if let Err(why) = kept {
            *part = Part::text(blob.unshown_blob_placeholder(&why));
        }
    }
    output.content
}

/// Describes briefly why the bytes of a blob are unavailable.
pub(super) fn describe_blob_error(error: &Error) -> String {
    match error {
        Error::Blob { .. } => "its bytes were damaged".to_owned(),
        _ => "its bytes are missing".to_owned(),
    }
}
