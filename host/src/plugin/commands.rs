//! Slash commands of a plugin: the list that the plugin returns when it is loaded, and a call of
//! one command.
//!
//! The name, the description and the schema of each command are checked when the plugin is loaded.
//! Text of a command is sanitized and limited before it is shown or becomes the input of a turn.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Error;
use super::bindings::exports::rind::plugin::commands as wit;
use super::convert;
use super::exports::PluginExportedFunctions;
use super::instance::{PluginInstanceInCall, ReusableInstanceSlot};
use super::sanitize::GuestTextSanitizer;
use crate::json;
use crate::point::caller::Caller;
use crate::point::deadline::run_call_with_deadline;
use crate::point::failure::Failure;
use crate::secret::SecretScanner;
use crate::tool::schema;

/// Maximum number of slash commands that one plugin can provide.
pub const MAX_COMMANDS_PER_PLUGIN: usize = 32;

/// Maximum length of a slash command's name, in bytes.
pub const MAX_COMMAND_NAME_BYTES: usize = 64;

/// Maximum length of a slash command's description, in bytes.
pub const MAX_COMMAND_DESCRIPTION_BYTES: usize = 200;

/// Maximum length in bytes of the text that a command shows the person.
const MAX_COMMAND_DISPLAY_TEXT_BYTES: usize = 64 << 10;

/// Maximum length in bytes of a turn input that a command produces.
const MAX_COMMAND_PROMPT_BYTES: usize = 1 << 20;

/// Slash command that a plugin provides.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandSpec {
    /// Name of the command, without the slash.
    pub name: String,
    /// Description of the command for users, in one line.
    pub description: String,
    /// JSON Schema of the arguments. A command without a schema takes the rest of the line as text.
    pub arguments: Option<Value>,
}

/// Result that a plugin's slash command returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlashCommandReply {
    /// Text that is shown to the user.
    Text(String),
    /// Input of a turn, which the host runs next.
    Prompt(String),
    /// Result without output.
    Nothing,
}

/// Slash command of a plugin that is loaded in a session.
pub struct PluginSlashCommand {
    pub(super) plugin: String,
    pub(super) spec: CommandSpec,
    pub(super) slot: Arc<ReusableInstanceSlot>,
    pub(super) deadline: Duration,
}

impl PluginSlashCommand {
    /// Returns the name of the plugin that provides the command.
    #[must_use]
    pub fn plugin_name(&self) -> &str {
        &self.plugin
    }

    /// Returns the name, the description and the argument schema of the command.
    #[must_use]
    pub fn spec(&self) -> &CommandSpec {
        &self.spec
    }

    /// Runs the command within its deadline. `arguments` is JSON text that fits the schema or, for
    /// a command without a schema, the text after the command's name.
    pub(crate) async fn run(
        &self,
        caller: &Caller,
        arguments: String,
    ) -> Result<SlashCommandReply, Failure> {
        let call = pin!(self.call_guest(caller, arguments));
        run_call_with_deadline(self.deadline, Instant::now(), call).await
    }

    async fn call_guest(
        &self,
        caller: &Caller,
        arguments: String,
    ) -> Result<SlashCommandReply, Failure> {
        let find = |functions: &PluginExportedFunctions| Some(functions.commands.as_ref()?.run);
        let arguments = (self.spec.name.clone(), arguments);
        let called = self.slot.call_guest(caller, "commands", find, arguments);
        let (answer,) = called.await?;
        let sanitizer = GuestTextSanitizer::new(self.slot.shared_plugin_state(), caller, "command");
        match answer {
            Ok(wit::CommandOutcome::Text(text)) => Ok(SlashCommandReply::Text(
                truncate_command_reply(sanitizer.text("text", text)),
            )),
            Ok(wit::CommandOutcome::Prompt(text)) if text.len() > MAX_COMMAND_PROMPT_BYTES => {
                Err(Failure::Limit(format!(
                    "the command returned a turn input of {} bytes, the maximum is {MAX_COMMAND_PROMPT_BYTES}",
                    text.len()
                )))
            }
            Ok(wit::CommandOutcome::Prompt(text)) => {
                Ok(SlashCommandReply::Prompt(sanitizer.text("prompt", text)))
            }
            Ok(wit::CommandOutcome::Nothing) => Ok(SlashCommandReply::Nothing),
            Err(error) => Err(Failure::Error(convert::describe_guest_error(
                error, sanitizer,
            ))),
        }
    }
}

impl std::fmt::Debug for PluginSlashCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginSlashCommand")
            .field("plugin", &self.plugin)
            .field("spec", &self.spec)
            .finish_non_exhaustive()
    }
}

fn truncate_command_reply(mut text: String) -> String {
    if text.len() > MAX_COMMAND_DISPLAY_TEXT_BYTES {
        let n_bytes = text.len();
        text.truncate(text.floor_char_boundary(MAX_COMMAND_DISPLAY_TEXT_BYTES));
        text.push_str(&format!("\n[cut: the command answered {n_bytes} bytes]"));
    }
    text
}

