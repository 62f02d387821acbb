//! Support code for the expansion of the attribute macros. Not for authors, and no part of the
//! stable API.

pub use wit_bindgen;

use crate::returns::{IntoAnswer, IntoPointOutcome, PointOutcome};
use crate::types::{Answer, EffectClass, Error};
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A tool as the macro found it. The generated code converts it to the component's own type.
pub struct Tool {
    /// Name of the tool.
    pub name: &'static str,
    /// Description of the tool.
    pub description: &'static str,
    /// JSON Schema of its arguments.
    pub parameters: String,
    /// Class of the tool's effects.
    pub effect: EffectClass,
}

/// Schema of a tool that takes no arguments.
pub fn no_arguments() -> String {
    r#"{"type":"object","properties":{},"additionalProperties":false}"#.to_owned()
}

/// A slash command, as the component lists it.
#[derive(Debug)]
pub struct Command {
    /// Name without the slash.
    pub name: &'static str,
    /// Description, one line.
    pub description: &'static str,
    /// JSON Schema of its arguments; `None` for the text after its name.
    pub arguments: Option<String>,
}

/// A type that a tool can take as its arguments.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a tool's arguments",
    label = "mark the type `#[args]`",
    note = "or derive `schemars::JsonSchema` and `serde::Deserialize`, re-exported by `rind_sdk`"
)]
pub trait Arguments: JsonSchema + DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: JsonSchema + DeserializeOwned> Arguments for T {}

/// The schema of a type, without references, its title left out: the model has the tool's name
/// already.
pub fn schema<T: Arguments>() -> String {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
        settings
            .transforms
            .push(Box::new(RecursiveTransform(without_rust_formats)));
        settings
            .transforms
            .push(Box::new(RecursiveTransform(without_optional_nulls)));
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    schema.as_value().to_string()
}

/// Takes out formats such as `uint32`: no standard knows them, and some providers refuse a schema
/// that has them.
fn without_rust_formats(schema: &mut Schema) {
    let format = schema.get("format").and_then(|format| format.as_str());
    if format.is_some_and(|format| {
        ["int", "uint", "float", "double"]
            .iter()
            .any(|it| format.starts_with(it))
    }) {
        schema.remove("format");
    }
}

/// Removes `null` from the types of optional properties, where the derive for `Option` adds it.
/// Some providers refuse a list of types. The host treats `null` for such a property as absent.
fn without_optional_nulls(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let properties = schema
        .get_mut("properties")
        .and_then(|all| all.as_object_mut());
    for (name, property) in properties.into_iter().flatten() {
        let is_required = required
            .as_array()
            .is_some_and(|names| names.iter().any(|one| one == name));
        if let Some(property) = property.as_object_mut().filter(|_| !is_required) {
            without_null(property);
        }
    }
}

fn without_null(schema: &mut Map<String, Value>) {
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
    if let Some(values) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &mut types[..] {
            let only = only.take();
            schema.insert("type".to_owned(), only);
        }
    }
    let Some(Value::Array(variants)) = schema.get_mut("anyOf") else {
        return;
    };
    variants.retain(|variant| variant.get("type").is_none_or(|name| name != "null"));
    if let [Value::Object(only)] = &mut variants[..] {
        let only = std::mem::take(only);
        schema.remove("anyOf");
        for (name, value) in only {
            schema.entry(name).or_insert(value);
        }
    }
}

/// The arguments of a call, or a description of their fault in terms that the model can act on.
pub fn arguments<T: Arguments>(tool: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::InvalidInput(format!("arguments of {tool}: {error}")))
}

/// A tool's answer.
pub fn answer(value: impl IntoAnswer) -> Result<Answer, Error> {
    Ok(value.into_answer())
}

/// Converts a tool's return value into an answer or an error.
pub fn result_answer<E: Into<Error>>(value: Result<impl IntoAnswer, E>) -> Result<Answer, Error> {
    value.map(IntoAnswer::into_answer).map_err(Into::into)
}

/// The payload of a point that the plugin implements.
pub fn payload<T: DeserializeOwned>(point: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::InvalidInput(format!("payload of {point}: {error}")))
}

/// The outcome of a point's implementation.
pub fn point_answer<Kind>(value: impl IntoPointOutcome<Kind>) -> Result<PointOutcome, Error> {
    value.into_point_outcome()
}

/// The outcome of a point's implementation, or why there is none.
pub fn result_point_answer<Kind, E: Into<Error>>(
    value: Result<impl IntoPointOutcome<Kind>, E>,
) -> Result<PointOutcome, Error> {
    value.map_err(Into::into)?.into_point_outcome()
}

/// Creates the error for a name that the plugin does not have.
pub fn unknown<T>(what: &str, name: &str) -> Result<T, Error> {
    Err(Error::NotFound(format!("no {what} {name:?} here")))
}
