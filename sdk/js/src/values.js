/** Verdicts on a tool call, for the outcome of `hooks.preTool`. */
export const verdict = {
  pass: () => ({ tag: "pass" }),
  change: (args) => ({ tag: "change", val: JSON.stringify(args) }),
  ask: (reason) => ({ tag: "ask", val: reason }),
  block: (reason) => ({ tag: "block", val: reason }),
};

/** A part of a result that is plain text. */
export const text = (value) => ({ tag: "text", val: value });

/** Text as bytes and bytes as text. The engine has neither TextEncoder nor TextDecoder. */
export const utf8 = {
  encode(value) {
    const bytes = [];
    for (const char of String(value)) {
      const code = char.codePointAt(0);
      if (code < 0x80) bytes.push(code);
      else if (code < 0x800) bytes.push(0xc0 | (code >> 6), tail(code));
      else if (code >= 0xd800 && code < 0xe000) bytes.push(0xef, 0xbf, 0xbd);
      else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), tail(code >> 6), tail(code));
      else bytes.push(0xf0 | (code >> 18), tail(code >> 12), tail(code >> 6), tail(code));
    }
    return Uint8Array.from(bytes);
  },
  decode(bytes) {
    const parts = [];
    let codes = [];
    for (let at = 0; at < bytes.length; ) {
      const [code, length] = codeAt(bytes, at);
      codes.push(code);
      at += length;
      // As arguments of a call, of which there may not be too many.
      if (codes.length === 4096 || at >= bytes.length) {
        parts.push(String.fromCodePoint(...codes));
        codes = [];
      }
    }
    return parts.join("");
  },
};

const tail = (code) => 0x80 | (code & 0x3f);

/** The character at a place, with its length in bytes; what is none is U+FFFD. */
function codeAt(bytes, at) {
  const first = bytes[at];
  if (first < 0x80) return [first, 1];
  const length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length === 0) return [0xfffd, 1];
  let code = first & (0x7f >> length);
  for (let n = 1; n < length; n++) {
    const next = bytes[at + n];
    // The second byte decides about surrogates, overlong forms and what lies behind the last character.
    const [least, most] =
      n > 1 ? [0x80, 0xbf]
      : first === 0xe0 ? [0xa0, 0xbf]
      : first === 0xed ? [0x80, 0x9f]
      : first === 0xf0 ? [0x90, 0xbf]
      : first === 0xf4 ? [0x80, 0x8f]
      : [0x80, 0xbf];
    if (!(next >= least && next <= most)) return [0xfffd, n];
    code = (code << 6) | (next & 0x3f);
  }
  return [code, length];
}