/// Calls the plugin instance to list its commands, and checks each command.
pub(super) async fn list_plugin_commands(
    mut busy: PluginInstanceInCall<'_>,
) -> Result<Vec<CommandSpec>, Error> {
    let instance = &mut busy.instance;
    let Some(commands) = instance.functions.commands.as_ref() else {
        return Ok(Vec::new());
    };
    let result = commands.list.call_async(&mut instance.store, ()).await;
    let (listed,) = busy
        .finish_guest_call(result)
        .map_err(|failure| Error::Start {
            message: format!("when the host asked for its commands, {failure}"),
        })?;
    let mut specs: Vec<CommandSpec> = Vec::new();
    for command in listed {
        let spec = check_listed_command(&command, &specs).map_err(|why| Error::Command {
            command: crate::text::escape_and_truncate_line(&command.name, MAX_COMMAND_NAME_BYTES),
            why,
        })?;
        specs.push(spec);
    }
    Ok(specs)
}

fn check_listed_command(
    command: &wit::CommandSpec,
    before: &[CommandSpec],
) -> Result<CommandSpec, String> {
    let wit::CommandSpec {
        name,
        description,
        arguments,
    } = command;
    if before.len() >= MAX_COMMANDS_PER_PLUGIN {
        return Err(format!(
            "a plugin may have at most {MAX_COMMANDS_PER_PLUGIN} commands, but this plugin lists more"
        ));
    }
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > MAX_COMMAND_NAME_BYTES || !name.chars().all(fits) {
        return Err(format!(
            "the name of a command is made of 1 to {MAX_COMMAND_NAME_BYTES} of a-z, 0-9 and `-`"
        ));
    }
    if before.iter().any(|other| other.name == *name) {
        return Err("the command is listed twice".to_owned());
    }
    let is_line = !description.trim().is_empty() && !description.contains(char::is_control);
    if !is_line || description.len() > MAX_COMMAND_DESCRIPTION_BYTES {
        return Err(format!(
            "the description of the command must be one line of at most \
             {MAX_COMMAND_DESCRIPTION_BYTES} bytes"
        ));
    }
    for text in [Some(description), arguments.as_ref()]
        .into_iter()
        .flatten()
    {
        if let Some(finding) = SecretScanner::shared().find_secrets(text).first() {
            return Err(format!(
                "the description or schema of the command contains what looks like a secret ({})",
                finding.rule
            ));
        }
    }
    let parse = |text: &String| {
        let schema = json::parse_json(text, schema::MAX_SCHEMA_BYTES)
            .map_err(|e| format!("the schema of the command {e}"))?;
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("the schema of the command must have `\"type\": \"object\"`".to_owned());
        }
        schema::compile_json_schema_check(&schema)?;
        Ok(schema)
    };
    Ok(CommandSpec {
        name: name.clone(),
        description: crate::text::escape_and_truncate_line(
            description.trim(),
            MAX_COMMAND_DESCRIPTION_BYTES,
        ),
        arguments: arguments.as_ref().map(parse).transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, description: &str, arguments: Option<&str>) -> wit::CommandSpec {
        wit::CommandSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            arguments: arguments.map(str::to_owned),
        }
    }

    #[test]
    fn a_command_that_cannot_be_typed_or_shown_is_refused() {
        let object = r#"{"type": "object", "properties": {"a": {"type": "string"}}}"#;
        assert!(check_listed_command(&spec("a-1", "Does it", Some(object)), &[]).is_ok());
        assert!(check_listed_command(&spec("a", "Does it", None), &[]).is_ok());
        let key = format!("AKIA{}", "Z7QX3M5R2T6P4WKV");
        for (name, description, arguments, part) in [
            ("", "x", None, "the name of a command is made of"),
            ("Up", "x", None, "the name of a command is made of"),
            ("a b", "x", None, "the name of a command is made of"),
            ("a", " ", None, "one line"),
            ("a", "x\ny", None, "one line"),
            ("a", &"x".repeat(201), None, "one line"),
            ("a", "x", Some("{"), "the schema of the command"),
            ("a", "x", Some("{\"type\": \"array\"}"), "type"),
            (
                "a",
                "x",
                Some("{\"type\": \"object\", \"$ref\": \"http://x/y\"}"),
                "",
            ),
            ("a", &key, None, "secret"),
        ] {
            let why = check_listed_command(&spec(name, description, arguments), &[]).unwrap_err();
            assert!(why.contains(part), "{why}");
        }
        let one = check_listed_command(&spec("a", "x", None), &[]).unwrap();
        let why =
            check_listed_command(&spec("a", "y", None), std::slice::from_ref(&one)).unwrap_err();
        assert!(why.contains("twice"), "{why}");
        let many = vec![one; MAX_COMMANDS_PER_PLUGIN];
        let why = check_listed_command(&spec("b", "y", None), &many).unwrap_err();
        assert!(why.contains("at most 32 commands"), "{why}");
    }
}
