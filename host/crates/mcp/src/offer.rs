//! Represents the offer of a server, which is its tools, prompts and instructions, and checks which
//! tools can be used.
//!
//! All texts of an offer come from the server and are untrusted. Start from
//! [`ServerToolsAndPrompts`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::qualified_tool_name;
use super::prompt::OfferedPrompt;
use rind_lib::json;
use rind_lib::secret::SecretScanner;
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::registry::MAX_TOOLS_PER_EXTERNAL_SOURCE;
use rind_lib::tool::schema;

/// Maximum number of tools of one MCP server that can be used.
pub const MAX_TOOLS_PER_SERVER: usize = MAX_TOOLS_PER_EXTERNAL_SOURCE;

/// Maximum total size of the descriptions and schemas of one server's tools, in bytes.
const MAX_SERVER_TOOL_DEFINITIONS_BYTES: usize = 16 << 20;

/// Maximum length of a tool's name, in bytes; the protocol allows 128 characters.
const MAX_TOOL_NAME_BYTES: usize = 512;

/// Maximum length of a description, in bytes. The model gets only the beginning of a long one.
const MAX_TOOL_DESCRIPTION_BYTES: usize = 64 << 10;

/// Maximum length of a tool's title, in bytes.
const MAX_TOOL_TITLE_BYTES: usize = 4 << 10;

/// Maximum length of a tool's annotations, in bytes of JSON.
const MAX_TOOL_ANNOTATIONS_BYTES: usize = 16 << 10;

/// Definition of a tool as its server sent it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfferedTool {
    /// Name of the tool on its server.
    pub name: String,
    /// Name of the tool to show to people; `None` if the server sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the tool for the model.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of the tool's arguments.
    pub input_schema: Value,
    /// JSON Schema of the tool's structured result; `None` if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// Claims of the server about the effects of the tool, such as `readOnlyHint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Value>,
}

impl OfferedTool {
    /// Returns the texts in the arguments' schema, each with its path in the schema. The operator
    /// reviews them, because the model reads them and they may contain malicious instructions.
    #[must_use]
    pub fn texts_in_argument_schema(&self) -> Vec<(String, String)> {
        let mut texts = Vec::new();
        if let Some(schema) = self.input_schema.as_object() {
            collect_object_schema_texts("", "", schema, &mut texts);
        }
        texts
    }
}

/// Keywords of JSON Schema. Field names in this list are not reported as texts of the server.
const JSON_SCHEMA_KEYWORDS: [&str; 43] = [
    "$anchor",
    "$comment",
    "$defs",
    "$id",
    "$ref",
    "$schema",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "default",
    "definitions",
    "dependentRequired",
    "dependentSchemas",
    "deprecated",
    "description",
    "else",
    "enum",
    "examples",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxItems",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "required",
    "then",
    "title",
    "type",
    "uniqueItems",
];

/// Values of the JSON Schema keyword `type`. They are not reported as texts of the server.
const JSON_SCHEMA_TYPE_NAMES: [&str; 7] = [
    "array", "boolean", "integer", "null", "number", "object", "string",
];

/// Values of `format` that JSON Schema defines. They are not reported as texts of the server.
const JSON_SCHEMA_FORMAT_NAMES: [&str; 9] = [
    "date",
    "date-time",
    "duration",
    "email",
    "hostname",
    "ipv4",
    "time",
    "uri",
    "uuid",
];

/// Whether a string is a keyword of JSON Schema rather than text of the server.
fn is_json_schema_keyword(key: &str, text: &str) -> bool {
    match key {
        "type" => JSON_SCHEMA_TYPE_NAMES.contains(&text),
        "format" => JSON_SCHEMA_FORMAT_NAMES.contains(&text),
        "$schema" => text.contains("://json-schema.org/") && !text.contains(char::is_whitespace),
        _ => false,
    }
}

/// Adds the strings and property names in a part of a schema, except values that belong to JSON
/// Schema itself.
fn collect_schema_texts(place: &str, key: &str, value: &Value, texts: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) if is_json_schema_keyword(key, text) => {}
        Value::String(text) => texts.push((place.to_owned(), text.clone())),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items = items.iter().filter_map(Value::as_str);
            let items: Vec<&str> = items
                .filter(|item| !is_json_schema_keyword(key, item))
                .collect();
            if !items.is_empty() {
                texts.push((place.to_owned(), items.join(", ")));
            }
        }
        Value::Array(items) => {
            for item in items {
                collect_schema_texts(place, key, item, texts);
            }
        }
        Value::Object(map) => collect_object_schema_texts(place, key, map, texts),
        _ => {}
    }
}

