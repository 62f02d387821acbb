//! Finds the words of a text with which a pattern may begin. All text that the model reads is
//! searched, so eight bytes are examined at a time.

/// Number of different values of [`hash_word_prefix`].
pub(crate) const WORD_PREFIX_HASH_VALUE_COUNT: usize = 1 << 10;

/// Returns a hash of the first two bytes of a word: the lower five bits of each, which are equal
/// for upper and lower case letters.
pub(crate) fn hash_word_prefix(word: &[u8]) -> usize {
    let byte = |at: usize| word.get(at).copied().unwrap_or(0);
    hash_first_two_bytes(byte(0), byte(1))
}

fn hash_first_two_bytes(first: u8, second: u8) -> usize {
    usize::from(first & 31) << 5 | usize::from(second & 31)
}

/// Number of bytes that are examined together.
const BYTES_EXAMINED_TOGETHER: usize = 8;

/// Highest bit of each byte. The masks in this module mark bytes by this bit, which is 0 in ASCII
/// text.
const HIGH_BIT_OF_EACH_BYTE: u64 = fill_u64_with_byte(0x80);

const fn fill_u64_with_byte(byte: u8) -> u64 {
    u64::from_le_bytes([byte; BYTES_EXAMINED_TOGETHER])
}

/// Returns a mask of the bytes in `bytes` from `first` to `last`: in each of them the highest bit
/// is set. All bytes must be ASCII.
const fn mask_bytes_in_range(bytes: u64, first: u8, last: u8) -> u64 {
    let from_first = bytes + fill_u64_with_byte(0x80 - first);
    let beyond_last = bytes + fill_u64_with_byte(0x7f - last);
    from_first & !beyond_last & HIGH_BIT_OF_EACH_BYTE
}

/// Returns a mask of the bytes that equal a character. All bytes must be ASCII.
const fn bit_mask_of_bytes_equal_to(bytes: u64, character: u8) -> u64 {
    mask_bytes_in_range(bytes, character, character)
}

/// Iterator over the positions of the words that are sought, and of all words with a non-ASCII
/// character among the first two bytes.
pub(crate) struct PatternStartPositions<'a> {
    text: &'a str,
    /// Table that is indexed by [`hash_word_prefix`]: an entry is not 0 if words with this hash are
    /// sought.
    sought: &'a [u8; WORD_PREFIX_HASH_VALUE_COUNT],
    /// Position of the first byte that was not examined yet.
    at: usize,
    /// Position of the bytes that were examined last, and a bit mask of those bytes at which a word
    /// starts that the iterator has not returned yet.
    last: (usize, u64),
    is_inside: bool,
    has_marks: bool,
    has_turns: bool,
}

impl<'a> PatternStartPositions<'a> {
    pub(crate) fn of_text(text: &'a str, sought: &'a [u8; WORD_PREFIX_HASH_VALUE_COUNT]) -> Self {
        Self {
            text,
            sought,
            at: 0,
            last: (0, 0),
            is_inside: false,
            has_marks: false,
            has_turns: false,
        }
    }

    /// Whether a character examined so far may begin a marker of a chat format.
    pub(crate) fn has_chat_marker_start(&self) -> bool {
        self.has_marks
    }

    /// Whether a character examined so far is a `:` or `#`. A line that poses as a turn of the
    /// conversation contains at least one of them.
    pub(crate) fn has_colon_or_hash(&self) -> bool {
        self.has_turns
    }

    /// Examines the ASCII characters at the current position, at most [`BYTES_EXAMINED_TOGETHER`],
    /// or a single non-ASCII one.
    fn examine_next_characters(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let bytes = match rest.first_chunk::<BYTES_EXAMINED_TOGETHER>() {
            Some(bytes) => *bytes,
            // Pad with zeros, which are not part of a word.
            None => std::array::from_fn(|lane| rest.get(lane).copied().unwrap_or(0)),
        };
        let bytes = u64::from_le_bytes(bytes);
        match ((bytes & HIGH_BIT_OF_EACH_BYTE).trailing_zeros() / 8) as usize {
            0 => self.examine_non_ascii_character(),
            BYTES_EXAMINED_TOGETHER => self.scan_ascii_word_starts(bytes, BYTES_EXAMINED_TOGETHER),
            n_ascii => self.scan_ascii_word_starts(bytes & !(u64::MAX << (8 * n_ascii)), n_ascii),
        }
    }

