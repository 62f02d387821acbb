//! Records metadata of the parts of a fetched prompt or resource, and assigns the metadata to the
//! parts again after hooks have edited them.
//!
//! Start from [`match_metadata_to_edited_parts`].

use rmcp::model::Role;
use serde::{Deserialize, Serialize};

use rind_lib::message::{Blob, Part};
use rind_lib::secret::{SecretScanner, run_blocking_scan};

/// Number of hex digits of the truncated hash that identifies a part of a prompt or resource.
const PART_HASH_HEX_DIGITS: usize = 16;

/// Metadata of one part of a prompt or resource, such as its role.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ContentPartMetadata {
    /// Whether the part is a resource embedded in a prompt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_resource: bool,
    /// Whether the part is a link to a resource; its text is then the resource's name.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_link: bool,
    /// Whether the server sent the text as binary data.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_bytes: bool,
    /// Kind and hash of the content of the part that this metadata describes; see
    /// [`content_part_fingerprint`].
    pub(crate) mark: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<Role>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uri: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) media_type: Option<String>,
}

/// Returns a mark by which a part is recognized: its kind and a short hash. The hash of a text is
/// computed from the masked text, so that it reveals nothing about a secret.
pub(crate) fn content_part_fingerprint(part: &Part) -> String {
    let (kind, id) = match part {
        Part::Text { text } => {
            let masked =
                run_blocking_scan(text.len(), || SecretScanner::shared().to_masked_text(text));
            ("text", Blob::from_bytes(masked.as_bytes(), "").id)
        }
        Part::Json { value } => (
            "json",
            Blob::from_bytes(value.to_string().as_bytes(), "").id,
        ),
        Part::Blob(blob) => ("blob", blob.id.clone()),
    };
    let id: String = id.chars().take(PART_HASH_HEX_DIGITS).collect();
    format!("{kind} {id}")
}

/// Returns the kind at the start of a mark, which [`content_part_fingerprint`] made: `text`, `json`
/// or `blob`.
fn parse_part_kind(mark: &str) -> &str {
    mark.split(' ').next().unwrap_or_default()
}

/// Assigns metadata to the parts after hooks have edited them, in the order of the parts. An
/// unchanged part keeps its metadata, even at another position. An edited part keeps its metadata
/// only if all other parts are at their old positions; otherwise it gets empty metadata, because
/// the old metadata could belong to another part.
pub(crate) fn match_metadata_to_edited_parts(
    pieces: Vec<ContentPartMetadata>,
    parts: &[&Part],
) -> Vec<ContentPartMetadata> {
    let marks: Vec<String> = parts
        .iter()
        .map(|part| content_part_fingerprint(part))
        .collect();
    let is_in_place = pieces.len() == marks.len()
        && pieces.iter().zip(&marks).all(|(piece, mark)| {
            let is_edited = || {
                parse_part_kind(&piece.mark) == parse_part_kind(mark)
                    && !marks.contains(&piece.mark)
                    && pieces.iter().all(|own| own.mark != *mark)
            };
            piece.mark == *mark || is_edited()
        });
    if is_in_place {
        return pieces;
    }
    let mut pieces: Vec<Option<ContentPartMetadata>> = pieces.into_iter().map(Some).collect();
    let own = marks.iter().map(|mark| {
        let mut free = pieces.iter_mut();
        let found = free.find(|own| own.as_ref().is_some_and(|piece| piece.mark == *mark));
        found.and_then(Option::take).unwrap_or_default()
    });
    own.collect()
}
