//! Exact counting with the byte-pair encoder `cl100k_base`.
//!
//! Owns the encoder's rank table (as published with OpenAI's tiktoken, MIT) and the split of a text
//! before encoding. The program contains the ranks and not the data structures computed from them:
//! these would add 15 MB to every program, to save 0.4 s in sessions near their limit.

use std::io::Read as _;
use std::sync::{LazyLock, Once};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bpe::byte_pair_encoding::BytePairEncoding;
use regex::Regex;

/// Rank table: one line per token, with the token in base64 and its rank.
const RANKS: &[u8] = include_bytes!("cl100k_base.tiktoken.gz");

/// Hash factor without collisions among the tokens, found with
/// `bpe::byte_pair_encoding::find_hash_factor_for_dictionary`.
const HASH_FACTOR: u64 = 17_846_336_922_010_275_747;

/// Pieces of the text that are encoded separately (tiktoken, `cl100k_base`). tiktoken's look-ahead
/// leaves the last of several blanks to the following word; the `regex` crate has no look-ahead, so
/// [`TokenEncoder::count_tokens`] gives that blank back.
const PIECES: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";

#[expect(
    clippy::expect_used,
    reason = "constants, and a file that is part of the program"
)]
static ENCODER: LazyLock<TokenEncoder> = LazyLock::new(|| {
    let mut ranks = String::new();
    flate2::read::GzDecoder::new(RANKS)
        .read_to_string(&mut ranks)
        .expect("the carried ranks are whole");
    let tokens = ranks.lines().map(|line| {
        let token = line.split(' ').next().unwrap_or(line);
        BASE64_STANDARD.decode(token).expect("a rank is in base64")
    });
    TokenEncoder {
        bytes: BytePairEncoding::from_dictionary(tokens, Some(HASH_FACTOR)),
        pieces: Regex::new(PIECES).expect("a constant"),
    }
});

/// Starts to build the encoder on a thread of its own, if it was not started before.
pub(super) fn build_ahead() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let build = || {
            LazyLock::force(&ENCODER);
        };
        // Without a thread, the first count builds it.
        let _ = std::thread::Builder::new()
            .name("token-encoder".to_owned())
            .spawn(build);
    });
}

struct TokenEncoder {
    bytes: BytePairEncoding,
    pieces: Regex,
}

impl TokenEncoder {
    fn count_tokens(&self, text: &str) -> usize {
        let mut n = 0;
        let mut start = 0;
        while let Some(piece) = self.pieces.find_at(text, start) {
            let mut end = piece.end();
            let last = piece.as_str().chars().next_back();
            if let Some(blank) = last.filter(|c| c.is_whitespace() && !matches!(c, '\r' | '\n'))
                && end < text.len()
                && piece.len() > blank.len_utf8()
            {
                end -= blank.len_utf8();
            }
            n += self.bytes.count(&text.as_bytes()[start..end]);
            start = end;
        }
        n
    }
}

/// Counts the tokens of a text. The first call builds the encoder.
pub(super) fn count_tokens(text: &str) -> u64 {
    ENCODER.count_tokens(text) as u64
}
