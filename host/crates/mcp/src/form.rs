//! Converts the form of a server, a flat JSON Schema, into questions for the user, and the user's
//! answers into values.
//!
//! All texts of a form come from the server and are untrusted. Start from
//! [`parse_elicitation_form`].

use std::fmt;

use serde_json::{Value, json};

use super::secret_words::{label_asks_for_secret, sentence_asks_for_secret};
use rind_lib::point::handle::{PluginUserQuestionKind, UserAnswerToPlugin};
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::schema;

/// Maximum number of fields for which the user is asked one by one. Together with the question
/// whether to answer, this is the number of questions that a plugin may ask in a turn.
pub(crate) const MAX_INDIVIDUALLY_ASKED_FIELDS: usize = 4;

/// Maximum number of fields in a form that an MCP server shows to the user.
const MAX_FORM_FIELDS: usize = 16;

/// Maximum number of options of a field that are shown as a numbered list.
const MAX_NUMBERED_FIELD_OPTIONS: usize = 9;

/// Maximum length of the label of a field or option, in bytes.
const MAX_FIELD_LABEL_BYTES: usize = 60;

/// Maximum length of the description of a form field, in bytes.
const MAX_FIELD_DESCRIPTION_BYTES: usize = 200;

/// Reason why the form of an MCP server is not shown to the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ElicitationFormRefusalReason {
    /// The form asks for a secret, such as a password; contains the part of the form that asks for
    /// it.
    Secret(String),
    /// The protocol or the host does not support the form; contains the reason.
    Shape(String),
}

impl fmt::Display for ElicitationFormRefusalReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(place) => write!(
                f,
                "{place} looks like a question for a password, a token or a key, which a server must not ask for"
            ),
            Self::Shape(why) => f.write_str(why),
        }
    }
}

/// Field of a form, for which the user enters one value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ElicitationFormField {
    /// Key under which the answer to the server contains the value.
    pub(crate) name: String,
    title: String,
    description: String,
    pub(crate) is_required: bool,
    input: FormFieldInputKind,
    pub(crate) schema: Value,
}

/// Kind of value that the user enters in a form field.
#[derive(Clone, Debug, PartialEq)]
enum FormFieldInputKind {
    Boolean,
    Number {
        is_whole: bool,
    },
    Text,
    /// Choice of one of several options: pairs of value and label.
    Options(Vec<(String, String)>),
}

/// Reads the fields of a form, and refuses forms that ask for a secret or are not supported.
///
/// # Errors
/// The form asks for a secret, or is not supported.
pub(crate) fn parse_elicitation_form(
    message: &str,
    schema: &Value,
) -> Result<Vec<ElicitationFormField>, ElicitationFormRefusalReason> {
    if sentence_asks_for_secret(message) {
        return Err(ElicitationFormRefusalReason::Secret(
            "its message".to_owned(),
        ));
    }
    let properties = schema["properties"].as_object();
    let properties = properties.into_iter().flatten();
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let mut fields = Vec::new();
    for (name, of) in properties {
        fields.push(parse_form_field(
            name,
            of,
            required.contains(&name.as_str()),
        )?);
        if fields.len() > MAX_FORM_FIELDS {
            let why = format!("its form has more than {MAX_FORM_FIELDS} fields");
            return Err(ElicitationFormRefusalReason::Shape(why));
        }
    }
    match fields.is_empty() {
        true => Err(ElicitationFormRefusalReason::Shape(
            "its form has no fields".to_owned(),
        )),
        false => Ok(fields),
    }
}

