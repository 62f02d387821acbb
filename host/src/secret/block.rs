//! Finds the end of a PEM block.

/// Longest block, in bytes. A key of 16384 bits has 13 KB; PGP keys carry signatures with them.
const MAX_BYTES: usize = 64 << 10;

/// Longest line that ends a block, in bytes.
const MAX_LAST_LINE_BYTES: usize = 80;

/// Characters of base64 in a row that mark the text after a first line as a key, when a last line follows.
const MIN_RUN: usize = 16;

/// Characters of base64 in a row that do so without a last line: prose about keys must not be taken for one.
const MIN_RUN_WITHOUT_END: usize = 40;

/// The end of a block whose first line ends at `from`; `None` when no key follows it. Line breaks may be escaped, as in a
/// JSON string. A block without its last line, cut off or never whole, ends where nothing more of it can follow.
pub(super) fn end(text: &[u8], from: usize) -> Option<usize> {
    let limit = text.len().min(from + MAX_BYTES);
    let (mut run, mut longest) = (0, 0);
    for at in from..limit {
        let byte = *text.get(at)?;
        if byte == b'-' {
            let rest = text.get(at..limit)?;
            if let Some(last) = rest.strip_prefix(b"-----END ") {
                return (longest >= MIN_RUN).then(|| limit - last.len() + last_line(last));
            }
            // Another block begins. It is looked at for itself, and each byte once in all.
            if rest.starts_with(b"-----BEGIN ") {
                return (longest >= MIN_RUN_WITHOUT_END).then_some(at);
            }
        }
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/' | b'=' => run += 1,
            // Line breaks, escaped or not, and the headers of encrypted keys.
            b'\n' | b'\r' | b'\t' | b' ' | b'\\' | b':' | b',' | b'.' | b'-' => run = 0,
            _ => return (longest >= MIN_RUN_WITHOUT_END).then_some(at),
        }
        longest = longest.max(run);
    }
    (longest >= MIN_RUN_WITHOUT_END).then_some(limit)
}

/// Returns the length of the part of `rest`, which follows `-----END `, that belongs to that line.
fn last_line(rest: &[u8]) -> usize {
    let line = rest.get(..MAX_LAST_LINE_BYTES).unwrap_or(rest);
    let dashes = line.windows(5).position(|five| five == b"-----");
    dashes.map_or(0, |at| at + 5)
}
