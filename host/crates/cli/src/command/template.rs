//! Prompt templates: a Markdown file with front matter, which is rendered with the arguments of its
//! slash command.
//!
//! The front matter is YAML of limited size. This module does not interpret the body: a
//! [`TemplateRenderBackend`] parses and renders it. An undefined variable is an error. Errors have
//! file, line and column. Start from [`CommandTemplate::parse_template_file`].
//!
//! For example:
//!
//! ```markdown
//! ---
//! description: Reviews a folder
//! arguments:
//!   properties:
//!     path: {type: string}
//!     focus: {type: string}
//!   required: [path]
//! ---
//!
//! Review {{ path }}{% if focus %} for {{ focus }}{% endif %}.
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::MAX_COMMAND_DESCRIPTION_BYTES;
use super::helper::{TemplateRenderBackend, TemplateRenderError};
use super::language::TemplateFault;
use rind_lib::front_matter::{self, YamlMappingEntry, YamlNode, YamlPosition, split_front_matter};
use rind_lib::plugin::prompts::MAX_TEMPLATE_BYTES;
use rind_lib::text::escape_and_truncate_line;
use rind_lib::tool::schema;

/// Keys that the front matter of a template may have.
const FRONT_MATTER_KEYS: [&str; 2] = ["arguments", "description"];

/// Variable with the text after the command's name, in a template that declares no arguments.
const COMMAND_TEXT_VARIABLE_NAME: &str = "arguments";

/// Variables that Jinja defines in every template.
const JINJA_GLOBAL_VARIABLES: [&str; 3] = ["dict", "range", "namespace"];

/// Template of a slash command, with its front matter parsed.
#[derive(Debug)]
pub(super) struct CommandTemplate {
    pub(super) path: PathBuf,
    pub(super) description: String,
    /// JSON Schema of the arguments. `None`: the template may use the text after the command's
    /// name.
    pub(super) arguments: Option<Value>,
    /// Body of the template. An empty line precedes it for each line of the front matter, so that
    /// line numbers match those of the file.
    source: String,
    /// Whether the template uses the text after the command's name. Always false before
    /// [`check_variables_are_declared`](Self::check_variables_are_declared).
    pub(super) takes_text: bool,
}

