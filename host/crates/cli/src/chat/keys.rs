//! Keys and pastes from the bytes of a terminal in raw mode.
//!
//! Owns the decoding and nothing else. A crate for terminals would be used for this part only, and
//! each brings features of the crates that the sandbox is built of. Start from [`Decoder`].

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Input {
    Key(Key),
    /// A paste as it came, in one piece.
    Paste(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) code: Code,
    pub(super) ctrl: bool,
    pub(super) alt: bool,
    pub(super) shift: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Char(char),
    Enter,
    Tab,
    Esc,
    Backspace,
    Delete,
    Left,
    Right,
    Up,
    Down,
    Home,
    End,
}

impl Key {
    pub(super) fn plain(code: Code) -> Self {
        Self {
            code,
            ctrl: false,
            alt: false,
            shift: false,
        }
    }

    pub(super) fn ctrl(letter: char) -> Self {
        Self {
            ctrl: true,
            ..Self::plain(Code::Char(letter))
        }
    }

    /// The key with the modifiers as `xterm` counts them: one more than the sum of shift 1, alt 2
    /// and control 4.
    fn modified(self, modifiers: u32) -> Self {
        let bits = modifiers.saturating_sub(1);
        Self {
            shift: self.shift || bits & 1 != 0,
            alt: self.alt || bits & 2 != 0,
            ctrl: self.ctrl || bits & 4 != 0,
            ..self
        }
    }
}

const ESC: u8 = 0x1b;
const PASTE_END: &[u8] = b"\x1b[201~";

/// Longest control sequence. Terminals send no longer ones.
const MAX_SEQUENCE_BYTES: usize = 64;

/// Bytes that are not a whole key yet.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
}

/// Beginning of the pending bytes.
enum Begin {
    /// A key of this many bytes; `None` has no meaning here.
    Whole(Option<Key>, usize),
    /// The mark before a paste.
    Paste(usize),
    Incomplete,
}

impl Decoder {
    /// Takes the bytes that were read, and returns the complete inputs.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Vec<Input> {
        self.pending.extend_from_slice(bytes);
        let mut inputs = Vec::new();
        loop {
            if self.paste.is_some() {
                match self.pasted() {
                    Some(text) => inputs.push(Input::Paste(text)),
                    None => return inputs,
                }
            }
            match begin(&self.pending) {
                Begin::Whole(key, n) => {
                    self.pending.drain(..n);
                    inputs.extend(key.map(Input::Key));
                }
                Begin::Paste(n) => {
                    self.pending.drain(..n);
                    self.paste = Some(Vec::new());
                }
                Begin::Incomplete => return inputs,
            }
        }
    }

    /// Whether an escape key was pressed, or the rest of a sequence is still to come. If nothing
    /// comes, call [`flush`](Self::flush).
    pub(super) fn is_undecided(&self) -> bool {
        self.paste.is_none() && self.pending.first() == Some(&ESC)
    }

    /// Resolves an undecided escape as the Escape key.
    pub(super) fn flush(&mut self) -> Vec<Input> {
        if !self.is_undecided() {
            return Vec::new();
        }
        self.pending.remove(0);
        let mut inputs = vec![Input::Key(Key::plain(Code::Esc))];
        inputs.extend(self.feed(&[]));
        inputs
    }

    /// Moves the pending bytes to the paste; returns it when it is whole.
    fn pasted(&mut self) -> Option<String> {
        let paste = self.paste.as_mut()?;
        // The end mark may be split over two reads.
        let from = paste.len().saturating_sub(PASTE_END.len());
        paste.append(&mut self.pending);
        let tail = paste.get(from..).unwrap_or_default();
        let at = from + tail.windows(PASTE_END.len()).position(|w| w == PASTE_END)?;
        let rest = paste.split_off(at);
        self.pending = rest.get(PASTE_END.len()..).unwrap_or_default().to_vec();
        let paste = self.paste.take()?;
        Some(String::from_utf8_lossy(&paste).into_owned())
    }
}

