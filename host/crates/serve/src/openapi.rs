//! Describes the API in OpenAPI 3.1, for programs. The schemas of bodies are derived from their
//! types, and one table lists the bodies and answers of each request. The released program contains
//! only the generated file.

use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use rind_embed::EmbeddedPackedFolder;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::error::ErrorBody;
use crate::questions::AnswerBody;
use crate::routes::{costs, events, loops, outputs, plugins, questions, sessions, turns};

/// Operation of the HTTP API, for its OpenAPI document: a request with its possible answers.
struct OpenApiOperation {
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    query: Option<Value>,
    body: Option<Value>,
    /// Media type of the request body.
    body_type: &'static str,
    /// Status, description and content by media type of each successful answer.
    answers: Vec<(&'static str, &'static str, Option<Value>)>,
    /// HTTP status codes with which the request can fail.
    errors: &'static [&'static str],
}

const SCHEMA_DEFINITIONS_POINTER: &str = "#/components/schemas";

static PACKED_OPENAPI_FOLDER: EmbeddedPackedFolder =
    EmbeddedPackedFolder::new(include_bytes!(concat!(env!("OUT_DIR"), "/openapi.tar.zst")));

/// Answers with the file `openapi.json`, which is packed into the program: the code that generates
/// the file would add half a megabyte to the program.
pub(crate) async fn get_openapi() -> impl IntoResponse {
    let json = [(CONTENT_TYPE, "application/json")];
    (json, PACKED_OPENAPI_FOLDER.file_text("openapi.json"))
}

/// Generates the OpenAPI 3.1 document of the API. A test compares it with the file `openapi.json`.
#[must_use]
pub fn generate_openapi_document() -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.definitions_path = SCHEMA_DEFINITIONS_POINTER.trim_start_matches('#').into();
    let mut generator = settings.into_generator();
    let mut paths = Map::new();
    for operation in list_api_operations(&mut generator) {
        let described = operation_to_json(&operation, &mut generator);
        let path = paths
            .entry(operation.path)
            .or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(path) = path {
            path.insert(operation.method.to_owned(), described);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Rind",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sessions, turns, events, questions and plugins of an agent host."
        },
        "servers": [{"url": "/v1"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": generator.take_definitions(true),
        }
    })
}

fn list_api_operations(generator: &mut SchemaGenerator) -> Vec<OpenApiOperation> {
    let mut operations = list_session_operations(generator);
    operations.extend(list_turn_api_operations(generator));
    operations.extend(list_pending_question_operations(generator));
    operations.extend(list_server_wide_operations(generator));
    operations
}

fn list_server_wide_operations(generator: &mut SchemaGenerator) -> Vec<OpenApiOperation> {
    vec![
        OpenApiOperation {
            query: Some(generate_type_schema::<plugins::PluginQuery>(generator)),
            answers: vec![build_ok_response(
                json_content_schema::<plugins::PluginList>(generator),
            )],
            errors: &["400", "403", "409"],
            ..create_operation(
                "get",
                "/plugins",
                "listPlugins",
                "List plugins, with their permissions and how their hooks do",
            )
        },
        OpenApiOperation {
            answers: vec![build_ok_response(json_content_schema::<costs::CostList>(
                generator,
            ))],
            ..create_operation(
                "get",
                "/costs",
                "listCosts",
                "Sum the costs of all sessions, by day, model and folder",
            )
        },
        OpenApiOperation {
            answers: vec![build_ok_response(json_content_schema::<loops::LoopList>(
                generator,
            ))],
            ..create_operation(
                "get",
                "/loops",
                "listLoops",
                "List the loops of plugins, with their last and next runs",
            )
        },
        OpenApiOperation {
            body: Some(json!({"type": "string"})),
            body_type: "text/plain",
            answers: vec![("202", "The event waits for the loop", None)],
            errors: &["400", "404", "413", "429"],
            ..create_operation(
                "post",
                "/loops/{id}/events",
                "sendLoopEvent",
                "Send a body of any kind to the loop of a plugin as an event, by the name of the plugin",
            )
        },
        OpenApiOperation {
            body: Some(generate_type_schema::<loops::NewMessage>(generator)),
            answers: vec![("202", "The message waits for the loop", None)],
            errors: &["400", "404", "429"],
            ..create_operation(
                "post",
                "/loops/{id}/messages",
                "sendLoopMessage",
                "Send a message to the loop of a plugin, by the name of the plugin",
            )
        },
    ]
}

