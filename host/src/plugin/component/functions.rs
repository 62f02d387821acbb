//! Turns the exported functions of a component into tools.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use wasmtime::Engine;
use wasmtime::component::types::{ComponentFunc, ComponentItem};
use wasmtime::component::{Component, ComponentExportIndex, Type};

use super::super::manifest::Manifest;
use super::super::tools::min_tool_effect_class;
use super::super::{Error, authority, contract};
use super::docs::FunctionDocs;
use super::schemas::{MAX_TYPES_PER_FUNCTION, component_type_schema};
use crate::message::ToolSpec;
use crate::text::escape_and_truncate_line;
use crate::tool::registry::{
    MAX_TOOL_DESCRIPTION_BYTES, MAX_TOOL_NAME_BYTES, MAX_TOOLS_PER_PLUGIN,
};
use crate::tool::schema;

/// Number of hexadecimal digits of the hash that keeps truncated names distinct.
const TRUNCATED_NAME_HASH_DIGITS: usize = 8;

/// Exported function of a component, ready to be called.
pub(in super::super) struct ComponentFunction {
    pub(super) index: ComponentExportIndex,
    /// Parameters of the function with their types, in order.
    pub(super) parameters: Vec<(String, Type)>,
    pub(super) results: Vec<Type>,
}

/// Exported functions of a component, as tools.
#[derive(Default)]
pub(in super::super) struct ComponentFunctions {
    /// Tools, each with the function that it calls.
    pub(in super::super) tools: Vec<(ToolSpec, Arc<ComponentFunction>)>,
    /// Messages about functions that are not offered as tools, each with the reason.
    pub(in super::super) refused: Vec<String>,
}

/// Checks one import of a component. Every WASI interface may be imported, because the standard
/// libraries of many languages import interfaces that a program never uses; calls that were not
/// granted are denied when they happen.
pub(in super::super) fn check_component_import(
    manifest: &Manifest,
    interface: &str,
) -> Result<(), Error> {
    if interface.starts_with("wasi:http/")
        && authority::find_importable_interface(interface).is_some()
    {
        return Ok(());
    }
    authority::check_import_declared(manifest, interface)
}

/// Lists the functions of a component as tools, named after the component in `manifest`.
///
/// # Errors
/// The component exports an interface of the contract, two functions get the same tool name, or no
/// function can be offered.
pub(in super::super) fn list_functions_as_tools(
    manifest: &Manifest,
    component: &Component,
    engine: &Engine,
    bytes: &[u8],
) -> Result<ComponentFunctions, Error> {
    let class = min_tool_effect_class(manifest);
    let docs = FunctionDocs::read_docs(bytes);
    let mut listed = ComponentFunctions::default();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let exported = find_exported_functions(component, engine)?;
    if exported.len() > MAX_TOOLS_PER_PLUGIN {
        return Err(Error::Start {
            message: format!(
                "it exports {} functions, more than the maximum of {MAX_TOOLS_PER_PLUGIN} tools",
                exported.len()
            ),
        });
    }
    for (path, function, index) in exported {
        let shown = escape_and_truncate_line(&path.join("/"), 120);
        let name = component_tool_name(&manifest.name, &path);
        if let Some(other) = names.insert(name.clone(), shown.clone()) {
            return Err(Error::Tool {
                tool: name,
                why: format!(
                    "the functions `{other}` and `{shown}` would both become tools with this name"
                ),
            });
        }
        match function_arguments_schema(&function) {
            Err(why) => listed.refused.push(format!(
                "the function `{shown}` is not offered as a tool: {why}"
            )),
            Ok(parameters) => {
                let spec = ToolSpec {
                    name,
                    description: docs.find_function_description(&path, &shown),
                    parameters,
                    effect_class: class,
                    plugin: Some(manifest.name.clone()),
                };
                let function = ComponentFunction {
                    index,
                    parameters: function
                        .params()
                        .map(|(name, ty)| (name.to_owned(), ty))
                        .collect(),
                    results: function.results().collect(),
                };
                listed.tools.push((spec, Arc::new(function)));
            }
        }
    }
    if listed.tools.is_empty() {
        let why = match listed.refused.first() {
            Some(first) => format!("it exports no function that can be offered as a tool: {first}"),
            None => "it exports no function, so there is nothing to offer as a tool".to_owned(),
        };
        return Err(Error::Start { message: why });
    }
    Ok(listed)
}

type NamedExportedFunction = (Vec<String>, ComponentFunc, ComponentExportIndex);

