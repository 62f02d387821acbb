//! Renders the text of a skill for the model: expands placeholders in one pass, and wraps the
//! result in tags that the body cannot close.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::Value;

use super::model::Skill;
use super::snapshot::SessionSkills;
use crate::json;
use crate::text::escape_to_one_line;

/// Arguments that a skill was started with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkillArguments {
    /// All arguments as one text, as typed.
    pub text: String,
    /// Values of the arguments by name. The names are those that the skill declares, or, for a JSON
    /// object from the model, all of its keys.
    pub named: BTreeMap<String, String>,
}

impl SkillArguments {
    /// Converts the arguments of a skill, which are a text typed by the user or a JSON object from
    /// the model.
    #[must_use]
    pub fn new(skill: &Skill, given: &Value) -> Self {
        match given {
            Value::Object(values) => {
                let named = values
                    .iter()
                    .map(|(name, value)| (name.clone(), format_skill_argument(value)));
                let named: BTreeMap<String, String> = named.collect();
                let in_order = skill
                    .argument_names
                    .iter()
                    .filter_map(|name| named.get(name));
                let others = named
                    .iter()
                    .filter(|(name, _)| !skill.argument_names.contains(name));
                let all = in_order.chain(others.map(|(_, value)| value));
                let text = all
                    .map(|value| quote_value(value))
                    .collect::<Vec<_>>()
                    .join(" ");
                Self { text, named }
            }
            Value::Null => Self::default(),
            other => {
                let text = format_skill_argument(other);
                let names = skill.argument_names.iter().cloned();
                let named = names.zip(split_words(&text)).collect();
                Self { text, named }
            }
        }
    }
}

fn format_skill_argument(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        other => json::format_value_for_display(other),
    }
}

