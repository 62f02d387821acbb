//! Counts tokens exactly, with the byte-pair encoder `cl100k_base`.
//!
//! Owns the encoder's tokens (as published with OpenAI's tiktoken, MIT) and splits a text before
//! encoding. The program contains the tokens but not the data structures that are computed from
//! them. These would add 15 MB to the program, and would save 0.4 s only in sessions that come near
//! their token limit.

use std::sync::{LazyLock, Once};

use bpe::byte_pair_encoding::BytePairEncoding;
use regex::Regex;
use rind_embed::decompress_with_dictionary;

/// Tokens in the order of their ranks, compressed: first the length of each token in one byte, then
/// the bytes of all tokens. This takes half the space of the published file, whose base64 does not
/// compress well.
const COMPRESSED_CL100K_TOKENS: &[u8] = include_bytes!("cl100k_base.tokens.zst");

const VOCABULARY_SIZE: usize = 100_256;

/// Hash factor for which the tokens have no collisions, found with
/// `bpe::byte_pair_encoding::find_hash_factor_for_dictionary`.
const COLLISION_FREE_HASH_FACTOR: u64 = 17_846_336_922_010_275_747;

/// Regex for the pieces of a text that are encoded separately (tiktoken, `cl100k_base`). In
/// tiktoken's regex, a look-ahead makes the last of several spaces part of the following word. The
/// `regex` crate has no look-ahead, so [`BytePairTokenCounter::count_tokens`] corrects the pieces.
const PRETOKENIZER_REGEX: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+";

#[expect(
    clippy::expect_used,
    reason = "constants, and a file that is part of the program"
)]
static ENCODER: LazyLock<BytePairTokenCounter> = LazyLock::new(|| {
    let tokens = unpack_token_vocabulary().expect("the carried tokens are whole");
    BytePairTokenCounter {
        bytes: BytePairEncoding::from_dictionary(tokens, Some(COLLISION_FREE_HASH_FACTOR)),
        pieces: Regex::new(PRETOKENIZER_REGEX).expect("a constant"),
    }
});

fn unpack_token_vocabulary() -> Option<Vec<Vec<u8>>> {
    let unpacked = decompress_with_dictionary(&[], COMPRESSED_CL100K_TOKENS).ok()?;
    let (lengths, mut rest) = unpacked.split_at_checked(VOCABULARY_SIZE)?;
    let mut tokens = Vec::with_capacity(VOCABULARY_SIZE);
    for length in lengths {
        let (token, others) = rest.split_at_checked(usize::from(*length))?;
        tokens.push(token.to_vec());
        rest = others;
    }
    rest.is_empty().then_some(tokens)
}

/// Starts to build the encoder on its own thread, unless a thread was already started.
pub(super) fn build_encoder_in_background() {
    static ENCODER_THREAD_SPAWN_ONCE: Once = Once::new();
    ENCODER_THREAD_SPAWN_ONCE.call_once(|| {
        let build = || {
            LazyLock::force(&ENCODER);
        };
        // Ignore an error: if no thread could be started, the first count builds the encoder.
        let _ = std::thread::Builder::new()
            .name("token-encoder".to_owned())
            .spawn(build);
    });
}

struct BytePairTokenCounter {
    bytes: BytePairEncoding,
    pieces: Regex,
}

impl BytePairTokenCounter {
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

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use base64::Engine as _;
    use base64::prelude::BASE64_STANDARD;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_carried_tokens_are_the_published_ones() {
        let mut lines = String::new();
        for (rank, token) in unpack_token_vocabulary().unwrap().iter().enumerate() {
            writeln!(lines, "{} {rank}", BASE64_STANDARD.encode(token)).unwrap();
        }
        // The digest by which tiktoken knows the file that it downloads.
        let digest = Sha256::digest(lines);
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(
            digest,
            "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7"
        );
    }
}
