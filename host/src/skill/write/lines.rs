//! Changes the keys of a front matter while preserving the lines of all keys whose meaning stays
//! the same.
//!
//! Comments and formatting of unchanged keys are the author's, so they are kept. If the edited text
//! does not parse as the intended document, everything is rewritten.

use super::emit;
use crate::front_matter::{self, YamlDocument, YamlMappingEntry, YamlNode, YamlNodeKind};

/// Rewrites the front matter `front`, which parses as `old`, so that the result parses as `new`.
/// Both texts include the opening line `---`.
pub(super) fn rewrite_front_matter_lines(
    front: &str,
    old: &YamlDocument,
    new: &YamlDocument,
) -> String {
    let ending = match front.lines().count() > 0
        && front
            .split_inclusive('\n')
            .next()
            .is_some_and(|line| line.ends_with("\r\n"))
    {
        true => "\r\n",
        false => "\n",
    };
    let written = |entry: &YamlMappingEntry| emit::emit_yaml_entry(entry).replace('\n', ending);
    let mut lines = front.split_inclusive('\n');
    let opening = lines.next().unwrap_or_default();
    let lines: Vec<&str> = front.split_inclusive('\n').collect();
    let mut text = opening.to_owned();
    // First write the new keys that come before all old keys, for example `skill_format`.
    let is_known = |entry: &&YamlMappingEntry| old.get(&entry.key).is_some();
    text.extend(
        new.entries
            .iter()
            .take_while(|entry| !is_known(entry))
            .map(written),
    );
    let first = old
        .entries
        .first()
        .map_or(lines.len(), |entry| entry.place.0 - 1);
    text.extend(lines.get(1..first).unwrap_or_default().iter().copied());
    for (at, entry) in old.entries.iter().enumerate() {
        let next = old
            .entries
            .get(at + 1)
            .map_or(lines.len(), |next| next.place.0 - 1);
        let own = lines.get(entry.place.0 - 1..next).unwrap_or_default();
        match new.get(&entry.key) {
            Some(kept) if nodes_are_equal(&kept.node, &entry.node) => {
                text.extend(own.iter().copied())
            }
            other => {
                text.extend(other.map(written));
                // Comments at the end of these lines belong to the next key: keep them.
                let is_comment = |line: &&&str| line.trim().is_empty() || line.starts_with('#');
                let n_after = own.iter().rev().take_while(is_comment).count();
                text.extend(
                    own.get(own.len() - n_after..)
                        .unwrap_or_default()
                        .iter()
                        .copied(),
                );
            }
        }
    }
    let rest = new
        .entries
        .iter()
        .skip_while(|entry| !is_known(entry))
        .filter(|entry| !is_known(entry));
    let mut added = rest.peekable();
    if added.peek().is_some() && !text.ends_with('\n') {
        text.push_str(ending);
    }
    text.extend(added.map(written));
    // Front matter such as a YAML mapping in braces cannot be edited line by line: if the edited
    // text does not parse as `new`, rewrite all of it.
    let is_right = front_matter::parse_yaml_document(&text)
        .is_ok_and(|read| documents_are_equal(&read, new))
        && front_matter::split_front_matter(&format!("{text}---\n")).is_some();
    if is_right {
        return text;
    }
    format!(
        "{opening}{}",
        emit::emit_document(new).replace('\n', ending)
    )
}

/// Whether two documents have the same keys with the same values, in any order.
fn documents_are_equal(one: &YamlDocument, other: &YamlDocument) -> bool {
    let has = |entry: &YamlMappingEntry| {
        other
            .get(&entry.key)
            .is_some_and(|found| nodes_are_equal(&found.node, &entry.node))
    };
    one.entries.len() == other.entries.len() && one.entries.iter().all(has)
}

/// Whether two nodes are equal, ignoring their positions.
pub(super) fn nodes_are_equal(one: &YamlNode, other: &YamlNode) -> bool {
    match (&one.kind, &other.kind) {
        (YamlNodeKind::Scalar(..), YamlNodeKind::Scalar(..)) => {
            one.scalar_text() == other.scalar_text() && one.to_json_value() == other.to_json_value()
        }
        (YamlNodeKind::List(a), YamlNodeKind::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| nodes_are_equal(a, b))
        }
        (YamlNodeKind::Mapping(a), YamlNodeKind::Mapping(b)) => {
            let is_same = |(a, b): (&YamlMappingEntry, &YamlMappingEntry)| {
                a.key == b.key && nodes_are_equal(&a.node, &b.node)
            };
            a.len() == b.len() && a.iter().zip(b).all(is_same)
        }
        _ => false,
    }
}
