//! `rind:plugin/ask`: questions to the person. Every text of the guest becomes one escaped line.
//! The call's deadline is paused until the person answers.

use super::super::bindings::rind::plugin::ask;
use super::super::host::HostState;
use super::super::sanitize::GuestTextSanitizer;
use crate::point::deadline::wait_with_paused_deadline;
use crate::point::handle::{
    HostFunctionError, PluginUserQuestion, PluginUserQuestionKind, UserAnswerToPlugin,
};

/// Maximum length of a question or of an answer, in bytes.
pub(super) const MAX_QUESTION_OR_ANSWER_BYTES: usize = 1_000;

/// Maximum length in bytes of an answer that a plugin's question offers.
const MAX_ANSWER_OPTION_BYTES: usize = 100;

/// Allowed number of answer options. The person types one digit to select an option.
const ANSWER_OPTION_COUNT_RANGE: std::ops::RangeInclusive<usize> = 2..=9;

impl ask::Host for HostState {
    async fn confirm(&mut self, text: String, default: bool) -> Result<bool, HostFunctionError> {
        let kind = PluginUserQuestionKind::Confirm { default };
        match ask_person(self, &text, kind).await? {
            UserAnswerToPlugin::Yes(yes) => Ok(yes),
            _ => Err(mismatched_answer_error()),
        }
    }

    async fn choose(
        &mut self,
        text: String,
        options: Vec<String>,
        default: u32,
    ) -> Result<u32, HostFunctionError> {
        if !ANSWER_OPTION_COUNT_RANGE.contains(&options.len()) || default as usize >= options.len()
        {
            return Err(HostFunctionError::InvalidInput(format!(
                "a choice must have {} to {} options, and its default must be the index of one of them",
                ANSWER_OPTION_COUNT_RANGE.start(),
                ANSWER_OPTION_COUNT_RANGE.end()
            )));
        }
        if options
            .iter()
            .any(|option| option.len() > MAX_ANSWER_OPTION_BYTES)
        {
            return Err(HostFunctionError::Limit(format!(
                "an option of a question may have at most {MAX_ANSWER_OPTION_BYTES} bytes"
            )));
        }
        let sanitizer = GuestTextSanitizer::for_current_guest_call(self, "ask");
        let line =
            |option: &String| sanitizer.sanitize_line("option", option, MAX_ANSWER_OPTION_BYTES);
        let options = options.iter().map(line).collect();
        let kind = PluginUserQuestionKind::Choose { options, default };
        match ask_person(self, &text, kind).await? {
            UserAnswerToPlugin::Choice(at) => Ok(at),
            _ => Err(mismatched_answer_error()),
        }
    }

    async fn text(&mut self, text: String, default: String) -> Result<String, HostFunctionError> {
        if default.len() > MAX_QUESTION_OR_ANSWER_BYTES {
            return Err(HostFunctionError::Limit(format!(
                "the default answer of a question may have at most {MAX_QUESTION_OR_ANSWER_BYTES} bytes"
            )));
        }
        let default = GuestTextSanitizer::for_current_guest_call(self, "ask").sanitize_line(
            "default",
            &default,
            MAX_QUESTION_OR_ANSWER_BYTES,
        );
        let kind = PluginUserQuestionKind::Text { default };
        match ask_person(self, &text, kind).await? {
            UserAnswerToPlugin::Text(text) => Ok(text),
            _ => Err(mismatched_answer_error()),
        }
    }
}

fn mismatched_answer_error() -> HostFunctionError {
    HostFunctionError::Failed("the answer does not fit the question".to_owned())
}

async fn ask_person(
    host: &mut HostState,
    text: &str,
    kind: PluginUserQuestionKind,
) -> Result<UserAnswerToPlugin, HostFunctionError> {
    if text.trim().is_empty() {
        return Err(HostFunctionError::InvalidInput(
            "the question is empty".to_owned(),
        ));
    }
    if text.len() > MAX_QUESTION_OR_ANSWER_BYTES {
        return Err(HostFunctionError::Limit(format!(
            "a question has at most {MAX_QUESTION_OR_ANSWER_BYTES} bytes, this one has {}",
            text.len()
        )));
    }
    let backing = host.backing.clone();
    let caller = host.call.caller.with_calling_plugin(&backing.plugin);
    let question = PluginUserQuestion {
        plugin: backing.plugin.to_string(),
        text: GuestTextSanitizer::for_current_guest_call(host, "ask").sanitize_line(
            "question",
            text,
            MAX_QUESTION_OR_ANSWER_BYTES,
        ),
        kind,
        is_muted: backing.is_muted,
    };
    wait_with_paused_deadline(backing.handle.ask_person(&backing.plugin, question, caller)).await
}
