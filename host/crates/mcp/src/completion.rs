//! Requests completions from a server: values for the arguments of prompts, and the rest of URIs
//! that match the server's resource templates.
//!
//! The request is sent only when the user asks for a completion, never on each keystroke, because
//! unfinished input is private. Proposed values are untrusted; only short single lines are shown.
//! Start from [`request_value_completions`].

use std::collections::HashMap;

use rmcp::model::{CompletionContext, CompletionInfo};

use super::client::{McpRequestError, McpServerConnection};
use super::resource::{MAX_RESOURCE_URI_BYTES, ServerResourcesAndTemplates, check_resource_uri};
use rind_lib::host::InputCompletionRequest;
use rind_lib::text::escape_to_one_line;

/// Maximum length of a value that the server proposes as a completion, in bytes.
const MAX_COMPLETION_VALUE_BYTES: usize = 256;

/// Maximum number of URI templates whose variables are completed for one typed URI.
const MAX_URI_TEMPLATES_PER_COMPLETION: usize = 4;

/// Asks a server to complete a value. Returns no values if the server does not declare that it
/// supports completion.
pub(crate) async fn request_value_completions(
    connection: &McpServerConnection,
    begun: &InputCompletionRequest,
    list: &ServerResourcesAndTemplates,
) -> Result<Vec<String>, McpRequestError> {
    if !connection.declares_capability(|own| own.completions.is_some()) {
        return Ok(Vec::new());
    }
    match begun {
        InputCompletionRequest::Argument {
            prompt,
            name,
            value,
            others,
        } => {
            let context = arguments_as_completion_context(others.iter().cloned());
            let asked = connection.request_sender().complete_prompt_argument(
                prompt.as_str(),
                name.as_str(),
                value.as_str(),
                context,
            );
            match asked.await {
                Ok(found) => Ok(filter_displayable_completions(found).collect()),
                Err(error) => Err(connection.classify_request_error(error).await),
            }
        }
        InputCompletionRequest::Address(uri) => {
            request_uri_completions(connection, uri, list).await
        }
    }
}

async fn request_uri_completions(
    connection: &McpServerConnection,
    uri: &str,
    list: &ServerResourcesAndTemplates,
) -> Result<Vec<String>, McpRequestError> {
    let mut found = Vec::new();
    let fitting = list.templates.iter().filter_map(|own| {
        let template = own.template.as_deref()?;
        Some((template, find_variable_being_typed(template, uri)?))
    });
    for (template, begun) in fitting.take(MAX_URI_TEMPLATES_PER_COMPLETION) {
        let context = arguments_as_completion_context(begun.given.into_iter());
        let asked = connection.request_sender().complete_resource_argument(
            template,
            begun.name.as_str(),
            begun.value.as_str(),
            context,
        );
        let values = match asked.await {
            Ok(values) => values,
            Err(error) => return Err(connection.classify_request_error(error).await),
        };
        let before = uri.get(..uri.len() - begun.value.len()).unwrap_or_default();
        let whole = filter_displayable_completions(values)
            .map(|value| format!("{before}{value}{}", begun.literal));
        found.extend(whole.filter(|own| check_resource_uri(own).is_ok()));
    }
    found.dedup();
    Ok(found)
}

fn arguments_as_completion_context(
    given: impl Iterator<Item = (String, String)>,
) -> Option<CompletionContext> {
    let given: HashMap<String, String> = given.collect();
    (!given.is_empty()).then(|| CompletionContext::with_arguments(given))
}

/// Returns the values that are single lines of visible text of at most
/// [`MAX_COMPLETION_VALUE_BYTES`] bytes.
fn filter_displayable_completions(found: CompletionInfo) -> impl Iterator<Item = String> {
    let values = found.values.into_iter().take(CompletionInfo::MAX_VALUES);
    values.filter(|value| {
        let is_plain = escape_to_one_line(value) == *value;
        is_plain && !value.is_empty() && value.len() <= MAX_COMPLETION_VALUE_BYTES
    })
}

/// Variable of a URI template whose value is at the end of an incomplete URI.
#[derive(Debug, PartialEq, Eq)]
struct PartialUriTemplateVariable {
    name: String,
    value: String,
    /// Names and values of the variables that precede this variable in the template.
    given: Vec<(String, String)>,
    /// Literal text of the template between this variable and the next one.
    literal: String,
}

/// Finds the variable of a template whose value is at the end of an incomplete URI. Only RFC 6570
/// expressions of the form `{name}` or `{+name}` are supported.
fn find_variable_being_typed(template: &str, begun: &str) -> Option<PartialUriTemplateVariable> {
    if begun.len() > MAX_RESOURCE_URI_BYTES {
        return None;
    }
    let (literal, mut parts) = template.split_once('{')?;
    let mut rest = begun.strip_prefix(literal)?;
    let mut given = Vec::new();
    loop {
        let (expression, after) = parts.split_once('}')?;
        let name = expression.strip_prefix('+').unwrap_or(expression);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(is_plain) {
            return None;
        }
        let (literal, next) = match after.split_once('{') {
            Some((literal, next)) => (literal, Some(next)),
            None => (after, None),
        };
        match rest.split_once(literal).filter(|_| !literal.is_empty()) {
            Some((value, more)) => {
                given.push((name.to_owned(), value.to_owned()));
                rest = more;
                parts = next?;
            }
            None => {
                return Some(PartialUriTemplateVariable {
                    name: name.to_owned(),
                    value: rest.to_owned(),
                    given,
                    literal: literal.to_owned(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_begun_address_ends_in_one_variable_of_its_template() {
        let found = |template: &str, begun: &str| {
            let own = find_variable_being_typed(template, begun)?;
            let given = own
                .given
                .iter()
                .map(|(name, value)| format!("{name}={value} "));
            let given: String = given.collect();
            Some(format!("{given}{}:{} {}", own.name, own.value, own.literal))
        };
        for (template, begun, expected) in [
            ("docs://{page}", "docs://gu", Some("page:gu ")),
            ("docs://{page}", "docs://", Some("page: ")),
            ("docs://{page}", "doc", None),
            ("a://{repo}/files/{+path}", "a://x", Some("repo:x /files/")),
            (
                "a://{repo}/files/{+path}",
                "a://x/files/s",
                Some("repo=x path:s "),
            ),
            ("a://{a}{b}", "a://x", Some("a:x ")),
            ("a://{x}/end", "a://x/end", None),
            ("a://{?query*}", "a://x", None),
            ("a://fixed", "a://f", None),
            ("a://{", "a://", None),
        ] {
            assert_eq!(
                found(template, begun).as_deref(),
                expected,
                "{template} {begun}"
            );
        }
    }

    #[test]
    fn proposals_are_short_lines() {
        let values = ["fine", "", "two\nlines", "\u{1b}[2J", "\u{202e}x"].map(str::to_owned);
        let mut values = values.to_vec();
        values.push("x".repeat(MAX_COMPLETION_VALUE_BYTES + 1));
        values.extend((0..200).map(|n| n.to_string()));
        let mut info = CompletionInfo::default();
        info.values = values;
        let found: Vec<String> = filter_displayable_completions(info).collect();
        assert_eq!((found[0].as_str(), found[1].as_str()), ("fine", "0"));
        assert!(found.len() <= CompletionInfo::MAX_VALUES);
    }
}