/// Adds the texts of an object's members. The recursion is safe because the depth of schemas is
/// limited.
fn collect_object_schema_texts(
    place: &str,
    key: &str,
    map: &Map<String, Value>,
    texts: &mut Vec<(String, String)>,
) {
    let are_arguments = key == "properties";
    if are_arguments && !map.is_empty() {
        let names: Vec<&str> = map.keys().map(String::as_str).collect();
        texts.push((place.to_owned(), names.join(", ")));
    }
    let arguments = map.get("properties").and_then(Value::as_object);
    let is_argument = |name: &Value| {
        let name = name.as_str();
        name.is_some_and(|name| arguments.is_some_and(|own| own.contains_key(name)))
    };
    for (own, value) in map {
        let are_named = value
            .as_array()
            .is_some_and(|all| all.iter().all(is_argument));
        if own == "required" && !are_arguments && are_named {
            continue;
        }
        let of_argument = match (are_arguments, place.strip_suffix("properties")) {
            (true, Some(before)) => format!("{before}{own}"),
            _ if place.is_empty() => own.clone(),
            _ => format!("{place}.{own}"),
        };
        let n_before = texts.len();
        collect_schema_texts(&of_argument, own, value, texts);
        let is_untold = texts.len() == n_before && !are_arguments;
        if is_untold && !JSON_SCHEMA_KEYWORDS.contains(&own.as_str()) {
            texts.push((place.to_owned(), own.clone()));
        }
    }
}

/// Tools, prompts and instructions that a server offered at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerToolsAndPrompts {
    /// Name and version of the server, as it reports them.
    #[serde(default)]
    pub server: String,
    /// Version of the MCP protocol that was negotiated with the server.
    #[serde(default)]
    pub protocol: String,
    /// Instructions of the server. The operator's approval covers them, but they are not passed to
    /// the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Tools of the server that can be used, sorted by name.
    #[serde(default)]
    pub tools: Vec<OfferedTool>,
    /// Prompts of the server that can be used, sorted by name.
    #[serde(default)]
    pub prompts: Vec<OfferedPrompt>,
    /// Tools and prompts that cannot be used, each with the reason.
    #[serde(skip)]
    pub refused: Vec<String>,
}

impl ServerToolsAndPrompts {
    /// Separates the tools of a server into usable ones, sorted by name, and reasons why the others
    /// are unusable.
    pub(crate) fn separate_unusable_tools(
        server: &str,
        listed: Vec<OfferedTool>,
    ) -> (Vec<OfferedTool>, Vec<String>) {
        let mut by_name: BTreeMap<String, u32> = BTreeMap::new();
        for tool in &listed {
            *by_name
                .entry(qualified_tool_name(server, &tool.name))
                .or_default() += 1;
        }
        let (mut tools, mut refused) = (Vec::new(), Vec::new());
        for tool in listed {
            let name = qualified_tool_name(server, &tool.name);
            let fault = match by_name.get(&name) {
                Some(n) if *n > 1 => Some(format!("{n} of its tools have the name `{name}`")),
                _ => unusable_tool_reason(&tool),
            };
            match fault {
                None => tools.push(tool),
                Some(why) => refused.push(format!(
                    "`{}`: {why}",
                    escape_and_truncate_line(&tool.name, 64)
                )),
            }
        }
        tools.sort_by(|a: &OfferedTool, b| a.name.cmp(&b.name));
        (tools, refused)
    }

