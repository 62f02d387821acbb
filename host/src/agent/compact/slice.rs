//! Selects the messages that compaction removes.
//!
//! The selected messages form a slice between the first message of the user and the tail that is
//! kept. At the start and at the end of the slice, every earlier call has its result. Therefore a
//! call and its result are never separated, whatever their sizes are.

use std::collections::HashSet;
use std::ops::Range;

use crate::message::{Message, Role};

/// Minimum size of the tail that is kept, in messages and in tokens. The tail must reach both
/// minimums.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinKeptTailSize {
    pub(super) messages: usize,
    pub(super) tokens: u64,
}

/// Selects the range of messages to remove. Returns `None` if there are none, or if the only one is
/// already a summary (according to `is_summary`).
pub(super) fn choose_range_to_compact(
    messages: &[Message],
    tail: MinKeptTailSize,
    tokens: impl Fn(&Message) -> u64,
    is_summary: impl Fn(&Message) -> bool,
) -> Option<Range<usize>> {
    let first = messages.iter().position(|m| m.role == Role::User);
    let first = first.map_or(0, |at| at + 1);
    let seams = find_valid_slice_bounds(messages);
    let start = (first..messages.len()).find(|at| seams.contains(at))?;
    let (mut n_kept, mut n_tokens) = (0, 0);
    let end = (start + 1..messages.len()).rev().find(|at| {
        n_kept += 1;
        n_tokens += messages.get(*at).map_or(0, &tokens);
        n_kept >= tail.messages && n_tokens >= tail.tokens && seams.contains(at)
    })?;
    let is_done = matches!(messages.get(start..end), Some([only]) if is_summary(only));
    (!is_done).then_some(start..end)
}

/// Input of the running turn that compaction keeps, because a model that continues after compaction
/// needs the user's request verbatim.
#[derive(Clone, Copy, Debug)]
pub(super) struct PreservedTurnInput<'a> {
    pub(super) ids: &'a HashSet<String>,
    /// Maximum number of tokens to keep. Input that does not fit is removed with the rest.
    pub(super) tokens: u64,
}

/// Returns the messages of `part` without the input messages that compaction must keep unchanged.
/// If these have more than `input.tokens` tokens, only the newest of them are kept.
pub(super) fn exclude_preserved_input_messages(
    part: &[Message],
    input: PreservedTurnInput<'_>,
    tokens: impl Fn(&Message) -> u64,
) -> Vec<Message> {
    let mut room = input.tokens;
    let mut removed = part.to_vec();
    removed.reverse();
    removed.retain(|message| {
        if !input.ids.contains(&message.id) {
            return true;
        }
        match room.checked_sub(tokens(message)) {
            Some(left) => {
                room = left;
                false
            }
            None => true,
        }
    });
    removed.reverse();
    removed
}

