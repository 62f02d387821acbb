//! Facts about the parts of a fetched prompt or resource, and which part each of them is about after hooks
//! edited the parts.
//!
//! Start from [`match_pieces`].

use rmcp::model::Role;
use serde::{Deserialize, Serialize};

use rind_lib::message::{Blob, Part};
use rind_lib::secret::{Scanner, run_aside};

/// Length of the hash in a mark, in hex digits.
const MARK_DIGITS: usize = 16;

/// Facts about one part that neither its text nor its bytes tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Piece {
    /// Whether the part is a resource, inside a prompt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_resource: bool,
    /// Whether the text is the name of a resource that is only linked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_link: bool,
    /// Whether the text was served as bytes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_bytes: bool,
    /// Mark of the part that this is about.
    pub(crate) mark: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
}

/// Returns the kind of a part and a short hash of it. The hash is of the masked text, so it tells nothing
/// about a secret.
pub(crate) fn mark_of(part: &Part) -> String {
    let (kind, id) = match part {
        Part::Text { text } => {
            let masked = run_aside(text.len(), || Scanner::shared().masked(text));
            ("text", Blob::of(masked.as_bytes(), "").id)
        }
        Part::Json { value } => ("json", Blob::of(value.to_string().as_bytes(), "").id),
        Part::Blob(blob) => ("blob", blob.id.clone()),
    };
    let id: String = id.chars().take(MARK_DIGITS).collect();
    format!("{kind} {id}")
}

/// Returns the kind in a mark.
fn kind_in(mark: &str) -> &str {
    mark.split(' ').next().unwrap_or_default()
}

/// Returns the facts about each part, in the order of the parts. A part that a hook left as it was keeps
/// its facts wherever it stands now. One that a hook edited keeps them only if all else stands where it
/// stood; otherwise it has none, because the facts could be about another part.
pub(crate) fn match_pieces(pieces: Vec<Piece>, parts: &[&Part]) -> Vec<Piece> {
    let marks: Vec<String> = parts.iter().map(|part| mark_of(part)).collect();
    let is_in_place = pieces.len() == marks.len()
        && pieces.iter().zip(&marks).all(|(piece, mark)| {
            let is_edited = || {
                kind_in(&piece.mark) == kind_in(mark)
                    && !marks.contains(&piece.mark)
                    && pieces.iter().all(|own| own.mark != *mark)
            };
            piece.mark == *mark || is_edited()
        });
    if is_in_place {
        return pieces;
    }
    let mut pieces: Vec<Option<Piece>> = pieces.into_iter().map(Some).collect();
    let own = marks.iter().map(|mark| {
        let mut free = pieces.iter_mut();
        let found = free.find(|own| own.as_ref().is_some_and(|piece| piece.mark == *mark));
        found.and_then(Option::take).unwrap_or_default()
    });
    own.collect()
}
