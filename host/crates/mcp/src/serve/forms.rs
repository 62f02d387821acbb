//! Converts questions of plugins into forms with one field, for the client's user.

use rmcp::model::{
    ElicitRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema,
    EnumSchema, PrimitiveSchemaDefinition, StringSchema,
};
use serde_json::Value;

use rind_lib::point::handle::{PluginUserQuestion, PluginUserQuestionKind, UserAnswerToPlugin};
use rind_lib::text::escape_to_one_line;

/// Name of the only field of a form, which contains the user's answer.
const ANSWER_FIELD_NAME: &str = "answer";

/// Maximum length of an answer that the user types in a form, in characters.
const MAX_TYPED_ANSWER_CHARS: u32 = 1_000;

/// Converts a question of a plugin into a form for the client's user.
pub(super) fn to_elicitation_form(question: &PluginUserQuestion) -> ElicitRequest {
    let field = build_field_schema(&question.kind);
    let properties = [(ANSWER_FIELD_NAME.to_owned(), field)].into();
    let schema =
        ElicitationSchema::new(properties).with_required(vec![ANSWER_FIELD_NAME.to_owned()]);
    ElicitRequest::new(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: format!(
            "Plugin `{}` asks: {}",
            escape_to_one_line(&question.plugin),
            question.text
        ),
        requested_schema: schema,
    })
}

fn build_field_schema(kind: &PluginUserQuestionKind) -> PrimitiveSchemaDefinition {
    match kind {
        PluginUserQuestionKind::Confirm { default } => {
            let field = rmcp::model::BooleanSchema::new().title("Yes");
            PrimitiveSchemaDefinition::Boolean(field.with_default(*default))
        }
        PluginUserQuestionKind::Choose { options, default } => {
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
        PluginUserQuestionKind::Text { default } => {
            let field = StringSchema::new().max_length(MAX_TYPED_ANSWER_CHARS);
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
    kind: &PluginUserQuestionKind,
    result: &ElicitResult,
) -> Option<UserAnswerToPlugin> {
    let given = result
        .content
        .as_ref()
        .and_then(|own| own.get(ANSWER_FIELD_NAME));
    match (&result.action, kind, given) {
        // Treat a declined yes-or-no question as "no".
        (ElicitationAction::Decline, PluginUserQuestionKind::Confirm { .. }, _) => {
            Some(UserAnswerToPlugin::Yes(false))
        }
        (
            ElicitationAction::Accept,
            PluginUserQuestionKind::Confirm { .. },
            Some(Value::Bool(yes)),
        ) => Some(UserAnswerToPlugin::Yes(*yes)),
        (
            ElicitationAction::Accept,
            PluginUserQuestionKind::Choose { options, .. },
            Some(Value::String(text)),
        ) => {
            let at = options.iter().position(|own| own == text)?;
            u32::try_from(at).ok().map(UserAnswerToPlugin::Choice)
        }
        // Treat an empty line as the default answer, as in the terminal.
        (
            ElicitationAction::Accept,
            PluginUserQuestionKind::Text { .. },
            Some(Value::String(text)),
        ) => {
            let text = text.trim();
            (!text.is_empty()).then(|| UserAnswerToPlugin::Text(text.to_owned()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(kind: PluginUserQuestionKind) -> Value {
        let asked = to_elicitation_form(&PluginUserQuestion {
            plugin: "asker".to_owned(),
            text: "Which color?".to_owned(),
            kind,
            is_muted: false,
        });
        serde_json::to_value(asked).unwrap()["params"].clone()
    }

    fn colors() -> PluginUserQuestionKind {
        PluginUserQuestionKind::Choose {
            options: ["red", "green", "red"].map(str::to_owned).to_vec(),
            default: 1,
        }
    }

    #[test]
    fn a_form_names_the_plugin_and_has_the_default() {
        let asked = form(colors());
        assert_eq!(asked["message"], "Plugin `asker` asks: Which color?");
        let field = &asked["requestedSchema"]["properties"][ANSWER_FIELD_NAME];
        assert_eq!(field["enum"], json!(["red", "green"]));
        assert_eq!(field["default"], "green");
        assert_eq!(
            asked["requestedSchema"]["required"],
            json!([ANSWER_FIELD_NAME])
        );
        let asked = form(PluginUserQuestionKind::Confirm { default: true });
        let field = &asked["requestedSchema"]["properties"][ANSWER_FIELD_NAME];
        assert_eq!(field["type"], "boolean");
        assert_eq!(field["default"], true);
        let asked = form(PluginUserQuestionKind::Text {
            default: String::new(),
        });
        let field = &asked["requestedSchema"]["properties"][ANSWER_FIELD_NAME];
        assert_eq!(field["type"], "string");
        assert!(field["default"].is_null(), "{field}");
    }

    #[test]
    fn an_answer_that_does_not_fit_is_none() {
        let read = |kind: &PluginUserQuestionKind, action: &str, content: Value| {
            let result = json!({"action": action, "content": content});
            parse_form_answer(kind, &serde_json::from_value(result).unwrap())
        };
        let (confirm, text) = (
            PluginUserQuestionKind::Confirm { default: true },
            PluginUserQuestionKind::Text {
                default: "nobody".to_owned(),
            },
        );
        let no = Some(UserAnswerToPlugin::Yes(false));
        assert_eq!(
            read(&confirm, "accept", json!({ANSWER_FIELD_NAME: false})),
            no
        );
        assert_eq!(read(&confirm, "decline", json!({})), no);
        assert_eq!(
            read(&confirm, "cancel", json!({ANSWER_FIELD_NAME: false})),
            None
        );
        assert_eq!(
            read(&confirm, "accept", json!({ANSWER_FIELD_NAME: "yes"})),
            None
        );
        assert_eq!(read(&confirm, "accept", json!({"allow": true})), None);
        let green = Some(UserAnswerToPlugin::Choice(1));
        assert_eq!(
            read(&colors(), "accept", json!({ANSWER_FIELD_NAME: "green"})),
            green
        );
        for wrong in [json!("blue"), json!(1), json!(["red"]), Value::Null] {
            assert_eq!(
                read(&colors(), "accept", json!({ANSWER_FIELD_NAME: wrong})),
                None
            );
        }
        assert_eq!(
            read(&colors(), "decline", json!({ANSWER_FIELD_NAME: "green"})),
            None
        );
        let ada = Some(UserAnswerToPlugin::Text("Ada".to_owned()));
        assert_eq!(
            read(&text, "accept", json!({ANSWER_FIELD_NAME: " Ada "})),
            ada
        );
        assert_eq!(read(&text, "accept", json!({ANSWER_FIELD_NAME: " "})), None);
        assert_eq!(read(&text, "accept", json!(null)), None);
    }
}
