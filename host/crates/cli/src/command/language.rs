//! Parses and renders templates in the language of Jinja.
//!
//! A template reads no file and no other template. Its fuel limits the number of instructions, but
//! neither the nesting of an expression or a value, nor the size of a value that repeats one part
//! many times: a few lines can exhaust the memory or the stack. Therefore templates run only in the
//! process of [`helper`](super::helper), which has limits.

use std::collections::BTreeSet;

use minijinja::{Environment, UndefinedBehavior};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Fuel for rendering one template: some 50,000 instructions, or 3 MB of text.
const TEMPLATE_RENDER_FUEL: u64 = 50_000;

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TemplateFault {
    /// Byte offset of the fault in the template, if known.
    pub(super) offset: Option<usize>,
    /// Line of the template that has the fault, counted from 1.
    pub(super) line: usize,
    pub(super) why: String,
}

/// Returns the variables that a template uses but does not set.
///
/// # Errors
/// The template cannot be parsed.
pub(super) fn find_undeclared_variables(source: &str) -> Result<BTreeSet<String>, TemplateFault> {
    let environment = create_template_environment();
    let parsed = environment.template_from_named_str("template", source);
    let parsed = parsed.map_err(|error| template_fault(&error))?;
    Ok(parsed.undeclared_variables(false).into_iter().collect())
}

/// Renders a template.
///
/// # Errors
/// The template cannot be parsed or rendered.
pub(super) fn render_template(source: &str, arguments: &Value) -> Result<String, TemplateFault> {
    let environment = create_template_environment();
    let parsed = environment.template_from_named_str("template", source);
    parsed
        .and_then(|template| template.render(minijinja::value::Serde(arguments)))
        .map_err(|error| template_fault(&error))
}

/// Returns an environment without a loader or other templates. Printing an undefined value fails;
/// testing whether it is defined does not.
fn create_template_environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_fuel(Some(TEMPLATE_RENDER_FUEL));
    environment
}

fn template_fault(error: &minijinja::Error) -> TemplateFault {
    let mut why = error.kind().to_string();
    if let Some(detail) = error.detail() {
        why = format!("{why}: {detail}");
    }
    TemplateFault {
        offset: error.range().map(|range| range.start),
        line: error.line().unwrap_or(1),
        why,
    }
}
