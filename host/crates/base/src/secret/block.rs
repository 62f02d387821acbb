//! Finds the end of a PEM block, such as a private key.

/// Maximum length, in bytes, of a block from its `BEGIN` line to its `END` line. An RSA key of
/// 16384 bits takes 13 KB; PGP keys also contain signatures.
const MAX_KEY_BLOCK_BYTES: usize = 64 << 10;

/// Maximum length of the rest of a block's last line after `-----END `, in bytes.
const MAX_PEM_END_MARKER_BYTES: usize = 80;

/// Minimum length of a run of base64 characters in a block that counts as a key. Applies to blocks
/// with an end line.
const MIN_CLOSED_PEM_BASE64_CHARS: usize = 16;

/// Minimum length of a run of base64 characters in a block without an end line. It is larger, so
/// that prose about keys is not mistaken for a key.
const MIN_UNCLOSED_PEM_BASE64_CHARS: usize = 40;

/// Returns the offset at which a block ends; `from` is the offset after the block's first line.
/// Returns `None` if the block contains no key. Line breaks may be escaped, as in a JSON string. A
/// block without an end line ends at the first character that cannot belong to it.
pub(super) fn find_pem_block_end(text: &[u8], from: usize) -> Option<usize> {
    let limit = text.len().min(from + MAX_KEY_BLOCK_BYTES);
    let (mut run, mut longest) = (0, 0);
    for at in from..limit {
        let byte = *text.get(at)?;
        if byte == b'-' {
            let rest = text.get(at..limit)?;
            if let Some(last) = rest.strip_prefix(b"-----END ") {
                return (longest >= MIN_CLOSED_PEM_BASE64_CHARS)
                    .then(|| limit - last.len() + pem_end_marker_length(last));
            }
            // Stop, because another block begins here. It is scanned on its own, so that each byte
            // is scanned only once.
            if rest.starts_with(b"-----BEGIN ") {
                return (longest >= MIN_UNCLOSED_PEM_BASE64_CHARS).then_some(at);
            }
        }
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' => run += 1,
            // Accept these characters between runs: line breaks (escaped or not), and characters in
            // the headers of encrypted keys.
            b'\n' | b'\r' | b'\t' | b' ' | b'\\' | b':' | b',' | b'.' | b'-' => run = 0,
            _ => return (longest >= MIN_UNCLOSED_PEM_BASE64_CHARS).then_some(at),
        }
        longest = longest.max(run);
    }
    (longest >= MIN_UNCLOSED_PEM_BASE64_CHARS).then_some(limit)
}

/// Returns the length of the rest of a PEM block's last line. `rest` begins after `-----END `.
fn pem_end_marker_length(rest: &[u8]) -> usize {
    let line = rest.get(..MAX_PEM_END_MARKER_BYTES).unwrap_or(rest);
    let dashes = line.windows(5).position(|five| five == b"-----");
    dashes.map_or(0, |at| at + 5)
}
