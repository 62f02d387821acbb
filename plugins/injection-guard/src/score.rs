//! Judges texts by the total weight of the signs of injection in them.

use crate::hidden;
use crate::pattern::{PhrasePattern, matches_alternative};
use crate::rules::{
    ATTACK_DISCUSSION_WORD_PREFIXES, CHAT_FORMAT_MARKER_WEIGHTS, INJECTION_PHRASE_RULES,
    InjectionRule, MESSAGE_HEADER_PREFIXES, SuspiciousPhraseKind,
    WORDS_PRECEDING_IMPERATIVE_INFINITIVE, WORDS_PRECEDING_IMPERATIVE_VERB,
};
use crate::starts::{PatternStartPositions, WORD_PREFIX_HASH_VALUE_COUNT, hash_word_prefix};
use crate::words::{self, NormalizedTextWord, split_words};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Maximum number of bytes of a text that are examined.
const MAX_EXAMINED_TEXT_BYTES: usize = 512 * 1024;

/// Maximum distance, in bytes, between the first and the last of the signs whose weights are added.
const MAX_INJECTION_SIGNS_SPAN_BYTES: usize = 700;

/// Number of words before a suspicious phrase that are searched for words of a discussion about
/// attacks. Half as many words after the phrase are searched too.
const DISCUSSION_CONTEXT_WORD_COUNT: usize = 25;

/// Length in characters of the excerpt that the user is shown.
const DISPLAYED_EXCERPT_CHARS: usize = 100;

/// Reasons why a text looks like an injection, and its suspicious part.
#[derive(Debug)]
pub(crate) struct InjectionSuspicionReasons {
    /// Reasons for the suspicion, the one with the largest weight first. If there are hidden
    /// characters, they are the first reason.
    pub(crate) reasons: Vec<&'static str>,
    /// Beginning of the suspicious stretch of the text.
    pub(crate) excerpt: String,
    /// Whether the suspicious part is invisible to people who read the text.
    pub(crate) is_invisible: bool,
}

/// Sign of an injection in a text.
struct InjectionSign {
    at: usize,
    kind: SuspiciousPhraseKind,
    weight: f32,
    /// Whether the sign is within quotes. `discussed` tells whether the words around the sign
    /// discuss attacks.
    quoted: bool,
    discussed: bool,
}

impl InjectionSign {
    fn new_fake_turn_sign(at: usize, weight: f32) -> Self {
        Self {
            at,
            kind: SuspiciousPhraseKind::FakeTurn,
            weight,
            quoted: false,
            discussed: false,
        }
    }
}

/// Searches a text for signs of an injection; returns `None` if the text is not suspicious.
pub(crate) fn find_injection_signs(text: &str) -> Option<InjectionSuspicionReasons> {
    let text = &text[..text.floor_char_boundary(MAX_EXAMINED_TEXT_BYTES)];
    let revealed = hidden::reveal_hidden_text(text);
    let mut text = revealed.text;
    if text.contains('\\') {
        // JSON escapes line breaks as `\n`.
        text = Cow::Owned(text.replace("\\n", "\n "));
    }
    let mut signs = Vec::new();
    let mut starts = PatternStartPositions::of_text(&text, &PARSED_RULE_PATTERNS.group_of);
    let speaks = can_text_match_any_pattern(&text, &mut starts);
    if speaks {
        detect_injection_phrases(&split_words(&text), &text, &mut signs);
    }
    if speaks || starts.has_chat_marker_start() {
        detect_chat_markers(&text, &mut signs);
    }
    if speaks || starts.has_colon_or_hash() {
        detect_fake_turns(&text, &mut signs);
    }
    if signs.is_empty() && revealed.weight == 0.0 {
        return None;
    }
    signs.sort_by_key(|sign| sign.at);
    detect_suspicious_html_comments(&text, &mut signs);
    signs.sort_by_key(|sign| sign.at);

    let mut best = (revealed.weight, Vec::new(), 0);
    for first in 0..signs.len() {
        let stretch = signs[first..]
            .iter()
            .take_while(|sign| sign.at <= signs[first].at + MAX_INJECTION_SIGNS_SPAN_BYTES);
        let (sum, kinds) = sum_injection_sign_weights(stretch);
        if sum + revealed.weight > best.0 {
            best = (sum + revealed.weight, kinds, signs[first].at);
        }
    }
    let (sum, mut kinds, at) = best;
    if sum < 0.99 {
        return None;
    }
    if revealed.weight > 0.0 {
        kinds.insert(0, SuspiciousPhraseKind::Hidden);
    }
    Some(InjectionSuspicionReasons {
        reasons: kinds
            .into_iter()
            .map(SuspiciousPhraseKind::reason)
            .collect(),
        excerpt: text_excerpt(&text[at..]),
        is_invisible: revealed.weight >= 1.0,
    })
}