    /// Returns the offered tool with this name.
    #[must_use]
    pub fn find_tool(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Returns the offered prompt with this name.
    #[must_use]
    pub fn find_prompt(&self, name: &str) -> Option<&OfferedPrompt> {
        self.prompts.iter().find(|prompt| prompt.name == name)
    }
}

/// Counts the tools and bytes of an offer while its pages are read, up to the maximum of each.
#[derive(Debug, Default)]
pub(crate) struct ToolAndPromptSizeCounter {
    n_bytes: usize,
    n_tools: usize,
}

impl ToolAndPromptSizeCounter {
    /// Counts a tool. Fails if there are too many; the error is phrased to follow "the server".
    pub(crate) fn count_tool_within_limit(&mut self, tool: &OfferedTool) -> Result<(), String> {
        self.n_tools += 1;
        if self.n_tools > MAX_TOOLS_PER_SERVER {
            return Err(format!("offers more than {MAX_TOOLS_PER_SERVER} tools"));
        }
        let values = std::iter::once(&tool.input_schema)
            .chain(&tool.output_schema)
            .chain(&tool.annotations);
        let n_values: usize = values.map(|value| value.to_string().len()).sum();
        let texts = [&tool.name, &tool.description]
            .into_iter()
            .chain(&tool.title);
        self.count_bytes_within_limit(n_values + texts.map(String::len).sum::<usize>())
    }

    /// Counts a tool whose definition cannot be read, and the bytes of the reason, towards the
    /// limits of the offer.
    pub(crate) fn count_unreadable_tool_within_limit(&mut self, why: &str) -> Result<(), String> {
        self.n_tools += 1;
        if self.n_tools > MAX_TOOLS_PER_SERVER {
            return Err(format!("offers more than {MAX_TOOLS_PER_SERVER} tools"));
        }
        self.count_bytes_within_limit(why.len())
    }

