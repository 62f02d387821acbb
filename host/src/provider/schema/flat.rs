//! Flattens a schema into a single set of keywords: its reference is resolved and its `allOf`
//! joined.

use serde_json::{Map, Value};

/// Most references that are followed from one schema to the next.
const MAX_CHAIN: usize = 16;

/// A schema as one set of keywords.
pub(super) struct Flat {
    pub(super) keywords: Map<String, Value>,
    /// References that were followed to get there.
    pub(super) followed: Vec<String>,
}

/// Resolves the reference of a schema and joins its `allOf`. Of a reference in a circle through
/// `open`, the references of the schemas around this one, only the type is taken. `None` for one
/// that leads nowhere or out of the document.
pub(super) fn flat(root: &Value, schema: &Map<String, Value>, open: &[String]) -> Option<Flat> {
    let mut flat = Flat {
        keywords: Map::new(),
        followed: Vec::new(),
    };
    join(root, schema, open, &mut flat, 0)?;
    Some(flat)
}

fn join(
    root: &Value,
    schema: &Map<String, Value>,
    open: &[String],
    flat: &mut Flat,
    depth: usize,
) -> Option<()> {
    if depth > MAX_CHAIN {
        return None;
    }
    // In older drafts nothing beside a reference counts. A description helps in any of them.
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let is_circle = open
            .iter()
            .chain(&flat.followed)
            .any(|seen| seen == reference);
        let target = root.pointer(reference.strip_prefix('#')?)?.as_object()?;
        if let Some(description) = schema.get("description") {
            add(&mut flat.keywords, "description", description);
        }
        if is_circle {
            for name in ["type", "description"] {
                if let Some(value) = target.get(name) {
                    add(&mut flat.keywords, name, value);
                }
            }
            return Some(());
        }
        flat.followed.push(reference.to_owned());
        return join(root, target, open, flat, depth + 1);
    }
    for (name, value) in schema {
        if name != "allOf" {
            add(&mut flat.keywords, name, value);
        }
    }
    for part in schema
        .get("allOf")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        // A part that cannot be resolved adds nothing, or not everything: that makes the schema
        // only wider.
        if let Some(part) = part.as_object() {
            let _ = join(root, part, open, flat, depth + 1);
        }
    }
    Some(())
}

/// Adds a keyword to the others of the same schema. Of two values that cannot be joined the first
/// stays.
pub(super) fn add(keywords: &mut Map<String, Value>, name: &str, value: &Value) {
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
