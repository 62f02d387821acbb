//! Collects the values that a server proposes for its form. They are sent unchanged if the user
//! agrees.

use serde_json::{Map, Value, json};

use super::form::{ElicitationFormField, wrap_schema_as_value_property};
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::schema;

/// Maximum length of a value that is shown, in bytes.
const MAX_SHOWN_VALUE_BYTES: usize = 80;

/// Maximum length of the line with all proposed values, in bytes. A longer line is not shown, and
/// the user fills in each field instead.
const MAX_PROPOSED_FORM_VALUES_BYTES: usize = 600;

/// Proposed values for all required fields of a form, and for optional fields with a proposal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProposedElicitationFormValues {
    /// Values by field name, as the answer to the server would contain them.
    pub(crate) content: Map<String, Value>,
    /// Proposed values as one line of text for the user.
    pub(crate) shown: String,
}

impl ProposedElicitationFormValues {
    /// Collects the values that a form proposes. `None` if a required field has no proposal, a
    /// value does not fit its field's schema, or the values are too long to be shown completely.
    pub(crate) fn from_form(fields: &[ElicitationFormField]) -> Option<Self> {
        let (mut content, mut shown) = (Map::new(), Vec::new());
        for field in fields {
            let Some(value) = field.schema.get("default") else {
                if field.is_required {
                    return None;
                }
                continue;
            };
            let check =
                schema::compile_json_schema_check(&wrap_schema_as_value_property(&field.schema))
                    .ok()?;
            check(&json!({ "value": value })).ok()?;
            // Check the length after escaping, because escaped characters make the text longer.
            let text = escape_and_truncate_line(&value.to_string(), usize::MAX);
            if text.len() > MAX_SHOWN_VALUE_BYTES {
                return None;
            }
            shown.push(format!("{} = {text}", field.label()));
            content.insert(field.name.clone(), value.clone());
        }
        let shown = shown.join(", ");
        (!content.is_empty() && shown.len() <= MAX_PROPOSED_FORM_VALUES_BYTES)
            .then_some(Self { content, shown })
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::parse_elicitation_form;
    use super::*;

    fn proposed(properties: Value, required: Value) -> Option<ProposedElicitationFormValues> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        ProposedElicitationFormValues::from_form(
            &parse_elicitation_form("Some facts, please.", &schema).unwrap(),
        )
    }

    #[test]
    fn values_are_proposed_only_where_every_required_field_has_one_that_fits() {
        let name = json!({"type": "string", "default": "Ada"});
        let age = json!({"type": "integer", "default": 30});
        let all = proposed(
            json!({"age": age, "name": name, "city": {"type": "string"}}),
            json!(["name"]),
        );
        let all = all.unwrap();
        assert_eq!(
            Value::Object(all.content),
            json!({"name": "Ada", "age": 30})
        );
        assert_eq!(all.shown, "age = 30, name = \"Ada\"");
        let none = [
            (json!({"city": {"type": "string"}}), json!(["city"])),
            (json!({"city": {"type": "string"}}), json!([])),
            (
                json!({"age": {"type": "integer", "default": "old"}}),
                json!([]),
            ),
            (
                json!({"a": {"type": "string", "enum": ["x", "y"], "default": "z"}}),
                json!([]),
            ),
            (
                json!({"a": {"type": "string", "default": "x".repeat(MAX_SHOWN_VALUE_BYTES)}}),
                json!([]),
            ),
            (
                json!({"a": {"type": "string", "default": "\u{200b}".repeat(10) + "and the end"}}),
                json!([]),
            ),
        ];
        for (properties, required) in none {
            assert_eq!(proposed(properties.clone(), required), None, "{properties}");
        }
    }
}