fn begin(bytes: &[u8]) -> Begin {
    match bytes {
        [] | [ESC] => Begin::Incomplete,
        [ESC, b'[', rest @ ..] => control(rest),
        [ESC, b'O'] => Begin::Incomplete,
        [ESC, b'O', last, ..] => Begin::Whole(cursor(*last), 3),
        [ESC, ESC, ..] => Begin::Whole(Some(Key::plain(Code::Esc)), 1),
        [ESC, rest @ ..] => match letter(rest) {
            Begin::Whole(key, n) => {
                let alt = key.map(|key| Key { alt: true, ..key });
                Begin::Whole(alt, n + 1)
            }
            other => other,
        },
        _ => letter(bytes),
    }
}

/// Decodes one key that is not an escape sequence.
fn letter(bytes: &[u8]) -> Begin {
    let Some(first) = bytes.first() else {
        return Begin::Incomplete;
    };
    let key = match *first {
        b'\r' => Key::plain(Code::Enter),
        b'\t' => Key::plain(Code::Tab),
        0x7f | 0x08 => Key::plain(Code::Backspace),
        0 => Key::ctrl(' '),
        control @ 1..0x1b => Key::ctrl(char::from(control - 1 + b'a')),
        control @ 0x1b..0x20 => Key::ctrl(char::from(control - 0x1b + b'[')),
        0x20..0x7f => Key::plain(Code::Char(char::from(*first))),
        0x80.. => return wide(bytes),
    };
    Begin::Whole(Some(key), 1)
}

/// Decodes a multi-byte character. Invalid bytes are shown as a replacement character, not dropped.
fn wide(bytes: &[u8]) -> Begin {
    let length = match bytes.first() {
        Some(0xc2..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf4) => 4,
        _ => 1,
    };
    let begun = bytes.get(..length.min(bytes.len())).unwrap_or_default();
    match std::str::from_utf8(begun) {
        Ok(text) => {
            let character = text.chars().next().unwrap_or(char::REPLACEMENT_CHARACTER);
            Begin::Whole(Some(Key::plain(Code::Char(character))), begun.len())
        }
        Err(error) if error.error_len().is_none() && bytes.len() < length => Begin::Incomplete,
        Err(_) => {
            let unknown = Key::plain(Code::Char(char::REPLACEMENT_CHARACTER));
            Begin::Whole(Some(unknown), 1)
        }
    }
}

/// A sequence after `ESC [`.
fn control(rest: &[u8]) -> Begin {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return match rest.len() > MAX_SEQUENCE_BYTES {
            true => Begin::Whole(None, 2 + rest.len()),
            false => Begin::Incomplete,
        };
    };
    let n = 2 + end + 1;
    let (parameters, last) = (rest.get(..end).unwrap_or_default(), rest.get(end));
    let numbers: Vec<u32> = String::from_utf8_lossy(parameters)
        .split(';')
        // Ignore sub-parameters after a colon.
        .map(|number| number.split(':').next().unwrap_or_default())
        .map(|number| number.parse().unwrap_or(0))
        .collect();
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let key = match (last, number(0)) {
        (Some(b'~'), 200) => return Begin::Paste(n),
        (Some(b'~'), 27) => of_code(number(2)),
        (Some(b'~'), 1 | 7) => Some(Key::plain(Code::Home)),
        (Some(b'~'), 4 | 8) => Some(Key::plain(Code::End)),
        (Some(b'~'), 3) => Some(Key::plain(Code::Delete)),
        (Some(b'u'), code) => of_code(code),
        (Some(b'Z'), _) => Some(Key {
            shift: true,
            ..Key::plain(Code::Tab)
        }),
        (Some(last), _) => cursor(*last),
        (None, _) => None,
    };
    Begin::Whole(key.map(|key| key.modified(number(1))), n)
}

