//! The built-in extension points as the macro sees them: name, payload, outcome. A test holds the table equal to `wit/`.

use proc_macro2::TokenStream;
use quote::quote;
use syn::Ident;

/// A built-in extension point.
#[derive(Debug)]
pub(crate) struct Point {
    /// Name, that of its WIT interface.
    pub(crate) name: &'static str,
    /// The type of its payload as WIT writes it.
    payload: &'static str,
    /// The type of its outcome as WIT writes it.
    outcome: &'static str,
}

const fn point(name: &'static str, payload: &'static str, outcome: &'static str) -> Point {
    Point {
        name,
        payload,
        outcome,
    }
}

/// All of them, in the order of a session.
pub(crate) const POINTS: &[Point] = &[
    point("session-start", "session-info", "observed"),
    point("session-end", "session-info", "observed"),
    point("turn-start", "turn-input", "input-outcome"),
    point("pre-assess", "turn-input", "input-outcome"),
    point("post-assess", "assessment", "assessment-outcome"),
    point("system-prompt", "prompt-context", "prompt-outcome"),
    point("before-system-prompt", "list<prompt-part>", "parts-outcome"),
    point("after-system-prompt", "string", "text-outcome"),
    point("context", "borrow<conversation>", "context-outcome"),
    point("pre-reason", "model-request", "request-outcome"),
    point(
        "before-provider-request",
        "borrow<wire-request>",
        "wire-outcome",
    ),
    point("output-delta", "text-delta", "delta-outcome"),
    point(
        "after-provider-response",
        "borrow<wire-response>",
        "observed",
    ),
    point("post-reason", "message", "reply-outcome"),
    point("message-end", "message", "observed"),
    point("pre-tool", "proposed-call", "call-outcome"),
    point("post-tool", "borrow<finished-call>", "result-outcome"),
    point("steering-received", "turn-input", "steering-outcome"),
    point("pre-reflect", "reflection", "reflection-outcome"),
    point("post-reflect", "reflect-verdict", "verdict-outcome"),
    point("pre-output", "string", "output-outcome"),
    point("post-output", "string", "observed"),
    point("turn-end", "turn-summary", "observed"),
    point("before-compact", "borrow<slice>", "slice-outcome"),
    point("after-compact", "borrow<slice>", "observed"),
    point("before-archive", "borrow<slice>", "slice-outcome"),
    point("after-archive", "borrow<slice>", "observed"),
    point("subagent-start", "subagent-info", "observed"),
    point("subagent-end", "subagent-info", "observed"),
    point("error", "failure", "observed"),
];

impl Point {
    /// The name as a function or module.
    pub(crate) fn snake(&self) -> String {
        self.name.replace('-', "_")
    }

    /// The Rust type of the payload.
    pub(crate) fn payload(&self) -> TokenStream {
        rust_type(self.payload)
    }

    /// Whether the payload is a handle that is lent.
    pub(crate) fn is_lent(&self) -> bool {
        lent(self.payload).is_some()
    }

    /// The Rust type of the outcome.
    pub(crate) fn outcome(&self) -> TokenStream {
        rust_type(self.outcome)
    }
}

/// The point that a function is a hook of, by the function's name.
pub(crate) fn find(function: &Ident) -> syn::Result<&'static Point> {
    let name = function.to_string();
    if let Some(point) = POINTS.iter().find(|point| point.snake() == name) {
        return Ok(point);
    }
    let names: Vec<String> = POINTS
        .iter()
        .map(|point| format!("`{}`", point.snake()))
        .collect();
    let message = format!(
        "there is no extension point `{name}`; a hook is named after its point, one of {}",
        names.join(", ")
    );
    Err(syn::Error::new(function.span(), message))
}

/// The type of a handle that is lent.
fn lent(wit: &str) -> Option<&str> {
    wit.strip_prefix("borrow<")?.strip_suffix('>')
}

fn rust_type(wit: &str) -> TokenStream {
    if let Some(inner) = wit
        .strip_prefix("list<")
        .and_then(|rest| rest.strip_suffix('>'))
    {
        let inner = rust_type(inner);
        return quote!(::std::vec::Vec<#inner>);
    }
    if let Some(handle) = lent(wit) {
        let handle = rust_type(handle);
        return quote!(&#handle);
    }
    if wit == "string" {
        return quote!(::std::string::String);
    }
    let mut camel = String::new();
    for word in wit.split('-') {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    let name = Ident::new(&camel, proc_macro2::Span::call_site());
    // The prelude lists every type of the contract, whichever interface it is from.
    quote!(::rind_sdk::prelude::#name)
}

#[cfg(test)]
mod tests {
    use super::POINTS;
    use std::fs;
    use std::path::Path;

    fn wit(file: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../../wit")
            .join(file);
        fs::read_to_string(path).expect("wit/ is in the repository")
    }

    #[test]
    fn every_point_has_the_payload_and_outcome_of_its_interface() {
        for point in POINTS {
            let expected = format!(
                "run: func(payload: {}) -> result<{}, error>;",
                point.payload, point.outcome
            );
            let text = wit(&format!("{}.wit", point.name));
            assert!(text.contains(&expected), "{}: {expected}", point.name);
        }
    }

    #[test]
    fn the_points_are_those_of_the_hooks_world_in_its_order() {
        let text = wit("world.wit");
        let world = text
            .split("world hooks {")
            .nth(1)
            .expect("the world is there");
        let body = world.split('}').next().expect("the world ends");
        let exports: Vec<&str> = body
            .lines()
            .filter_map(|line| line.trim().strip_prefix("export ")?.strip_suffix(';'))
            .collect();
        let names: Vec<&str> = POINTS.iter().map(|point| point.name).collect();
        assert_eq!(names, exports);
    }
}