fn list_session_operations(generator: &mut SchemaGenerator) -> Vec<OpenApiOperation> {
    vec![
        OpenApiOperation {
            query: Some(generate_type_schema::<sessions::ListQuery>(generator)),
            answers: vec![build_ok_response(json_content_schema::<
                sessions::SessionList,
            >(generator))],
            errors: &["400", "404"],
            ..create_operation(
                "get",
                "/sessions",
                "listSessions",
                "List sessions, the last written first",
            )
        },
        OpenApiOperation {
            answers: vec![build_ok_response(json_content_schema::<
                sessions::WorkspaceList,
            >(generator))],
            ..create_operation(
                "get",
                "/workspaces",
                "listWorkspaces",
                "List the folders that sessions may work in",
            )
        },
        OpenApiOperation {
            body: Some(generate_type_schema::<sessions::NewSession>(generator)),
            answers: vec![(
                "201",
                "The session was made and is open",
                Some(json_content_schema::<sessions::MadeSession>(generator)),
            )],
            errors: &["400", "409", "429"],
            ..create_operation("post", "/sessions", "createSession", "Make a session")
        },
        OpenApiOperation {
            answers: vec![build_ok_response(
                json!({"application/json": {"schema": {"type": "object"}}}),
            )],
            errors: &["400", "404"],
            ..create_operation(
                "get",
                "/sessions/{id}",
                "showSession",
                "Show a session: its turns as `rind session show --json` writes them, whether it is open, and its questions",
            )
        },
        OpenApiOperation {
            answers: vec![build_ok_response(json_content_schema::<sessions::Closed>(
                generator,
            ))],
            ..create_operation(
                "post",
                "/sessions/{id}/close",
                "closeSession",
                "Interrupt the running turn of a session and close it",
            )
        },
        OpenApiOperation {
            answers: vec![build_ok_response(
                json_content_schema::<outputs::OutputList>(generator),
            )],
            errors: &["404"],
            ..create_operation(
                "get",
                "/sessions/{id}/outputs",
                "listOutputs",
                "Show the last lines of the calls that run now, which no event holds",
            )
        },
        OpenApiOperation {
            query: Some(generate_type_schema::<events::FollowQuery>(generator)),
            answers: vec![
                (
                    "200",
                    "Events as `rind run --json` writes them, each with its number as id; `gap` where some are not kept any more, \
                     `question` and `question-closed` for questions",
                    Some(event_stream_schema()),
                ),
                ("204", "The session is not open in this server", None),
            ],
            errors: &["400", "404"],
            ..create_operation(
                "get",
                "/sessions/{id}/events",
                "followEvents",
                "Follow the events of an open session",
            )
        },
    ]
}

fn list_turn_api_operations(generator: &mut SchemaGenerator) -> Vec<OpenApiOperation> {
    let mut turn_answers = || {
        let mut outcome = json_content_schema::<turns::TurnResult>(generator);
        if let (Value::Object(content), Value::Object(stream)) =
            (&mut outcome, event_stream_schema())
        {
            content.extend(stream);
        }
        vec![
            (
                "200",
                "Outcome of the turn, for `wait`; events up to its end, where the caller accepts `text/event-stream`",
                Some(outcome),
            ),
            (
                "202",
                "The turn was taken on",
                Some(json_content_schema::<turns::AcceptedTurn>(generator)),
            ),
        ]
    };
    let (started, continued) = (turn_answers(), turn_answers());
    vec![
        OpenApiOperation {
            body: Some(generate_type_schema::<turns::NewTurn>(generator)),
            answers: started,
            errors: &["400", "404", "409", "413", "429"],
            ..create_operation(
                "post",
                "/sessions/{id}/turns",
                "startTurn",
                "Start a turn with an input",
            )
        },
        OpenApiOperation {
            body: Some(generate_type_schema::<turns::GoOn>(generator)),
            answers: continued,
            errors: &["400", "404", "409", "429"],
            ..create_operation(
                "post",
                "/sessions/{id}/continue",
                "continueTurn",
                "Go on with the interrupted turn",
            )
        },
        OpenApiOperation {
            body: Some(generate_type_schema::<turns::SteerBody>(generator)),
            answers: vec![build_ok_response(json_content_schema::<turns::Steered>(
                generator,
            ))],
            errors: &["400", "409"],
            ..create_operation(
                "post",
                "/sessions/{id}/steer",
                "steerTurn",
                "Say something to the running turn",
            )
        },
        OpenApiOperation {
            answers: vec![build_ok_response(
                json_content_schema::<turns::Interrupted>(generator),
            )],
            ..create_operation(
                "post",
                "/sessions/{id}/interrupt",
                "interruptTurn",
                "Interrupt the running turn in good order",
            )
        },
    ]
}

