//! Finds the end of a PEM block.

/// Maximum length of a block, in bytes. An RSA key of 16384 bits takes 13 KB; PGP keys also contain
/// signatures.
const MAX_BYTES: usize = 64 << 10;

/// Maximum length of the end line after `-----END `, in bytes.
const MAX_LAST_LINE_BYTES: usize = 80;

/// Minimum length of a run of base64 characters by which a block with an end line counts as a key.
const MIN_RUN: usize = 16;

/// Minimum length of such a run in a block without an end line. It is larger, so that prose about
/// keys is not mistaken for a key.
const MIN_RUN_WITHOUT_END: usize = 40;

/// Returns the offset at which a block ends; `from` is the offset after its first line. Returns
/// `None` if the block contains no key. Line breaks may be escaped, as in a JSON string. A block
/// without an end line ends at the first character that cannot belong to it.
pub(super) fn block_end(text: &[u8], from: usize) -> Option<usize> {
    let limit = text.len().min(from + MAX_BYTES);
    let (mut run, mut longest) = (0, 0);
    for at in from..limit {
        let byte = *text.get(at)?;
        if byte == b'-' {
            let rest = text.get(at..limit)?;
            if let Some(last) = rest.strip_prefix(b"-----END ") {
                return (longest >= MIN_RUN).then(|| limit - last.len() + last_line(last));
            }
            // Another block begins. It is scanned on its own, so that each byte is scanned only
            // once.
            if rest.starts_with(b"-----BEGIN ") {
                return (longest >= MIN_RUN_WITHOUT_END).then_some(at);
            }
        }
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' => run += 1,
            // Line breaks (escaped or not), and characters in the headers of encrypted keys.
            b'\n' | b'\r' | b'\t' | b' ' | b'\\' | b':' | b',' | b'.' | b'-' => run = 0,
            _ => return (longest >= MIN_RUN_WITHOUT_END).then_some(at),
        }
        longest = longest.max(run);
    }
    (longest >= MIN_RUN_WITHOUT_END).then_some(limit)
}

/// Returns the length of the end line in `rest`, which follows `-----END `.
fn last_line(rest: &[u8]) -> usize {
    let line = rest.get(..MAX_LAST_LINE_BYTES).unwrap_or(rest);
    let dashes = line.windows(5).position(|five| five == b"-----");
    dashes.map_or(0, |at| at + 5)
}
