//! Converts the arguments of a slash command from a line of words to a JSON value that fits the
//! command's schema.
//!
//! Words fill the properties in the order of the schema; `key=value` sets the property `key`.
//! Words in quotes may contain blanks. A last property of type text takes the rest of the line as
//! it was typed, with its quotes, if the rest has several words. Start from
//! [`parse_command_arguments`].

use serde_json::{Map, Value};

use super::InputLineCompletion;
use rind_lib::json;
use rind_lib::tool::schema;
use rind_mcp::ServedPromptArgument;

struct CommandArgumentWord<'a> {
    /// Byte offset at which the word begins in the line.
    start: usize,
    /// Text of the word, with quotes and escaping backslashes removed.
    text: String,
    typed: &'a str,
}

/// Parses the text after a command's name into a value that fits `schema`.
///
/// For the arguments `path`, `depth` (default `quick`) and `most`:
///
/// ```text
/// src                       {"path": "src", "depth": "quick"}
/// src thorough 3            {"path": "src", "depth": "thorough", "most": 3}
/// depth=thorough 'my src'   {"path": "my src", "depth": "thorough"}
/// most=3 a=b                {"path": "a=b", "depth": "quick", "most": 3}
/// ```
///
/// # Errors
/// The arguments do not fit the schema; the error is a text for people.
pub(super) fn parse_command_arguments(schema: &Value, text: &str) -> Result<Value, String> {
    let properties = schema_properties(schema);
    let words = split_words(text)?;
    let mut given = Map::new();
    let mut rest = words.iter().peekable();
    while let Some(word) = rest.next() {
        if let Some((key, value)) = parse_named_argument(word, &properties) {
            let of = properties.iter().find(|(name, _)| *name == key);
            let of = of.map_or(&Value::Null, |(_, of)| of);
            insert_argument_value(&mut given, key, of, value);
            continue;
        }
        let free: Vec<_> = properties
            .iter()
            .filter(|(name, of)| !given.contains_key(*name) || is_list_property(of))
            .collect();
        let Some((name, of)) = free.first() else {
            return Err(format!("unexpected argument `{}`", word.typed));
        };
        let is_last = free.len() == 1;
        if is_last && is_free_text_property(of) && rest.peek().is_some() {
            let tail = text.get(word.start..).unwrap_or_default().trim_end();
            given.insert((*name).to_owned(), tail.into());
            break;
        }
        insert_argument_value(&mut given, name, of, &word.text);
    }
    fill_defaults(&mut given, &properties);
    check_arguments(schema, given)
}

/// Converts named arguments, whose values are text or JSON, to the types of `schema`, fills in
/// defaults and checks them against the schema.
///
/// # Errors
/// The arguments do not fit the schema; the error is a text for people.
pub(super) fn convert_named_arguments(
    schema: &Value,
    named: Map<String, Value>,
) -> Result<Value, String> {
    let properties = schema_properties(schema);
    let mut given = Map::new();
    for (name, value) in named {
        match (properties.iter().find(|(own, _)| *own == name), value) {
            (Some((_, of)), Value::String(text)) => {
                insert_argument_value(&mut given, &name, of, &text)
            }
            (_, value) => _ = given.insert(name, value),
        }
    }
    fill_defaults(&mut given, &properties);
    check_arguments(schema, given)
}

/// Describes the arguments of a command that is offered as a prompt to another program.
pub(super) fn schema_to_prompt_arguments(schema: &Value) -> Vec<ServedPromptArgument> {
    let required: Vec<&str> = required_property_names(schema).collect();
    let properties = schema_properties(schema).into_iter();
    let described = properties.map(|(name, of)| ServedPromptArgument {
        name: name.to_owned(),
        description: argument_description(of),
        is_required: required.contains(&name),
    });
    described.collect()
}

/// Returns the permitted values of the argument `name` that begin with `begun`; none if the schema
/// does not list its values.
pub(super) fn complete_argument_values(schema: &Value, name: &str, begun: &str) -> Vec<String> {
    let properties = schema_properties(schema).into_iter();
    let values = properties
        .filter(|(own, _)| *own == name)
        .flat_map(|(_, of)| list_permitted_values(of));
    values.filter(|value| value.starts_with(begun)).collect()
}

fn fill_defaults(given: &mut Map<String, Value>, properties: &[(&str, &Value)]) {
    for (name, of) in properties {
        if let Some(default) = of.get("default").filter(|_| !given.contains_key(*name)) {
            given.insert((*name).to_owned(), default.clone());
        }
    }
}