/// Returns the first [`DISPLAYED_EXCERPT_CHARS`] characters of a text, followed by `…` if the text
/// is longer.
fn text_excerpt(text: &str) -> String {
    let start: String = text.chars().take(DISPLAYED_EXCERPT_CHARS).collect();
    let goes_on = start.len() < text.len();
    start + if goes_on { "…" } else { "" }
}

/// Returns the total weight of the suspicious phrases (signs) in a stretch of text, and their
/// kinds, the heaviest first. Each kind counts once.
fn sum_injection_sign_weights<'a>(
    stretch: impl Iterator<Item = &'a InjectionSign> + Clone,
) -> (f32, Vec<SuspiciousPhraseKind>) {
    let plain = stretch
        .clone()
        .filter(|sign| !sign.quoted && sign.weight >= 0.3);
    let n_plain_kinds = plain
        .fold(0_u32, |set, sign| set | 1 << sign.kind as u32)
        .count_ones();
    let mut best = [(0.0, SuspiciousPhraseKind::Override); SuspiciousPhraseKind::COUNT];
    for sign in stretch {
        // A sign in a discussion of attacks has less weight. The weight of an unquoted sign is
        // reduced less if signs of several kinds are unquoted: the text may be an attack that calls
        // itself an example.
        let factor = match (sign.discussed, sign.quoted) {
            (false, _) => 1.0,
            (true, true) => 0.25,
            (true, false) if n_plain_kinds > 1 => 0.7,
            (true, false) => 0.4,
        };
        let slot = &mut best[sign.kind as usize];
        if sign.weight * factor > slot.0 {
            *slot = (sign.weight * factor, sign.kind);
        }
    }
    let sum = best.iter().map(|(weight, _)| weight).sum();
    best.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let kinds = best.iter().filter(|(weight, _)| *weight > 0.0);
    (sum, kinds.map(|(_, kind)| *kind).collect())
}

/// Parsed patterns of all rules.
struct ParsedRulePatterns {
    patterns: Vec<PhrasePattern>,
    /// First words of the patterns, grouped by [`hash_word_prefix`], each with the indices of its
    /// patterns.
    groups: Vec<Vec<(&'static str, Vec<usize>)>>,
    /// Index of the group for each [`hash_word_prefix`]. Group 0 is empty, and most words of a text
    /// belong to it.
    group_of: [u8; WORD_PREFIX_HASH_VALUE_COUNT],
}

/// Patterns of the rules, parsed once per plugin instance.
static PARSED_RULE_PATTERNS: LazyLock<ParsedRulePatterns> = LazyLock::new(|| {
    let patterns = INJECTION_PHRASE_RULES
        .iter()
        .map(|rule| PhrasePattern::new(rule.pattern));
    let patterns: Vec<PhrasePattern> = patterns.collect();
    let mut by_first: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, pattern) in patterns.iter().enumerate() {
        for word in pattern.first_words() {
            by_first.entry(word).or_default().push(index);
        }
    }
    let (mut groups, mut group_of) = (vec![Vec::new()], [0; WORD_PREFIX_HASH_VALUE_COUNT]);
    for (word, rules) in by_first {
        let group = &mut group_of[hash_word_prefix(word.as_bytes())];
        if *group == 0 {
            *group = u8::try_from(groups.len()).unwrap_or(0);
            groups.push(Vec::new());
        }
        groups[usize::from(*group)].push((word, rules));
    }
    ParsedRulePatterns {
        patterns,
        groups,
        group_of,
    }
});