impl CommandTemplate {
    /// Parses the front matter of a template file.
    ///
    /// # Errors
    /// The reason why the template cannot be used, with file, line and column.
    pub(super) fn parse_template_file(path: &Path, bytes: &[u8]) -> Result<Self, String> {
        let at = |(line, column): YamlPosition, why: &str| {
            format!("{}:{line}:{column}: {why}", path.display())
        };
        if bytes.len() as u64 > MAX_TEMPLATE_BYTES {
            let most = MAX_TEMPLATE_BYTES >> 10;
            return Err(format!(
                "{}: the template has more than {most} KiB",
                path.display()
            ));
        }
        let text = std::str::from_utf8(bytes).map_err(|e| {
            let before = bytes.get(..e.valid_up_to()).unwrap_or_default();
            let line = before.iter().filter(|byte| **byte == b'\n').count();
            at((line + 1, 1), "this line is not UTF-8")
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let Some((front, body)) = split_front_matter(text) else {
            let why = "a template begins with front matter: a line `---`, a line `description: …`, and a line `---`";
            return Err(at((1, 1), why));
        };
        let read = front_matter::parse_yaml_document(front)
            .map_err(|(place, why)| at(place, &first_line(&why)))?;
        let place = |key: &str| read.get(key).map_or((1, 1), |entry| entry.place);
        let mut keys = read.entries.iter().map(|entry| &entry.key);
        if let Some(key) = keys.find(|key| !FRONT_MATTER_KEYS.contains(&key.as_str())) {
            let (key, known) = (key.escape_debug(), FRONT_MATTER_KEYS.join("` and `"));
            return Err(at(
                place(&key.to_string()),
                &format!("unknown key `{key}`; the keys are `{known}`"),
            ));
        }
        let node = |key: &str| read.get(key).map(|YamlMappingEntry { node, .. }| node);
        let description = node("description").and_then(YamlNode::scalar_text);
        let description = escape_and_truncate_line(
            description.unwrap_or_default().trim(),
            MAX_COMMAND_DESCRIPTION_BYTES,
        );
        if description.is_empty() {
            let why = "`description` is missing: one line of text on what the command does";
            return Err(at(place("description"), why));
        }
        let mut arguments = node("arguments").map(YamlNode::to_json_value);
        if let Some(schema) = &mut arguments {
            if let Some(schema) = schema.as_object_mut() {
                schema.entry("type").or_insert_with(|| json!("object"));
            }
            let refused = match schema.get("type").and_then(Value::as_str) {
                Some("object") => schema::compile_json_schema_check(schema).err(),
                _ => Some("the schema must have `type: object`".to_owned()),
            };
            if let Some(why) = refused {
                return Err(at(place("arguments"), &format!("`arguments`: {why}")));
            }
        }
        let n_lines = front.lines().count() + 1;
        Ok(Self {
            path: path.to_owned(),
            description,
            arguments,
            source: "\n".repeat(n_lines) + body,
            takes_text: false,
        })
    }

    /// Returns the body after an empty line for each line of the front matter, so that line numbers
    /// in errors match those of the file.
    pub(super) fn body_with_line_padding(&self) -> &str {
        &self.source
    }

    /// Checks that the template could be parsed, and that it declares every variable it uses.
    /// `used` has the variables that the parser found, or the error of the parser.
    ///
    /// # Errors
    /// The reason why the template cannot be used, with file, line and column.
    pub(super) fn check_variables_are_declared(
        &mut self,
        used: Result<BTreeSet<String>, TemplateRenderError>,
    ) -> Result<(), String> {
        let used = used.map_err(|refusal| self.format_render_error(refusal))?;
        self.takes_text = used.contains(COMMAND_TEXT_VARIABLE_NAME);
        let declared = self.arguments.as_ref().and_then(|schema| {
            let properties = schema.get("properties")?.as_object()?;
            Some(properties.keys().map(String::as_str).collect())
        });
        let declared: BTreeSet<&str> = match &self.arguments {
            Some(_) => declared.unwrap_or_default(),
            None => BTreeSet::from([COMMAND_TEXT_VARIABLE_NAME]),
        };
        let is_known = |name: &&String| {
            declared.contains(name.as_str()) || JINJA_GLOBAL_VARIABLES.contains(&name.as_str())
        };
        let unknown: BTreeSet<&String> = used.iter().filter(|name| !is_known(name)).collect();
        let Some(name) = unknown.first() else {
            return Ok(());
        };
        let offset = first_variable_use_offset(&self.source, name);
        let known: Vec<&str> = declared.into_iter().collect();
        let known = match (&self.arguments, known.is_empty()) {
            (None, _) => {
                format!(
                    "it declares no arguments; `{COMMAND_TEXT_VARIABLE_NAME}` has the text that follows the command's name"
                )
            }
            (Some(_), true) => "it declares none".to_owned(),
            (Some(_), false) => format!("its arguments are {}", known.join(", ")),
        };
        Err(self.format_fault_with_line_and_column(
            offset,
            &format!("`{name}` is not an argument of this template; {known}"),
        ))
    }

    /// Renders the template, or stops when `cancel` is set. `arguments` must fit the template's
    /// schema; without a schema they are the text after the command's name.
    ///
    /// # Errors
    /// The reason why the template cannot be rendered, with file, line and column.
    pub(super) async fn render_text(
        &self,
        arguments: &Value,
        helper: &TemplateRenderBackend,
        cancel: &CancellationToken,
    ) -> Result<String, String> {
        let given = match (&self.arguments, arguments) {
            (Some(_), arguments) => arguments.clone(),
            (None, Value::String(text)) if !self.takes_text && !text.trim().is_empty() => {
                return Err(format!(
                    "{}: the template declares no arguments; it uses the text after its name as `{{{{ {COMMAND_TEXT_VARIABLE_NAME} }}}}`",
                    self.path.display()
                ));
            }
            (None, text) => json!({ COMMAND_TEXT_VARIABLE_NAME: text }),
        };
        let rendered = helper.render_template(&self.source, &given, cancel).await;
        let rendered = rendered.map_err(|refusal| self.format_render_error(refusal))?;
        let text = rendered.trim();
        if text.is_empty() {
            return Err(format!(
                "{}: the template renders to an empty prompt",
                self.path.display()
            ));
        }
        Ok(text.to_owned())
    }

    fn format_render_error(&self, refusal: TemplateRenderError) -> String {
        match refusal {
            TemplateRenderError::Fault(TemplateFault {
                offset: Some(offset),
                why,
                ..
            }) => self.format_fault_with_line_and_column(offset, &first_line(&why)),
            TemplateRenderError::Fault(TemplateFault { line, why, .. }) => {
                format!("{}:{line}:1: {}", self.path.display(), first_line(&why))
            }
            TemplateRenderError::Ended(why) => {
                format!("{}: {}", self.path.display(), first_line(&why))
            }
        }
    }

    fn format_fault_with_line_and_column(&self, offset: usize, why: &str) -> String {
        let before = self.source.get(..offset).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let last = before.rsplit('\n').next().unwrap_or_default();
        let column = last.chars().count() + 1;
        format!("{}:{line}:{column}: {why}", self.path.display())
    }
}

/// Returns the byte offset of the first use of a variable in a template; 0 if there is none.
fn first_variable_use_offset(source: &str, name: &str) -> usize {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut places = source.match_indices(name).map(|(at, _)| at);
    let found = places.find(|at| {
        let before = source.get(..*at).unwrap_or_default();
        let after = source.get(at + name.len()..).unwrap_or_default();
        let is_open = before.rfind('{') > before.rfind('}');
        is_open && !before.ends_with(is_part) && !after.starts_with(is_part)
    });
    found.unwrap_or(0)
}

fn first_line(text: &str) -> String {
    escape_and_truncate_line(text.lines().next().unwrap_or_default(), 500)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::parse_test_case_table;

    /// Reads and checks a file as the registry does, in this process.
    async fn read(text: &str) -> Result<CommandTemplate, String> {
        let mut template =
            CommandTemplate::parse_template_file(Path::new("p/x.md"), text.as_bytes())?;
        let mut used = TemplateRenderBackend::Here
            .find_undeclared_template_variables(&[template.body_with_line_padding()])
            .await;
        template.check_variables_are_declared(used.remove(0))?;
        Ok(template)
    }

    async fn render(template: &CommandTemplate, arguments: Value) -> Result<String, String> {
        let cancel = CancellationToken::new();
        template
            .render_text(&arguments, &TemplateRenderBackend::Here, &cancel)
            .await
    }

    #[tokio::test]
    async fn a_template_is_rendered_with_its_arguments() {
        let template = read(
            "---\ndescription: Reviews a folder\narguments:\n  properties:\n    path: {type: string}\n    focus: {type: string}\n  \
             required: [path]\n---\n\nReview {{ path }}{% if focus %} for {{ focus }}{% endif %}.\n",
        )
        .await
        .unwrap();
        assert_eq!(template.description, "Reviews a folder");
        for (given, expected) in [
            (json!({"path": "a<b"}), "Review a<b."),
            (
                json!({"path": "a", "focus": "{{ path }}"}),
                "Review a for {{ path }}.",
            ),
        ] {
            assert_eq!(render(&template, given).await.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn without_declared_arguments_the_text_is_at_hand_and_never_lost() {
        let with = read("---\ndescription: x\n---\nDo {{ arguments }}").await;
        let done = render(&with.unwrap(), json!("it well")).await;
        assert_eq!(done.unwrap(), "Do it well");
        let without = read("---\ndescription: x\n---\nDo.").await.unwrap();
        assert_eq!(render(&without, json!("")).await.unwrap(), "Do.");
        let why = render(&without, json!("it")).await.unwrap_err();
        assert!(why.contains("declares no arguments"), "{why}");
    }

    #[tokio::test]
    async fn errors_name_file_line_and_column() {
        let table = "
no front matter => p/x.md:1:1: a template begins
---⏎description: x⏎ => p/x.md:1:1: a template begins
---⏎description: x⏎model: y⏎---⏎ => p/x.md:3:1: unknown key `model`
---⏎description: x⏎description: y⏎---⏎ => p/x.md:3:1:
---⏎description: ''⏎---⏎ => p/x.md:2:1: `description` is missing
---⏎description: [x⏎---⏎ => p/x.md:
---⏎x: &a 1⏎description: *a⏎---⏎ => p/x.md:2:7: references
---⏎description: x⏎arguments: {type: array}⏎---⏎ => p/x.md:3:1: `arguments`: the schema must have `type: object`
---⏎description: x⏎---⏎⏎Say {{ nmae }} => p/x.md:5:8: `nmae` is not an argument
---⏎description: x⏎---⏎Say {{ 1 + }} => p/x.md:4:
---⏎description: x⏎---⏎{% include '/etc/passwd' %} => p/x.md:4:
---⏎description: x⏎---⏎{% extends 'x' %} => p/x.md:4:
---⏎description: x⏎---⏎{% import 'x' as y %} => p/x.md:4:
";
        for [text, expected] in parse_test_case_table(table) {
            let why = read(&text).await.unwrap_err();
            assert!(why.starts_with(&expected), "{text}\n{why}");
        }
        let bytes = b"---\ndescription: \xff\n---\n";
        let why = CommandTemplate::parse_template_file(Path::new("p/x.md"), bytes).unwrap_err();
        assert_eq!(why, "p/x.md:2:1: this line is not UTF-8");
    }

    #[tokio::test]
    async fn what_a_template_computes_takes_fuel() {
        let doubled = "{% set a = a ~ a %}".repeat(60);
        for body in [
            "{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}"
                .to_owned(),
            format!("{{% set a = 'xxxxxxxx' %}}{doubled}{{{{ a }}}}"),
            "{{ 'x' * 90000000 }}".to_owned(),
        ] {
            let template = read(&format!("---\ndescription: x\n---\n{body}")).await;
            let why = render(&template.unwrap(), json!("")).await.unwrap_err();
            assert!(why.contains("fuel"), "{why}");
        }
    }
}
