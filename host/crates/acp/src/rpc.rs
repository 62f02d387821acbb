//! JSON-RPC 2.0 messages, one per line.
//!
//! Parses and writes messages. It must not know any method.

use serde::Serialize;
use serde_json::{Value, json};

use crate::wire::{RequestId, WireError};

/// A message from the client.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    /// Request of the client, which gets exactly one response.
    Request {
        id: RequestId,
        method: String,
        params: Value,
    },
    /// Notification of the client, which gets no response.
    Notification { method: String, params: Value },
    /// Response of the client to a request that Rind sent.
    Response {
        id: RequestId,
        outcome: Result<Value, Value>,
    },
}

/// Error response to a line that is not a valid message: the error, and the id that the line
/// contains, or null if it contains none.
#[derive(Debug)]
pub(crate) struct InvalidMessageErrorResponse {
    pub(crate) id: RequestId,
    /// Error to send to the client. Boxed to keep the `Result` small, because most lines are valid.
    pub(crate) error: Box<WireError>,
}

impl InvalidMessageErrorResponse {
    fn with_reason(id: RequestId, why: &str) -> Self {
        let error = WireError::new(
            -32600,
            format!("the line is not a message of JSON-RPC 2.0: {why}"),
        );
        let error = Box::new(error);
        Self { id, error }
    }
}

/// Parses a line.
///
/// # Errors
/// The line is not JSON or not a valid message; the value holds the error response for the client.
pub(crate) fn parse_message(line: &[u8]) -> Result<ClientMessage, InvalidMessageErrorResponse> {
    let value: Value =
        serde_json::from_slice(line).map_err(|error| InvalidMessageErrorResponse {
            id: RequestId::Null,
            error: Box::new(WireError::new(
                -32700,
                format!("the line is not JSON: {error}"),
            )),
        })?;
    let Value::Object(mut fields) = value else {
        let why = match value {
            Value::Array(_) => "batches are not supported; send one message per line",
            _ => "it is not an object",
        };
        return Err(InvalidMessageErrorResponse::with_reason(
            RequestId::Null,
            why,
        ));
    };
    let id = match fields.remove("id") {
        None => None,
        Some(id) => match serde_json::from_value::<RequestId>(id) {
            Ok(id) => Some(id),
            Err(_) => {
                let why = "`id` is neither an integer nor a text";
                return Err(InvalidMessageErrorResponse::with_reason(
                    RequestId::Null,
                    why,
                ));
            }
        },
    };
    let invalid_line =
        |why| InvalidMessageErrorResponse::with_reason(id.clone().unwrap_or(RequestId::Null), why);
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(invalid_line("`jsonrpc` is not \"2.0\""));
    }
    let params = fields.remove("params").unwrap_or_else(|| json!({}));
    match (fields.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => {
            Ok(ClientMessage::Request { id, method, params })
        }
        (Some(Value::String(method)), None) => Ok(ClientMessage::Notification { method, params }),
        (Some(_), id) => Err(InvalidMessageErrorResponse::with_reason(
            id.unwrap_or(RequestId::Null),
            "`method` is not a text",
        )),
        (None, id) => {
            let outcome = match (fields.remove("result"), fields.remove("error")) {
                (Some(result), None) => Some(Ok(result)),
                (None, Some(error)) => Some(Err(error)),
                _ => None,
            };
            match (outcome, id) {
                (Some(outcome), Some(id)) => Ok(ClientMessage::Response { id, outcome }),
                (_, id) => Err(InvalidMessageErrorResponse::with_reason(
                    id.unwrap_or(RequestId::Null),
                    "it has neither `method` nor `result` or `error` with an `id`",
                )),
            }
        }
    }
}

/// Serializes a JSON-RPC request as one line.
pub(crate) fn json_request_line(id: i64, method: &str, params: &impl Serialize) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": to_json_or_null(params)})
        .to_string()
}

/// Serializes a JSON-RPC notification as one line.
pub(crate) fn json_notification_line(method: &str, params: &impl Serialize) -> String {
    json!({"jsonrpc": "2.0", "method": method, "params": to_json_or_null(params)}).to_string()
}

/// Serializes the response to a JSON-RPC request as one line: its result or its error.
pub(crate) fn json_response_line(id: &RequestId, outcome: &Result<Value, WireError>) -> String {
    let line = match outcome {
        Ok(result) => json!({"jsonrpc": "2.0", "id": to_json_or_null(id), "result": result}),
        Err(error) => {
            json!({"jsonrpc": "2.0", "id": to_json_or_null(id), "error": to_json_or_null(error)})
        }
    };
    line.to_string()
}

/// Converts a protocol type to JSON. Returns null for a path that is not UTF-8; such paths are
/// never sent.
pub(crate) fn to_json_or_null(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|error| {
        tracing::warn!(%error, "a value cannot be written as JSON");
        Value::Null
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_a_notification_or_a_response() {
        let parsed = |text: &str| parse_message(text.as_bytes()).unwrap();
        let request = parsed(r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":1}}"#);
        assert!(matches!(request, ClientMessage::Request { method, .. } if method == "m"));
        let told = parsed(r#"{"jsonrpc":"2.0","method":"m"}"#);
        assert!(matches!(told, ClientMessage::Notification { params, .. } if params == json!({})));
        for text in [
            r#"{"jsonrpc":"2.0","id":"x","result":null}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}"#,
        ] {
            assert!(
                matches!(parsed(text), ClientMessage::Response { .. }),
                "{text}"
            );
        }
    }

    #[test]
    fn a_wrong_line_has_an_error_with_its_id_where_it_has_one() {
        let table = [
            ("{", -32700, RequestId::Null),
            ("\u{0}", -32700, RequestId::Null),
            ("[]", -32600, RequestId::Null),
            ("7", -32600, RequestId::Null),
            (r#"{"id":3,"method":"m"}"#, -32600, RequestId::Number(3)),
            (
                r#"{"jsonrpc":"2.0","id":[],"method":"m"}"#,
                -32600,
                RequestId::Null,
            ),
            (
                r#"{"jsonrpc":"2.0","id":3,"method":1}"#,
                -32600,
                RequestId::Number(3),
            ),
            (r#"{"jsonrpc":"2.0","id":3}"#, -32600, RequestId::Number(3)),
        ];
        for (text, code, id) in table {
            let bad = parse_message(text.as_bytes()).unwrap_err();
            let error = serde_json::to_value(&bad.error).unwrap();
            assert_eq!((&error["code"], bad.id), (&json!(code), id), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(parse_message(deep.as_bytes()).is_err());
        assert!(parse_message(&[b'"', 0xff, b'"']).is_err());
    }
}
