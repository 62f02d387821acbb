//! Copies sessions from one store to another, byte for byte.
//!
//! Owns the order in which the parts of a session are copied: in a store that others read, the
//! lines come last, because the session exists for readers once its lines do. The module must not
//! know how either store works.

use super::Error;
use super::storage::{BlobKind, FramePosition, SessionAddress, Sessions};

/// Order in which the parts of a session are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionPartsCopySequence {
    /// Copy the session's lines before its values: only the copying program uses the store, which
    /// accepts values for an existing session only.
    LinesFirst,
    /// Copy the session's lines after its values: other programs may read the store during the
    /// copy.
    LinesLast,
}

/// Copies a session with its values and subagents from one store to another.
pub(super) fn copy_session(
    (from, from_at): (&dyn Sessions, &SessionAddress),
    (to, to_at): (&dyn Sessions, &SessionAddress),
    order: SessionPartsCopySequence,
) -> Result<(), Error> {
    let lines = from.read(from_at, FramePosition::START)?;
    if order == SessionPartsCopySequence::LinesFirst {
        to.create_with_lines(to_at, &lines)?;
    }
    for kind in [BlobKind::Content, BlobKind::State] {
        let (old, new) = (from.blobs(from_at, kind), to.blobs(to_at, kind));
        for name in old.names()? {
            new.put(&name, &old.get(&name)?)?;
        }
    }
    for agent in from.children(from_at)? {
        if let (Some(old), Some(new)) = (
            from_at.subagent_address(&agent),
            to_at.subagent_address(&agent),
        ) {
            copy_session((from, &old), (to, &new), order)?;
        }
    }
    if order == SessionPartsCopySequence::LinesLast {
        to.create_with_lines(to_at, &lines)?;
    }
    Ok(())
}
