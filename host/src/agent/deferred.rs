//! Deferred tools: tools whose descriptions are left out of requests. The model finds them with the
//! tool `find_tools` and calls them through the tool `use_tool`.
//!
//! A call through `use_tool` is converted to a call of the named tool first, so schema, hooks,
//! policy, approval and session file see the named tool. All requests of a session contain the same
//! descriptions of `find_tools` and `use_tool`, whatever was found, so that their prefix stays
//! cached and nothing has to be restored when a session is resumed.
//!
//! This module must not know where tools come from, apart from the origin in their descriptions.
//! Start from [`defer_tools`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;

use futures_util::future::{BoxFuture, ready};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::scope::{ActiveTurns, SharedTurnState};
use super::spec::AgentSpec;
use crate::message::{EffectClass, ToolCall, ToolSpec};
use crate::rank::{QueryWordCounts, RankingQueryWords};
use crate::text::escape_and_truncate_line;
use crate::tool::builtin::{build_tool_spec, parse_arguments_and_run_tool};
use crate::tool::registry::{ToolRegistry, is_external_tool_origin};
use crate::tool::{Tool, ToolCtx, ToolOutput};

/// Name of the tool with which the model searches for deferred tools.
pub(super) const FIND_TOOLS_TOOL_NAME: &str = "find_tools";

/// Name of the tool through which the model calls deferred tools.
pub(super) const USE_TOOL_TOOL_NAME: &str = "use_tool";

/// Number of tools from which on the tools of a plugin may be deferred; those of an MCP server
/// always may be.
const MIN_PLUGIN_TOOLS_TO_DEFER: usize = 10;

/// Assumed window, in tokens, of a model whose window is not known.
const DEFAULT_CONTEXT_WINDOW_TOKENS: u64 = 128_000;

/// Total size of tool descriptions, in tokens, up to which the model gets them all: the two tools
/// that replace deferred descriptions need tokens as well.
const MAX_UNDEFERRED_TOOL_DESCRIPTION_TOKENS: u64 = 1_000;

/// Number of bytes of a description that count as one token.
const DESCRIPTION_BYTES_PER_TOKEN: u64 = 4;

/// Maximum number of origins (plugins and MCP servers) that the description of `find_tools` lists.
const MAX_LISTED_TOOL_ORIGINS: usize = 24;

/// Maximum number of tools that one call of `find_tools` describes with their arguments.
const MAX_TOOLS_DESCRIBED_PER_SEARCH: usize = 8;

/// Maximum number of tools that one call of `find_tools` lists by name only.
const MAX_TOOLS_LISTED_BY_NAME_PER_SEARCH: usize = 100;

/// Maximum length of a query for deferred tools, in bytes.
const MAX_TOOL_SEARCH_QUERY_BYTES: usize = 500;

/// Maximum length of a tool's description in a search result, in bytes.
const MAX_SHOWN_TOOL_DESCRIPTION_BYTES: usize = 600;

/// Maximum length of a tool's schema in a search result, in bytes.
const MAX_SHOWN_TOOL_SCHEMA_BYTES: usize = 6 << 10;

/// Defers the tools of MCP servers and of plugins with many tools, if their descriptions exceed the
/// share of the model's window that the settings allow. Decided once for a session: later changes
/// of its model or tools must not change the prefix of its requests.
pub(super) fn defer_tools(spec: &mut AgentSpec, active_turns: &ActiveTurns) {
    let profile = spec.provider.profile(&spec.model);
    let window = profile
        .window_tokens
        .unwrap_or(DEFAULT_CONTEXT_WINDOW_TOKENS);
    let budget = window.saturating_mul(u64::from(spec.config.deferred_tools_percent)) / 100;
    let origins = deferrable_tool_totals_by_source(&spec.tools);
    let n_bytes: u64 = origins.values().map(|(_, n_bytes)| n_bytes).sum();
    if origins.is_empty()
        || n_bytes / DESCRIPTION_BYTES_PER_TOKEN
            <= budget.max(MAX_UNDEFERRED_TOOL_DESCRIPTION_TOKENS)
    {
        return;
    }
    let find = FindDeferredToolsTool::new(active_turns.clone(), &origins);
    spec.deferred = Arc::new(origins.into_keys().collect());
    spec.add_built_in_tool(Arc::new(find));
    spec.add_built_in_tool(Arc::new(UseDeferredToolTool::new()));
}

/// Returns the origins whose tools may be deferred, each with the number of its tools and the total
/// bytes of their descriptions.
fn deferrable_tool_totals_by_source(tools: &ToolRegistry) -> BTreeMap<String, (usize, u64)> {
    let mut origins: BTreeMap<String, (usize, u64)> = BTreeMap::new();
    for spec in tools.specs() {
        let Some(origin) = &spec.plugin else { continue };
        let own = origins.entry(origin.clone()).or_default();
        let bytes = spec.name.len() + spec.description.len() + spec.parameters.to_string().len();
        own.0 += 1;
        own.1 = own.1.saturating_add(bytes as u64);
    }
    origins.retain(|origin, (n_tools, _)| {
        is_external_tool_origin(origin) || *n_tools >= MIN_PLUGIN_TOOLS_TO_DEFER
    });
    origins
}