fn parse_form_field(
    name: &str,
    of: &Value,
    is_required: bool,
) -> Result<ElicitationFormField, ElicitationFormRefusalReason> {
    let shown = escape_and_truncate_line(name, MAX_FIELD_LABEL_BYTES);
    let text = |key: &str| of[key].as_str().unwrap_or_default();
    let secret = [name, text("title"), text("description")]
        .into_iter()
        .any(label_asks_for_secret)
        || of["format"] == "password"
        || of["writeOnly"] == true;
    if secret {
        return Err(ElicitationFormRefusalReason::Secret(format!(
            "its field `{shown}`"
        )));
    }
    let shape =
        |why: &str| ElicitationFormRefusalReason::Shape(format!("its field `{shown}` {why}"));
    let options = parse_choice_options(of);
    let input = match (text("type"), options) {
        ("string", Some(options)) if options.is_empty() => return Err(shape("has no options")),
        ("string", Some(options)) => FormFieldInputKind::Options(options),
        ("string", None) => FormFieldInputKind::Text,
        ("boolean", _) => FormFieldInputKind::Boolean,
        ("integer", _) => FormFieldInputKind::Number { is_whole: true },
        ("number", _) => FormFieldInputKind::Number { is_whole: false },
        _ => return Err(shape("is neither text, number, yes or no, nor a choice")),
    };
    if let Err(why) = schema::compile_json_schema_check(&wrap_schema_as_value_property(of)) {
        return Err(shape(&format!("has a schema that is refused: {why}")));
    }
    Ok(ElicitationFormField {
        name: name.to_owned(),
        title: text("title").to_owned(),
        description: text("description").to_owned(),
        is_required,
        input,
        schema: of.clone(),
    })
}

/// Wraps a field's schema as the property `value` of an object schema, because the validator
/// expects an object.
pub(crate) fn wrap_schema_as_value_property(of: &Value) -> Value {
    json!({"type": "object", "properties": {"value": of}})
}

/// Returns the values and labels of a choice, from either of the protocol's notations (`enum`, or
/// `oneOf` and `anyOf`); `None` if the field is no choice.
fn parse_choice_options(of: &Value) -> Option<Vec<(String, String)>> {
    if let Some(values) = of["enum"].as_array() {
        let names = of["enumNames"].as_array();
        let label = |at: usize| names.and_then(|names| names.get(at)?.as_str());
        let values = values.iter().enumerate().filter_map(|(at, value)| {
            let value = value.as_str()?;
            Some((value.to_owned(), label(at).unwrap_or(value).to_owned()))
        });
        return Some(values.collect());
    }
    let titled = of["oneOf"].as_array().or_else(|| of["anyOf"].as_array())?;
    let values = titled.iter().filter_map(|own| {
        let value = own["const"].as_str()?;
        let title = own["title"].as_str().unwrap_or(value);
        Some((value.to_owned(), title.to_owned()))
    });
    Some(values.collect())
}

impl ElicitationFormField {
    /// Returns the title of the field, or its name if it has no title.
    pub(crate) fn label(&self) -> String {
        let own = match self.title.is_empty() {
            true => &self.name,
            false => &self.title,
        };
        escape_and_truncate_line(own, MAX_FIELD_LABEL_BYTES)
    }

    /// Returns the question that asks the user for a value.
    pub(crate) fn question_text(&self) -> String {
        let mut text = self.label();
        if !self.description.is_empty() {
            text += ": ";
            text += &escape_and_truncate_line(&self.description, MAX_FIELD_DESCRIPTION_BYTES);
        }
        let hint = match &self.input {
            FormFieldInputKind::Number { is_whole: true } => "a whole number",
            FormFieldInputKind::Number { is_whole: false } => "a number",
            FormFieldInputKind::Options(options) if !self.can_list_options_by_number(options) => {
                "one of many options"
            }
            _ => "",
        };
        let bounds = ["minimum", "maximum", "minLength", "maxLength", "format"];
        let bounds = bounds.into_iter().filter_map(|bound| {
            let value = self.schema.get(bound)?;
            Some(format!(
                "{bound} {}",
                escape_and_truncate_line(&value.to_string(), 20)
            ))
        });
        let optional = (!self.is_required && !matches!(self.input, FormFieldInputKind::Boolean))
            .then(|| "may be left out".to_owned());
        let hints = std::iter::once(hint.to_owned())
            .chain(bounds)
            .chain(optional);
        let hints: Vec<String> = hints.filter(|hint| !hint.is_empty()).collect();
        match hints.is_empty() {
            true => text,
            false => format!("{text} ({})", hints.join(", ")),
        }
    }

    /// Whether the options are few enough for a numbered list. If the field is optional, omitting
    /// it counts as an option too.
    fn can_list_options_by_number(&self, options: &[(String, String)]) -> bool {
        let n_options = options.len() + usize::from(!self.is_required);
        (2..=MAX_NUMBERED_FIELD_OPTIONS).contains(&n_options)
    }

