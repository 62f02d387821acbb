//! How many tokens a text has, by a byte-pair encoder.
//!
//! Owns the choice of the encoder: `cl100k_base`. No tokenizer here is that of every model. This one is within a few per
//! cent for English and code, is ready five times sooner than the larger `o200k_base` (some 20 ms against 110), and what
//! it is wrong by is the same from one request to the next: whoever decides by tokens corrects them with what the provider
//! reports. It must not know messages or requests.

/// Tokens of a text. Takes time that is linear in its length, some 30 ms for a megabyte; the first call also sets the
/// encoder up.
#[must_use]
pub fn count(text: &str) -> u64 {
    bpe_openai::cl100k_base().count(text) as u64
}

/// Sets the encoder up beside whatever else is done, so that the first [`count`] need not.
pub fn warm() {
    // Where no thread can be had, the first count does it.
    let _ = std::thread::Builder::new()
        .name("tokens".to_owned())
        .spawn(|| {
            bpe_openai::cl100k_base();
        });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_counted_as_the_encoder_is_known_to() {
        assert_eq!(count(""), 0);
        assert_eq!(count("hello world"), 2);
        assert_eq!(count("let zero_cm = -4;"), 7);
        assert!(count("潮位を測る") >= 5);
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
            assert!(count(text) <= text.len() as u64, "{text:?}");
        }
    }
}