impl AgentSpec {
    /// Whether the description of a tool is left out of requests, so that the model must search for
    /// it. If the agent lacks `find_tools` or `use_tool`, no description is left out.
    pub(super) fn is_tool_deferred(&self, spec: &ToolSpec) -> bool {
        let origin = spec.plugin.as_ref();
        origin.is_some_and(|origin| self.deferred.contains(origin))
            && self.tools.get(FIND_TOOLS_TOOL_NAME).is_some()
            && self.tools.get(USE_TOOL_TOOL_NAME).is_some()
    }
}

/// Converts a call of [`USE_TOOL_TOOL_NAME`] to the call of the tool that it names. A call with an
/// invalid name or invalid arguments is returned unchanged, and the schema of
/// [`USE_TOOL_TOOL_NAME`] refuses it.
pub(super) fn extract_deferred_tool_call(call: ToolCall) -> ToolCall {
    if call.name != USE_TOOL_TOOL_NAME {
        return call;
    }
    let name = call.arguments.get("name").and_then(Value::as_str);
    let arguments = match call.arguments.get("arguments") {
        Some(Value::Object(_)) => call.arguments.get("arguments").cloned(),
        // Some models write the arguments as a string with JSON text instead of a JSON object.
        Some(Value::String(text)) => {
            let parsed: Option<Value> = serde_json::from_str(text).ok();
            parsed.filter(Value::is_object)
        }
        None | Some(Value::Null) => Some(Value::Object(serde_json::Map::new())),
        Some(_) => None,
    };
    match (name, arguments) {
        (Some(name), Some(arguments)) if name != USE_TOOL_TOOL_NAME => {
            ToolCall::new(&call.id, name, arguments)
        }
        _ => call,
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct FindToolsArguments {
    /// Words for the purpose of the tool, or its name. Without it, the tools of `from` are listed.
    #[serde(default)]
    query: Option<String>,
    /// Only tools of this origin, as the description of this tool names them.
    #[serde(default)]
    from: Option<String>,
}

/// Tool with which the model searches for deferred tools.
struct FindDeferredToolsTool {
    spec: ToolSpec,
    active_turns: ActiveTurns,
}

impl FindDeferredToolsTool {
    fn new(active_turns: ActiveTurns, origins: &BTreeMap<String, (usize, u64)>) -> Self {
        let mut named: Vec<String> = origins
            .iter()
            .take(MAX_LISTED_TOOL_ORIGINS)
            .map(|(origin, (n_tools, _))| format!("{origin} ({n_tools})"))
            .collect();
        let more = origins.len().saturating_sub(MAX_LISTED_TOOL_ORIGINS);
        named.extend((more > 0).then(|| format!("and {more} more")));
        let description = format!(
            "Finds tools that are not described here, by words of their names, descriptions and arguments, and returns how to call \
             them with `{USE_TOOL_TOOL_NAME}`. Origins and their numbers of tools: {}",
            named.join(", ")
        );
        Self {
            spec: build_tool_spec::<FindToolsArguments>(
                FIND_TOOLS_TOOL_NAME,
                &description,
                EffectClass::Read,
            ),
            active_turns,
        }
    }

    fn find_matching_tools(&self, asked: &FindToolsArguments, ctx: &ToolCtx) -> ToolOutput {
        let Some(scope) = self
            .active_turns
            .find_active_turn(&ctx.caller.context.agent)
        else {
            return ToolOutput::from_error_content("no turn is running");
        };
        let specs = callable_deferred_tools(&scope, asked.from.as_deref());
        if specs.is_empty() {
            return ToolOutput::from_error_content(match &asked.from {
                Some(from) => format!(
                    "`from`: `{}` is not a plugin or MCP server with tools to search",
                    escape_and_truncate_line(from, 64)
                ),
                None => "there are no other tools".to_owned(),
            });
        }
        let query = asked.query.as_deref().unwrap_or_default();
        let query = query.get(..query.floor_char_boundary(MAX_TOOL_SEARCH_QUERY_BYTES));
        match RankingQueryWords::new(query.unwrap_or_default()) {
            Some(query) => ToolOutput::ok(describe_matching_tools(query, &specs)),
            None => ToolOutput::ok(list_tool_names(&specs)),
        }
    }
}

/// Returns the deferred tools that the agent may call now, of the origin `from` or of all origins.
fn callable_deferred_tools(scope: &SharedTurnState, from: Option<&str>) -> Vec<Arc<ToolSpec>> {
    let left: BTreeSet<String> = scope.skills.permitted_tool_names().into_iter().collect();
    let is_from = |spec: &ToolSpec| {
        let origin = spec.plugin.as_deref().unwrap_or_default();
        let short = origin.split_once(':').map_or(origin, |(_, name)| name);
        from.is_none_or(|from| from == origin || from == short)
    };
    let specs = scope.skills.tools().specs().into_iter();
    specs
        .filter(|spec| {
            scope.spec.is_tool_deferred(spec) && left.contains(&spec.name) && is_from(spec)
        })
        .collect()
}

/// Returns descriptions of the tools that match a query best, and the names of further matches.
fn describe_matching_tools(mut query: RankingQueryWords, specs: &[Arc<ToolSpec>]) -> String {
    let counted: Vec<(QueryWordCounts, &Arc<ToolSpec>)> = specs
        .iter()
        .map(|spec| (query.count_query_words(&searchable_tool_text(spec)), spec))
        .collect();
    let mut found: Vec<(f64, &Arc<ToolSpec>)> = counted
        .iter()
        .filter(|(counts, _)| counts.has_query_word())
        .map(|(counts, spec)| (query.bm25_score(counts), *spec))
        .collect();
    // The sort is stable, so tools with the same score stay in the order of the registry.
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    if found.is_empty() {
        return format!(
            "no tool has these words; try others, or give only `from` to list names. {} tools can be found",
            specs.len()
        );
    }
    let mut text = format!(
        "{} found; call one with `{USE_TOOL_TOOL_NAME}`, its name and its arguments:\n",
        found.len()
    );
    for (_, spec) in found.iter().take(MAX_TOOLS_DESCRIBED_PER_SEARCH) {
        describe_tool(&mut text, spec);
    }
    let others: Vec<&str> = found
        .iter()
        .skip(MAX_TOOLS_DESCRIBED_PER_SEARCH)
        .take(MAX_TOOLS_LISTED_BY_NAME_PER_SEARCH)
        .map(|(_, spec)| spec.name.as_str())
        .collect();
    if !others.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(text, "\nalso found: {}\n", others.join(", "));
    }
    text
}

fn describe_tool(text: &mut String, spec: &ToolSpec) {
    let mut description = spec.description.clone();
    if description.len() > MAX_SHOWN_TOOL_DESCRIPTION_BYTES {
        description.truncate(description.floor_char_boundary(MAX_SHOWN_TOOL_DESCRIPTION_BYTES));
        description.push('…');
    }
    let schema = spec.parameters.to_string();
    let schema = match schema.len() > MAX_SHOWN_TOOL_SCHEMA_BYTES {
        false => schema,
        true => {
            let names = argument_names(&spec.parameters);
            format!("too long to show; its properties are: {}", names.join(", "))
        }
    };
    let _ = write!(
        text,
        "\n{}: {description}\narguments: {schema}\n",
        spec.name
    );
}

fn list_tool_names(specs: &[Arc<ToolSpec>]) -> String {
    let names: Vec<&str> = specs
        .iter()
        .take(MAX_TOOLS_LISTED_BY_NAME_PER_SEARCH)
        .map(|spec| spec.name.as_str())
        .collect();
    let more = match specs
        .len()
        .saturating_sub(MAX_TOOLS_LISTED_BY_NAME_PER_SEARCH)
    {
        0 => String::new(),
        n => format!(", and {n} more; search with `query`"),
    };
    format!("{}{more}", names.join(", "))
}

/// Returns the text in which the words of a query are counted: the tool's name split into words,
/// its description, and the names and descriptions of its arguments. The name appears twice, so
/// that it has more weight.
fn searchable_tool_text(spec: &ToolSpec) -> String {
    let name = split_camel_case(&spec.name);
    let mut text = format!("{name} {name} {}", spec.description);
    let properties = spec.parameters.get("properties").and_then(Value::as_object);
    for (name, about) in properties.into_iter().flatten() {
        text.push(' ');
        text.push_str(&split_camel_case(name));
        if let Some(about) = about.get("description").and_then(Value::as_str) {
            text.push(' ');
            text.push_str(about);
        }
    }
    text
}

fn argument_names(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let names = properties
        .into_iter()
        .flatten()
        .take(MAX_TOOLS_LISTED_BY_NAME_PER_SEARCH);
    names
        .map(|(name, _)| escape_and_truncate_line(name, 64))
        .collect()
}

/// Splits `createIssue` into `create Issue`. Other separators need no change, because they end
/// words anyway.
fn split_camel_case(name: &str) -> String {
    let mut words = String::with_capacity(name.len() + 8);
    let mut was_lower = false;
    for c in name.chars() {
        if was_lower && c.is_uppercase() {
            words.push(' ');
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        words.push(c);
    }
    words
}

impl Tool for FindDeferredToolsTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, value: Value, ctx: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        parse_arguments_and_run_tool(value, move |asked: FindToolsArguments| {
            ready(self.find_matching_tools(&asked, ctx))
        })
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "the call becomes one of the named tool before it runs"
)]
struct UseToolArguments {
    /// Name of the tool to call, as `find_tools` returned it.
    name: String,
    /// Arguments for the tool, which fit the schema that `find_tools` returned.
    arguments: serde_json::Map<String, Value>,
}