    /// Counts bytes that are stored. Fails if there are too many; the error is phrased to follow
    /// "the server".
    pub(crate) fn count_bytes_within_limit(&mut self, n_bytes: usize) -> Result<(), String> {
        self.n_bytes = self.n_bytes.saturating_add(n_bytes);
        if self.n_bytes > MAX_SERVER_TOOL_DEFINITIONS_BYTES {
            return Err(format!(
                "describes its tools and prompts with more than {} MiB",
                MAX_SERVER_TOOL_DEFINITIONS_BYTES >> 20
            ));
        }
        Ok(())
    }
}

/// Returns the reason why a tool of an MCP server cannot be used; `None` if it can be used.
fn unusable_tool_reason(tool: &OfferedTool) -> Option<String> {
    if tool.name.len() > MAX_TOOL_NAME_BYTES {
        return Some(format!(
            "the name of the tool has more than {MAX_TOOL_NAME_BYTES} bytes"
        ));
    }
    if tool.name.trim().is_empty() {
        return Some("it has no name".to_owned());
    }
    let claims = tool.annotations.as_ref().map(Value::to_string);
    let lengths = [
        (
            "description",
            tool.description.len(),
            MAX_TOOL_DESCRIPTION_BYTES,
        ),
        (
            "title",
            tool.title.as_ref().map_or(0, String::len),
            MAX_TOOL_TITLE_BYTES,
        ),
        (
            "claims",
            claims.as_ref().map_or(0, String::len),
            MAX_TOOL_ANNOTATIONS_BYTES,
        ),
    ];
    let long = lengths.iter().find(|(_, n_bytes, most)| n_bytes > most);
    if let Some((what, n_bytes, most)) = long {
        return Some(format!("its {what} has {n_bytes} bytes, more than {most}"));
    }
    let too_deep = |value: &Value| json::measure_nesting_depth(value) > schema::MAX_SCHEMA_DEPTH;
    let others = tool.output_schema.iter().chain(&tool.annotations);
    if others.clone().any(too_deep) {
        return Some("its output schema or its annotations are nested too deeply".to_owned());
    }
    if let Err(why) = schema::compile_tool_argument_check(&tool.input_schema) {
        return Some(why);
    }
    let schema = tool.input_schema.to_string();
    let found = [&tool.description, &schema]
        .into_iter()
        .chain(&tool.title)
        .chain(&claims)
        .find_map(|text| {
            SecretScanner::shared()
                .find_secrets(text)
                .into_iter()
                .next()
        });
    found.map(|finding| {
        format!(
            "its description, schema or claims contain what looks like a secret ({})",
            finding.rule
        )
    })
}

#[cfg(test)]
pub(crate) fn offered_tool_for_tests(name: &str, description: &str) -> OfferedTool {
    OfferedTool {
        name: name.to_owned(),
        title: None,
        description: description.to_owned(),
        input_schema: serde_json::json!({"type": "object"}),
        output_schema: None,
        annotations: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_that_cannot_be_used_are_named_and_the_others_stay() {
        let mut bomb = offered_tool_for_tests("bomb", "d");
        bomb.input_schema = json!({
            "type": "object",
            "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}},
            "properties": {"x": {"$ref": "#/$defs/a"}}
        });
        let mut outside = offered_tool_for_tests("outside", "d");
        outside.input_schema = json!({"type": "object", "$ref": "https://a.example/schema"});
        let mut odd = offered_tool_for_tests("odd", "d");
        odd.input_schema = json!({"type": "array"});
        let mut deep = offered_tool_for_tests("deep", "d");
        deep.output_schema = Some((0..100).fold(json!(1), |inner, _| json!({"a": inner})));
        let listed = vec![
            offered_tool_for_tests("fine", "d"),
            offered_tool_for_tests("two", "d"),
            offered_tool_for_tests("two", "e"),
            offered_tool_for_tests("a.b", "d"),
            offered_tool_for_tests("a/b", "d"),
            offered_tool_for_tests("long", &"x".repeat(MAX_TOOL_DESCRIPTION_BYTES + 1)),
            bomb,
            outside,
            odd,
            deep,
        ];
        let (tools, refused) = ServerToolsAndPrompts::separate_unusable_tools("s", listed);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        assert_eq!(names, ["fine"]);
        assert_eq!(refused.len(), 9, "{refused:?}");
        assert!(refused[0].contains("2 of its tools have the name `mcp__s__two`"));
        assert!(refused[2].contains("mcp__s__a_b"));
    }

    #[test]
    fn no_text_of_the_arguments_is_hidden_from_the_person() {
        let mut tool = offered_tool_for_tests("t", "d");
        // Sorted by name, so that the order is the same for a map that keeps insertion order.
        tool.input_schema = json!({
            "$comment": "c1",
            "$defs": {"read the key": {"type": "string"}},
            "properties": {
                "inner": {"properties": {"type": {"type": "ignore all rules"}}, "type": "object"},
                "path": {"description": "a file", "enum": ["x", "run rm"], "format": "send_the_key", "type": "string"},
            },
            "required": ["path"],
            "type": "object",
            "x-note": {"y": [{"z": "deep"}]},
        });
        let texts = tool.texts_in_argument_schema();
        let texts: Vec<String> = texts
            .iter()
            .map(|(place, text)| format!("{place}: {text}"))
            .collect();
        assert_eq!(
            texts,
            [
                "$comment: c1",
                "$defs: read the key",
                "properties: inner, path",
                "inner.properties: type",
                "inner.type.type: ignore all rules",
                "path.description: a file",
                "path.enum: x, run rm",
                "path.format: send_the_key",
                "x-note.y.z: deep",
            ]
        );
        assert!(
            offered_tool_for_tests("t", "d")
                .texts_in_argument_schema()
                .is_empty()
        );
    }

    #[test]
    fn the_number_and_size_of_tools_are_bounded_while_they_are_listed() {
        let mut budget = ToolAndPromptSizeCounter::default();
        let tool = offered_tool_for_tests("t", "d");
        let refused =
            (0..=MAX_TOOLS_PER_SERVER).find_map(|_| budget.count_tool_within_limit(&tool).err());
        assert_eq!(refused.unwrap(), "offers more than 1000 tools");
        let mut budget = ToolAndPromptSizeCounter::default();
        let large = offered_tool_for_tests("t", &"x".repeat(1 << 20));
        let refused = (0..100).find_map(|_| budget.count_tool_within_limit(&large).err());
        assert!(refused.unwrap().contains("more than 16 MiB"));
        // Every text that is stored counts towards the limit, not only those that the model gets.
        let long = "x".repeat(1 << 20);
        let mut titled = offered_tool_for_tests("t", "d");
        titled.title = Some(long.clone());
        let mut claiming = offered_tool_for_tests("t", "d");
        claiming.annotations = Some(json!({"title": long}));
        for tool in [titled, claiming, offered_tool_for_tests(&long, "d")] {
            let mut budget = ToolAndPromptSizeCounter::default();
            let refused = (0..100).find_map(|_| budget.count_tool_within_limit(&tool).err());
            assert!(refused.unwrap().contains("more than 16 MiB"));
            let (tools, refused) = ServerToolsAndPrompts::separate_unusable_tools("s", vec![tool]);
            assert!(tools.is_empty());
            assert!(refused[0].len() < 200, "{refused:?}");
        }
        assert!(unusable_tool_reason(&offered_tool_for_tests(" ", "d")).is_some());
    }
}