    /// Returns the kind of the question with which the user is asked for the field's value.
    pub(crate) fn user_question_kind(&self) -> PluginUserQuestionKind {
        let default = &self.schema["default"];
        match &self.input {
            FormFieldInputKind::Boolean => PluginUserQuestionKind::Confirm {
                default: default == true,
            },
            FormFieldInputKind::Options(options) if self.can_list_options_by_number(options) => {
                let proposed = options
                    .iter()
                    .position(|(value, _)| default == value.as_str());
                let labels = options
                    .iter()
                    .map(|(_, label)| escape_and_truncate_line(label, MAX_FIELD_LABEL_BYTES));
                let none = (!self.is_required).then(|| "leave it out".to_owned());
                let options: Vec<String> = labels.chain(none).collect();
                let default = proposed.unwrap_or(options.len().saturating_sub(1));
                PluginUserQuestionKind::Choose {
                    default: u32::try_from(default).unwrap_or_default(),
                    options,
                }
            }
            _ => PluginUserQuestionKind::Text {
                default: match default {
                    Value::String(text) => {
                        escape_and_truncate_line(text, MAX_FIELD_DESCRIPTION_BYTES)
                    }
                    Value::Number(number) => number.to_string(),
                    _ => String::new(),
                },
            },
        }
    }

