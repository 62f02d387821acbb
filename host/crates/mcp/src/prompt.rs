//! Checks which prompts of a server can be used, and converts them to slash commands with names and
//! arguments.
//!
//! All texts here come from the server and are untrusted. Start from [`OfferedPrompt`].

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use rind_lib::secret::SecretScanner;
use rind_lib::text::escape_and_truncate_line;

/// Maximum number of prompts of one MCP server that can be used.
pub(crate) const MAX_PROMPTS_PER_SERVER: usize = 1_000;

/// Maximum number of arguments that a prompt can have.
const MAX_ARGUMENTS_PER_PROMPT: usize = 32;

/// Maximum length of a prompt's name on its server, in bytes.
const MAX_PROMPT_NAME_BYTES: usize = 512;

/// Maximum length of a command's name without the server's name, in bytes.
const MAX_COMMAND_NAME_BYTES: usize = 48;

/// Maximum length of the description of a prompt or argument, in bytes.
const MAX_PROMPT_DESCRIPTION_BYTES: usize = 4 << 10;

/// Number of hex digits of the hash that makes a truncated name unique.
const TRUNCATED_NAME_HASH_HEX_DIGITS: usize = 8;

/// Definition of a prompt as its server sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedPrompt {
    /// Name of the prompt on its server.
    pub name: String,
    /// Name of the prompt to show to people; `None` if the server sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description of the prompt for people.
    #[serde(default)]
    pub description: String,
    /// Arguments of the prompt, in the server's order.
    #[serde(default)]
    pub arguments: Vec<OfferedArgument>,
}

/// Definition of a prompt's argument by the server. The value of an argument is a string.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferedArgument {
    /// Name of the argument on the server.
    pub name: String,
    /// Description of the argument for people.
    #[serde(default)]
    pub description: String,
    /// Whether a call of the prompt must give a value.
    #[serde(default)]
    pub required: bool,
}

/// Prompts of one MCP server that the operator approved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovedServerPrompts {
    /// Name of the MCP server in the settings.
    pub server: String,
    /// Definitions of the prompts, as approved.
    pub prompts: Vec<OfferedPrompt>,
}

impl OfferedPrompt {
    /// Returns the total length of the prompt's texts and its arguments' texts, in bytes.
    pub(crate) fn total_text_bytes(&self) -> usize {
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|own| own.name.len() + own.description.len());
        let title = self.title.as_ref().map_or(0, String::len);
        self.name.len() + title + self.description.len() + arguments.sum::<usize>()
    }

    /// Returns the name of the slash command, without the server's name: letters, digits, `-`, `_`
    /// and `.`; other characters become `-`. A name that is too long is truncated and ends in
    /// digits of a hash of the prompt's name. Empty if the prompt's name has no letter or digit.
    #[must_use]
    pub fn slash_command_name(&self) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let fitted: String = self
            .name
            .chars()
            .map(|c| if fits(c) { c } else { '-' })
            .collect();
        let fitted = fitted.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if fitted.len() <= MAX_COMMAND_NAME_BYTES {
            return fitted.to_owned();
        }
        let hash = blake3::hash(self.name.as_bytes()).to_hex();
        // The name is ASCII, so it can be truncated at any byte.
        let head = fitted.get(..MAX_COMMAND_NAME_BYTES - TRUNCATED_NAME_HASH_HEX_DIGITS - 1);
        let digits = hash
            .get(..TRUNCATED_NAME_HASH_HEX_DIGITS)
            .unwrap_or_default();
        format!("{}-{digits}", head.unwrap_or(fitted))
    }

    /// Returns the JSON Schema of the arguments, all of which are strings.
    #[must_use]
    pub fn arguments_schema(&self) -> Value {
        let property = |own: &OfferedArgument| {
            let about = escape_and_truncate_line(&own.description, MAX_PROMPT_DESCRIPTION_BYTES);
            (
                own.name.clone(),
                json!({"type": "string", "description": about}),
            )
        };
        let properties: Map<String, Value> = self.arguments.iter().map(property).collect();
        let required = self.arguments.iter().filter(|own| own.required);
        let required: Vec<&str> = required.map(|own| own.name.as_str()).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    /// Returns the reason why the prompt cannot be used; `None` if it can.
    fn unusable_prompt_reason(&self) -> Option<String> {
        if self.name.len() > MAX_PROMPT_NAME_BYTES {
            return Some(format!(
                "the name of the prompt has more than {MAX_PROMPT_NAME_BYTES} bytes"
            ));
        }
        if self.slash_command_name().is_empty() {
            return Some("its name has no letter or digit for a command".to_owned());
        }
        if self.arguments.len() > MAX_ARGUMENTS_PER_PROMPT {
            return Some(format!(
                "the prompt has more than {MAX_ARGUMENTS_PER_PROMPT} arguments"
            ));
        }
        let is_plain = |name: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            !name.is_empty() && name.len() <= 64 && name.chars().all(fits)
        };
        if let Some(own) = self.arguments.iter().find(|own| !is_plain(&own.name)) {
            let name = escape_and_truncate_line(&own.name, 64);
            return Some(format!(
                "the name of its argument `{name}` is invalid: use 1 to 64 letters, digits, `-`, `_` and `.`"
            ));
        }
        let mut names: Vec<&str> = self.arguments.iter().map(|own| own.name.as_str()).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair.first() == pair.last()) {
            return Some("two of its arguments have the same name".to_owned());
        }
        let mut texts = vec![self.description.as_str()];
        texts.extend(self.title.as_deref());
        texts.extend(self.arguments.iter().map(|own| own.description.as_str()));
        if texts
            .iter()
            .any(|text| text.len() > MAX_PROMPT_DESCRIPTION_BYTES)
        {
            return Some(format!(
                "its title, its description or that of an argument has more than {} KiB",
                MAX_PROMPT_DESCRIPTION_BYTES >> 10
            ));
        }
        let mut texts = texts.into_iter();
        let found = texts.find_map(|text| {
            SecretScanner::shared()
                .find_secrets(text)
                .into_iter()
                .next()
        });
        found.map(|finding| {
            format!(
                "a description of it contains what looks like a secret ({})",
                finding.rule
            )
        })
    }
}