fn check_arguments(schema: &Value, given: Map<String, Value>) -> Result<Value, String> {
    let missing: Vec<String> = required_property_names(schema)
        .filter(|name| !given.contains_key(*name))
        .map(|name| format!("`{name}`"))
        .collect();
    if !missing.is_empty() {
        return Err(format!("{} is missing", missing.join(" and ")));
    }
    let given = Value::Object(given);
    schema::compile_json_schema_check(schema)?(&given)?;
    Ok(given)
}

/// Formats the arguments for a usage line, such as `<path> [depth=quick|thorough]`.
pub(super) fn argument_usage(schema: Option<&Value>) -> String {
    let Some(schema) = schema else {
        return "[text]".to_owned();
    };
    let required: Vec<&str> = required_property_names(schema).collect();
    let properties = schema_properties(schema);
    let each = properties.iter().map(|(name, of)| {
        let values = list_permitted_values(of);
        let many = if is_list_property(of) { "…" } else { "" };
        match (required.contains(name), values.is_empty()) {
            (true, true) => format!("<{name}{many}>"),
            (true, false) => format!("<{name}: {}>", values.join("|")),
            (false, true) => format!("[{name}{many}]"),
            (false, false) => format!("[{name}={}]", values.join("|")),
        }
    });
    each.collect::<Vec<_>>().join(" ")
}

/// Returns one line for each argument that has a description.
pub(super) fn argument_help(schema: &Value) -> Vec<String> {
    let describe = |(name, of): &(&str, &Value)| {
        let text = of.get("description")?.as_str()?;
        Some(format!("{name}: {text}"))
    };
    schema_properties(schema)
        .iter()
        .filter_map(describe)
        .collect()
}

/// Proposes completions for the end of `text`, the arguments of a command. `text` starts `offset`
/// bytes into the typed line.
pub(super) fn complete_argument(
    schema: &Value,
    text: &str,
    offset: usize,
) -> Vec<InputLineCompletion> {
    let start = text.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, begun) = text.split_at(start.min(text.len()));
    let properties = schema_properties(schema);
    let Ok(words) = split_words(before) else {
        return Vec::new();
    };
    let is_named = |name: &str| {
        let mut words = words.iter();
        words
            .any(|word| parse_named_argument(word, &properties).is_some_and(|(key, _)| key == name))
    };
    let n_positional = words
        .iter()
        .filter(|word| parse_named_argument(word, &properties).is_none())
        .count();
    let free: Vec<_> = properties
        .iter()
        .filter(|(name, _)| !is_named(name))
        .skip(n_positional)
        .collect();
    let proposal = |text: String, of: &Value| InputLineCompletion {
        start: offset + start,
        text,
        help: argument_description(of),
    };
    let mut found = Vec::new();
    if let Some((key, value)) = begun.split_once('=')
        && let Some((name, of)) = properties.iter().find(|(name, _)| *name == key)
    {
        let fits = list_permitted_values(of)
            .into_iter()
            .filter(|v| v.starts_with(value));
        found.extend(fits.map(|value| proposal(format!("{name}={value}"), of)));
        return found;
    }
    if let Some((_, of)) = free.first() {
        let fits = list_permitted_values(of)
            .into_iter()
            .filter(|v| v.starts_with(begun));
        found.extend(fits.map(|value| proposal(value, of)));
    }
    let names = free.iter().filter(|(name, _)| name.starts_with(begun));
    found.extend(names.map(|(name, of)| proposal(format!("{name}="), of)));
    found
}

/// The argument that is being typed at the end of a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PartialCommandArgument {
    pub(super) name: String,
    pub(super) value: String,
    /// Byte offset in the text at which the value of the argument begins.
    pub(super) start: usize,
    /// Names and values of the arguments before the one that is being typed.
    pub(super) others: Vec<(String, String)>,
}