    /// Converts the user's answer into the value of the field; `None` omits the field.
    ///
    /// # Errors
    /// Reason why the answer is not valid, as a text for the user.
    pub(crate) fn parse_answer(
        &self,
        answer: &UserAnswerToPlugin,
    ) -> Result<Option<Value>, String> {
        let value = match (&self.input, answer) {
            (FormFieldInputKind::Boolean, UserAnswerToPlugin::Yes(is_yes)) => json!(is_yes),
            (FormFieldInputKind::Options(options), UserAnswerToPlugin::Choice(at)) => {
                let at = usize::try_from(*at).unwrap_or(usize::MAX);
                match options.get(at) {
                    Some((value, _)) => json!(value),
                    None if self.is_required => return Err("choose one of the options".to_owned()),
                    None => return Ok(None),
                }
            }
            (_, UserAnswerToPlugin::Text(text)) if text.is_empty() && !self.is_required => {
                return Ok(None);
            }
            (FormFieldInputKind::Options(options), UserAnswerToPlugin::Text(text)) => {
                let mut options = options.iter();
                let found = options.find(|(value, label)| value == text || label == text);
                json!(found.ok_or("the answer is none of the options")?.0)
            }
            (FormFieldInputKind::Number { is_whole: true }, UserAnswerToPlugin::Text(text)) => {
                let number = text.trim().parse::<i64>();
                json!(number.map_err(|_| "the answer must be a whole number")?)
            }
            (FormFieldInputKind::Number { .. }, UserAnswerToPlugin::Text(text)) => {
                let number = text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
                json!(number.ok_or("the answer must be a number")?)
            }
            (_, UserAnswerToPlugin::Text(text)) if text.is_empty() => {
                return Err("the answer must not be empty".to_owned());
            }
            (_, UserAnswerToPlugin::Text(text)) => json!(text),
            _ => return Err("the answer does not fit this question".to_owned()),
        };
        let check =
            schema::compile_json_schema_check(&wrap_schema_as_value_property(&self.schema))?;
        check(&json!({ "value": value })).map_err(|why| escape_and_truncate_line(&why, 200))?;
        Ok(Some(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(
        properties: Value,
        required: Value,
    ) -> Result<Vec<ElicitationFormField>, ElicitationFormRefusalReason> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        parse_elicitation_form("Some facts, please.", &schema)
    }

    #[test]
    fn what_looks_like_a_secret_is_never_asked_for() {
        for name in [
            "password",
            "PASSWORD",
            "user_password",
            "apiKey",
            "API-KEY",
            "api key",
            "accessToken",
            "token",
            "key",
            "sshKey",
            "pin",
            "oneTimeCode",
            "pass\u{200b}word",
            "pаssword",
            "p@ssw0rd",
            "p.a.s.s.w.o.r.d",
            "pass word",
            "ｐａｓｓｗｏｒｄ",
            "Passwort",
            "creditCardNumber",
            "p4$$w0rd",
            "mot de passe",
            "Contraseña",
            "Пароль",
            "密码",
            "パスワード",
            "비밀번호",
            "seed phrase",
            "the 6 digits of your authenticator",
        ] {
            assert!(label_asks_for_secret(name), "{name}");
            let why = form(json!({name: {"type": "string"}}), json!([])).unwrap_err();
            assert!(why.to_string().contains("must not ask for"), "{why}");
        }
        for name in [
            "name",
            "keyboard",
            "spinner",
            "monkey",
            "colour",
            "passenger",
            "city",
            "7 of 4",
            "parent",
        ] {
            assert!(!label_asks_for_secret(name), "{name}");
        }
        for of in [
            json!({"type": "string", "title": "Your password"}),
            json!({"type": "string", "description": "the token that you got"}),
            json!({"type": "string", "format": "password"}),
        ] {
            assert!(form(json!({"a": of}), json!([])).is_err(), "{of}");
        }
        let schema = json!({"properties": {"a": {"type": "string"}}});
        assert!(parse_elicitation_form("Enter your API key", &schema).is_err());
        for message in [
            "Press a key",
            "Where in Kenya, to Kent?",
            "Go to Kenya",
            "to ken",
        ] {
            assert!(
                parse_elicitation_form(message, &schema).is_ok(),
                "{message}"
            );
        }
    }

    #[test]
    fn only_flat_and_small_forms_are_shown() {
        for (properties, expected) in [
            (json!({}), "no fields"),
            (json!({"a": {"type": "object"}}), "neither text"),
            (
                json!({"a": {"type": "array", "items": {"enum": ["x"]}}}),
                "neither text",
            ),
            (json!({"a": {"type": "string", "enum": []}}), "no options"),
            (
                (0..=MAX_FORM_FIELDS)
                    .map(|n| (n.to_string(), json!({"type": "string"})))
                    .collect::<serde_json::Map<_, _>>()
                    .into(),
                "more than 16 fields",
            ),
            (json!({"a\u{1b}[2J": {"type": "null"}}), "neither text"),
        ] {
            let why = form(properties, json!([])).unwrap_err().to_string();
            assert!(why.contains(expected) && !why.contains('\u{1b}'), "{why}");
        }
    }

    #[test]
    fn answers_become_values_of_the_schema() {
        let fields = form(
            json!({
                "age": {"type": "integer", "minimum": 0, "maximum": 150},
                "colour": {"type": "string", "enum": ["r", "g"], "enumNames": ["red", "green"]},
                "name": {"type": "string", "minLength": 2},
                "news": {"type": "boolean"},
            }),
            json!(["age", "name"]),
        );
        let fields = fields.unwrap();
        let [age, colour, name, news] = &fields[..] else {
            panic!("{fields:?}");
        };
        let text = |text: &str| UserAnswerToPlugin::Text(text.to_owned());
        assert_eq!(
            age.question_text(),
            "age (a whole number, minimum 0, maximum 150)"
        );
        assert_eq!(age.parse_answer(&text(" 7 ")), Ok(Some(json!(7))));
        for bad in ["", "x", "1.5", "151", "-1"] {
            assert!(age.parse_answer(&text(bad)).is_err(), "{bad}");
        }
        let PluginUserQuestionKind::Choose { options, default } = colour.user_question_kind()
        else {
            panic!("{colour:?}");
        };
        assert_eq!((options.len(), default), (3, 2));
        assert_eq!(options, ["red", "green", "leave it out"]);
        assert_eq!(
            colour.parse_answer(&UserAnswerToPlugin::Choice(1)),
            Ok(Some(json!("g")))
        );
        assert_eq!(
            colour.parse_answer(&UserAnswerToPlugin::Choice(2)),
            Ok(None)
        );
        assert_eq!(name.parse_answer(&text("Jo")), Ok(Some(json!("Jo"))));
        assert!(name.parse_answer(&text("J")).is_err() && name.parse_answer(&text("")).is_err());
        assert_eq!(
            news.parse_answer(&UserAnswerToPlugin::Yes(false)),
            Ok(Some(json!(false)))
        );
        assert!(news.parse_answer(&text("yes")).is_err());
    }
}
