//! The operator's settings for a plugin against the manifest's `[config]`: defaults filled in, the result checked.

use serde_json::Value;

use super::Error;
use super::manifest::Manifest;
use crate::tool::schema;

/// The settings a plugin sees: `given` over the schema's defaults. Without `[config]` a plugin has no settings, and giving
/// it some is an error: a misspelt name would otherwise go unseen.
pub(super) fn config(manifest: &Manifest, given: &toml::Table) -> Result<Value, Error> {
    let refuse = |message: String| Error::Config {
        plugin: manifest.name.clone(),
        message,
    };
    let given = serde_json::to_value(given).map_err(|e| refuse(e.to_string()))?;
    let Some(declared) = &manifest.config else {
        return match &given {
            Value::Object(map) if map.is_empty() => Ok(given),
            _ => Err(refuse("the plugin has no settings".to_owned())),
        };
    };
    let schema = object_schema(declared);
    let mut config = given;
    fill_defaults(&schema, &mut config);
    let check = schema::compile(&schema)
        .map_err(|e| refuse(format!("`[config]` itself is not a JSON Schema: {e}")))?;
    check(&config).map_err(refuse)?;
    Ok(config)
}

/// `[config]` may leave out what every such schema says: that it is an object, and that unknown keys are errors.
fn object_schema(declared: &Value) -> Value {
    let mut schema = declared.clone();
    if let Value::Object(map) = &mut schema {
        map.entry("type").or_insert_with(|| Value::from("object"));
        map.entry("additionalProperties")
            .or_insert(Value::Bool(false));
    }
    schema
}

fn fill_defaults(schema: &Value, value: &mut Value) {
    let (Some(properties), Value::Object(map)) =
        (schema.get("properties").and_then(Value::as_object), value)
    else {
        return;
    };
    for (name, property) in properties {
        if let Some(default) = property.get("default") {
            map.entry(name.clone()).or_insert_with(|| default.clone());
        }
        if let Some(inner) = map.get_mut(name) {
            fill_defaults(property, inner);
        }
    }
}
