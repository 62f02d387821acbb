//! Values that a server proposes for its form: they are sent unchanged if the user agrees.

use serde_json::{Map, Value, json};

use super::form::{FormField, schema_of_value};
use rind_lib::text::clean_line;
use rind_lib::tool::schema;

/// Longest value that is shown, in bytes.
const MAX_VALUE_BYTES: usize = 80;

/// Longest list of values, in bytes. A longer one is not offered: the person could not read it.
const MAX_SHOWN_BYTES: usize = 600;

/// Values for a whole form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proposal {
    /// Content of the answer.
    pub(crate) content: Map<String, Value>,
    /// The values for the person, in one line.
    pub(crate) shown: String,
}

impl Proposal {
    /// Collects the values that a form proposes. `None` if a required field has none, one does not fit
    /// its field, or the values cannot be shown whole.
    pub(crate) fn of_form(fields: &[FormField]) -> Option<Self> {
        let (mut content, mut shown) = (Map::new(), Vec::new());
        for field in fields {
            let Some(value) = field.schema.get("default") else {
                if field.is_required {
                    return None;
                }
                continue;
            };
            let check = schema::compile(&schema_of_value(&field.schema)).ok()?;
            check(&json!({ "value": value })).ok()?;
            // Escaping invisible characters makes the text longer.
            let text = clean_line(&value.to_string(), usize::MAX);
            if text.len() > MAX_VALUE_BYTES {
                return None;
            }
            shown.push(format!("{} = {text}", field.label()));
            content.insert(field.name.clone(), value.clone());
        }
        let shown = shown.join(", ");
        (!content.is_empty() && shown.len() <= MAX_SHOWN_BYTES).then_some(Self { content, shown })
    }
}

#[cfg(test)]
mod tests {
    use super::super::form::read_form;
    use super::*;

    fn proposed(properties: Value, required: Value) -> Option<Proposal> {
        let schema = json!({"type": "object", "properties": properties, "required": required});
        Proposal::of_form(&read_form("Some facts, please.", &schema).unwrap())
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
                json!({"a": {"type": "string", "default": "x".repeat(MAX_VALUE_BYTES)}}),
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
