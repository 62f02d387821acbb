//! Decodes keys and pastes from the bytes of a terminal in raw mode.
//!
//! Owns only the decoding. `crossterm` is not used, because it decodes only bytes that it reads
//! from the terminal itself: it drops the terminal's answer about the background color, cannot
//! return unread bytes, and cannot stop reading while another program uses the terminal. Start from
//! [`TerminalInputDecoder`].

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TerminalInputEvent {
    Key(TypedKeyWithModifiers),
    /// Text of one bracketed paste, unchanged.
    Paste(String),
    /// Whether the terminal window now has the focus.
    Focus(bool),
    /// Answer of the terminal to [`BACKGROUND_COLOR_QUERY`]: whether the background is light.
    Background(bool),
    /// Sign that the terminal has answered all queries of [`BACKGROUND_COLOR_QUERY`].
    Answered,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TypedKeyWithModifiers {
    pub(super) code: KeyCode,
    pub(super) ctrl: bool,
    pub(super) alt: bool,
    pub(super) shift: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyCode {
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

impl TypedKeyWithModifiers {
    pub(super) fn without_modifiers(code: KeyCode) -> Self {
        Self {
            code,
            ctrl: false,
            alt: false,
            shift: false,
        }
    }

    pub(super) fn with_ctrl(letter: char) -> Self {
        Self {
            ctrl: true,
            ..Self::without_modifiers(KeyCode::Char(letter))
        }
    }

    /// Returns the key with modifiers, which are encoded as by `xterm`: 1, plus 1 for shift, 2 for
    /// alt and 4 for control.
    fn with_xterm_modifiers(self, modifiers: u32) -> Self {
        let bits = modifiers.saturating_sub(1);
        Self {
            shift: self.shift || bits & 1 != 0,
            alt: self.alt || bits & 2 != 0,
            ctrl: self.ctrl || bits & 4 != 0,
            ..self
        }
    }
}

/// Query for the background color, followed by a query that every terminal answers. If only the
/// second answer arrives, the terminal does not report its background color.
pub(super) const BACKGROUND_COLOR_QUERY: &str = "\x1b]11;?\x1b\\\x1b[c";

const ESC_BYTE: u8 = 0x1b;
const PASTE_END_SEQUENCE: &[u8] = b"\x1b[201~";

/// Maximum length of a control sequence, in bytes. Terminals send no longer sequences.
const MAX_CONTROL_SEQUENCE_BYTES: usize = 64;

/// Decodes the bytes of a terminal, and keeps those that are not a complete key yet.
#[derive(Debug, Default)]
pub(super) struct TerminalInputDecoder {
    pending: Vec<u8>,
    paste: Option<Vec<u8>>,
    /// Whether answers to [`BACKGROUND_COLOR_QUERY`] are expected. Otherwise the same bytes are
    /// decoded as keys.
    is_asked: bool,
}

/// Result of decoding the input at the start of the pending bytes.
enum DecodedTerminalInput {
    /// Complete key sequence, and its length in bytes; `None` if the sequence is not a key that the
    /// chat uses.
    Whole(Option<TypedKeyWithModifiers>, usize),
    /// Start marker of a paste, and its length in bytes.
    Paste(usize),
    /// Report of the terminal that is not a key, such as its background color, and its length in
    /// bytes.
    Told(TerminalInputEvent, usize),
    Incomplete,
}

impl TerminalInputDecoder {
    /// Adds bytes that were read from the terminal, and returns the inputs that are now complete.
    pub(super) fn feed_bytes(&mut self, bytes: &[u8]) -> Vec<TerminalInputEvent> {
        self.pending.extend_from_slice(bytes);
        let mut inputs = Vec::new();
        loop {
            if self.paste.is_some() {
                match self.take_complete_paste() {
                    Some(text) => inputs.push(TerminalInputEvent::Paste(text)),
                    None => return inputs,
                }
            }
            match decode_escape_sequence(&self.pending, self.is_asked) {
                DecodedTerminalInput::Told(told, n) => {
                    self.pending.drain(..n);
                    self.is_asked &= told != TerminalInputEvent::Answered;
                    inputs.push(told);
                }
                DecodedTerminalInput::Whole(key, n) => {
                    self.pending.drain(..n);
                    inputs.extend(key.map(TerminalInputEvent::Key));
                }
                DecodedTerminalInput::Paste(n) => {
                    self.pending.drain(..n);
                    self.paste = Some(Vec::new());
                }
                DecodedTerminalInput::Incomplete => return inputs,
            }
        }
    }

    /// Prepares to decode the terminal's answers to [`BACKGROUND_COLOR_QUERY`].
    pub(super) fn expect_background_color_answer(&mut self) {
        self.is_asked = true;
    }

    /// Whether the pending bytes may be the Escape key or an incomplete sequence. If no more bytes
    /// follow, call [`flush_pending_escape`](Self::flush_pending_escape).
    pub(super) fn has_pending_escape(&self) -> bool {
        self.paste.is_none() && self.pending.first() == Some(&ESC_BYTE)
    }

    /// Decodes an escape byte that still waits for further bytes as the Escape key.
    pub(super) fn flush_pending_escape(&mut self) -> Vec<TerminalInputEvent> {
        if !self.has_pending_escape() {
            return Vec::new();
        }
        self.pending.remove(0);
        let mut inputs = vec![TerminalInputEvent::Key(
            TypedKeyWithModifiers::without_modifiers(KeyCode::Esc),
        )];
        inputs.extend(self.feed_bytes(&[]));
        inputs
    }

    /// Moves the pending bytes into the paste, and returns the paste once it is complete.
    fn take_complete_paste(&mut self) -> Option<String> {
        let paste = self.paste.as_mut()?;
        // Search also the end of the earlier bytes, because the end marker may be split over two
        // reads.
        let from = paste.len().saturating_sub(PASTE_END_SEQUENCE.len());
        paste.append(&mut self.pending);
        let tail = paste.get(from..).unwrap_or_default();
        let at = from
            + tail
                .windows(PASTE_END_SEQUENCE.len())
                .position(|w| w == PASTE_END_SEQUENCE)?;
        let rest = paste.split_off(at);
        self.pending = rest
            .get(PASTE_END_SEQUENCE.len()..)
            .unwrap_or_default()
            .to_vec();
        let paste = self.paste.take()?;
        Some(String::from_utf8_lossy(&paste).into_owned())
    }
}

fn decode_escape_sequence(bytes: &[u8], is_asked: bool) -> DecodedTerminalInput {
    match bytes {
        [] | [ESC_BYTE] => DecodedTerminalInput::Incomplete,
        [ESC_BYTE, b']', rest @ ..] if is_asked => decode_terminal_query_reply(rest),
        [ESC_BYTE, b'[', rest @ ..] => decode_control_sequence(rest),
        [ESC_BYTE, b'O'] => DecodedTerminalInput::Incomplete,
        [ESC_BYTE, b'O', last, ..] => {
            DecodedTerminalInput::Whole(cursor_key_from_final_byte(*last), 3)
        }
        [ESC_BYTE, ESC_BYTE, ..] => DecodedTerminalInput::Whole(
            Some(TypedKeyWithModifiers::without_modifiers(KeyCode::Esc)),
            1,
        ),
        [ESC_BYTE, rest @ ..] => match decode_character(rest) {
            DecodedTerminalInput::Whole(key, n) => {
                let alt = key.map(|key| TypedKeyWithModifiers { alt: true, ..key });
                DecodedTerminalInput::Whole(alt, n + 1)
            }
            other => other,
        },
        _ => decode_character(bytes),
    }
}

/// Decodes one key press that is not an escape sequence, such as a letter.
fn decode_character(bytes: &[u8]) -> DecodedTerminalInput {
    let Some(first) = bytes.first() else {
        return DecodedTerminalInput::Incomplete;
    };
    let key = match *first {
        b'\r' => TypedKeyWithModifiers::without_modifiers(KeyCode::Enter),
        b'\t' => TypedKeyWithModifiers::without_modifiers(KeyCode::Tab),
        0x7f | 0x08 => TypedKeyWithModifiers::without_modifiers(KeyCode::Backspace),
        0 => TypedKeyWithModifiers::with_ctrl(' '),
        control @ 1..0x1b => TypedKeyWithModifiers::with_ctrl(char::from(control - 1 + b'a')),
        control @ 0x1b..0x20 => TypedKeyWithModifiers::with_ctrl(char::from(control - 0x1b + b'[')),
        0x20..0x7f => TypedKeyWithModifiers::without_modifiers(KeyCode::Char(char::from(*first))),
        0x80.. => return decode_multibyte(bytes),
    };
    DecodedTerminalInput::Whole(Some(key), 1)
}

/// Decodes a multi-byte character. Invalid bytes become a replacement character.
fn decode_multibyte(bytes: &[u8]) -> DecodedTerminalInput {
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
            DecodedTerminalInput::Whole(
                Some(TypedKeyWithModifiers::without_modifiers(KeyCode::Char(
                    character,
                ))),
                begun.len(),
            )
        }
        Err(error) if error.error_len().is_none() && bytes.len() < length => {
            DecodedTerminalInput::Incomplete
        }
        Err(_) => {
            let unknown = TypedKeyWithModifiers::without_modifiers(KeyCode::Char(
                char::REPLACEMENT_CHARACTER,
            ));
            DecodedTerminalInput::Whole(Some(unknown), 1)
        }
    }
}

/// Decodes the part of a terminal's answer after `ESC ]`, such as `11;rgb:1e1e/1e1e/1e1e`. The
/// answer ends with a bell or `ESC \`.
fn decode_terminal_query_reply(rest: &[u8]) -> DecodedTerminalInput {
    let Some(end) = rest
        .iter()
        .position(|byte| matches!(*byte, 0x07 | ESC_BYTE))
    else {
        return match rest.len() > MAX_CONTROL_SEQUENCE_BYTES {
            true => DecodedTerminalInput::Whole(None, 2 + rest.len()),
            false => DecodedTerminalInput::Incomplete,
        };
    };
    let n_end = match rest.get(end..) {
        Some([ESC_BYTE]) => return DecodedTerminalInput::Incomplete,
        Some([ESC_BYTE, b'\\', ..]) => 2,
        Some([ESC_BYTE, ..]) => 0,
        _ => 1,
    };
    let n = 2 + end + n_end;
    let text = String::from_utf8_lossy(rest.get(..end).unwrap_or_default());
    let light = text.strip_prefix("11;").and_then(is_light_color);
    match light {
        Some(is_light) => DecodedTerminalInput::Told(TerminalInputEvent::Background(is_light), n),
        None => DecodedTerminalInput::Whole(None, n),
    }
}

/// Whether a color is nearer to white than to black. Its format is `rgb:RRRR/GGGG/BBBB` with one to
/// four hex digits for each part.
fn is_light_color(color: &str) -> Option<bool> {
    let (_, parts) = color.split_once(':')?;
    let part = |text: &str| {
        let most = 16_u32
            .checked_pow(u32::try_from(text.len()).ok()?)?
            .checked_sub(1)?;
        let value = u32::from_str_radix(text, 16).ok()?;
        (1..=4)
            .contains(&text.len())
            .then(|| f64::from(value) / f64::from(most))
    };
    let parts: Option<Vec<f64>> = parts.split('/').take(3).map(part).collect();
    match parts?.as_slice() {
        [red, green, blue] => Some(0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.5),
        _ => None,
    }
}

/// Decodes the part of a control sequence after `ESC [`.
fn decode_control_sequence(rest: &[u8]) -> DecodedTerminalInput {
    let Some(end) = rest.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return match rest.len() > MAX_CONTROL_SEQUENCE_BYTES {
            true => DecodedTerminalInput::Whole(None, 2 + rest.len()),
            false => DecodedTerminalInput::Incomplete,
        };
    };
    let n = 2 + end + 1;
    let (parameters, last) = (rest.get(..end).unwrap_or_default(), rest.get(end));
    let numbers: Vec<u32> = String::from_utf8_lossy(parameters)
        .split(';')
        // Use only the number before a colon; the sub-parameters after it are ignored.
        .map(|number| number.split(':').next().unwrap_or_default())
        .map(|number| number.parse().unwrap_or(0))
        .collect();
    let number = |at: usize| numbers.get(at).copied().unwrap_or(0);
    let key = match (last, number(0)) {
        (Some(b'~'), 200) => return DecodedTerminalInput::Paste(n),
        (Some(b'I'), _) if end == 0 => {
            return DecodedTerminalInput::Told(TerminalInputEvent::Focus(true), n);
        }
        (Some(b'O'), _) if end == 0 => {
            return DecodedTerminalInput::Told(TerminalInputEvent::Focus(false), n);
        }
        (Some(b'c'), _) if parameters.starts_with(b"?") => {
            return DecodedTerminalInput::Told(TerminalInputEvent::Answered, n);
        }
        (Some(b'~'), 27) => key_from_code_point(number(2)),
        (Some(b'~'), 1 | 7) => Some(TypedKeyWithModifiers::without_modifiers(KeyCode::Home)),
        (Some(b'~'), 4 | 8) => Some(TypedKeyWithModifiers::without_modifiers(KeyCode::End)),
        (Some(b'~'), 3) => Some(TypedKeyWithModifiers::without_modifiers(KeyCode::Delete)),
        (Some(b'u'), code) => key_from_code_point(code),
        (Some(b'Z'), _) => Some(TypedKeyWithModifiers {
            shift: true,
            ..TypedKeyWithModifiers::without_modifiers(KeyCode::Tab)
        }),
        (Some(last), _) => cursor_key_from_final_byte(*last),
        (None, _) => None,
    };
    DecodedTerminalInput::Whole(key.map(|key| key.with_xterm_modifiers(number(1))), n)
}

