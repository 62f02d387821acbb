//! Flattens a schema into a single set of keywords: resolves its `$ref` and merges the schemas of
//! its `allOf`.

use serde_json::{Map, Value};

/// Maximum depth of nested references and `allOf`.
const MAX_REF_AND_ALL_OF_DEPTH: usize = 16;

/// A schema without `$ref` and `allOf`, as one set of keywords.
pub(super) struct RefFreeJsonSchema {
    pub(super) keywords: Map<String, Value>,
    /// Targets of the `$ref`s that were resolved and merged into `keywords`.
    pub(super) followed: Vec<String>,
}

/// Resolves the `$ref` of a schema and merges the schemas of its `allOf`. `open` contains the
/// references that were resolved to reach this schema. A reference to one of these is recursive:
/// only the type and the description of its target are kept. Returns `None` for a dangling or
/// external reference.
pub(super) fn flatten_schema(
    root: &Value,
    schema: &Map<String, Value>,
    open: &[String],
) -> Option<RefFreeJsonSchema> {
    let mut flat = RefFreeJsonSchema {
        keywords: Map::new(),
        followed: Vec::new(),
    };
    merge_into_flat_schema(root, schema, open, &mut flat, 0)?;
    Some(flat)
}

fn merge_into_flat_schema(
    root: &Value,
    schema: &Map<String, Value>,
    open: &[String],
    flat: &mut RefFreeJsonSchema,
    depth: usize,
) -> Option<()> {
    if depth > MAX_REF_AND_ALL_OF_DEPTH {
        return None;
    }
    // Older drafts ignore keywords next to a reference, but a description is useful in every draft.
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let is_circle = open
            .iter()
            .chain(&flat.followed)
            .any(|seen| seen == reference);
        let target = root.pointer(reference.strip_prefix('#')?)?.as_object()?;
        if let Some(description) = schema.get("description") {
            add_or_merge_schema_keyword(&mut flat.keywords, "description", description);
        }
        if is_circle {
            for name in ["type", "description"] {
                if let Some(value) = target.get(name) {
                    add_or_merge_schema_keyword(&mut flat.keywords, name, value);
                }
            }
            return Some(());
        }
        flat.followed.push(reference.to_owned());
        return merge_into_flat_schema(root, target, open, flat, depth + 1);
    }
    for (name, value) in schema {
        if name != "allOf" {
            add_or_merge_schema_keyword(&mut flat.keywords, name, value);
        }
    }
    for part in schema
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        // Ignore an error: without the unresolvable part, the schema only accepts more values.
        if let Some(part) = part.as_object() {
            let _ = merge_into_flat_schema(root, part, open, flat, depth + 1);
        }
    }
    Some(())
}

/// Adds a keyword to the keywords of a schema. If the keyword already exists, `properties` and
/// `required` are merged, and any other keyword keeps its first value.
pub(super) fn add_or_merge_schema_keyword(
    keywords: &mut Map<String, Value>,
    name: &str,
    value: &Value,
) {
    let Some(known) = keywords.get_mut(name) else {
        keywords.insert(name.to_owned(), value.clone());
        return;
    };
    match (name, known, value) {
        ("properties", Value::Object(known), Value::Object(more)) => {
            for (name, schema) in more {
                known.entry(name.clone()).or_insert_with(|| schema.clone());
            }
        }
        ("required", Value::Array(known), Value::Array(more)) => {
            for name in more {
                if !known.contains(name) {
                    known.push(name.clone());
                }
            }
        }
        _ => {}
    }
}