/// Finds the argument that is being typed at the end of `text`. Returns `None` if all arguments are
/// filled, or the value has a quote or a backslash.
pub(super) fn find_partial_argument(schema: &Value, text: &str) -> Option<PartialCommandArgument> {
    let start = text.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let (before, begun) = text.split_at(start.min(text.len()));
    if begun.contains(['"', '\'', '\\']) {
        return None;
    }
    let properties = schema_properties(schema);
    let mut others: Vec<(String, String)> = Vec::new();
    let is_free =
        |others: &[(String, String)], name: &str| !others.iter().any(|(own, _)| own == name);
    for word in split_words(before).ok()? {
        if let Some((key, value)) = parse_named_argument(&word, &properties) {
            others.push((key.to_owned(), value.to_owned()));
            continue;
        }
        let mut free = properties.iter().filter(|(name, _)| is_free(&others, name));
        let name = free.next()?.0.to_owned();
        others.push((name, word.text));
    }
    if let Some((key, value)) = begun.split_once('=')
        && properties.iter().any(|(name, _)| *name == key)
    {
        return Some(PartialCommandArgument {
            name: key.to_owned(),
            value: value.to_owned(),
            start: text.len() - value.len(),
            others,
        });
    }
    let mut free = properties.iter().filter(|(name, _)| is_free(&others, name));
    let name = free.next()?.0.to_owned();
    Some(PartialCommandArgument {
        name,
        value: begun.to_owned(),
        start,
        others,
    })
}

fn argument_description(of: &Value) -> String {
    let text = of.get("description").and_then(Value::as_str);
    text.unwrap_or_default().to_owned()
}

/// Returns the properties of a schema in the order in which positional words fill them: first the
/// required ones in the order of `required`, because generated schemas sort their properties by
/// name; then the others.
fn schema_properties(schema: &Value) -> Vec<(&str, &Value)> {
    let all = schema.get("properties").and_then(Value::as_object);
    let all = all.into_iter().flatten();
    let mut all: Vec<_> = all.map(|(name, of)| (name.as_str(), of)).collect();
    let place = |name: &str| required_property_names(schema).position(|required| required == name);
    all.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    all
}

