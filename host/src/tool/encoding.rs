//! Encodings of text files: decodes bytes to text for the model, and encodes text to the same
//! bytes.
//!
//! Every conversion is lossless: decoding a file and encoding the text gives the same bytes, so an
//! edit keeps each byte outside the replaced text. This module must not know which tool reads or
//! writes the file. Start from [`decode_text_file`].

use encoding_rs::WINDOWS_1252;

/// Base of the private-use characters that represent invalid UTF-8 bytes: the character is this
/// base plus the byte. Plane 15 has no assigned characters, and text that contains one of these
/// characters is not decoded as [`TextEncoding::Damaged`].
const INVALID_BYTE_CHAR_BASE: u32 = 0xf_0000;

const BOM: char = '\u{feff}';

/// Encoding of a text file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextEncoding {
    Utf8 {
        has_bom: bool,
    },
    /// UTF-16 with a byte order mark. A UTF-16 file without the mark is treated as binary data.
    Utf16 {
        is_big_endian: bool,
    },
    /// 8-bit encoding that is read as Latin-1.
    Latin1,
    /// An 8-bit encoding with bytes that Latin-1 does not use for text, read as Windows-1252.
    Windows1252,
    /// UTF-8 in which some bytes are invalid.
    Damaged,
}

/// Text of a file, without its byte order mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DecodedText {
    /// Text of the file. In [`TextEncoding::Damaged`], private-use characters represent the invalid
    /// bytes; see [`replace_invalid_bytes`].
    pub(super) text: String,
    pub(super) encoding: TextEncoding,
}

/// Decodes a whole file; `None` for binary data.
pub(super) fn decode_text_file(bytes: Vec<u8>) -> Option<DecodedText> {
    if let Some((rest, is_big_endian)) = strip_utf16_bom(&bytes) {
        return decode_utf16(rest, is_big_endian);
    }
    if bytes.contains(&0) {
        return None;
    }
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => {
            let has_bom = text.starts_with(BOM);
            let text = match has_bom {
                true => text[BOM.len_utf8()..].to_owned(),
                false => text,
            };
            let encoding = TextEncoding::Utf8 { has_bom };
            return Some(DecodedText { text, encoding });
        }
        Err(error) => error.into_bytes(),
    };
    if is_mostly_utf8(&bytes) {
        return decode_partly_invalid_utf8(&bytes);
    }
    let is_control = |byte: &u8| (0x80..0xa0).contains(byte);
    let encoding = match bytes.iter().any(is_control) {
        true => TextEncoding::Windows1252,
        false => TextEncoding::Latin1,
    };
    // The Windows-1252 of WHATWG maps each byte to a distinct character, and equals Latin-1 from
    // 0xa0 on.
    let (text, _) = WINDOWS_1252.decode_without_bom_handling(&bytes);
    let text = text.into_owned();
    Some(DecodedText { text, encoding })
}

/// Returns the bytes after a UTF-16 byte order mark, and whether they are big-endian; `None` for
/// other files, including UTF-32, whose mark begins with the same two bytes.
pub(super) fn strip_utf16_bom(bytes: &[u8]) -> Option<(&[u8], bool)> {
    if bytes.starts_with(&[0xff, 0xfe, 0, 0]) {
        return None;
    }
    let little = bytes.strip_prefix(&[0xff, 0xfe]).map(|rest| (rest, false));
    little.or_else(|| bytes.strip_prefix(&[0xfe, 0xff]).map(|rest| (rest, true)))
}

fn decode_utf16(bytes: &[u8], is_big_endian: bool) -> Option<DecodedText> {
    let (units, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let unit = |pair: &[u8; 2]| match is_big_endian {
        true => u16::from_be_bytes(*pair),
        false => u16::from_le_bytes(*pair),
    };
    let text: Result<String, _> = char::decode_utf16(units.iter().map(unit)).collect();
    let text = text.ok().filter(|text| !text.contains('\0'))?;
    let encoding = TextEncoding::Utf16 { is_big_endian };
    Some(DecodedText { text, encoding })
}

/// Whether valid multi-byte UTF-8 characters outnumber invalid bytes. If they do, decoding as an
/// 8-bit encoding would garble more text than it would show.
fn is_mostly_utf8(bytes: &[u8]) -> bool {
    let (mut n_valid, mut n_invalid) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        n_valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        n_invalid += chunk.invalid().len();
    }
    n_valid > n_invalid
}

