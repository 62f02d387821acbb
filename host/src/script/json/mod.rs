//! Converts the calls and outcomes of scripts to and from JSON, and describes both in a schema.
//!
//! Owns the JSON format only: the types are in the table of extension points, and `point::merge`
//! decides which effect an outcome has. Start from [`JsonExtensionPoint`].

mod outcome;
mod payload;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::message::Usage;
use crate::point::ExtensionPoint;
use crate::point::caller::Caller;
use crate::point::catalog::{self, for_each_point};
use outcome::*;
use payload::ToScriptJson;

/// Extension point whose payload and outcome can be converted to JSON.
pub(super) trait JsonExtensionPoint: ExtensionPoint {
    /// Converts the payload of a call to the JSON that scripts receive.
    fn payload_to_json(payload: &Self::Payload) -> Result<Value, serde_json::Error>;

    /// Parses the outcome that a script returned.
    fn parse_outcome(outcome: Value) -> Result<Self::Outcome, serde_json::Error>;
}

/// Generic callback that [`call_with_point`] calls with the marker type of an extension point.
pub(super) trait JsonExtensionPointCallback {
    /// Runs the callback for the extension point that the marker type `P` denotes.
    fn run_for_extension_point<P: JsonExtensionPoint>(self);
}

type PayloadJson<P> = <<P as ExtensionPoint>::Payload as ToScriptJson>::SerializablePayload;

macro_rules! points {
    ($($marker:ident, $name:literal, $module:ident, $kind:ident, $payload:ty, $outcome:ty, [$($alias:literal),*], $returns:literal;)*) => {
        $(impl JsonExtensionPoint for catalog::$marker {
            fn payload_to_json(payload: &Self::Payload) -> Result<Value, serde_json::Error> {
                serde_json::to_value(payload.to_serializable_payload())
            }

            fn parse_outcome(outcome: Value) -> Result<Self::Outcome, serde_json::Error> {
                let read: $outcome = serde_json::from_value(outcome)?;
                Ok(read.into_host())
            }
        })*

        /// Calls `what` with the marker type of the extension point that has this name.
        pub(super) fn call_with_point(point: &str, what: impl JsonExtensionPointCallback) {
            match point {
                $($name => what.run_for_extension_point::<catalog::$marker>(),)*
                _ => {}
            }
        }

        /// Returns the schemas of the call and the outcome at each extension point.
        fn schemas(of_calls: &mut SchemaGenerator, of_outcomes: &mut SchemaGenerator) -> Map<String, Value> {
            let mut points = Map::new();
            $({
                let input = of_calls.subschema_for::<ScriptHookCall<PayloadJson<catalog::$marker>>>();
                let output = of_outcomes.subschema_for::<$outcome>();
                let properties = json!({"input": input, "output": output});
                points.insert($name.to_owned(), json!({"type": "object", "properties": properties}));
            })*
            points
        }
    };
}
for_each_point!(points);

/// Call of a hook, in the format of the script's standard input.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CallWith{P}")]
pub(super) struct ScriptHookCall<P> {
    /// Number of the call. Only for scripts that keep running, which repeat the number in their
    /// answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    /// Name of the script in the settings.
    hook: String,
    /// Name of the extension point at which the script is called.
    point: String,
    /// Id of the session.
    session: String,
    /// Number of the turn within the session, from 1; 0 outside a turn.
    turn: u32,
    /// Number of the step within the turn, from 1; 0 outside a step.
    step: u32,
    /// Agent in which the hook is called: `main`, or the id of a subagent.
    agent: String,
    /// 0 for the main agent, one more for each level of subagent.
    depth: u32,
    /// Absolute path of the folder that the agent works in.
    workspace: String,
    /// Name of the agent's model.
    model: String,
    /// Tokens that this turn has used so far.
    usage: Usage,
    /// Cost of this turn so far in US dollars, as far as prices are known.
    cost_usd: f64,
    /// Number of tool calls made so far in this turn.
    tool_calls: u32,
    /// Id of the tool call that the hook is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    call_id: Option<String>,
    /// Payload of the extension point: the value that the hook judges, changes or observes.
    payload: P,
}

impl<P> ScriptHookCall<P> {
    /// Creates the call of the script `hook`.
    pub(super) fn new(hook: &str, point: &str, caller: &Caller, payload: P) -> Self {
        let context = &caller.context;
        Self {
            id: None,
            hook: hook.to_owned(),
            point: point.to_owned(),
            session: context.session.to_string(),
            turn: context.turn,
            step: context.step,
            agent: context.agent.to_string(),
            depth: context.depth,
            workspace: context.workspace.to_string(),
            model: context.model.to_string(),
            usage: context.usage,
            cost_usd: context.cost_usd,
            tool_calls: context.tool_calls,
            call_id: caller.call.as_deref().map(str::to_owned),
            payload,
        }
    }

