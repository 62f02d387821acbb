//! Support code for the expansion of the attribute macros. Plugins must not use it: it is no part
//! of the stable API.

pub use wit_bindgen;

use crate::returns::{IntoAnswer, IntoPointOutcome, PointOutcome};
use crate::types::{Answer, EffectClass, Error};
use schemars::{JsonSchema, Schema, generate::SchemaSettings, transform::RecursiveTransform};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A tool as the macro collects it. The generated code converts it to the component's own type.
pub struct Tool {
    /// Name of the tool.
    pub name: &'static str,
    /// Description of the tool.
    pub description: &'static str,
    /// JSON Schema of the tool's arguments.
    pub parameters: String,
    /// Effect class of the tool.
    pub effect: EffectClass,
}

/// Returns the JSON Schema of a tool without arguments.
pub fn no_arguments() -> String {
    r#"{"type":"object","properties":{},"additionalProperties":false}"#.to_owned()
}

/// A slash command as the component lists it.
#[derive(Debug)]
pub struct Command {
    /// Name without the slash.
    pub name: &'static str,
    /// Description, one line.
    pub description: &'static str,
    /// JSON Schema of the arguments; `None` if the command takes the text after its name.
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

/// Returns the JSON Schema of a type, with all references inlined. The title is removed, because
/// the model knows the tool's name.
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

/// Removes formats such as `uint32`: they are not standard, and some providers refuse them.
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

/// Removes `null` from the types of optional properties: the schema of an `Option` has a list of
/// two types, which some providers refuse. The host treats `null` for such a property as absent.
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
            remove_null_type(property);
        }
    }
}

fn remove_null_type(schema: &mut Map<String, Value>) {
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

/// Parses the arguments of a call. The error describes what the model has to correct.
pub fn arguments<T: Arguments>(tool: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::InvalidInput(format!("arguments of {tool}: {error}")))
}

/// Converts the return value of a tool into an answer.
pub fn answer(value: impl IntoAnswer) -> Result<Answer, Error> {
    Ok(value.into_answer())
}

/// Converts a tool's `Result` into an answer or an error.
pub fn result_answer<E: Into<Error>>(value: Result<impl IntoAnswer, E>) -> Result<Answer, Error> {
    value.map(IntoAnswer::into_answer).map_err(Into::into)
}

/// Parses the payload of a point that the plugin implements.
pub fn payload<T: DeserializeOwned>(point: &str, text: &str) -> Result<T, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::InvalidInput(format!("payload of {point}: {error}")))
}

/// Converts the return value of a point's implementation into an outcome.
pub fn point_answer<Kind>(value: impl IntoPointOutcome<Kind>) -> Result<PointOutcome, Error> {
    value.into_point_outcome()
}

/// Converts the `Result` of a point's implementation into an outcome or an error.
pub fn result_point_answer<Kind, E: Into<Error>>(
    value: Result<impl IntoPointOutcome<Kind>, E>,
) -> Result<PointOutcome, Error> {
    value.map_err(Into::into)?.into_point_outcome()
}

/// Returns the error for a tool, command or implementation that the plugin does not have.
pub fn unknown<T>(what: &str, name: &str) -> Result<T, Error> {
    Err(Error::NotFound(format!("no {what} {name:?} here")))
}
