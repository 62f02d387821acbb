//! Facts about the parts of a fetched prompt or resource, and the assignment of facts to parts
//! after hooks have edited the parts.
//!
//! Start from [`match_pieces`].

use rmcp::model::Role;
use serde::{Deserialize, Serialize};

use rind_lib::message::{Blob, Part};
use rind_lib::secret::{Scanner, run_aside};

/// Length of the hash in a mark, in hex digits.
const MARK_DIGITS: usize = 16;

/// Facts about one part that the part itself does not contain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Piece {
    /// Whether the part is a resource embedded in a prompt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_resource: bool,
    /// Whether the part is only a link to a resource, and its text the resource's name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_link: bool,
    /// Whether the server sent the text as bytes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_bytes: bool,
    /// Mark of the part to which these facts belong; see [`mark_of`].
    pub(crate) mark: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
}

/// Returns a mark of a part: its kind and a short hash. The hash of a text is computed from the
/// masked text, so that it reveals nothing about a secret.
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

/// Assigns facts to the parts after hooks, in the order of the parts. An unchanged part keeps its
/// facts, even at another position. An edited part keeps its facts only if all other parts are at
/// their old positions; otherwise it gets none, because the facts could belong to another part.
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