/// Quotes a value so that [`split_words`] returns it as one word.
fn quote_value(value: &str) -> String {
    let is_plain = |c: char| !c.is_whitespace() && !"'\"\\".contains(c);
    if !value.is_empty() && value.chars().all(is_plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', "'\\''"))
}

/// Splits text into words like a shell: only quotes and backslashes are special. An unclosed quote
/// extends to the end.
///
/// For example:
///
/// ```text
/// a 'b c' d\ e    ->  three words: a, b c, d e
/// a "b             ->  two words: a, b
/// ```
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                word.get_or_insert_default().extend(characters.next());
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// Placeholder at the start of a text.
enum SkillTextPlaceholder<'a> {
    /// Placeholder for the base directory of the skill.
    Folder,
    PluginFolder,
    All,
    /// Positional argument by its index, from 0.
    Nth(usize),
    Named(&'a str),
}

impl SessionSkills {
    /// Expands the placeholders of a body in one pass: inserted text is not expanded again. `$N`
    /// and argument names are placeholders only in skills that take arguments; other skills may
    /// contain prices and scripts unchanged.
    ///
    /// For example:
    ///
    /// ```text
    /// skill                      body                            arguments     text
    /// arguments: [issue, path]   Fix $issue in $path             7 src         Fix 7 in src
    /// argument-hint: '[x]'       first $0, second $1             a 'b c'       first a, second b c
    /// none declared              $ARGUMENTS, $ARGUMENTS[1]        a b           a b, b
    /// none declared              It costs $5.                    (none)        It costs $5.
    /// ```
    #[must_use]
    pub fn expand_skill(skill: &Skill, arguments: &SkillArguments) -> String {
        let words = split_words(&arguments.text);
        let takes = skill.takes_arguments();
        let mut text = String::with_capacity(skill.body.len());
        let mut rest: &str = &skill.body;
        let mut is_used = false;
        while let Some(at) = rest.find(['$', '{', '\\']) {
            let (before, tail) = rest.split_at(at);
            text.push_str(before);
            if takes && let Some(escaped) = tail.strip_prefix("\\$") {
                let is_placeholder =
                    read_placeholder(skill, tail.get(1..).unwrap_or_default(), takes);
                if is_placeholder.is_some() {
                    text.push('$');
                    rest = escaped;
                    continue;
                }
            }
            let Some((found, length)) = read_placeholder(skill, tail, takes) else {
                let mut characters = tail.chars();
                text.extend(characters.next());
                rest = characters.as_str();
                continue;
            };
            let (whole, after) = tail.split_at(length);
            match found {
                SkillTextPlaceholder::Folder => text.push_str(&skill.dir.to_string_lossy()),
                SkillTextPlaceholder::PluginFolder => {
                    // The bundle is `skills/NAME` inside the plugin.
                    let root = skill.dir.parent().and_then(std::path::Path::parent);
                    text.push_str(&root.unwrap_or(&skill.dir).to_string_lossy());
                }
                SkillTextPlaceholder::All => {
                    text.push_str(&arguments.text);
                    is_used = true;
                }
                SkillTextPlaceholder::Nth(n) => {
                    let word = words.get(n);
                    text.push_str(word.map_or(whole, String::as_str));
                    is_used |= word.is_some();
                }
                SkillTextPlaceholder::Named(name) => {
                    let value = arguments.named.get(name);
                    text.push_str(value.map_or("", String::as_str));
                    is_used |= value.is_some();
                }
            }
            rest = after;
        }
        text.push_str(rest);
        if !is_used && !arguments.text.trim().is_empty() {
            let _ = write!(text, "\n\nARGUMENTS: {}\n", arguments.text);
        }
        text
    }

    /// Wraps the text of a skill in a tag that shows its origin. The tag's name contains a hash
    /// that does not occur in the text, so the text cannot close the tag.
    ///
    /// For example:
    ///
    /// ```text
    /// <skill-0123456789abcdef name="review" source="user" trust="user" directory="/skills/review">
    /// Review the change.
    /// </skill-0123456789abcdef>
    /// ```
    #[must_use]
    pub fn tag_text_with_origin(skill: &Skill, text: &str) -> String {
        let mut mark = short_hash(text);
        while text.contains(&mark) {
            mark = short_hash(&mark);
        }
        let (id, source) = (
            escape_attribute(&skill.id),
            escape_attribute(&skill.source.to_string()),
        );
        let (trust, dir) = (skill.trust, escape_attribute(&skill.dir.to_string_lossy()));
        format!(
            "<skill-{mark} name=\"{id}\" source=\"{source}\" trust=\"{trust}\" directory=\"{dir}\">\n{}\n</skill-{mark}>",
            text.trim_end_matches('\n')
        )
    }
}

fn short_hash(text: &str) -> String {
    blake3::hash(text.as_bytes())
        .to_hex()
        .chars()
        .take(16)
        .collect()
}

fn escape_attribute(text: &str) -> String {
    let text = escape_to_one_line(text);
    text.replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Placeholders for the directory of the bundle.
pub(super) const BUNDLE_FOLDER_PLACEHOLDERS: [&str; 3] =
    ["${CLAUDE_SKILL_DIR}", "${baseDir}", "{baseDir}"];

fn read_placeholder<'a>(
    skill: &'a Skill,
    text: &str,
    takes: bool,
) -> Option<(SkillTextPlaceholder<'a>, usize)> {
    const PLUGIN_FOLDER_PLACEHOLDER: &str = "${CLAUDE_PLUGIN_ROOT}";
    if let Some(name) = BUNDLE_FOLDER_PLACEHOLDERS
        .iter()
        .find(|name| text.starts_with(**name))
    {
        return Some((SkillTextPlaceholder::Folder, name.len()));
    }
    if text.starts_with(PLUGIN_FOLDER_PLACEHOLDER) && skill.source.plugin_name().is_some() {
        return Some((
            SkillTextPlaceholder::PluginFolder,
            PLUGIN_FOLDER_PLACEHOLDER.len(),
        ));
    }
    let rest = text.strip_prefix('$').filter(|_| takes)?;
    if let Some(inner) = rest.strip_prefix("ARGUMENTS[") {
        let digits = inner.split(']').next().filter(|d| is_argument_index(d))?;
        let length = "$ARGUMENTS[]".len() + digits.len();
        let end = inner.len() > digits.len();
        return end.then(|| Some((SkillTextPlaceholder::Nth(digits.parse().ok()?), length)))?;
    }
    let length = |name: &str| 1 + name.len();
    let word_end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    let word = rest
        .get(..word_end.unwrap_or(rest.len()))
        .unwrap_or_default();
    if word == "ARGUMENTS" {
        return Some((SkillTextPlaceholder::All, length(word)));
    }
    let names = skill.argument_names.iter();
    // A name may contain a hyphen, and may be a prefix of another name, so the longest match wins.
    let named = names.filter(|name| {
        let tail = rest.strip_prefix(name.as_str());
        tail.is_some_and(|tail| !tail.starts_with(|c: char| c.is_alphanumeric() || c == '_'))
    });
    if let Some(name) = named.max_by_key(|name| name.len()) {
        return Some((SkillTextPlaceholder::Named(name), length(name)));
    }
    let digits_end = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let digits = rest.get(..digits_end).filter(|d| is_argument_index(d))?;
    Some((
        SkillTextPlaceholder::Nth(digits.parse().ok()?),
        length(digits),
    ))
}

/// Whether digits can be the index of an argument: one or two of them. Longer numbers are prices.
fn is_argument_index(digits: &str) -> bool {
    matches!(digits.len(), 1 | 2) && digits.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests;
