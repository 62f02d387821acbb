//! Attacks by what a component is: bytes that are none, imports that it may not have, features that are off.

use rind::grant::Trust;

use crate::attack::{Attack, Stage, attack};
use crate::programs::{Program, imports, started};

pub(crate) fn attacks() -> Vec<Attack> {
    let load = |number, what, program, meets| attack(number, what, program, Stage::Load, meets);
    vec![
        load(
            "17",
            "imports what no host has",
            imports("evil:host/exec@1.0.0", ""),
            "which this host does not know",
        ),
        load(
            "17",
            "imports what the contract does not have",
            imports("rind:plugin/exec@0.1.0", ""),
            "no interface of the contract",
        ),
        load(
            "18",
            "imports a version that this host does not speak",
            imports("rind:plugin/log@0.9.0", ""),
            "speaks version",
        ),
        load(
            "19",
            "imports a known function with another type",
            imports(
                "rind:plugin/store@0.1.0",
                "(export \"get\" (func (param \"x\" u32)))",
            ),
            "could not be started",
        ),
        load(
            "20",
            "declares nothing and imports sockets",
            imports("wasi:sockets/tcp@0.2.0", ""),
            "which no plugin may have",
        ),
        load(
            "20",
            "declares nothing and imports HTTP",
            imports("rind:plugin/http@0.1.0", ""),
            "side_effects = [\"network\"]",
        ),
        load(
            "20",
            "declares nothing and imports files",
            imports("rind:plugin/files@0.1.0", ""),
            "side_effects = [\"filesystem\"]",
        ),
        load(
            "20",
            "declares nothing and imports the conversation",
            imports("rind:plugin/session@0.1.0", ""),
            "side_effects = [\"session\"]",
        ),
        load(
            "20",
            "declares nothing and imports the model",
            imports("rind:plugin/model@0.1.0", ""),
            "side_effects = [\"external\"]",
        ),
        load(
            "21",
            "a memory of 64 bits",
            started("(memory i64 1)"),
            "memory64",
        ),
        load(
            "21",
            "shared memory",
            started("(memory 1 1 shared)"),
            "is not a component that can be loaded",
        ),
        load(
            "22",
            "a core module",
            Program::Bytes(wat::parse_str("(module)").unwrap()),
            "is not a component that can be loaded",
        ),
        load(
            "22",
            "WebAssembly as text",
            Program::Bytes(b"(component)".to_vec()),
            "is not a component that can be loaded",
        ),
        load(
            "22",
            "garbage",
            Program::Bytes(vec![0x7f; 4096]),
            "is not a component that can be loaded",
        ),
        load(
            "22",
            "nothing at all",
            Program::Bytes(Vec::new()),
            "is not a component that can be loaded",
        ),
        load(
            "22",
            "a component that ends in the middle",
            truncated(),
            "is not a component that can be loaded",
        ),
        load(
            "22",
            "a file of 200 MB",
            Program::Hole(200 << 20),
            "at most 67108864 are loaded",
        ),
        load(
            "22",
            "components within components, ten thousand deep",
            nested(),
            "more than 32 deep",
        ),
        load(
            "22",
            "a million types",
            types(),
            "is not a component that can be loaded",
        ),
        load(
            "24",
            "native code in place of a component",
            native(),
            "is not a component that can be loaded",
        ),
        load(
            "55",
            "asks for more memory than anybody gets",
            started("(memory 5000)"),
            "memory of 256 MiB",
        )
        .with("side_effects = [\"none\"]\n[limits]\nmemory = \"1000000GiB\"\n"),
        load(
            "55",
            "asks for no time at all",
            started(""),
            "a time of 0 would stop every call",
        )
        .with("side_effects = [\"none\"]\n[limits]\ntimeout = \"0s\"\n"),
        load(
            "55",
            "asks for more time than there is",
            started(""),
            "is not a time",
        )
        .with("side_effects = [\"none\"]\n[limits]\ntimeout = \"99999999999999999999s\"\n"),
        load(
            "20",
            "says of itself that it is trusted",
            imports("rind:plugin/session@0.1.0", ""),
            "Held",
        )
        .from(Trust::Local)
        .with("side_effects = [\"session\"]\ntrust = \"managed\"\n"),
    ]
}

fn truncated() -> Program {
    let mut bytes = wat::parse_str("(component (core module (func)))").unwrap();
    bytes.truncate(bytes.len() - 4);
    Program::Bytes(bytes)
}

fn nested() -> Program {
    // By hand: the text parser would need as much stack as it is meant to take from the host.
    let header = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
    let mut bytes = header.to_vec();
    for _ in 0..10_000 {
        let mut outer = header.to_vec();
        outer.push(4);
        outer.extend(leb(bytes.len()));
        outer.extend(&bytes);
        bytes = outer;
    }
    Program::Bytes(bytes)
}

/// A type section with two million entries `u8`.
fn types() -> Program {
    const N: usize = 2_000_000;
    let mut section = leb(N);
    section.resize(section.len() + N, 0x7d);
    let mut bytes = vec![0, b'a', b's', b'm', 0x0d, 0, 1, 0, 7];
    bytes.extend(leb(section.len()));
    bytes.extend(section);
    Program::Bytes(bytes)
}

/// A number as WebAssembly writes it (LEB128).
fn leb(mut n: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(n & 0x7f).unwrap_or_default();
        n >>= 7;
        if n == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// The head of an ELF file, as compiled components have it.
fn native() -> Program {
    let mut bytes = b"\x7fELF\x02\x01\x01\xc8".to_vec();
    bytes.resize(4096, 0);
    Program::Bytes(bytes)
}