fn decode_partly_invalid_utf8(bytes: &[u8]) -> Option<DecodedText> {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        if chunk
            .valid()
            .chars()
            .any(|c| decode_invalid_byte_placeholder(c).is_some())
        {
            return None;
        }
        text.push_str(chunk.valid());
        let stand_ins = chunk.invalid().iter();
        text.extend(
            stand_ins.filter_map(|byte| char::from_u32(INVALID_BYTE_CHAR_BASE + u32::from(*byte))),
        );
    }
    let encoding = TextEncoding::Damaged;
    Some(DecodedText { text, encoding })
}

/// Returns the byte that a character of a damaged text represents; `None` for an ordinary
/// character.
fn decode_invalid_byte_placeholder(c: char) -> Option<u8> {
    let offset = u32::from(c).checked_sub(INVALID_BYTE_CHAR_BASE)?;
    u8::try_from(offset).ok().filter(|byte| *byte >= 0x80)
}

/// Returns a decoded text as the model sees it: U+FFFD for each invalid byte.
pub(super) fn replace_invalid_bytes(text: &str) -> String {
    let shown = |c| decode_invalid_byte_placeholder(c).map_or(c, |_| '\u{fffd}');
    text.chars().map(shown).collect()
}

impl TextEncoding {
    pub(super) fn is_utf8_without_bom(self) -> bool {
        self == Self::Utf8 { has_bom: false }
    }

