//! Selects the reply of the script that answers a request, and replaces the placeholders in it.
//!
//! Owns the numbers of uses of the replies, and the templates. It must not know the format of the
//! request body or how a reply is streamed. Start from [`ScriptedReplySelector::next`].

use super::conversation::ScriptedConversation;
use super::script::{Reply, ReplyCondition, Script};
use crate::message::ToolResult;
use crate::provider::error::Error;
use crate::provider::server_text::SanitizedServerText;

/// Maximum number of characters that a reply quotes from a tool result.
const MAX_TOOL_RESULT_QUOTE_CHARS: usize = 800;

/// Maximum number of characters that an error quotes from the input.
const MAX_ERROR_INPUT_QUOTE_CHARS: usize = 80;

/// Selects the reply of a script that is sent next, and counts the uses of each reply.
#[derive(Debug, Default)]
pub(super) struct ScriptedReplySelector {
    used: Vec<u32>,
}

impl ScriptedReplySelector {
    /// Returns the indices of the replies that were never used. Replies without a limit, with
    /// `times = 0`, are not reported.
    pub(super) fn unused_replies<'s>(
        &'s self,
        script: &'s Script,
    ) -> impl Iterator<Item = usize> + 's {
        let is_used = |n: usize| self.used.get(n).is_some_and(|used| *used > 0);
        let replies = script.replies.iter().enumerate();
        let unused = replies.filter(move |(n, reply)| reply.times != Some(0) && !is_used(*n));
        unused.map(|(n, _)| n)
    }

    /// Returns the reply to `conversation` and its index, and counts it as used.
    pub(super) fn next<'s>(
        &mut self,
        script: &'s Script,
        conversation: &ScriptedConversation,
    ) -> Result<(usize, &'s Reply), Error> {
        self.used.resize(script.replies.len(), 0);
        let is_left = |reply: &Reply, used: u32| match reply.times {
            Some(0) => true,
            times => used < times.unwrap_or(1),
        };
        let all = script.replies.iter().zip(&self.used).enumerate();
        let mut left = all
            .filter(|(_, (reply, used))| is_left(reply, **used))
            .map(|(n, (reply, _))| (n, reply));
        // A reply whose `when` matches takes precedence over the queue of replies without `when`.
        let is_for_it = |when: &ReplyCondition| is_reply_condition_met(when, conversation);
        let special = left
            .clone()
            .find(|(_, reply)| reply.when.as_ref().is_some_and(is_for_it));
        let picked = special.or_else(|| left.find(|(_, reply)| reply.when.is_none()));
        let Some((n, reply)) = picked else {
            let input = SanitizedServerText::new(conversation.last_user_text());
            let input = cut_text(input.as_str(), MAX_ERROR_INPUT_QUOTE_CHARS);
            let (step, used) = (conversation.request_number(), self.used.iter().sum::<u32>());
            return Err(Error::Script {
                script: script.name.clone(),
                what: format!(
                    " has no reply left for step {step} after the input \"{input}\" (used {used} so far): add a [[reply]], or \
                     raise `times` of one"
                ),
            });
        };
        if let Some(used) = self.used.get_mut(n) {
            *used = used.saturating_add(1);
        }
        Ok((n, reply))
    }
}

fn is_reply_condition_met(when: &ReplyCondition, conversation: &ScriptedConversation) -> bool {
    let contains = when.contains.as_ref().is_none_or(|text| {
        let input = conversation.last_user_text().to_lowercase();
        input.contains(&text.to_lowercase())
    });
    let mut results = conversation.last_tool_results();
    let mut has_result = |tool: &String| results.any(|result| result.name == *tool);
    let after_tool = when.after_tool.as_ref().is_none_or(&mut has_result);
    let step = when
        .step
        .is_none_or(|step| step == conversation.request_number());
    contains && after_tool && step
}

/// Fills in the placeholders of `template` in one pass, so that placeholders in the input itself
/// are not replaced.
pub(super) fn fill_template(template: &str, conversation: &ScriptedConversation) -> String {
    let quote = |result: &ToolResult| cut_text(&result.content.text(), MAX_TOOL_RESULT_QUOTE_CHARS);
    let result = conversation.last_tool_results().next();
    let result = result.map(quote).unwrap_or_default();
    let values = [
        ("{input}", conversation.last_user_text()),
        ("{tool_result}", &*result),
    ];
    let mut filled = String::new();
    let mut rest = template;
    while let Some((at, placeholder, value)) = values
        .iter()
        .filter_map(|(placeholder, value)| Some((rest.find(placeholder)?, placeholder, value)))
        .min_by_key(|(at, ..)| *at)
    {
        let (before, after) = rest.split_at(at);
        filled.push_str(before);
        filled.push_str(value);
        rest = &after[placeholder.len()..];
    }
    filled.push_str(rest);
    filled
}

fn cut_text(text: &str, n_chars: usize) -> String {
    match text.char_indices().nth(n_chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn user(text: &str) -> Value {
        json!([{"role": "user", "text": text}])
    }

    fn after(text: &str, tool: &str) -> Value {
        json!([
            {"role": "user", "text": text},
            {"role": "assistant", "tool_calls": [{"id": "1", "name": tool, "arguments": {}}]},
            {"role": "tool", "results": [{"call_id": "1", "name": tool, "content": "found {input}"}]},
        ])
    }

    fn conversation(messages: Value) -> ScriptedConversation {
        serde_json::from_value(json!({"messages": messages})).unwrap()
    }

    /// Returns the texts of the replies that `script` selects for `requests`, in order.
    fn picks(script: &str, requests: &[Value]) -> Vec<String> {
        let script = Script::from_toml("s.toml", script).unwrap();
        let mut pick = ScriptedReplySelector::default();
        let pick_one = |messages: &Value| {
            let conversation = conversation(messages.clone());
            match pick.next(&script, &conversation) {
                Ok((_, reply)) => fill_template(reply.text.as_deref().unwrap(), &conversation),
                Err(error) => error.to_string(),
            }
        };
        requests.iter().map(pick_one).collect()
    }

    #[test]
    fn replies_without_condition_are_used_in_order_and_then_the_script_has_ended() {
        let script = "reply = [{ text = 'one' }, { text = 'two', times = 2 }]";
        let ended = "script s.toml has no reply left for step 1 after the input \"d\" (used 3 so far): add a [[reply]], or \
                     raise `times` of one";
        let picked = picks(script, &["a", "b", "c", "d"].map(user));
        assert_eq!(picked, ["one", "two", "two", ended]);
    }

    #[test]
    fn a_reply_whose_condition_holds_goes_first() {
        let script = r#"
            reply = [
                { text = "queue", times = 0 },
                { text = "sunny, not {input}", when = { contains = "Weather" } },
                { text = "looked: {tool_result}", when = { after_tool = "look", step = 2 }, times = 0 },
            ]"#;
        let weather = ["the WEATHER, {tool_result}?", "weather again"].map(user);
        let tools = ["look", "walk", "look"].map(|tool| after("x", tool));
        let expected = [
            "sunny, not the WEATHER, {tool_result}?",
            "queue",
            "looked: found {input}",
            "queue",
            "looked: found {input}",
        ];
        assert_eq!(picks(script, &[&weather[..], &tools].concat()), expected);
    }
}