fn cursor_key_from_final_byte(last: u8) -> Option<TypedKeyWithModifiers> {
    Some(TypedKeyWithModifiers::without_modifiers(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'H' => KeyCode::Home,
        b'F' => KeyCode::End,
        b'M' => KeyCode::Enter,
        _ => return None,
    }))
}

/// Returns the key of a Unicode code point, which terminals send for a key with modifiers.
fn key_from_code_point(code: u32) -> Option<TypedKeyWithModifiers> {
    Some(TypedKeyWithModifiers::without_modifiers(match code {
        13 => KeyCode::Enter,
        9 => KeyCode::Tab,
        27 => KeyCode::Esc,
        127 | 8 => KeyCode::Backspace,
        // Ignore control characters and the private use area, in which terminals encode keys
        // without a character.
        0..32 | 0xe000..0xf900 => return None,
        code => KeyCode::Char(char::from_u32(code)?),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(code: KeyCode) -> TerminalInputEvent {
        TerminalInputEvent::Key(TypedKeyWithModifiers::without_modifiers(code))
    }

    fn keys(bytes: &[u8]) -> Vec<TerminalInputEvent> {
        let mut decoder = TerminalInputDecoder::default();
        let mut inputs = decoder.feed_bytes(bytes);
        inputs.extend(decoder.flush_pending_escape());
        inputs
    }

    fn modified(code: KeyCode, modifiers: u32) -> TerminalInputEvent {
        TerminalInputEvent::Key(
            TypedKeyWithModifiers::without_modifiers(code).with_xterm_modifiers(modifiers),
        )
    }

    #[test]
    fn keys_are_told_apart() {
        let table: [(&[u8], Vec<TerminalInputEvent>); 15] = [
            (
                b"a\xc3\xa9",
                vec![key(KeyCode::Char('a')), key(KeyCode::Char('é'))],
            ),
            ("👍".as_bytes(), vec![key(KeyCode::Char('👍'))]),
            (b"\x1b[A\x1bOB", vec![key(KeyCode::Up), key(KeyCode::Down)]),
            (b"\x1b[1;5C", vec![modified(KeyCode::Right, 5)]),
            (
                b"\x1b[3~\x7f",
                vec![key(KeyCode::Delete), key(KeyCode::Backspace)],
            ),
            (b"\x1b\r", vec![modified(KeyCode::Enter, 3)]),
            (b"\x1bb", vec![modified(KeyCode::Char('b'), 3)]),
            (
                b"\x03",
                vec![TerminalInputEvent::Key(TypedKeyWithModifiers::with_ctrl(
                    'c',
                ))],
            ),
            (
                b"\n",
                vec![TerminalInputEvent::Key(TypedKeyWithModifiers::with_ctrl(
                    'j',
                ))],
            ),
            (b"\x1b", vec![key(KeyCode::Esc)]),
            (b"\x1b\x1b", vec![key(KeyCode::Esc), key(KeyCode::Esc)]),
            (b"\x1b[13;2u", vec![modified(KeyCode::Enter, 2)]),
            (b"\x1b[27;2;13~", vec![modified(KeyCode::Enter, 2)]),
            (b"\x1b[Z", vec![modified(KeyCode::Tab, 2)]),
            (
                b"\xffx",
                vec![key(KeyCode::Char('\u{fffd}')), key(KeyCode::Char('x'))],
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
            key(KeyCode::Char('x')),
            TerminalInputEvent::Paste("one\r\n\u{1b}[A twoé\u{3}".to_owned()),
            key(KeyCode::Char('y')),
        ];
        assert_eq!(keys(bytes), expected);
        for cut in 1..bytes.len() {
            let mut decoder = TerminalInputDecoder::default();
            let mut inputs = decoder.feed_bytes(&bytes[..cut]);
            inputs.extend(decoder.feed_bytes(&bytes[cut..]));
            assert_eq!(inputs, expected, "cut at {cut}");
        }
    }

    #[test]
    fn what_the_terminal_tells_is_no_key() {
        for (bytes, expected) in [
            (
                &b"\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\"[..],
                vec![TerminalInputEvent::Background(false)],
            ),
            (
                b"\x1b]11;rgb:ff/ff/e0\x07x",
                vec![
                    TerminalInputEvent::Background(true),
                    key(KeyCode::Char('x')),
                ],
            ),
            (b"\x1b]11;rgb:zz/ff/e0\x07", vec![]),
            (
                b"\x1b]11;rgba:ffff/ffff/ffff/ffff\x07",
                vec![TerminalInputEvent::Background(true)],
            ),
            (b"\x1b]52;c;AAAA\x07", vec![]),
            (
                b"\x1b[?62;4c\x1b[I\x1b[O",
                vec![
                    TerminalInputEvent::Answered,
                    TerminalInputEvent::Focus(true),
                    TerminalInputEvent::Focus(false),
                ],
            ),
        ] {
            for cut in 1..bytes.len() {
                let mut decoder = TerminalInputDecoder::default();
                decoder.expect_background_color_answer();
                let mut inputs = decoder.feed_bytes(&bytes[..cut]);
                inputs.extend(decoder.feed_bytes(&bytes[cut..]));
                assert_eq!(inputs, expected, "{bytes:?} cut at {cut}");
            }
        }
        // Without a question, the same bytes are typed keys.
        let typed = keys(b"\x1b]1");
        assert_eq!(
            typed,
            [modified(KeyCode::Char(']'), 3), key(KeyCode::Char('1'))]
        );
    }

    #[test]
    fn any_bytes_are_decoded_to_their_end() {
        let mut seed = 7_u32;
        for _ in 0..2_000 {
            let mut decoder = TerminalInputDecoder {
                is_asked: seed.is_multiple_of(2),
                ..TerminalInputDecoder::default()
            };
            let mut n_pending = 0;
            for _ in 0..8 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let bytes: Vec<u8> = seed
                    .to_le_bytes()
                    .into_iter()
                    .flat_map(|byte| [byte, if byte % 3 == 0 { 0x1b } else { byte % 96 }])
                    .collect();
                decoder.feed_bytes(&bytes);
                n_pending = decoder.pending.len();
            }
            assert!(n_pending <= 66, "{n_pending}");
        }
    }
}
