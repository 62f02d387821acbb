//! Checks the schemas in the manifest: those of the settings, and those of the payloads of points
//! that the plugin defines.

use serde_json::Value;

use super::PluginFaultCollector;
use super::fix::ManifestFix;
use rind_lib::plugin::manifest::Manifest;
use rind_lib::plugin::surface::ComponentImportsAndExports;
use rind_lib::tool::schema;

/// Checks `[config]` and the schemas of `[points.NAME]`.
pub(super) fn check_config_and_point_schemas(
    found: &mut PluginFaultCollector<'_>,
    manifest: &Manifest,
    surface: Option<&ComponentImportsAndExports>,
) {
    for (name, point) in &manifest.points {
        for (which, declared) in [("payload", &point.payload), ("result", &point.result)] {
            if let Some(Err(error)) = declared.as_ref().map(schema::compile_json_schema_check) {
                let message = format!("`{which}` of the point `{name}`: {error}");
                found
                    .add_fault_at_key("schema", &["points", name, which], message)
                    .mark_as_load_blocking();
            }
        }
    }
    let reads = surface.map(|surface| surface.has_import("config"));
    match (&manifest.config, reads) {
        (Some(_), Some(false)) => {
            let message = "declares settings, but the component does not import `config`, so they change nothing: remove them";
            found
                .add_fault_at_key("settings", &["config"], message)
                .attach_fix(ManifestFix::key_removal(&["config"]));
        }
        (None, Some(true)) => {
            let message = "the component reads settings, but there is no `[config]`, so they cannot be set: declare them";
            found.add_fault_at_key("settings", &["component"], message);
        }
        _ => {}
    }
    if let (Some(config), true) = (&manifest.config, reads != Some(false)) {
        check_config_schema(found, config);
    }
}

fn check_config_schema(found: &mut PluginFaultCollector<'_>, config: &Value) {
    let mut whole = config.clone();
    if let Value::Object(map) = &mut whole {
        map.entry("type").or_insert_with(|| "object".into());
    }
    if let Err(error) = schema::compile_json_schema_check(&whole) {
        found
            .add_fault_at_key("schema", &["config"], format!("`[config]`: {error}"))
            .mark_as_load_blocking();
        return;
    }
    let required = config.get("required").and_then(Value::as_array);
    let properties = config.get("properties").and_then(Value::as_object);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !properties.is_some_and(|all| all.contains_key(name)) {
            let message = format!(
                "`{name}` is required but not among the properties, so no settings are valid"
            );
            found.add_fault_at_key("schema", &["config", "required"], message);
        }
    }
    for (name, property) in properties.into_iter().flatten() {
        let keys = ["config", "properties", name.as_str()];
        let description = property.get("description").and_then(Value::as_str);
        if description.is_none_or(|text| text.trim().is_empty()) {
            found.add_fault_at_key(
                "description",
                &keys,
                format!("the setting `{name}` has no `description`"),
            );
        }
        let Some(default) = property.get("default") else {
            continue;
        };
        let alone = serde_json::json!({"type": "object", "properties": {name: property}});
        let value = serde_json::json!({name: default});
        if let Ok(Some(misfit)) = schema::find_user_settings_fault(&alone, &value) {
            let message = format!(
                "the default of `{name}` does not match its schema: {}",
                misfit.message
            );
            found.add_fault_at_key(
                "schema",
                &["config", "properties", name, "default"],
                message,
            );
        }
    }
}