    /// Sets the number of the call, which a script that keeps running repeats in its answer.
    pub(super) fn with_id(self, id: u64) -> Self {
        Self {
            id: Some(id),
            ..self
        }
    }
}

/// Returns the JSON Schema of calls and outcomes: an object with a property for each extension
/// point, whose `input` is a call and whose `output` is an outcome.
#[must_use]
pub fn script_protocol_schema() -> Value {
    let settings = SchemaSettings::draft2020_12();
    let mut of_calls = settings.clone().for_serialize().into_generator();
    let mut of_outcomes = settings.for_deserialize().into_generator();
    let mut points = schemas(&mut of_calls, &mut of_outcomes);
    let inputs = of_calls.take_definitions(true);
    let outputs = of_outcomes.take_definitions(true);
    // Keep separate definitions for input and output: types of the same name differ, because a
    // field that is always written may be absent when it is read.
    for point in points.values_mut() {
        for (side, at) in [
            ("input", "/properties/input"),
            ("output", "/properties/output"),
        ] {
            if let Some(schema) = point.pointer_mut(at) {
                redirect_schema_references(schema, side);
            }
        }
    }
    let definitions = [("input", inputs), ("output", outputs)].map(|(side, mut definitions)| {
        definitions
            .values_mut()
            .for_each(|schema| redirect_schema_references(schema, side));
        (side.to_owned(), Value::Object(definitions))
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hooks of scripts",
        "description": "For each point the call that a script reads (`input`) and the outcome that it writes (`output`).",
        "type": "object",
        "properties": points,
        "$defs": Map::from_iter(definitions),
    })
}

/// Changes each reference to `#/$defs/NAME` into one to `#/$defs/SIDE/NAME`, where `side` is
/// `input` or `output`.
fn redirect_schema_references(schema: &mut Value, side: &str) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(to) if key == "$ref" => {
                        if let Some(name) = to.strip_prefix("#/$defs/") {
                            *to = format!("#/$defs/{side}/{name}");
                        }
                    }
                    value => redirect_schema_references(value, side),
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| redirect_schema_references(item, side)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::catalog::{CATALOG, PreReason, PreTool};
    use crate::point::outcome::{CallVerdict, CountChange, FloatChange};

    #[test]
    fn the_schema_has_every_point_and_every_reference_leads_somewhere() {
        let schema = script_protocol_schema();
        let text = schema.to_string();
        for row in CATALOG {
            assert!(
                schema["properties"][row.name]["properties"]["input"].is_object(),
                "{}",
                row.name
            );
        }
        for (at, _) in text.match_indices("\"#/$defs/") {
            let rest = &text[at + 2..];
            let path = &rest[..rest.find('"').unwrap()];
            assert!(schema.pointer(path).is_some(), "{path}");
        }
        jsonschema::validator_for(&schema).unwrap();
    }

    #[test]
    fn outcomes_are_read_and_what_is_misspelled_is_refused() {
        let read = |text: &str| PreTool::parse_outcome(serde_json::from_str(text).unwrap());
        assert_eq!(read("{}").unwrap().verdict, CallVerdict::Pass);
        assert_eq!(
            read(r#"{"verdict": "pass"}"#).unwrap().verdict,
            CallVerdict::Pass
        );
        let blocked = read(r#"{"verdict": {"block": "no\nnever"}}"#).unwrap();
        assert_eq!(blocked.verdict, CallVerdict::Block("no never".to_owned()));
        let changed = read(r#"{"verdict": {"change": {"path": "a"}}}"#).unwrap();
        assert_eq!(
            changed.verdict,
            CallVerdict::Change(r#"{"path":"a"}"#.to_owned())
        );
        for wrong in [
            r#"{"verdikt": "pass"}"#,
            r#"{"verdict": "blok"}"#,
            r#"{"verdict": {"change": "x"}}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let read =
            |text: &str| PreReason::parse_outcome(serde_json::from_str(text).unwrap()).unwrap();
        let request = read(
            r#"{"temperature": {"set": 0.5}, "max_tokens": "unset", "inject": [{"text": "a"}]}"#,
        );
        assert_eq!(request.temperature, FloatChange::Set(0.5));
        assert_eq!(request.max_tokens, CountChange::Unset);
        assert!(request.inject[0].keep);
    }
}