fn cursor(last: u8) -> Option<Key> {
    Some(Key::plain(match last {
        b'A' => Code::Up,
        b'B' => Code::Down,
        b'C' => Code::Right,
        b'D' => Code::Left,
        b'H' => Code::Home,
        b'F' => Code::End,
        b'M' => Code::Enter,
        _ => return None,
    }))
}

/// The key of a Unicode code point, as terminals send it with modifiers.
fn of_code(code: u32) -> Option<Key> {
    Some(Key::plain(match code {
        13 => Code::Enter,
        9 => Code::Tab,
        27 => Code::Esc,
        127 | 8 => Code::Backspace,
        // Control characters and the private use area are keys without a character.
        0..32 | 0xe000..0xf900 => return None,
        code => Code::Char(char::from_u32(code)?),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: Code) -> Input {
        Input::Key(Key::plain(code))
    }

    fn keys(bytes: &[u8]) -> Vec<Input> {
        let mut decoder = Decoder::default();
        let mut inputs = decoder.feed(bytes);
        inputs.extend(decoder.flush());
        inputs
    }

    fn modified(code: Code, modifiers: u32) -> Input {
        Input::Key(Key::plain(code).modified(modifiers))
    }

    #[test]
    fn keys_are_told_apart() {
        let table: [(&[u8], Vec<Input>); 15] = [
            (
                b"a\xc3\xa9",
                vec![key(Code::Char('a')), key(Code::Char('é'))],
            ),
            ("👍".as_bytes(), vec![key(Code::Char('👍'))]),
            (b"\x1b[A\x1bOB", vec![key(Code::Up), key(Code::Down)]),
            (b"\x1b[1;5C", vec![modified(Code::Right, 5)]),
            (
                b"\x1b[3~\x7f",
                vec![key(Code::Delete), key(Code::Backspace)],
            ),
            (b"\x1b\r", vec![modified(Code::Enter, 3)]),
            (b"\x1bb", vec![modified(Code::Char('b'), 3)]),
            (b"\x03", vec![Input::Key(Key::ctrl('c'))]),
            (b"\n", vec![Input::Key(Key::ctrl('j'))]),
            (b"\x1b", vec![key(Code::Esc)]),
            (b"\x1b\x1b", vec![key(Code::Esc), key(Code::Esc)]),
            (b"\x1b[13;2u", vec![modified(Code::Enter, 2)]),
            (b"\x1b[27;2;13~", vec![modified(Code::Enter, 2)]),
            (b"\x1b[Z", vec![modified(Code::Tab, 2)]),
            (
                b"\xffx",
                vec![key(Code::Char('\u{fffd}')), key(Code::Char('x'))],
            ),
        ];
        for (bytes, expected) in table {
            assert_eq!(keys(bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_paste_is_one_input_whatever_is_in_it_and_however_it_comes() {
        let bytes = b"x\x1b[200~one\r\n\x1b[A two\xc3\xa9\x03\x1b[201~y";
        let expected = vec![
            key(Code::Char('x')),
            Input::Paste("one\r\n\u{1b}[A twoé\u{3}".to_owned()),
            key(Code::Char('y')),
        ];
        assert_eq!(keys(bytes), expected);
        for cut in 1..bytes.len() {
            let mut decoder = Decoder::default();
            let mut inputs = decoder.feed(&bytes[..cut]);
            inputs.extend(decoder.feed(&bytes[cut..]));
            assert_eq!(inputs, expected, "cut at {cut}");
        }
    }

    #[test]
    fn any_bytes_are_decoded_to_their_end() {
        let mut seed = 7_u32;
        for _ in 0..2_000 {
            let mut decoder = Decoder::default();
            let mut n_pending = 0;
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let bytes: Vec<u8> = seed
                    .to_le_bytes()
                    .into_iter()
                    .flat_map(|byte| [byte, if byte % 3 == 0 { 0x1b } else { byte % 96 }])
                    .collect();
                decoder.feed(&bytes);
                n_pending = decoder.pending.len();
            }
            assert!(n_pending <= 66, "{n_pending}");
        }
    }
}