fn list_pending_question_operations(generator: &mut SchemaGenerator) -> Vec<OpenApiOperation> {
    vec![
        OpenApiOperation {
            query: Some(generate_type_schema::<questions::QuestionQuery>(generator)),
            answers: vec![build_ok_response(json_content_schema::<
                questions::QuestionList,
            >(generator))],
            errors: &["400"],
            ..create_operation(
                "get",
                "/questions",
                "listQuestions",
                "List the approvals and the questions of plugins that wait, of all sessions",
            )
        },
        OpenApiOperation {
            body: Some(generate_type_schema::<AnswerBody>(generator)),
            answers: vec![("204", "The answer was taken", None)],
            errors: &["400", "404"],
            ..create_operation(
                "post",
                "/questions/{id}",
                "answerQuestion",
                "Answer a question",
            )
        },
    ]
}

fn create_operation(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> OpenApiOperation {
    OpenApiOperation {
        method,
        path,
        id,
        summary,
        query: None,
        body: None,
        body_type: "application/json",
        answers: Vec::new(),
        errors: &[],
    }
}

fn build_ok_response(content: Value) -> (&'static str, &'static str, Option<Value>) {
    ("200", "OK", Some(content))
}

fn generate_type_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

fn json_content_schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    json!({"application/json": {"schema": generate_type_schema::<T>(generator)}})
}

fn event_stream_schema() -> Value {
    let text = json!({"type": "string"});
    let event = json!({"type": "object", "properties": {"id": text, "event": text, "data": text}});
    json!({"text/event-stream": {"schema": event}})
}

fn operation_to_json(operation: &OpenApiOperation, generator: &mut SchemaGenerator) -> Value {
    let mut parameters = Vec::new();
    if operation.path.contains("{id}") {
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "schema": {"type": "string", "minLength": 1}
        }));
    }
    if let Some(query) = &operation.query {
        parameters.extend(query_parameters_from_schema(query, generator));
    }
    let mut responses = Map::new();
    for (status, description, content) in &operation.answers {
        let mut answer = json!({"description": description});
        if let (Some(content), Value::Object(fields)) = (content, &mut answer) {
            fields.insert("content".to_owned(), content.clone());
        }
        responses.insert((*status).to_owned(), answer);
    }
    let failed = json_content_schema::<ErrorBody>(generator);
    for status in operation.errors.iter().chain(&["401", "403", "500"]) {
        let answer = json!({"description": "The request failed", "content": failed});
        responses.insert((*status).to_owned(), answer);
    }
    let mut described = json!({
        "operationId": operation.id,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": responses,
    });
    if let (Some(body), Value::Object(fields)) = (&operation.body, &mut described) {
        let content = json!({operation.body_type: {"schema": body}});
        let body = json!({"required": true, "content": content});
        fields.insert("requestBody".to_owned(), body);
    }
    described
}

/// Returns one OpenAPI query parameter for each field of a type.
fn query_parameters_from_schema(query: &Value, generator: &SchemaGenerator) -> Vec<Value> {
    let name = query
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|path| path.rsplit('/').next())
        .unwrap_or_default();
    let fields = generator
        .definitions()
        .get(name)
        .and_then(|schema| schema.get("properties"))
        .and_then(Value::as_object);
    let parameter = |(name, schema): (&String, &Value)| {
        let mut schema = schema.clone();
        let description = schema.get("description").cloned().unwrap_or_default();
        // An optional parameter is omitted from the query and never sent as null, so remove the
        // type `null` from its schema.
        if let Some(Value::Array(types)) = schema.get_mut("type") {
            types.retain(|own| own != "null");
        }
        if let Value::Object(fields) = &mut schema {
            fields.remove("default");
        }
        json!({"name": name, "in": "query", "description": description, "schema": schema})
    };
    fields.into_iter().flatten().map(parameter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_of_the_description_leads_to_a_schema() {
        fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
            match value {
                Value::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Value::as_str));
                    fields.values().for_each(|value| references(value, found));
                }
                Value::Array(values) => values.iter().for_each(|value| references(value, found)),
                _ => {}
            }
        }
        let described: Value =
            serde_json::from_str(PACKED_OPENAPI_FOLDER.file_text("openapi.json")).unwrap();
        let mut found = Vec::new();
        references(&described, &mut found);
        assert!(found.len() > 10);
        for reference in found {
            let pointer = reference.trim_start_matches('#');
            assert!(described.pointer(pointer).is_some(), "{reference}");
        }
    }
}