    pub(super) fn encoding_name(self) -> &'static str {
        match self {
            Self::Utf8 { has_bom: false } => "UTF-8",
            Self::Utf8 { has_bom: true } => "UTF-8 with a byte order mark",
            Self::Utf16 {
                is_big_endian: true,
            } => "UTF-16 (big-endian)",
            Self::Utf16 {
                is_big_endian: false,
            } => "UTF-16 (little-endian)",
            Self::Latin1 => "Latin-1 (ISO 8859-1)",
            Self::Windows1252 => "Windows-1252",
            Self::Damaged => "UTF-8 with bytes that are no UTF-8",
        }
    }

    /// Returns a note for the model about a file in this encoding; `None` for plain UTF-8.
    pub(super) fn encoding_note(self) -> Option<String> {
        let name = self.encoding_name();
        match self {
            Self::Utf8 { has_bom: false } => None,
            Self::Utf8 { has_bom: true } => Some(format!("the file is {name}; edits keep this encoding")),
            Self::Utf16 { .. } => Some(format!("the file is {name}, not UTF-8; edits keep this encoding")),
            Self::Latin1 | Self::Windows1252 => Some(format!(
                "the file is not UTF-8 and is read as {name}; edits keep its other bytes. If the text looks wrong, it is in \
                 another 8-bit encoding: convert it, for example with `iconv`"
            )),
            Self::Damaged => Some(
                "some bytes of the file are not UTF-8 and are shown as U+FFFD; edit_file keeps them, write_file cannot".to_owned(),
            ),
        }
    }

    /// Removes a leading byte order mark from a text that the model wrote, if this encoding adds
    /// one itself.
    pub(super) fn strip_bom(self, text: &str) -> &str {
        match self {
            Self::Utf8 { has_bom: true } | Self::Utf16 { .. } => {
                text.strip_prefix(BOM).unwrap_or(text)
            }
            _ => text,
        }
    }

    /// Encodes a text to the bytes of a file in this encoding.
    ///
    /// # Errors
    /// The encoding lacks a character; the message is for the model.
    pub(super) fn encode_text(self, text: &str) -> Result<Vec<u8>, String> {
        match self {
            Self::Utf8 { has_bom: false } => Ok(text.as_bytes().to_vec()),
            Self::Utf8 { has_bom: true } => {
                Ok([BOM.to_string().as_bytes(), text.as_bytes()].concat())
            }
            Self::Utf16 { is_big_endian } => {
                let units = std::iter::once(0xfeff).chain(text.encode_utf16());
                let bytes = |unit: u16| match is_big_endian {
                    true => unit.to_be_bytes(),
                    false => unit.to_le_bytes(),
                };
                Ok(units.flat_map(bytes).collect())
            }
            Self::Latin1 => {
                let byte =
                    |c: char| u8::try_from(c).map_err(|_| self.unencodable_character_error(c));
                text.chars().map(byte).collect()
            }
            Self::Windows1252 => {
                let (bytes, _, has_unmapped) = WINDOWS_1252.encode(text);
                let unmapped = |c: &char| WINDOWS_1252.encode(c.encode_utf8(&mut [0; 4])).2;
                match text.chars().find(unmapped).filter(|_| has_unmapped) {
                    Some(c) => Err(self.unencodable_character_error(c)),
                    None => Ok(bytes.into_owned()),
                }
            }
            Self::Damaged => Ok(text.chars().fold(Vec::new(), |mut bytes, c| {
                match decode_invalid_byte_placeholder(c) {
                    Some(byte) => bytes.push(byte),
                    None => bytes.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
                }
                bytes
            })),
        }
    }

    fn unencodable_character_error(self, c: char) -> String {
        let code = u32::from(c);
        format!(
            "the file is {}, which has no U+{code:04X} ({c}). Use characters that it has, or convert the file to UTF-8 first, \
             for example with `iconv`",
            self.encoding_name()
        )
    }

    /// Returns the reason, other than a missing character, why a text cannot be stored in a file of
    /// this encoding.
    pub(super) fn find_unstorable_text_reason(self, new: &str) -> Option<String> {
        if self == Self::Damaged
            && new
                .chars()
                .any(|c| decode_invalid_byte_placeholder(c).is_some())
        {
            return Some("it has private-use characters from U+F0080 to U+F00FF".to_owned());
        }
        (!matches!(self, Self::Utf8 { .. } | Self::Utf16 { .. }) && new.contains('\u{fffd}')).then(|| {
            "it has U+FFFD, which stands for bytes of the file that are not UTF-8 and would be destroyed. Replace a text without \
             them"
                .to_owned()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], text: &str, encoding: TextEncoding) {
        let decoded = decode_text_file(bytes.to_vec()).unwrap();
        assert_eq!(
            (&*replace_invalid_bytes(&decoded.text), decoded.encoding),
            (text, encoding),
            "{bytes:?}"
        );
        assert_eq!(encoding.encode_text(&decoded.text).unwrap(), bytes);
    }

    #[test]
    fn each_encoding_is_told_by_its_bytes() {
        check(b"a\n", "a\n", TextEncoding::Utf8 { has_bom: false });
        check(
            b"\xef\xbb\xbfa\n",
            "a\n",
            TextEncoding::Utf8 { has_bom: true },
        );
        let little = TextEncoding::Utf16 {
            is_big_endian: false,
        };
        check(b"\xff\xfea\0\xfc\0", "a\u{fc}", little);
        let big = TextEncoding::Utf16 {
            is_big_endian: true,
        };
        check(b"\xfe\xff\xd8\x3d\xde\x00", "\u{1f600}", big);
        check(b"caf\xe9\n", "caf\u{e9}\n", TextEncoding::Latin1);
        check(
            b"\x80 1 caf\xe9",
            "\u{20ac} 1 caf\u{e9}",
            TextEncoding::Windows1252,
        );
        let damaged = ["\u{fc}\u{fc}\n".as_bytes(), b"\xe9"].concat();
        check(&damaged, "\u{fc}\u{fc}\n\u{fffd}", TextEncoding::Damaged);
        for binary in [
            &b"a\0b"[..],
            b"\xff\xfe\0\0a\0\0\0",
            b"\xff\xfea",
            b"\xff\xfe\x00\xd8",
        ] {
            assert_eq!(decode_text_file(binary.to_vec()), None, "{binary:?}");
        }
    }

    #[test]
    fn a_character_that_the_encoding_lacks_is_named() {
        let why = TextEncoding::Latin1.encode_text("1 \u{20ac}").unwrap_err();
        assert!(why.contains("Latin-1") && why.contains("U+20AC"), "{why}");
        let why = TextEncoding::Windows1252
            .encode_text("\u{4e2d}")
            .unwrap_err();
        assert!(why.contains("U+4E2D"), "{why}");
        assert!(
            TextEncoding::Latin1
                .find_unstorable_text_reason("\u{fffd}")
                .is_some()
        );
        assert!(
            TextEncoding::Utf8 { has_bom: false }
                .find_unstorable_text_reason("\u{fffd}")
                .is_none()
        );
    }

    #[test]
    fn decoding_loses_no_byte() {
        let letters = [
            0, b'a', b'\n', 0x80, 0xa9, 0xbb, 0xbf, 0xc3, 0xe9, 0xef, 0xfe, 0xff,
        ];
        for mut number in 0..letters.len().pow(4) {
            let mut bytes = Vec::new();
            for _ in 0..4 {
                bytes.push(letters[number % letters.len()]);
                number /= letters.len();
            }
            if let Some(decoded) = decode_text_file(bytes.clone()) {
                assert_eq!(decoded.encoding.encode_text(&decoded.text), Ok(bytes));
            }
        }
    }
}