impl ParsedRulePatterns {
    /// Returns the first words of patterns that have the same hash as the beginning of `text`, each
    /// with the indices of its patterns.
    fn first_words_with_hash_of(&self, text: &[u8]) -> &[(&'static str, Vec<usize>)] {
        &self.groups[usize::from(self.group_of[hash_word_prefix(text)])]
    }

    /// Whether a pattern may start with the word at this position. A non-ASCII character may be a
    /// look-alike letter of such a word.
    fn may_match_at(&self, text: &[u8], start: usize) -> bool {
        let word = &text[start..];
        let is_beyond = |byte: Option<&u8>| byte.is_some_and(|byte| !byte.is_ascii());
        if is_beyond(word.first()) || is_beyond(word.get(1)) {
            return true;
        }
        self.first_words_with_hash_of(word)
            .iter()
            .any(|(first, _)| {
                let differs = |(own, byte): (u8, &u8)| own != byte.to_ascii_lowercase();
                match first.bytes().zip(word).find(|pair| differs(*pair)) {
                    Some((_, byte)) => !byte.is_ascii(),
                    None => word.len() >= first.len(),
                }
            })
    }

    /// Returns the indices of the patterns that can start with a word, regardless of case.
    fn patterns_starting_with(&self, word: &str) -> &[usize] {
        let found = self
            .first_words_with_hash_of(word.as_bytes())
            .iter()
            .find(|(first, _)| first.eq_ignore_ascii_case(word));
        found.map_or(&[], |(_, patterns)| patterns)
    }
}

/// Whether a pattern matches somewhere in the text, if the boundaries of sentences are ignored. If
/// none does, as in most texts, `starts` has examined all of the text, which then need not be split
/// into words.
fn can_text_match_any_pattern(text: &str, starts: &mut PatternStartPositions<'_>) -> bool {
    let all = &*PARSED_RULE_PATTERNS;
    starts.any(|start| {
        if !all.may_match_at(text.as_bytes(), start) {
            return false;
        }
        let Some((word, after)) = words::word_at(text, start) else {
            return false;
        };
        let mut rules = all.patterns_starting_with(&word).iter();
        rules.any(|rule| all.patterns[*rule].find_match_end(&after, 0).is_some())
    })
}

/// Adds a sign for each match of a pattern of words.
fn detect_injection_phrases(
    words: &[NormalizedTextWord],
    text: &str,
    signs: &mut Vec<InjectionSign>,
) {
    let all = &*PARSED_RULE_PATTERNS;
    for (index, word) in words.iter().enumerate() {
        for rule in all.patterns_starting_with(&word.text) {
            let Some(end) = all.patterns[*rule].find_match_end(words, index) else {
                continue;
            };
            let stop = words.get(end + 1).map_or(text.len(), |next| next.start);
            signs.push(InjectionSign {
                at: word.start,
                kind: INJECTION_PHRASE_RULES[*rule].kind,
                weight: compute_rule_match_weight(
                    &INJECTION_PHRASE_RULES[*rule],
                    words,
                    index,
                    end,
                    &text[word.start..stop],
                    &text[stop..],
                ),
                quoted: word.quoted,
                discussed: is_in_text_about_attacks(words, index),
            });
        }
    }
}

/// Returns the weight of a match of a rule, which depends on the words around the match.
fn compute_rule_match_weight(
    rule: &InjectionRule,
    words: &[NormalizedTextWord],
    index: usize,
    end: usize,
    matched: &str,
    after: &str,
) -> f32 {
    let mut weight = rule.weight;
    if rule.is_order && !is_imperative_verb(words, index) {
        weight *= 0.3;
    }
    if end > index && words[index + 1..=end].iter().all(|word| word.joined) {
        // Words joined as in `snake_case` are more likely the name of a function or a file than a
        // sentence.
        weight *= 0.7;
    }
    let near = &after[..after.floor_char_boundary(300)];
    let goes_out = |text: &str| {
        ["http", "@", "webhook", "ftp:"]
            .iter()
            .any(|sign| text.contains(sign))
    };
    match rule.kind {
        SuspiciousPhraseKind::Secrets
            if goes_out(matched) || goes_out(&near[..near.floor_char_boundary(120)]) =>
        {
            weight + 0.2
        }
        SuspiciousPhraseKind::Encoded if has_base64_run(near) || has_base64_run(matched) => {
            weight + 0.4
        }
        SuspiciousPhraseKind::Encoded => weight * 0.5,
        _ => weight,
    }
}

/// Whether the verb at `index` is an order to the reader.
fn is_imperative_verb(words: &[NormalizedTextWord], index: usize) -> bool {
    let before = |back: usize| index.checked_sub(back).map(|index| &*words[index].text);
    words[index].begins
        || words[index].after_comma
        || words[index].after_folder
        || before(1).is_some_and(|word| WORDS_PRECEDING_IMPERATIVE_VERB.contains(&word))
        || (before(1) == Some("to")
            && before(2).is_some_and(|word| WORDS_PRECEDING_IMPERATIVE_INFINITIVE.contains(&word)))
}

/// Whether the words around the one at `index` show that the text discusses attacks.
fn is_in_text_about_attacks(words: &[NormalizedTextWord], index: usize) -> bool {
    let around = &words[index.saturating_sub(DISCUSSION_CONTEXT_WORD_COUNT)
        ..(index + DISCUSSION_CONTEXT_WORD_COUNT / 2).min(words.len())];
    around.iter().any(|word| {
        ATTACK_DISCUSSION_WORD_PREFIXES
            .iter()
            .any(|stem| matches_alternative(stem, &word.text))
    }) || around.windows(2).any(|pair| {
        matches!(
            [&*pair[0].text, &*pair[1].text],
            ["for" | "an" | "this", "example"] | ["such", "as"]
        )
    })
}

/// Whether a text contains a run of at least 20 base64 characters with upper and lower case
/// letters, and with a digit or a final `=`.
fn has_base64_run(text: &str) -> bool {
    let runs = text.split(|it: char| !it.is_ascii_alphanumeric() && !"+/=".contains(it));
    runs.filter(|run| run.len() >= 20).any(|run| {
        let has = |of: fn(&u8) -> bool| run.as_bytes().iter().any(of);
        has(u8::is_ascii_uppercase)
            && has(u8::is_ascii_lowercase)
            && (has(u8::is_ascii_digit) || run.ends_with('='))
    })
}

/// Adds a sign of injection for each marker of a chat format in the text.
fn detect_chat_markers(text: &str, signs: &mut Vec<InjectionSign>) {
    for (at, pair) in text.as_bytes().windows(2).enumerate() {
        // Every marker in [`CHAT_FORMAT_MARKER_WEIGHTS`] begins with one of these characters.
        if matches!(pair[0], b'<' | b'[' | b'-') {
            let second = pair[1].to_ascii_lowercase();
            let marks = CHAT_FORMAT_MARKER_WEIGHTS
                .iter()
                .filter(|(_, mark)| mark.as_bytes()[1] == second)
                .filter(|(_, mark)| begins_with_word(&text.as_bytes()[at..], mark));
            signs.extend(marks.map(|(weight, _)| InjectionSign::new_fake_turn_sign(at, *weight)));
        }
    }
}

/// Adds a sign for each line that poses as a turn of the conversation.
fn detect_fake_turns(text: &str, signs: &mut Vec<InjectionSign>) {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if has_message_header_prefix(line)
            && let Some(turn) = find_fake_speaker_position(&line.to_ascii_lowercase())
        {
            signs.push(InjectionSign::new_fake_turn_sign(at + turn, 0.6));
        }
        at += line.len();
    }
}

