//! Compares the table of events in the manual with the schema of the stream, which is generated
//! from the enum and its docs.

use serde_json::Value;

use super::table::Table;

/// Document that holds the table.
pub(super) const FILE: &str = "host/docs/events.md";

/// Fields of every event.
const COMMON: [&str; 6] = ["type", "at", "session", "agent", "turn", "step"];

/// Returns the schema to which `$ref` points, or the schema itself if it has no `$ref`.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let target = schema["$ref"].as_str().and_then(|at| at.strip_prefix('#'));
    target.map_or(schema, |at| root.pointer(at).unwrap())
}

/// Returns the names of an object's properties, including the properties of flattened fields.
fn fields(root: &Value, schema: &Value) -> Vec<String> {
    let mut names = Vec::new();
    for part in [schema, resolve(root, schema)] {
        let properties = part["properties"].as_object().into_iter().flatten();
        for (name, _) in properties {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
    }
    names
}

pub(super) fn table() -> Table {
    let root = serde_json::to_value(rind::event::event_line_schema()).unwrap();
    let head = ["| event | when | fields |", "|---|---|---|"];
    let rows = root["oneOf"].as_array().unwrap().iter().map(|event| {
        let name = event["properties"]["type"]["const"].as_str().unwrap();
        let doc = event["description"].as_str().unwrap();
        let doc = doc.replace('\n', " ");
        let when = doc.split_once(". ").map_or(&*doc, |(first, _)| first);
        let own: Vec<String> = fields(&root, event)
            .into_iter()
            .filter(|name| !COMMON.contains(&name.as_str()))
            .map(|name| format!("`{name}`"))
            .collect();
        format!(
            "| `{name}` | {} | {} |",
            when.trim_end_matches('.'),
            own.join(", ")
        )
    });
    Table {
        file: FILE,
        name: "events",
        source: "schema",
        lines: head.into_iter().map(str::to_owned).chain(rows).collect(),
    }
}

#[test]
fn a_table_that_differs_from_the_schema_is_found() {
    let check = |text: &str| table().check(text);
    let good = format!("# Rind\n\n{}\n", table().text());
    assert_eq!(check(&good), Ok(()));
    for (right, wrong) in [
        ("`tool-call`", "`tool-calls`"),
        ("`micros`, ", ""),
        ("A step of the turn starts", "A step of the turn ends"),
    ] {
        assert!(good.contains(right), "{right}\n{good}");
        assert!(check(&good.replace(right, wrong)).is_err(), "{right}");
    }
}
