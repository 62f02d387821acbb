//! Enforces the hard limit: truncates tool results of a request that is still too large after
//! compaction.

use std::ops::Range;

use crate::message::{Content, Message};

/// Maximum length of a tool result in bytes, in the first and in the second round of truncation.
/// The first suffices to recognize the topic of the result, the second only to see that there was a
/// result.
const MAX_TOOL_RESULT_BYTES_BY_ROUND: [usize; 2] = [4000, 400];

/// Truncates tool results until the size of the messages falls from `total` to `limit`: first the
/// results in `slice`, then all others, each time the oldest first. `size` returns the size of a
/// message. All sizes are in tokens. Returns the number of truncated results, and the new total.
pub(super) fn truncate_tool_results(
    messages: &mut [Message],
    slice: Range<usize>,
    mut total: u64,
    limit: u64,
    size: impl Fn(&Message) -> u64,
) -> (usize, u64) {
    let rest = (0..messages.len()).filter(|at| !slice.contains(at));
    let mut n_cut = 0;
    for part in [slice.clone().collect(), rest.collect::<Vec<_>>()] {
        for longest in MAX_TOOL_RESULT_BYTES_BY_ROUND {
            for at in &part {
                if total <= limit {
                    return (n_cut, total);
                }
                let Some(message) = messages.get_mut(*at) else {
                    continue;
                };
                let before = size(message);
                n_cut += truncate_message_results(message, longest);
                total = total.saturating_sub(before) + size(message);
            }
        }
    }
    (n_cut, total)
}

fn truncate_message_results(message: &mut Message, longest: usize) -> usize {
    let mut n_cut = 0;
    for part in &mut message.content {
        if let Content::ToolResult(result) = part
            && (result.content.text().len() > longest || result.content.blobs().next().is_some())
        {
            // Images in the result are replaced by a line with media type and size, because an
            // image costs as many tokens as a long text.
            result.content = truncate_text_middle(&result.content.text(), longest).into();
            n_cut += 1;
        }
    }
    n_cut
}

/// Removes the middle of a text that is longer than `limit` bytes. The beginning and the end of the
/// text are kept, each up to half of the limit, with a note between them that gives the size of the
/// removed part.
///
/// For example:
///
/// ```text
/// The first lines
/// [1234 bytes were cut here to make room]
/// the last lines
/// ```
pub(in crate::agent) fn truncate_text_middle(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(limit / 2);
    let tail = text.ceil_char_boundary(text.len() - limit / 2);
    let missing = tail - head;
    let (head, tail) = (&text[..head], &text[tail..]);
    format!("{head}\n[{missing} bytes were cut here to make room]\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::compact::tests::exchange;

    fn sizes(messages: &[Message]) -> Vec<usize> {
        let results = messages.iter().flat_map(Message::tool_results);
        results.map(|result| result.content.text().len()).collect()
    }

    fn cut_to(total: u64) -> Vec<bool> {
        let mut messages: Vec<Message> = (0..4).flat_map(|at| exchange(at, &[10_000])).collect();
        let size =
            |message: &Message| sizes(std::slice::from_ref(message)).iter().sum::<usize>() as u64;
        let (_, left) = truncate_tool_results(&mut messages, 2..6, 40_000, total, size);
        assert_eq!(left, messages.iter().map(size).sum::<u64>());
        sizes(&messages).iter().map(|size| *size < 10_000).collect()
    }

    #[test]
    fn results_of_the_slice_are_cut_first_and_no_more_than_needed() {
        assert_eq!(cut_to(40_000), [false; 4]);
        assert_eq!(cut_to(35_000), [false, true, false, false]);
        assert_eq!(cut_to(21_000), [false, true, true, false]);
        assert_eq!(cut_to(16_000), [true, true, true, false]);
        assert_eq!(cut_to(0), [true; 4]);
    }

    #[test]
    fn a_cut_keeps_both_ends_and_whole_characters() {
        assert_eq!(truncate_text_middle("short", 5), "short");
        let cut = truncate_text_middle(&"é".repeat(100), 21);
        assert!(cut.starts_with("ééééé\n[180 bytes"), "{cut}");
        assert!(cut.ends_with("]\nééééé"), "{cut}");
    }
}