/// Whether a text begins with a lower-case word, regardless of the text's case.
fn begins_with_word(text: &[u8], word: &str) -> bool {
    let start = text.get(..word.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
}

/// Returns a line without the leading characters that may precede the name of a speaker.
fn trim_line_decoration(line: &str) -> &str {
    line.trim_start_matches(|it: char| it.is_whitespace() || "#*>-[(\"".contains(it))
}

/// Whether a line begins with the name of a speaker, such as `system`, regardless of case. A cheap
/// check: only the few lines that pass it are examined further.
fn has_message_header_prefix(line: &str) -> bool {
    let line = trim_line_decoration(line).as_bytes();
    let Some(first) = line.first().map(u8::to_ascii_lowercase) else {
        return false;
    };
    let mut turns = MESSAGE_HEADER_PREFIXES
        .iter()
        .map(|turn| turn.trim_end_matches(':'));
    turns.any(|turn| turn.as_bytes()[0] == first && begins_with_word(line, turn))
}

/// Returns the position of the speaker's name in a line that poses as a turn of the conversation;
/// `None` if the text after the name does not address the model. The line must be in lower case.
fn find_fake_speaker_position(line: &str) -> Option<usize> {
    let trimmed = trim_line_decoration(line);
    let said = MESSAGE_HEADER_PREFIXES.iter().find_map(|turn| {
        let turn = turn.trim_end_matches(':');
        let rest = trimmed
            .strip_prefix(turn)?
            .trim_start_matches([']', ')', '*']);
        rest.strip_prefix(':')
            .or_else(|| line.starts_with("###").then_some(rest))
    })?;
    let speaks = said
        .split(|it: char| !it.is_alphabetic())
        .any(|word| matches!(word, "you" | "your" | "must" | "ignore"));
    speaks.then(|| line.len() - trimmed.len())
}

/// Adds a suspicious phrase (a sign) for each HTML comment that contains other signs. The signs
/// must be sorted by position.
fn detect_suspicious_html_comments(text: &str, signs: &mut Vec<InjectionSign>) {
    let mut comments = Vec::new();
    let (mut from, mut next) = (0, 0);
    while let Some(open) = text[from..].find("<!--") {
        let start = from + open;
        let end = text[start..]
            .find("-->")
            .map_or(text.len(), |length| start + length);
        while signs.get(next).is_some_and(|sign| sign.at < start) {
            next += 1;
        }
        let inside = signs[next..].iter().take_while(|sign| sign.at < end);
        if inside.clone().any(|sign| sign.weight >= 0.3) {
            comments.push(InjectionSign {
                at: start,
                kind: SuspiciousPhraseKind::Comment,
                weight: 0.3,
                quoted: false,
                discussed: false,
            });
        }
        next += inside.count();
        from = end;
    }
    signs.append(&mut comments);
}
