//! Moves content that is not text: bytes from tools into the session, and images from the session
//! to the model.
//!
//! Files are read and written on blocking threads, and only if there are any. A blob that cannot be
//! stored or read never fails a turn: a line of text replaces the blob.

use std::sync::Arc;

use super::spec::AgentSpec;
use crate::message::{Attachment, Blob, Content, Message, Part, Parts};
use crate::provider::{Images, Request};
use crate::session::{Error, Session, SessionBlobs};
use crate::text::error_chain;
use crate::tool::ToolOutput;

/// Stores the bytes of a tool's output. Bytes from subagents are stored in the session of the main
/// agent, because plugins see one session.
pub(super) async fn keep_blobs(root: &Session, output: ToolOutput) -> Parts {
    if output.content.blobs().next().is_none() {
        return output.content;
    }
    let blobs = root.blobs().clone();
    let content = output.content.clone();
    let kept = tokio::task::spawn_blocking(move || keep_output_blobs(&blobs, output)).await;
    kept.unwrap_or_else(|_| content.text().into_owned().into())
}

/// Stores images that a person attached, and returns the references to them for the message.
pub(super) async fn keep_attached(root: &Session, attached: Arc<[Attachment]>) -> Vec<Content> {
    if attached.is_empty() {
        return Vec::new();
    }
    let blobs = root.blobs().clone();
    let keep = {
        let attached = attached.clone();
        move || -> Vec<Content> {
            let kept =
                attached
                    .iter()
                    .map(|Attachment { blob, bytes }| match blobs.put(blob, bytes) {
                        Ok(()) => Content::Blob(blob.clone()),
                        Err(error) => Content::text(blob.not_shown(&error_chain(&error))),
                    });
            kept.collect()
        }
    };
    let kept = tokio::task::spawn_blocking(keep).await;
    kept.unwrap_or_else(|_| {
        let lost = attached
            .iter()
            .map(|one| one.blob.not_shown("it was not kept"));
        lost.map(Content::text).collect()
    })
}

/// Returns the references to stored bytes in the content of a message.
pub(super) fn blobs_of(content: &[Content]) -> Vec<Blob> {
    let blobs = content.iter().filter_map(|part| match part {
        Content::Blob(blob) => Some(blob.clone()),
        _ => None,
    });
    blobs.collect()
}

/// Reads the images of a request, if its model accepts images.
pub(super) async fn load_images(spec: &AgentSpec, root: &Session, request: &Request) -> Images {
    let blobs = request.messages.iter().flat_map(Message::blobs);
    let found: Vec<Blob> = blobs.cloned().collect();
    if found.is_empty() {
        return Images::default();
    }
    if !spec.provider.takes_images(&request.model) {
        let why = format!(
            "the model {} is not known to take images (provider.images = true sends them)",
            request.model
        );
        return Images::none(&found.iter().collect::<Vec<_>>(), &why);
    }
    let blobs = root.blobs().clone();
    let read = move |blob: &Blob| blobs.get(&blob.id).map_err(|error| unreadable_text(&error));
    let choose = move || Images::choose(&found.iter().collect::<Vec<_>>(), read);
    let chosen = tokio::task::spawn_blocking(choose).await;
    chosen.unwrap_or_default()
}

fn keep_output_blobs(blobs: &SessionBlobs, mut output: ToolOutput) -> Parts {
    let mut bytes = output.bytes.iter();
    for part in output.content.iter_mut() {
        let Part::Blob(blob) = part else { continue };
        let kept = match bytes.next() {
            Some(bytes) => blobs.put(blob, bytes).map_err(|error| error_chain(&error)),
            // The tool returned a blob that the session already has.
            None => blobs
                .get(&blob.id)
                .map(drop)
                .map_err(|error| unreadable_text(&error)),
        };
        if let Err(why) = kept {
            *part = Part::text(blob.not_shown(&why));
        }
    }
    output.content
}

/// Describes briefly why the bytes of a blob are unavailable.
pub(super) fn unreadable_text(error: &Error) -> String {
    match error {
        Error::Blob { .. } => "its bytes were damaged".to_owned(),
        _ => "its bytes are missing".to_owned(),
    }
}
