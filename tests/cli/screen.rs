//! Masks the parts of the program's output that differ between runs.

/// Returns the length in bytes of the prefix that it masks, and the text that replaces the prefix.
type Mask = fn(&str) -> Option<(usize, &'static str)>;

const MASKS: [Mask; 7] = [session_id, agent_id, digest, tokens, duration, share, load];

/// Masks ids, digests, durations, shares, token counts and how components were loaded.
#[must_use]
pub fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_in_word = out.ends_with(|last: char| last.is_alphanumeric() || "-._".contains(last));
        let mask = MASKS.iter().find_map(|mask| mask(rest));
        match mask {
            Some((length, mask)) if !is_in_word => {
                // Numbers are right-aligned, so the number of spaces before one depends on its
                // length.
                while out.ends_with("  ") {
                    out.pop();
                }
                out.push_str(mask);
                rest = &rest[length..];
            }
            _ => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// `20261121-230415-fb6b67`
fn session_id(text: &str) -> Option<(usize, &'static str)> {
    let mut parts = text.get(..22)?.split('-');
    let is_id = [8, 6, 6].into_iter().all(|length| {
        parts.next().is_some_and(|part| {
            part.len() == length && part.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    });
    is_id.then_some((22, "[SESSION]"))
}

/// `sub-fb6b6704`
fn agent_id(text: &str) -> Option<(usize, &'static str)> {
    let hex = text.strip_prefix("sub-")?.get(..8)?;
    let is_id = hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then_some((12, "[AGENT]"))
}

/// `57.1 % of the turn`
fn share(text: &str) -> Option<(usize, &'static str)> {
    let n = number(text)?;
    let unit = " % of the turn";
    text[n..]
        .starts_with(unit)
        .then_some((n + unit.len(), "[P] of the turn"))
}

/// `sha256:db3c…` and `blake3:db3c…`
fn digest(text: &str) -> Option<(usize, &'static str)> {
    let hex = ["sha256:", "blake3:"]
        .iter()
        .find_map(|name| text.strip_prefix(name))?
        .get(..64)?;
    let is_hex = hex.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then_some((71, "[DIGEST]"))
}

/// `2837 tokens in, 61 out`
fn tokens(text: &str) -> Option<(usize, &'static str)> {
    let n = number(text)?;
    let (middle, end) = (" tokens in, ", " out");
    let rest = text[n..].strip_prefix(middle)?;
    let m = number(rest)?;
    rest[m..].strip_prefix(end)?;
    let length = n + middle.len() + m + end.len();
    Some((length, "[N] tokens in, [N] out"))
}

/// `3.3 s`, `<1 ms`, `88.5 µs`
fn duration(text: &str) -> Option<(usize, &'static str)> {
    let begin = usize::from(text.starts_with('<'));
    let n = begin + number(&text[begin..])?;
    let unit = [" µs", " ms", " s"]
        .into_iter()
        .find(|unit| text[n..].starts_with(unit))?;
    let end = n + unit.len();
    let is_whole = !text[end..].starts_with(char::is_alphanumeric);
    is_whole.then_some((end, "[T]"))
}

/// Masks how a component was loaded: the first run compiles it, later ones find it in the cache.
fn load(text: &str) -> Option<(usize, &'static str)> {
    let words = ["from the cache", "compiled"];
    let word = words.into_iter().find(|word| text.starts_with(word))?;
    Some((word.len(), "[LOADED]"))
}

fn number(text: &str) -> Option<usize> {
    let whole = text.bytes().take_while(u8::is_ascii_digit).count();
    if whole == 0 {
        return None;
    }
    let fraction = text[whole..].strip_prefix('.').map_or(0, |rest| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    Some(whole + if fraction > 0 { fraction + 1 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn what_no_two_runs_share_is_masked_and_nothing_else() {
        let text = "session 20261121-230415-fb6b67 (new)\n  pre-tool    385 µs pass\n3 steps · 12 tokens in, 5 out · <1 ms\n";
        assert_eq!(
            masked(text),
            "session [SESSION] (new)\n  pre-tool [T] pass\n3 steps · [N] tokens in, [N] out · [T]\n"
        );
        for text in ["10 sacks of 5", "v1.2.3", "a-1 ms", "16 B in 2 lines", "3."] {
            assert_eq!(masked(text), text);
        }
    }
}
