//! Components built byte by byte, for tests in which the text format would be too slow to parse or
//! would hide the bytes under test.

/// Returns a component of 4 MB whose functions are nothing but branches and arithmetic. Compiling
/// it takes a fast machine over ten seconds.
#[must_use]
pub fn compile_bomb() -> Vec<u8> {
    const FUNCTIONS: usize = 100;
    let unit = b"\x20\x00\x41\x07\x6c\x20\x01\x6a\x22\x00\x04\x40\x20\x01\x20\x00\x6a\x21\x01\x0b";
    let mut body = vec![0];
    body.extend(unit.repeat(2_000));
    body.extend(b"\x20\x00\x0b");
    let mut functions = leb(FUNCTIONS);
    for _ in 0..FUNCTIONS {
        functions.extend(leb(body.len()));
        functions.extend(&body);
    }
    let mut declared = leb(FUNCTIONS);
    declared.extend([0; FUNCTIONS]);
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    module.extend(section(1, b"\x01\x60\x02\x7f\x7f\x01\x7f"));
    module.extend(section(3, &declared));
    module.extend(section(10, &functions));
    let mut component = b"\0asm\x0d\0\x01\0".to_vec();
    component.extend(section(1, &module));
    component
}

/// Encodes a WebAssembly section: id, length and content.
#[must_use]
pub fn section(id: u8, content: &[u8]) -> Vec<u8> {
    let mut section = vec![id];
    section.extend(leb(content.len()));
    section.extend(content);
    section
}

/// Encodes an unsigned number as LEB128, as WebAssembly does.
#[must_use]
pub fn leb(mut n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (n & 0x7f) as u8;
        n >>= 7;
        if n == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}
