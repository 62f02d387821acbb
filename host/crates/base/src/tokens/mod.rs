//! Token counts and estimates for text and images.
//!
//! Owns the choice of the encoder, `cl100k_base`. No single tokenizer is right for every model.
//! This one is within a few percent for English and code, its table has half the size of
//! `o200k_base`, and its error is about the same from one request to the next, so callers can
//! correct the count by the usage that the provider reports.
//!
//! The module must not know messages or requests. Start from [`estimate_tokens`] and
//! [`count_tokens`].

mod encoder;

/// Counts the tokens of a text with the encoder. Takes linear time, some 30 ms per megabyte. The
/// first call also builds the encoder, which takes some 0.4 s and then 40 MB of memory as long as
/// the process runs. Use [`estimate_tokens`] or an upper bound instead where that is enough; the
/// estimate is not an upper bound.
#[must_use]
pub fn count_tokens(text: &str) -> u64 {
    if text.is_empty() {
        return 0;
    }
    encoder::count_tokens(text)
}

/// Builds the encoder in the background. Call this some time before [`count_tokens`] is needed, so
/// that no turn waits for the encoder.
pub fn build_encoder_in_background() {
    encoder::build_encoder_in_background();
}

/// Estimates the tokens of a text without the encoder. The estimate is within 20 % of
/// [`count_tokens`] for prose and code, and at least half of [`count_tokens`] for encoded data and
/// for other scripts. Use it for display, and to decide whether counting is necessary.
#[must_use]
pub fn estimate_tokens(text: &str) -> u64 {
    let mut tokens = 0;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let kind = TokenEstimateCharacterClass::from_char(first);
        let mut before = first;
        let ends = |c: char| {
            let is_new_word = before.is_ascii_lowercase() && c.is_ascii_uppercase();
            before = c;
            is_new_word || TokenEstimateCharacterClass::from_char(c) != kind
        };
        let (run, after) = rest.split_at(rest.find(ends).unwrap_or(rest.len()));
        let n = run.len() as u64;
        tokens += match kind {
            TokenEstimateCharacterClass::Letters if n <= MAX_LETTERS_COUNTED_AS_WORD => {
                n.div_ceil(9)
            }
            TokenEstimateCharacterClass::Letters => {
                (n - MAX_LETTERS_COUNTED_AS_WORD).div_ceil(2) + 2
            }
            TokenEstimateCharacterClass::Digits | TokenEstimateCharacterClass::Punctuation => {
                n.div_ceil(3)
            }
            TokenEstimateCharacterClass::Other => n.div_ceil(2),
            // A single space is part of the token of the next word.
            TokenEstimateCharacterClass::Blank => u64::from(n > 1 || run != " "),
        };
        rest = after;
    }
    tokens
}

/// Maximum number of letters in a run that is estimated as a word. A longer run is probably encoded
/// data, which takes more tokens.
const MAX_LETTERS_COUNTED_AS_WORD: u64 = 18;

/// Classes of characters. The tokens of a run are estimated by the class of its characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenEstimateCharacterClass {
    Letters,
    Digits,
    Blank,
    Punctuation,
    Other,
}

impl TokenEstimateCharacterClass {
    fn from_char(c: char) -> Self {
        match c {
            _ if c.is_ascii_alphabetic() => Self::Letters,
            _ if c.is_ascii_digit() => Self::Digits,
            _ if c.is_ascii_whitespace() => Self::Blank,
            _ if c.is_ascii() => Self::Punctuation,
            _ => Self::Other,
        }
    }
}

/// Maximum number of tokens of an image by the rules of [`count_image_tokens`]. An image of unknown
/// size counts as this many tokens.
pub const MAX_IMAGE_TOKENS: u64 = 1_600;