/// The tool through which deferred tools are called. It never runs itself:
/// [`extract_deferred_tool_call`] converts its calls.
struct UseDeferredToolTool(ToolSpec);

impl UseDeferredToolTool {
    fn new() -> Self {
        let description = format!("Calls a tool that `{FIND_TOOLS_TOOL_NAME}` found.");
        Self(build_tool_spec::<UseToolArguments>(
            USE_TOOL_TOOL_NAME,
            &description,
            EffectClass::Read,
        ))
    }
}

impl Tool for UseDeferredToolTool {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, _: Value, _: &'a ToolCtx) -> BoxFuture<'a, ToolOutput> {
        let text = format!(
            "nothing was called: `name` must be the name of a tool that `{FIND_TOOLS_TOOL_NAME}` found, and `arguments` an object"
        );
        Box::pin(ready(ToolOutput::from_error_content(text)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(name: &str, description: &str, parameters: Value) -> Arc<ToolSpec> {
        Arc::new(ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters,
            effect_class: EffectClass::Execute,
            plugin: Some("mcp:a".to_owned()),
        })
    }

    #[test]
    fn a_call_through_another_tool_is_a_call_of_the_named_one() {
        let call = |arguments: Value| {
            extract_deferred_tool_call(ToolCall::new("1", USE_TOOL_TOOL_NAME, arguments))
        };
        let named = call(json!({"name": "mcp__a__b", "arguments": {"n": 1}}));
        assert_eq!((named.name.as_str(), named.id.as_str()), ("mcp__a__b", "1"));
        assert_eq!(named.arguments, json!({"n": 1}));
        assert_eq!(
            call(json!({"name": "x", "arguments": "{\"n\": 1}"})).arguments,
            json!({"n": 1})
        );
        assert_eq!(call(json!({"name": "x"})).arguments, json!({}));
        for odd in [
            json!({}),
            json!({"name": 1, "arguments": {}}),
            json!({"name": "x", "arguments": [1]}),
            json!({"name": "x", "arguments": "no"}),
            json!({"name": USE_TOOL_TOOL_NAME, "arguments": {}}),
            json!("text"),
        ] {
            assert_eq!(call(odd).name, USE_TOOL_TOOL_NAME);
        }
        let other = extract_deferred_tool_call(ToolCall::new(
            "1",
            "bash",
            json!({"name": "x", "arguments": {}}),
        ));
        assert_eq!(other.name, "bash");
    }

    #[test]
    fn tools_are_found_by_name_description_and_arguments() {
        let object = json!({"type": "object"});
        let specs = [
            spec("mcp__a__createIssue", "Opens a ticket", object.clone()),
            spec("mcp__a__list_issues", "Lists tickets", object),
            spec(
                "mcp__a__send",
                "Sends a message",
                json!({"type": "object", "properties": {"recipient": {"description": "address of the mailbox"}}}),
            ),
        ];
        let first = |query: &str| {
            let text = describe_matching_tools(RankingQueryWords::new(query).unwrap(), &specs);
            let line = text.lines().find(|line| line.starts_with("mcp__"));
            line.and_then(|line| line.split(':').next())
                .unwrap_or_default()
                .to_owned()
        };
        assert_eq!(first("create an issue"), "mcp__a__createIssue");
        assert_eq!(first("list issues"), "mcp__a__list_issues");
        assert_eq!(first("mailbox recipient"), "mcp__a__send");
        let nothing = describe_matching_tools(RankingQueryWords::new("zebra").unwrap(), &specs);
        assert!(nothing.contains("3 tools can be found"), "{nothing}");
    }

    #[test]
    fn results_are_bounded() {
        let large =
            json!({"type": "object", "properties": {"x": {"description": "y".repeat(20_000)}}});
        let specs: Vec<_> = (0..500)
            .map(|n| {
                spec(
                    &format!("mcp__a__find_{n}"),
                    &"word ".repeat(500),
                    large.clone(),
                )
            })
            .collect();
        let text = describe_matching_tools(RankingQueryWords::new("find word").unwrap(), &specs);
        assert!(text.len() < 20_000, "{}", text.len());
        assert!(text.contains("500 found") && text.contains("also found: "));
        assert!(list_tool_names(&specs).contains("and 400 more"));
    }
}