/// Separates the prompts of a server into usable ones, sorted by name, and reasons why the others
/// are unusable.
pub(crate) fn separate_unusable_prompts(
    server: &str,
    listed: Vec<OfferedPrompt>,
) -> (Vec<OfferedPrompt>, Vec<String>) {
    let mut by_name: BTreeMap<String, u32> = BTreeMap::new();
    for prompt in &listed {
        *by_name.entry(prompt.slash_command_name()).or_default() += 1;
    }
    let (mut prompts, mut refused) = (Vec::new(), Vec::new());
    for prompt in listed {
        let name = prompt.slash_command_name();
        let fault = prompt
            .unusable_prompt_reason()
            .or_else(|| match by_name.get(&name) {
                Some(n) if *n > 1 => Some(format!(
                    "{n} of its prompts have the command `/{server}:{name}`"
                )),
                _ => None,
            });
        match fault {
            None => prompts.push(prompt),
            Some(why) => refused.push(format!(
                "prompt `{}`: {why}",
                escape_and_truncate_line(&prompt.name, 64)
            )),
        }
    }
    prompts.sort_by(|a: &OfferedPrompt, b| a.name.cmp(&b.name));
    (prompts, refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(name: &str) -> OfferedPrompt {
        OfferedPrompt {
            name: name.to_owned(),
            ..OfferedPrompt::default()
        }
    }

    #[test]
    fn names_of_prompts_become_commands_and_long_ones_stay_apart() {
        for (name, command) in [
            ("review", "review"),
            ("Code Review/2", "Code-Review-2"),
            ("a:b", "a-b"),
            ("../x", "x"),
            ("\u{202e}x\u{1b}[2J", "x--2J"),
            ("日本", ""),
        ] {
            assert_eq!(prompt(name).slash_command_name(), command, "{name}");
        }
        let (long, other) = ("x".repeat(100), "x".repeat(101));
        let names = [&long, &other].map(|name| prompt(name).slash_command_name());
        assert_ne!(names[0], names[1]);
        assert!(
            names
                .iter()
                .all(|name| name.len() == MAX_COMMAND_NAME_BYTES)
        );
    }

    #[test]
    fn prompts_that_cannot_be_used_are_named_and_the_others_stay() {
        let mut odd = prompt("odd");
        odd.arguments = vec![OfferedArgument {
            name: "a=b".to_owned(),
            ..OfferedArgument::default()
        }];
        let mut double = prompt("double");
        double.arguments = vec![OfferedArgument {
            name: "a".to_owned(),
            ..OfferedArgument::default()
        }];
        double.arguments.push(double.arguments[0].clone());
        let mut many = prompt("many");
        many.arguments = vec![OfferedArgument::default(); MAX_ARGUMENTS_PER_PROMPT + 1];
        let mut huge = prompt("huge");
        huge.description = "x".repeat(MAX_PROMPT_DESCRIPTION_BYTES + 1);
        let mut secret = prompt("secret");
        secret.description = format!("use {}{}", "AKIA", "IOSFODNN7EXAMPLQ");
        let listed = vec![
            prompt("fine"),
            prompt("a b"),
            prompt("a/b"),
            prompt("é"),
            odd,
            double,
            many,
            huge,
            secret,
        ];
        let (prompts, refused) = separate_unusable_prompts("docs", listed);
        assert_eq!(prompts, [prompt("fine")]);
        assert_eq!(refused.len(), 8, "{refused:?}");
        assert!(refused[0].contains("2 of its prompts have the command `/docs:a-b`"));
        assert!(refused[7].contains("looks like a secret"), "{refused:?}");
    }

    #[test]
    fn arguments_are_texts_in_the_order_of_the_server() {
        let argument = |name: &str, required| OfferedArgument {
            name: name.to_owned(),
            description: "d\u{1b}[2J".to_owned(),
            required,
        };
        let mut own = prompt("p");
        own.arguments = vec![argument("z", true), argument("a", false)];
        let schema = own.arguments_schema();
        let names: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
        assert_eq!(names, ["z", "a"]);
        assert_eq!(schema["required"], json!(["z"]));
        assert!(!schema.to_string().contains("\\u001b"), "{schema}");
    }
}
