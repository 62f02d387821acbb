//! Converts questions of plugins into forms with one field, for the client's user.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    EnumSchema, PrimitiveSchemaDefinition, StringSchema,
};
use serde_json::Value;

use rind_lib::point::handle::{PersonAnswer, PersonQuestion, QuestionKind};
use rind_lib::text::one_line;

/// Name of the form's only field.
const FIELD: &str = "answer";

/// Maximum length of a typed answer, in characters.
const MAX_TYPED: u32 = 1_000;

/// Converts a question of a plugin into a form.
pub(super) fn to_elicitation_form(question: &PersonQuestion) -> ElicitRequest {
    let field = build_field_schema(&question.kind);
    let properties = [(FIELD.to_owned(), field)].into();
    let schema = ElicitationSchema::new(properties).with_required(vec![FIELD.to_owned()]);
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!(
            "Plugin `{}` asks: {}",
            one_line(&question.plugin),
            question.text
        ),
        requested_schema: schema,
    })
}

fn build_field_schema(kind: &QuestionKind) -> PrimitiveSchemaDefinition {
    match kind {
        QuestionKind::Confirm { default } => {
            let field = rmcp::model::BooleanSchema::new().title("Yes");
            PrimitiveSchemaDefinition::Boolean(field.with_default(*default))
        }
        QuestionKind::Choose { options, default } => {
            let mut values: Vec<String> = Vec::new();
            for option in options {
                if !values.contains(option) {
                    values.push(option.clone());
                }
            }
            let default = usize::try_from(*default).ok();
            let default = default.and_then(|at| options.get(at)).cloned();
            let plain = || EnumSchema::builder(values.clone());
            let field = default.and_then(|own| plain().with_default(own).ok());
            PrimitiveSchemaDefinition::Enum(field.unwrap_or_else(plain).build())
        }
        QuestionKind::Text { default } => {
            let field = StringSchema::new().max_length(MAX_TYPED);
            PrimitiveSchemaDefinition::String(match default.is_empty() {
                true => field,
                false => field.with_default(default.clone()),
            })
        }
    }
}

/// Parses the user's answer to a form. Returns `None` if the user gave no answer; the default of
/// the question then applies.
pub(super) fn parse_form_answer(
    kind: &QuestionKind,
    result: &ElicitResult,
) -> Option<PersonAnswer> {
    let given = result.content.as_ref().and_then(|own| own.get(FIELD));
    match (&result.action, kind, given) {
        // Treat a declined yes-or-no question as "no".
        (ElicitationAction::Decline, QuestionKind::Confirm { .. }, _) => {
            Some(PersonAnswer::Yes(false))
        }
        (ElicitationAction::Accept, QuestionKind::Confirm { .. }, Some(Value::Bool(yes))) => {
            Some(PersonAnswer::Yes(*yes))
        }
        (
            ElicitationAction::Accept,
            QuestionKind::Choose { options, .. },
            Some(Value::String(text)),
        ) => {
            let at = options.iter().position(|own| own == text)?;
            u32::try_from(at).ok().map(PersonAnswer::Choice)
        }
        // Treat an empty line as the default answer, as in the terminal.
        (ElicitationAction::Accept, QuestionKind::Text { .. }, Some(Value::String(text))) => {
            let text = text.trim();
            (!text.is_empty()).then(|| PersonAnswer::Text(text.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(kind: QuestionKind) -> Value {
        let asked = to_elicitation_form(&PersonQuestion {
            plugin: "asker".to_owned(),
            text: "Which color?".to_owned(),
            kind,
            is_muted: false,
        });
        serde_json::to_value(asked).unwrap()["params"].clone()
    }

    fn colors() -> QuestionKind {
        QuestionKind::Choose {
            options: ["red", "green", "red"].map(str::to_owned).to_vec(),
            default: 1,
        }
    }

    #[test]
    fn a_form_names_the_plugin_and_has_the_default() {
        let asked = form(colors());
        assert_eq!(asked["message"], "Plugin `asker` asks: Which color?");
        let field = &asked["requestedSchema"]["properties"][FIELD];
        assert_eq!(field["enum"], json!(["red", "green"]));
        assert_eq!(field["default"], "green");
        assert_eq!(asked["requestedSchema"]["required"], json!([FIELD]));
        let asked = form(QuestionKind::Confirm { default: true });
        let field = &asked["requestedSchema"]["properties"][FIELD];
        assert_eq!(field["type"], "boolean");
        assert_eq!(field["default"], true);
        let asked = form(QuestionKind::Text {
            default: String::new(),
        });
        let field = &asked["requestedSchema"]["properties"][FIELD];
        assert_eq!(field["type"], "string");
        assert!(field["default"].is_null(), "{field}");
    }

    #[test]
    fn an_answer_that_does_not_fit_is_none() {
        let read = |kind: &QuestionKind, action: &str, content: Value| {
            let result = json!({"action": action, "content": content});
            parse_form_answer(kind, &serde_json::from_value(result).unwrap())
        };
        let (confirm, text) = (
            QuestionKind::Confirm { default: true },
            QuestionKind::Text {
                default: "nobody".to_owned(),
            },
        );
        let no = Some(PersonAnswer::Yes(false));
        assert_eq!(read(&confirm, "accept", json!({FIELD: false})), no);
        assert_eq!(read(&confirm, "decline", json!({})), no);
        assert_eq!(read(&confirm, "cancel", json!({FIELD: false})), None);
        assert_eq!(read(&confirm, "accept", json!({FIELD: "yes"})), None);
        assert_eq!(read(&confirm, "accept", json!({"allow": true})), None);
        let green = Some(PersonAnswer::Choice(1));
        assert_eq!(read(&colors(), "accept", json!({FIELD: "green"})), green);
        for wrong in [json!("blue"), json!(1), json!(["red"]), Value::Null] {
            assert_eq!(read(&colors(), "accept", json!({FIELD: wrong})), None);
        }
        assert_eq!(read(&colors(), "decline", json!({FIELD: "green"})), None);
        let ada = Some(PersonAnswer::Text("Ada".to_owned()));
        assert_eq!(read(&text, "accept", json!({FIELD: " Ada "})), ada);
        assert_eq!(read(&text, "accept", json!({FIELD: " "})), None);
        assert_eq!(read(&text, "accept", json!(null)), None);
    }
}