/// Returns the tokens of an image, by the documented rule of the model's vendor. Models of all
/// other vendors use OpenAI's rule.
///
/// Claude (platform.claude.com, "Vision"): scale the longer side down to 1,568 pixels; the result
/// is width × height / 750, at most some 1,600. OpenAI (platform.openai.com, "Images and vision",
/// high detail): scale down to fit a square of 2,048 pixels, then scale the shorter side down to
/// 768; the result is 85 plus 170 for each started square of 512.
#[must_use]
pub fn count_image_tokens(model: &str, pixels: Option<(u32, u32)>) -> u64 {
    let Some((width, height)) = pixels else {
        return MAX_IMAGE_TOKENS;
    };
    let (width, height) = (f64::from(width.max(1)), f64::from(height.max(1)));
    if model.contains("claude") {
        let scale = (1568.0 / width.max(height)).min(1.0);
        let n = (width * scale * height * scale / 750.0).ceil() as u64;
        return n.min(MAX_IMAGE_TOKENS);
    }
    let scale = (2048.0 / width.max(height)).min(1.0);
    let scale = scale.min(768.0 / width.min(height));
    let squares = |side: f64| (side * scale / 512.0).ceil().max(1.0) as u64;
    85 + 170 * squares(width) * squares(height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_have_the_tokens_that_the_rules_of_their_makers_say() {
        for (model, width, height, expected) in [
            ("claude-sonnet-4-5", 200, 200, 54),
            ("claude-sonnet-4-5", 1000, 1000, 1334),
            ("anthropic/claude-opus-4.1", 1092, 1092, 1590),
            ("claude-sonnet-4-5", 8000, 8000, 1600),
            ("claude-sonnet-4-5", 8000, 10, 5),
            ("gpt-4o", 1024, 1024, 765),
            ("gpt-4o", 2048, 4096, 1105),
            ("gpt-4o", 300, 200, 255),
            ("llava", 8000, 1, 765),
        ] {
            let n = count_image_tokens(model, Some((width, height)));
            assert_eq!(n, expected, "{model} {width}×{height}");
        }
        assert_eq!(count_image_tokens("gpt-4o", None), MAX_IMAGE_TOKENS);
        for side in [1, 500, 1568, 8000] {
            let n = count_image_tokens("gpt-4o", Some((side, 8000)));
            assert!(n <= MAX_IMAGE_TOKENS, "{n}");
        }
    }

    #[test]
    fn texts_are_counted_as_the_encoder_is_known_to() {
        assert_eq!(count_tokens(""), 0);
        assert_eq!(count_tokens("hello world"), 2);
        assert_eq!(count_tokens("let zero_cm = -4;"), 7);
        assert!(count_tokens("潮位を測る") >= 5);
    }

    #[test]
    fn a_text_never_has_more_tokens_than_bytes() {
        for text in [
            "\u{0301}\u{0301}",
            "🦀🦀",
            "\0\u{1}\u{2}",
            "aaaa",
            "<|endoftext|>",
        ] {
            assert!(count_tokens(text) <= text.len() as u64, "{text:?}");
        }
    }

    #[test]
    fn an_estimate_is_near_the_count_for_prose_code_and_settings() {
        for text in [
            include_str!("mod.rs"),
            include_str!("../../../../src/agent/turn.rs"),
            include_str!("../../../../../README.md"),
            include_str!("../../../../../Cargo.toml"),
            include_str!("../../../../../plugins/cost-tracker/plugin.toml"),
        ] {
            let ratio = estimate_tokens(text) as f64 / count_tokens(text) as f64;
            assert!((0.8..1.25).contains(&ratio), "{ratio} for {text:.60}");
        }
    }

    #[test]
    fn an_estimate_is_not_below_half_of_the_count_for_data_and_other_scripts() {
        let hash = blake3::hash(b"any").to_hex().repeat(4);
        let random = |of: &[u8]| -> String {
            let bytes = blake3::Hasher::new().finalize_xof();
            let mut all = vec![0; 4000];
            std::io::Read::read_exact(&mut { bytes }, &mut all).unwrap();
            let letters = all.iter().map(|b| of[usize::from(*b) % of.len()]);
            letters.map(char::from).collect()
        };
        let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for text in [
            hash,
            random(base64),
            random(b"abcdefghijklmnopqrstuvwxyz"),
            random(b"ACGT"),
            random(b"0123456789"),
            "水位計は四センチ高い値を示している。".repeat(20),
            "Прибор показывает на четыре сантиметра больше. ".repeat(20),
            "🦀🌊📏 ".repeat(50),
            "{\"a\":[{\"b\":1},{\"c\":[]}]}".repeat(30),
            "A line of a file.\n".repeat(200),
        ] {
            let ratio = estimate_tokens(&text) as f64 / count_tokens(&text) as f64;
            assert!(ratio >= 0.5, "{ratio} for {text:.60}");
        }
        assert_eq!(estimate_tokens(""), 0);
        assert_eq!(estimate_tokens("hello world"), 2);
    }
}