fn required_property_names(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// Returns the values that a property may have; none if the schema does not list them.
fn list_permitted_values(of: &Value) -> Vec<String> {
    if let Some(values) = of.get("enum").and_then(Value::as_array) {
        return values.iter().map(json::format_value_for_display).collect();
    }
    match first_non_null_property_type(of) {
        "boolean" => vec!["true".to_owned(), "false".to_owned()],
        _ => Vec::new(),
    }
}

/// Returns the type of a property. If the schema lists several types, the first other than `null`.
fn first_non_null_property_type(of: &Value) -> &str {
    match of.get("type") {
        Some(Value::String(kind)) => kind,
        Some(Value::Array(kinds)) => {
            let mut kinds = kinds.iter().filter_map(Value::as_str);
            kinds.find(|kind| *kind != "null").unwrap_or("string")
        }
        _ => "string",
    }
}

fn is_list_property(of: &Value) -> bool {
    first_non_null_property_type(of) == "array"
}

fn is_free_text_property(of: &Value) -> bool {
    first_non_null_property_type(of) == "string" && of.get("enum").is_none()
}

fn insert_argument_value(given: &mut Map<String, Value>, name: &str, of: &Value, text: &str) {
    if !is_list_property(of) {
        given.insert(name.to_owned(), convert_word_to_type(of, text));
        return;
    }
    let item = convert_word_to_type(of.get("items").unwrap_or(&Value::Null), text);
    match given.get_mut(name) {
        Some(Value::Array(items)) => items.push(item),
        _ => _ = given.insert(name.to_owned(), vec![item].into()),
    }
}

/// Converts a word to the type of its property. A word that does not fit stays text, and the schema
/// check then reports it.
fn convert_word_to_type(of: &Value, text: &str) -> Value {
    let parsed = match first_non_null_property_type(of) {
        "integer" | "number" => text.parse::<serde_json::Number>().ok().map(Value::Number),
        "boolean" => match text {
            "true" | "yes" => Some(true.into()),
            "false" | "no" => Some(false.into()),
            _ => None,
        },
        "null" => (text == "null").then_some(Value::Null),
        _ => None,
    };
    parsed.unwrap_or_else(|| text.into())
}

/// Splits a word such as `depth=quick` into key and value. Returns `None` if the key is not a
/// property.
fn parse_named_argument<'a>(
    word: &'a CommandArgumentWord<'_>,
    properties: &[(&'a str, &Value)],
) -> Option<(&'a str, &'a str)> {
    let (key, _) = word.typed.split_once('=')?;
    let (name, _) = properties.iter().find(|(name, _)| *name == key)?;
    let value = word.text.split_once('=').map(|(_, value)| value)?;
    Some((name, value))
}

/// Splits a line into words at blanks that are outside of quotes.
fn split_words(text: &str) -> Result<Vec<CommandArgumentWord<'_>>, String> {
    let mut words = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut quote = None;
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if quote.is_none() && letter.is_whitespace() {
            if let Some((start, word)) = open.take() {
                let typed = text.get(start..at).unwrap_or_default();
                words.push(CommandArgumentWord {
                    start,
                    text: word,
                    typed,
                });
            }
            continue;
        }
        let (_, word) = open.get_or_insert_with(|| (at, String::new()));
        match (quote, letter) {
            (Some(end), letter) if letter == end => quote = None,
            (None, '"' | '\'') => quote = Some(letter),
            (Some('\''), letter) => word.push(letter),
            (_, '\\') => word.extend(letters.next().map(|(_, letter)| letter)),
            (_, letter) => word.push(letter),
        }
    }
    if let Some(quote) = quote {
        return Err(format!("the quote {quote} is not closed"));
    }
    if let Some((start, word)) = open {
        let typed = text.get(start..).unwrap_or_default();
        words.push(CommandArgumentWord {
            start,
            text: word,
            typed,
        });
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::table::parse_test_case_table;

    fn schema() -> Value {
        json!({"type": "object", "properties": {
            "path": {"type": "string", "description": "Folder"},
            "depth": {"type": "string", "enum": ["quick", "thorough"], "default": "quick"},
            "most": {"type": "integer", "minimum": 1},
        }, "required": ["path"]})
    }

    #[test]
    fn words_fill_properties_in_order_and_names_fill_any() {
        let schema = schema();
        let table = r#"
            src => {"path": "src", "depth": "quick"}
            depth=thorough 'my src' => {"depth": "thorough", "path": "my src"}
            src thorough 3 => {"path": "src", "depth": "thorough", "most": 3}
            most=3 a=b => {"most": 3, "path": "a=b", "depth": "quick"}
            path="a b" => {"path": "a b", "depth": "quick"}
            a\ b => {"path": "a b", "depth": "quick"}
        "#;
        for [text, expected] in parse_test_case_table(table) {
            let expected: Value = serde_json::from_str(&expected).unwrap();
            assert_eq!(
                parse_command_arguments(&schema, &text),
                Ok(expected),
                "{text}"
            );
        }
        assert_eq!(
            argument_usage(Some(&schema)),
            "<path> [depth=quick|thorough] [most]"
        );
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let schema = schema();
        for (text, part) in [
            ("", "`path` is missing"),
            ("src deep", "depth"),
            ("src quick many", "most"),
            ("src quick 0", "most"),
            ("src quick 1 more", "unexpected argument `more`"),
            ("'src", "the quote ' is not closed"),
        ] {
            let why = parse_command_arguments(&schema, text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn a_last_text_takes_the_rest_of_the_line_and_a_list_takes_words() {
        let text = json!({"type": "object", "properties": {"topic": {"type": "string"}}});
        let given = parse_command_arguments(&text, "how  does 'it' work? ").unwrap();
        assert_eq!(given, json!({"topic": "how  does 'it' work?"}));
        assert_eq!(
            parse_command_arguments(&text, "'one'"),
            Ok(json!({"topic": "one"}))
        );
        assert_eq!(parse_command_arguments(&text, ""), Ok(json!({})));
        let list = json!({"type": "object", "properties": {
            "files": {"type": "array", "items": {"type": "string"}},
        }});
        assert_eq!(
            parse_command_arguments(&list, "a b"),
            Ok(json!({"files": ["a", "b"]}))
        );
        assert_eq!(argument_usage(Some(&list)), "[files…]");
    }

    #[test]
    fn values_and_names_of_arguments_complete() {
        let schema = schema();
        let texts = |text: &str| {
            let found = complete_argument(&schema, text, 8);
            let texts = found.iter().map(|found| found.text.clone());
            (texts.collect::<Vec<_>>(), found.first().map(|f| f.start))
        };
        assert_eq!(texts("pa"), (vec!["path=".to_owned()], Some(8)));
        let all = ["quick", "thorough", "depth=", "most="].map(str::to_owned);
        assert_eq!(texts("src "), (all.to_vec(), Some(12)));
        assert_eq!(
            texts("depth=t"),
            (vec!["depth=thorough".to_owned()], Some(8))
        );
        assert_eq!(texts("'"), (Vec::new(), None));
    }
}