/// Returns the indices of the messages that can begin or end a slice: those that are no tool
/// results and before which every call has its result.
fn find_valid_slice_bounds(messages: &[Message]) -> HashSet<usize> {
    let mut open: HashSet<&str> = HashSet::new();
    let mut seams = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        if open.is_empty() && message.role != Role::Tool {
            seams.insert(at);
        }
        for result in message.tool_results() {
            open.remove(result.call_id.as_str());
        }
        open.extend(message.tool_calls().map(|call| call.id.as_str()));
    }
    seams
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::compact::tests::{exchange, result, user};

    /// Numbers that look like chance and are the same in every run.
    struct Dice(u64);

    impl Dice {
        /// Returns a pseudorandom number below `n`.
        fn roll(&mut self, n: u64) -> usize {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from((self.0 >> 33) % n).unwrap()
        }
    }

    fn tail(messages: usize, tokens: u64) -> MinKeptTailSize {
        MinKeptTailSize { messages, tokens }
    }

    fn size(message: &Message) -> u64 {
        let results: usize = message.tool_results().map(|r| r.content.text().len()).sum();
        (message.joined_text().len() + results) as u64
    }

    fn is_summary(message: &Message) -> bool {
        message.joined_text() == "summary"
    }

    fn take(messages: &[Message], tail: MinKeptTailSize) -> Option<Range<usize>> {
        choose_range_to_compact(messages, tail, size, is_summary)
    }

    fn are_pairs_whole(messages: &[Message]) -> bool {
        let mut open = HashSet::new();
        for message in messages {
            if message.role != Role::Tool && !open.is_empty() {
                return false;
            }
            for result in message.tool_results() {
                if !open.remove(result.call_id.as_str()) {
                    return false;
                }
            }
            open.extend(message.tool_calls().map(|call| call.id.as_str()));
        }
        open.is_empty()
    }

    /// A conversation of texts of the user and exchanges with up to three calls.
    fn conversation(dice: &mut Dice) -> Vec<Message> {
        let n = dice.roll(40);
        let mut part = |at| match dice.roll(5) {
            4 => vec![user("more")],
            n_calls => {
                let sizes: Vec<usize> = (0..n_calls).map(|_| dice.roll(300)).collect();
                exchange(at, &sizes)
            }
        };
        (0..n).flat_map(&mut part).collect()
    }

    #[test]
    fn pairs_stay_whole_the_tail_is_kept_and_a_second_time_finds_nothing() {
        let mut dice = Dice(1);
        let mut n_found = 0;
        for case in 0..3000 {
            let mut messages = conversation(&mut dice);
            let tail = tail(dice.roll(12), dice.roll(2000) as u64);
            let Some(slice) = take(&messages, tail) else {
                continue;
            };
            n_found += 1;
            assert!(!slice.is_empty() && slice.end < messages.len(), "{case}");
            assert!(are_pairs_whole(&messages[slice.clone()]), "{case}");
            let kept = &messages[slice.end..];
            assert!(kept.len() >= tail.messages, "{case}");
            assert!(kept.iter().map(size).sum::<u64>() >= tail.tokens, "{case}");
            assert!(kept[0].role != Role::Tool, "{case}");
            let first = messages.iter().position(|m| m.role == Role::User);
            assert_eq!(slice.start, first.map_or(0, |at| at + 1), "{case}");

            messages.splice(slice, [user("summary")]);
            assert!(are_pairs_whole(&messages), "{case}");
            assert_eq!(take(&messages, tail), None, "{case}");
        }
        assert!(n_found > 1000, "{n_found}");
    }

    #[test]
    fn a_conversation_in_any_disorder_keeps_what_is_a_pair_together() {
        let mut dice = Dice(2);
        for case in 0..3000 {
            let mut messages = conversation(&mut dice);
            for _ in 0..dice.roll(8) {
                if let n @ 1.. = messages.len() as u64 {
                    messages.swap(dice.roll(n), dice.roll(n));
                }
            }
            let tail = tail(2, 100);
            let Some(slice) = take(&messages, tail) else {
                continue;
            };
            let position = |id: &str| {
                let is_it = |m: &Message| m.tool_calls().any(|call| call.id == id);
                messages.iter().position(is_it)
            };
            for (at, message) in messages.iter().enumerate() {
                for result in message.tool_results() {
                    let call = position(&result.call_id).unwrap();
                    // A result that stands before its call is no pair with it.
                    let is_parted = call < at && slice.contains(&call) != slice.contains(&at);
                    assert!(!is_parted, "{case}");
                }
            }
        }
    }

    #[test]
    fn the_first_message_of_the_user_stays_and_so_does_what_was_before_it() {
        let mut messages = exchange(0, &[]);
        messages.push(user("do it"));
        for at in 1..6 {
            messages.extend(exchange(at, &[10]));
        }
        let tail = tail(3, 0);
        // Three messages would begin with a result: its call stays as well.
        assert_eq!(take(&messages, tail), Some(2..8));
    }

    #[test]
    fn nothing_is_taken_out_while_a_call_is_open_or_when_all_of_it_is_tail() {
        let tail = tail(2, 0);
        let mut messages = vec![user("do it")];
        messages.extend(exchange(1, &[1, 1]));
        assert_eq!(take(&messages, tail), None);
        messages.remove(2);
        messages.extend([user("more"), user("more"), result("lost", "x")]);
        assert_eq!(take(&messages, tail), None);
        assert_eq!(take(&[], tail), None);
    }
}
