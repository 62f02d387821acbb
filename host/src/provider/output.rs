//! Defines the format that an answer must have, and decides which requests ask the server to
//! enforce it.
//!
//! Each wire writes the format into a field of its own. The module must not know how an answer is
//! checked (`agent` does).

use std::sync::Arc;

use serde_json::Value;

use super::Request;

/// Format that an answer must have: JSON that matches a schema.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonAnswerFormat {
    /// JSON Schema of the answer.
    pub schema: Arc<Value>,
    /// Whether the previous answer did not match the schema, so that the model now writes only the
    /// answer and calls no tool.
    pub is_repeating: bool,
}

/// Name of the schema in a request, for wire formats that require a name.
pub(super) const OUTPUT_SCHEMA_NAME: &str = "answer";

impl Request {
    /// Whether this request asks the model to repeat its answer in the output format, without
    /// calling a tool.
    pub(super) fn is_answer_reformat_request(&self) -> bool {
        let output = self.output.as_ref();
        output.is_some_and(|output| output.is_repeating)
    }

    /// Returns the output format if the request allows no tool call; `None` otherwise. Used by
    /// wires whose servers mostly refuse an output format together with tools, or never call a tool
    /// if both are present.
    pub(super) fn output_format_unless_tools(&self) -> Option<&JsonAnswerFormat> {
        let is_free = self.tools.is_empty() || self.is_answer_reformat_request();
        self.output.as_ref().filter(|_| is_free)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::message::{Message, Role};
    use crate::provider::client::WireFormat;
    use crate::provider::{RequestImagesByBlobId, anthropic, gemini, openai, responses, sample};

    fn body_of(
        wire: &impl WireFormat,
        has_tool: bool,
        is_repeating: bool,
        schema: &Value,
    ) -> Value {
        let request = Request {
            tools: Vec::from_iter(has_tool.then(sample::example_tool_spec)),
            output: Some(JsonAnswerFormat {
                schema: Arc::new(schema.clone()),
                is_repeating,
            }),
            ..sample::example_request(vec![Message::text(Role::User, "x")])
        };
        wire.body(&request, &RequestImagesByBlobId::default())
    }

    #[test]
    fn each_wire_demands_the_format_where_its_servers_take_it() {
        let closed = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"],
            "additionalProperties": false});
        let open = json!({"type": "object"});
        // (tool, repeating, chat, Responses, Messages, Gemini, whether tools are sent by chat and Gemini)
        for (has_tool, is_repeating, is_free, has_tools) in [
            (false, false, true, false),
            (true, false, false, true),
            (true, true, true, false),
        ] {
            for (schema, is_strict) in [(&closed, true), (&open, false)] {
                let chat = body_of(
                    &openai::ChatCompletionsWireFormat,
                    has_tool,
                    is_repeating,
                    schema,
                );
                let format = chat.pointer("/response_format/json_schema");
                let expected = json!({"name": "answer", "schema": schema, "strict": is_strict});
                assert_eq!(format, is_free.then_some(&expected));
                assert_eq!(chat.get("tools").is_some(), has_tools);

                let gemini = body_of(&gemini::GeminiWireFormat, has_tool, is_repeating, schema);
                let format = gemini.pointer("/generationConfig/responseJsonSchema");
                assert_eq!(format, is_free.then_some(schema));
                assert_eq!(gemini.get("tools").is_some(), has_tools);

                let responses = body_of(
                    &responses::ResponsesWireFormat,
                    has_tool,
                    is_repeating,
                    schema,
                );
                let expected = json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": is_strict});
                assert_eq!(responses.pointer("/text/format"), Some(&expected));
                assert_eq!(responses.get("tools").is_some(), has_tool);
                assert_eq!(responses.get("tool_choice").is_some(), is_repeating);

                let messages = body_of(
                    &anthropic::AnthropicWireFormat,
                    has_tool,
                    is_repeating,
                    schema,
                );
                let format = messages.pointer("/output_config/format/schema");
                assert_eq!(format, is_strict.then_some(schema));
                assert_eq!(messages.get("tools").is_some(), has_tool);
                assert_eq!(messages.get("tool_choice").is_some(), is_repeating);
            }
        }
    }
}
