//! Checks the operator's settings for a plugin against the manifest's `[config]`, and fills in
//! defaults.

use serde_json::Value;

use super::Error;
use super::manifest::Manifest;
use crate::tool::schema;

/// Returns the settings that a plugin sees: `given` merged over the schema's defaults. For a plugin
/// without `[config]`, every setting is an error; otherwise a misspelled plugin name would go
/// unnoticed. `place` returns the location of a key below `config`.
pub(super) fn effective_plugin_config(
    manifest: &Manifest,
    given: &toml::Table,
    place: &dyn Fn(&[&str]) -> Option<String>,
) -> Result<Value, Error> {
    let refuse = |keys: &[String], message: String| {
        let path: Vec<&str> = keys.iter().map(String::as_str).collect();
        let message = match path.join(".") {
            path if path.is_empty() => message,
            path => format!("`{path}`: {message}"),
        };
        // If the key is missing or is an element of a list, it has no location: use the location of
        // the enclosing table.
        let places = (0..=path.len()).rev().find_map(|n| place(path.get(..n)?));
        Error::Config {
            message,
            place: places.unwrap_or_else(|| format!("[plugins.{}.config]", manifest.name)),
        }
    };
    let given = serde_json::to_value(given).map_err(|e| refuse(&[], e.to_string()))?;
    let Some(declared) = &manifest.config else {
        return match &given {
            Value::Object(map) if map.is_empty() => Ok(given),
            _ => Err(refuse(&[], "the plugin takes no settings".to_owned())),
        };
    };
    let schema = add_omitted_schema_keywords(declared);
    let mut config = given;
    fill_setting_defaults(&schema, &mut config);
    match schema::find_user_settings_fault(&schema, &config) {
        Ok(None) => Ok(config),
        Ok(Some(misfit)) => Err(refuse(&misfit.keys, misfit.message)),
        Err(e) => Err(refuse(
            &[],
            format!("`[config]` itself is not a JSON Schema: {e}"),
        )),
    }
}

/// Adds the parts that the schema in `[config]` may omit: `"type": "object"`, and that unknown keys
/// are errors.
fn add_omitted_schema_keywords(declared: &Value) -> Value {
    let mut schema = declared.clone();
    if let Value::Object(map) = &mut schema {
        map.entry("type").or_insert_with(|| Value::from("object"));
        map.entry("additionalProperties")
            .or_insert(Value::Bool(false));
    }
    schema
}

fn fill_setting_defaults(schema: &Value, value: &mut Value) {
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
            fill_setting_defaults(property, inner);
        }
    }
}

/// Lists a plugin's settings in the order of its manifest: name, effective value, and whether the
/// value is the default.
pub(super) fn list_effective_settings(
    manifest: &Manifest,
    config: &Value,
) -> Vec<(String, Option<Value>, bool)> {
    let declared = manifest
        .config
        .as_ref()
        .and_then(|c| c.get("properties")?.as_object());
    let row = |(name, property): (&String, &Value)| {
        let mut default = property.get("default").cloned();
        if let Some(default) = &mut default {
            fill_setting_defaults(property, default);
        }
        let value = config.get(name).cloned();
        let is_default = value == default;
        (name.clone(), value, is_default)
    };
    declared.into_iter().flatten().map(row).collect()
}