    /// Examines `n` ASCII characters, the first in the lowest byte. The bytes above them are 0.
    fn scan_ascii_word_starts(&mut self, bytes: u64, n: usize) {
        let letters = mask_bytes_in_range(bytes | fill_u64_with_byte(0x20), b'a', b'z');
        let plain = letters | mask_bytes_in_range(bytes, b'0', b'9');
        let before = u64::from(self.is_inside) << 7;
        let mut words = plain;
        // An apostrophe continues a word but begins none.
        let apostrophes = bit_mask_of_bytes_equal_to(bytes, b'\'');
        if apostrophes != 0 {
            (0..BYTES_EXAMINED_TOGETHER).for_each(|_| words |= apostrophes & (words << 8 | before));
        }
        self.last = (self.at, words & !(words << 8 | before));
        self.is_inside = words >> (8 * n - 1) & 1 != 0;
        let marks = [b'<', b'[', b'-'].map(|mark| bit_mask_of_bytes_equal_to(bytes, mark));
        self.has_marks |= marks[0] | marks[1] | marks[2] != 0;
        self.has_turns |=
            bit_mask_of_bytes_equal_to(bytes, b':') | bit_mask_of_bytes_equal_to(bytes, b'#') != 0;
        self.at += n;
    }

    /// Examines one non-ASCII character.
    fn examine_non_ascii_character(&mut self) {
        let character = self.text[self.at..].chars().next().unwrap_or_default();
        let is_word = character.is_alphanumeric() || (self.is_inside && character == '’');
        let begins = is_word && !self.is_inside;
        self.last = (self.at, u64::from(begins) << 7);
        self.is_inside = is_word;
        self.at += character.len_utf8();
    }

    /// Whether a pattern may begin with the word at `start`: the hash of its first two bytes is one
    /// of those sought, or one of the two bytes is not ASCII.
    fn may_start_pattern(&self, start: usize) -> bool {
        let bytes = self.text.as_bytes();
        let second = bytes.get(start + 1).copied().unwrap_or(0);
        let number = hash_first_two_bytes(bytes[start], second);
        self.sought[number] != 0 || !(bytes[start] | second).is_ascii()
    }
}

impl Iterator for PatternStartPositions<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        loop {
            while self.last.1 != 0 {
                let start = self.last.0 + (self.last.1.trailing_zeros() / 8) as usize;
                self.last.1 &= self.last.1 - 1;
                if self.may_start_pattern(start) {
                    return Some(start);
                }
            }
            if self.at >= self.text.len() {
                return None;
            }
            self.examine_next_characters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds the starts of words character by character, as a reference.
    fn simple_starts(text: &str) -> Vec<usize> {
        let mut is_inside = false;
        let mut starts = Vec::new();
        for (at, character) in text.char_indices() {
            let is_word =
                character.is_alphanumeric() || (is_inside && matches!(character, '\'' | '’'));
            if is_word && !is_inside {
                starts.push(at);
            }
            is_inside = is_word;
        }
        starts
    }

    fn starts_of(
        text: &str,
        sought: &[u8; WORD_PREFIX_HASH_VALUE_COUNT],
    ) -> (Vec<usize>, bool, bool) {
        let mut starts = PatternStartPositions::of_text(text, sought);
        let found = starts.by_ref().collect();
        (
            found,
            starts.has_chat_marker_start(),
            starts.has_colon_or_hash(),
        )
    }

    #[test]
    fn words_start_where_a_simple_search_finds_them() {
        let pieces = [
            "a", "Z", "0", "9", "ab", "word", "'", "''", "’", "é", "ſ", "字", "🙂", " ", "\n", "@",
            "`", "{", "[", "/", ":", "#", "-", "<", "\u{7f}", "\0", "\u{301}",
        ];
        let mut random = 1_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..random % 24 {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                text.push_str(pieces[(random >> 33) as usize % pieces.len()]);
            }
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1)
                >> 3;
            let (found, has_marks, has_turns) =
                starts_of(&text, &[1; WORD_PREFIX_HASH_VALUE_COUNT]);
            assert_eq!(found, simple_starts(&text), "{text:?}");
            assert_eq!(has_marks, text.contains(['<', '[', '-']), "{text:?}");
            assert_eq!(has_turns, text.contains([':', '#']), "{text:?}");
        }
    }

    #[test]
    fn only_words_that_are_looked_for_are_returned_and_those_beyond_ascii() {
        let mut sought = [0; WORD_PREFIX_HASH_VALUE_COUNT];
        sought[hash_word_prefix(b"ignore")] = 1;
        sought[hash_word_prefix(b"x")] = 1;
        let text = "Please IGNORE éa, aé and all of it; ignoring 1gnore x";
        let found = starts_of(text, &sought).0;
        let words: Vec<&str> = found
            .iter()
            .filter_map(|start| text[*start..].split(' ').next())
            .collect();
        assert_eq!(words, ["IGNORE", "éa,", "aé", "ignoring", "x"]);
    }
}
