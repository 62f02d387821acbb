//! Checks that the answer of a turn is JSON that matches a schema.
//!
//! Owns the check of an answer and the message that asks for the answer again. The module must not
//! know how JSON is requested from a provider, which is the task of the wire formats. Start from
//! [`AnswerSchema::compile`].

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::json::{DEFAULT_MAX_JSON_BYTES, parse_json, strip_code_fence};
use crate::point::payload::ToolArgumentsChecker;
use crate::tool::schema;

/// Maximum number of times that a turn asks the model to repeat its answer. If the answer did not
/// match three times, the fourth one usually fails as well, at full cost.
const MAX_SCHEMA_MISMATCH_RETRIES: u32 = 3;

/// JSON Schema that the final answer of a turn must match, compiled for validation.
#[derive(Clone)]
pub struct AnswerSchema {
    schema: Arc<Value>,
    check: Arc<ToolArgumentsChecker>,
}

impl AnswerSchema {
    /// Compiles a schema. The limits of size and depth are those of a tool's schema.
    ///
    /// # Errors
    /// Reason why the schema is refused.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        if !schema.is_object() {
            return Err(
                "a JSON Schema must be an object, such as {\"type\": \"object\"}".to_owned(),
            );
        }
        Ok(Self {
            check: schema::compile_json_schema_check(schema)?,
            schema: Arc::new(schema.clone()),
        })
    }

    /// Returns the schema as JSON.
    pub(super) fn schema(&self) -> &Arc<Value> {
        &self.schema
    }

    /// Returns the JSON in an answer, without the code fence that many models add. Returns the
    /// reason as an error if the answer does not match the schema.
    fn check_answer<'a>(&self, answer: &'a str) -> Result<&'a str, String> {
        let json = strip_code_fence(answer.trim()).trim();
        let value =
            parse_json(json, DEFAULT_MAX_JSON_BYTES).map_err(|error| format!("it {error}"))?;
        (self.check)(&value)?;
        Ok(json)
    }
}

impl fmt::Debug for AnswerSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AnswerSchema").field(&self.schema).finish()
    }
}

/// Checks the answers of one turn, and counts how often the model was asked to repeat its answer.
#[derive(Debug, Default)]
pub(super) struct TurnAnswerSchemaChecker {
    schema: Option<AnswerSchema>,
    n_repeats: u32,
}

/// Consequence of an answer that does not match the schema of its turn.
pub(super) enum AnswerMismatchConsequence {
    /// The model is asked for the answer again, with this message about the mismatch.
    AskAgain(String),
    /// The model is not asked again, because the maximum is reached. Contains the reason of the
    /// last mismatch.
    GiveUp(String),
}

impl TurnAnswerSchemaChecker {
    pub(super) fn new(schema: Option<AnswerSchema>) -> Self {
        Self {
            schema,
            n_repeats: 0,
        }
    }

    pub(super) fn schema(&self) -> Option<&AnswerSchema> {
        self.schema.as_ref()
    }

    /// Whether the last answer did not match the schema, so that the model must write it again and
    /// may not call tools.
    pub(super) fn should_model_repeat_answer(&self) -> bool {
        self.n_repeats > 0
    }

    /// Checks the draft of an answer and returns the JSON in it. `has_step` is whether the turn may
    /// take another step.
    pub(super) fn check_draft(
        &mut self,
        draft: String,
        has_step: bool,
    ) -> Result<String, AnswerMismatchConsequence> {
        let Some(schema) = &self.schema else {
            return Ok(draft);
        };
        let why = match schema.check_answer(&draft) {
            Ok(json) => return Ok(json.to_owned()),
            Err(why) => why,
        };
        if !has_step || self.n_repeats >= MAX_SCHEMA_MISMATCH_RETRIES {
            return Err(AnswerMismatchConsequence::GiveUp(why));
        }
        self.n_repeats += 1;
        Err(AnswerMismatchConsequence::AskAgain(format!(
            "[your answer does not match the JSON Schema that it must match: {why}. Write the whole answer again, as one JSON \
             value with nothing before or after it]"
        )))
    }

    /// Checks the final answer after hooks have changed it.
    ///
    /// # Errors
    /// The reason why the answer no longer matches the schema.
    pub(super) fn check_final_answer_against_schema(&self, text: &str) -> Result<(), String> {
        let schema = self.schema.as_ref();
        schema.map_or(Ok(()), |schema| schema.check_answer(text).map(drop))
    }

    /// Resets the count after a further input of the user, which gets an answer of its own.
    pub(super) fn reset_repeated_answer_count(&mut self) {
        self.n_repeats = 0;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check() -> TurnAnswerSchemaChecker {
        let schema = json!({"type": "object", "required": ["n"], "additionalProperties": false,
            "properties": {"n": {"type": "integer"}}});
        TurnAnswerSchemaChecker::new(Some(AnswerSchema::compile(&schema).unwrap()))
    }

    #[test]
    fn an_answer_goes_out_as_the_json_that_it_holds() {
        for (answer, expected) in [
            ("{\"n\": 1}", "{\"n\": 1}"),
            (" \n{\"n\":1}\n", "{\"n\":1}"),
            ("```json\n{\"n\": 1}\n```", "{\"n\": 1}"),
            ("```\n{\"n\": 1}```", "{\"n\": 1}"),
        ] {
            let got = check().check_draft(answer.to_owned(), true);
            assert_eq!(got.ok().as_deref(), Some(expected), "{answer}");
        }
    }

    #[test]
    fn an_answer_that_does_not_match_is_asked_for_again_and_then_given_up() {
        for answer in [
            "",
            "one",
            "{\"n\": \"1\"}",
            "{}",
            "{\"n\": 1, \"m\": 2}",
            "{\"n\": 1} {\"n\": 2}",
            "Here: {\"n\": 1}",
            "```json\n{\"n\": 1}\n```\nDone.",
            "```",
            "``````",
            "{\"n\": 1, \"n\": 2}",
        ] {
            let mut check = check();
            for _ in 0..MAX_SCHEMA_MISMATCH_RETRIES {
                let got = check.check_draft(answer.to_owned(), true);
                assert!(
                    matches!(got, Err(AnswerMismatchConsequence::AskAgain(_))),
                    "{answer}"
                );
            }
            let got = check.check_draft(answer.to_owned(), true);
            assert!(
                matches!(got, Err(AnswerMismatchConsequence::GiveUp(_))),
                "{answer}"
            );
        }
        let got = check().check_draft("no".to_owned(), false);
        assert!(matches!(got, Err(AnswerMismatchConsequence::GiveUp(_))));
    }

    #[test]
    fn without_a_schema_every_answer_goes_out() {
        let got = TurnAnswerSchemaChecker::default().check_draft("one".to_owned(), true);
        assert_eq!(got.ok().as_deref(), Some("one"));
        assert!(AnswerSchema::compile(&json!(true)).is_err());
        assert!(AnswerSchema::compile(&json!({"type": "no type"})).is_err());
    }
}