/// Returns the functions that a component exports directly or in an exported interface.
fn find_exported_functions(
    component: &Component,
    engine: &Engine,
) -> Result<Vec<NamedExportedFunction>, Error> {
    let mut found = Vec::new();
    for (export, item) in component.component_type().exports(engine) {
        if contract::split_interface_name(export).is_some() {
            return Err(Error::Export {
                export: export.to_owned(),
                why: "which is for plugins: load it as one, with --plugin".to_owned(),
            });
        }
        match item.ty {
            ComponentItem::ComponentFunc(function) => {
                let index = component.get_export_index(None, export);
                found.extend(index.map(|index| (vec![export.to_owned()], function, index)));
            }
            ComponentItem::ComponentInstance(interface) => {
                // Skip the entry points of command-line and HTTP programs: they return no tool
                // result.
                if export.starts_with("wasi:cli/run@") || export.starts_with("wasi:http/") {
                    continue;
                }
                let own = component.get_export_index(None, export);
                for (name, item) in interface.exports(engine) {
                    let ComponentItem::ComponentFunc(function) = item.ty else {
                        continue;
                    };
                    let index = component.get_export_index(own.as_ref(), name);
                    let path = vec![export.to_owned(), name.to_owned()];
                    found.extend(index.map(|index| (path, function, index)));
                }
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the name of a tool: the names of the component, of the interface without package and
/// version, and of the function, joined by `_`. A name that is too long is truncated and ends in
/// digits of a hash.
///
/// For example, in the component `clock`:
///
/// ```text
/// now                                  clock_now
/// local:time/zones@1.0.0, offset-of    clock_zones_offset-of
/// ```
fn component_tool_name(component: &str, path: &[String]) -> String {
    let short = |part: &String| {
        let name = part.rsplit('/').next().unwrap_or(part);
        let name = name.split('@').next().unwrap_or(name);
        let fitted = name.chars().map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '-' => c,
            _ => '_',
        });
        fitted.collect::<String>()
    };
    let parts: Vec<String> = path.iter().map(short).collect();
    let whole = format!("{component}_{}", parts.join("_"));
    if whole.len() <= MAX_TOOL_NAME_BYTES {
        return whole;
    }
    let hash = blake3::hash(path.join("/").as_bytes()).to_hex();
    let digits = hash.get(..TRUNCATED_NAME_HASH_DIGITS).unwrap_or_default();
    let head = whole
        .get(..MAX_TOOL_NAME_BYTES - TRUNCATED_NAME_HASH_DIGITS - 1)
        .unwrap_or(&whole);
    format!("{head}_{digits}")
}

/// Returns the schema of a function's arguments: an object with a property for each parameter. A
/// parameter of an optional type may be omitted.
fn function_arguments_schema(function: &ComponentFunc) -> Result<Value, String> {
    if function.async_() {
        return Err("the function is asynchronous (WASI 0.3), which is not supported".to_owned());
    }
    let (mut properties, mut required) = (Map::new(), Vec::new());
    let mut room = MAX_TYPES_PER_FUNCTION;
    for (name, ty) in function.params() {
        let schema = component_type_schema(&ty, &mut room)
            .map_err(|why| format!("the parameter `{name}` {why}"))?;
        properties.insert(name.to_owned(), schema);
        if !matches!(ty, Type::Option(_)) {
            required.push(name.to_owned());
        }
    }
    for ty in function.results() {
        component_type_schema(&ty, &mut room)
            .map_err(|why| format!("the result of the function {why}"))?;
    }
    let parameters = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    let n_bytes = parameters.to_string().len();
    if n_bytes > schema::MAX_SCHEMA_BYTES {
        return Err(format!(
            "the schema of the arguments has {n_bytes} bytes, more than {}",
            schema::MAX_SCHEMA_BYTES
        ));
    }
    schema::compile_json_schema_check(&parameters).map(|_| parameters)
}

/// Truncates a tool's description to [`MAX_TOOL_DESCRIPTION_BYTES`].
pub(super) fn truncate_description(mut text: String) -> String {
    if text.len() > MAX_TOOL_DESCRIPTION_BYTES {
        text.truncate(text.floor_char_boundary(MAX_TOOL_DESCRIPTION_BYTES - '…'.len_utf8()));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::tool::registry::is_valid_tool_name;

    use super::*;

    #[test]
    fn names_are_short_and_stay_apart_when_they_are_cut() {
        let name = |path: &[&str]| {
            let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
            component_tool_name("clock", &path)
        };
        assert_eq!(name(&["now"]), "clock_now");
        assert_eq!(
            name(&["local:time/zones@1.0.0", "offset-of"]),
            "clock_zones_offset-of"
        );
        let (one, other) = ("x".repeat(100), format!("{}y", "x".repeat(99)));
        assert_ne!(name(&["a:b/c", &one]), name(&["a:b/c", &other]));
        for odd in ["[method]a.b", "[constructor]a", &one] {
            assert!(is_valid_tool_name(&name(&[odd])), "{odd}");
        }
    }
}
