//! Attacks by the structure of a component: bytes that are no component, imports that the host
//! refuses, disabled features.

use futures_util::FutureExt;
use rind::grant::Trust;
use rind::plugin::discover::PluginSearchPath;
use rind::plugin::load::PluginSkipReason;
use rind_tests::bytes::{compile_bomb, leb, section};
use rind_tests::cli::program;
use rind_tests::guests::Host;

use crate::attack::{Attack, Stage, attack, put};
use crate::programs::{Program, imports, started};

pub(crate) fn attacks() -> Vec<Attack> {
    let load = |what, program, meets| attack(what, program, Stage::Load, meets);
    vec![
        load(
            "imports what no host has",
            imports("evil:host/exec@1.0.0", ""),
            "which this host does not know",
        ),
        load(
            "imports what the contract does not have",
            imports("rind:plugin/exec@0.1.0", ""),
            "not an interface of the contract",
        ),
        load(
            "imports a version that this host does not speak",
            imports("rind:plugin/log@0.9.0", ""),
            "which needs version 0.9.0 of the plugin contract; this host supports",
        ),
        load(
            "says that it was built for a version to come",
            stamped(
                "0.1.0",
                r#"{"contract":"9.1.0","language":"rust","sdk":"rind-sdk 9.1.0"}"#,
            ),
            "it was built with rind-sdk 9.1.0 (rust), which needs version 9.1.0 of the plugin contract",
        ),
        load(
            "says in its stamp what no SDK writes",
            stamped("0.1.0", "\u{1b}[2J"),
            "its section `rind:contract` does not have the format that an SDK writes",
        ),
        load(
            "has a stamp of a megabyte",
            stamped("0.1.0", &" ".repeat(1 << 20)),
            "its section `rind:contract` has more than 1024 bytes",
        ),
        load(
            "imports a known function with another type",
            imports(
                "rind:plugin/store@0.1.0",
                "(export \"get\" (func (param \"x\" u32)))",
            ),
            "it was built with another copy of the contract",
        ),
        load(
            "declares nothing and imports sockets",
            imports("wasi:sockets/tcp@0.2.0", ""),
            "which no plugin may have",
        ),
        load(
            "declares nothing and imports HTTP",
            imports("rind:plugin/http@0.1.0", ""),
            "side_effects = [\"network\"]",
        ),
        load(
            "declares nothing and imports files",
            imports("rind:plugin/files@0.1.0", ""),
            "side_effects = [\"filesystem\"]",
        ),
        load(
            "declares nothing and imports the conversation",
            imports("rind:plugin/session@0.1.0", ""),
            "side_effects = [\"session\"]",
        ),
        load(
            "declares nothing and imports the model",
            imports("rind:plugin/model@0.1.0", ""),
            "side_effects = [\"external\"]",
        ),
        load(
            "exports a point in two versions that pass for each other",
            twice(),
            "the component exports the point `context` twice",
        )
        .with("side_effects = [\"session\"]\n"),
        load(
            "exports its tools in two versions that pass for each other",
            Program::Wat(TOOLS_TWICE.to_owned()),
            "the component exports the interface `tools` twice",
        ),
        load("a memory of 64 bits", started("(memory i64 1)"), "memory64"),
        load(
            "shared memory",
            started("(memory 1 1 shared)"),
            "was built for threads; this host",
        ),
        load(
            "a core module",
            Program::Bytes(wat::parse_str("(module)").unwrap()),
            "is a core module, not a component",
        ),
        load(
            "WebAssembly as text",
            Program::Bytes(b"(component)".to_vec()),
            "is not a valid component",
        ),
        load(
            "garbage",
            Program::Bytes(vec![0x7f; 4096]),
            "is not a valid component",
        ),
        load(
            "nothing at all",
            Program::Bytes(Vec::new()),
            "is not a valid component",
        ),
        load(
            "a component that ends in the middle",
            truncated(),
            "is not a valid component",
        ),
        load(
            "a file of 200 MB",
            Program::Hole(200 << 20),
            "larger than the maximum of 67108864 bytes",
        ),
        load(
            "components within components, ten thousand deep",
            nested(),
            "more than 32 levels deep",
        ),
        load("a million types", types(), "is not a valid component"),
        attack(
            "takes the compiler a minute and more",
            Program::Bytes(Vec::new()),
            Stage::Own(|| compile().boxed()),
            "compiling was stopped after 1 s",
        ),
        load(
            "native code in place of a component",
            native(),
            "is not a valid component",
        ),
        load(
            "asks for more memory than anybody gets",
            started("(memory 5000)"),
            "256 MiB of memory",
        )
        .with("side_effects = [\"none\"]\n[limits]\nmemory = \"1000000GiB\"\n"),
        load(
            "asks for no time at all",
            started(""),
            "a time of 0 would stop every call",
        )
        .with("side_effects = [\"none\"]\n[limits]\ntimeout = \"0s\"\n"),
        load(
            "asks for more time than there is",
            started(""),
            "is not a time",
        )
        .with("side_effects = [\"none\"]\n[limits]\ntimeout = \"99999999999999999999s\"\n"),
        load(
            "says of itself that it is trusted",
            imports("rind:plugin/session@0.1.0", ""),
            "Held",
        )
        .from(Trust::Local)
        .with("side_effects = [\"session\"]\ntrust = \"managed\"\n"),
    ]
}

/// Compiles in a helper process, as the program does; the helper is stopped at its time limit.
async fn compile() -> String {
    let mut host = Host::default();
    let path = host.folder().join("managed");
    put(&path.join("attacker"), &Program::Bytes(compile_bomb()), "");
    let trust = Trust::Managed;
    host.options.sources.push(PluginSearchPath { trust, path });
    host.options.cache = host.folder().join("cache");
    host.options.compiler.helper = Some(program().to_owned());
    host.options.compiler.time_limit = std::time::Duration::from_secs(1);
    let plugins = host.load().await;
    match plugins.left_out.first().map(|left| &left.why) {
        Some(PluginSkipReason::Failed(error)) => error.to_string(),
        other => format!("PWNED: it was compiled: {other:?}"),
    }
}

/// Exports the tools under two versions: the host could check one list and call the other.
const TOOLS_TWICE: &str = r#"(component
  (core module $code (func (export "nothing")))
  (core instance $core (instantiate $code))
  (func $nothing (canon lift (core func $core "nothing")))
  (instance $tools (export "list" (func $nothing)) (export "call" (func $nothing)))
  (export "rind:plugin/tools@0.1.0" (instance $tools))
  (export "rind:plugin/tools@0.1.1" (instance $tools)))"#;

/// Exports a hook under two versions: the host could check one and call the other.
fn twice() -> Program {
    let once = "(export \"rind:plugin/context@0.1.0\" (instance $context))";
    let wat = include_str!("keeps_handle.wat");
    assert!(wat.contains(once));
    let again = once.replace("@0.1.0", "@0.1.1");
    Program::Wat(wat.replace(once, &format!("{once} {again}")))
}

fn truncated() -> Program {
    let mut bytes = wat::parse_str("(component (core module (func)))").unwrap();
    bytes.truncate(bytes.len() - 4);
    Program::Bytes(bytes)
}

fn nested() -> Program {
    // Built by hand, because the text parser would overflow its own stack on this nesting.
    let header = [0, b'a', b's', b'm', 0x0d, 0, 1, 0];
    let mut bytes = header.to_vec();
    for _ in 0..10_000 {
        let mut outer = header.to_vec();
        outer.extend(section(4, &bytes));
        bytes = outer;
    }
    Program::Bytes(bytes)
}

/// Returns a component whose type section has two million entries `u8`.
fn types() -> Program {
    const N: usize = 2_000_000;
    let mut types = leb(N);
    types.resize(types.len() + N, 0x7d);
    let mut bytes = vec![0, b'a', b's', b'm', 0x0d, 0, 1, 0];
    bytes.extend(section(7, &types));
    Program::Bytes(bytes)
}

/// Returns the header of an ELF file, the format of components compiled to native code.
fn native() -> Program {
    let mut bytes = b"\x7fELF\x02\x01\x01\xc8".to_vec();
    bytes.resize(4096, 0);
    Program::Bytes(bytes)
}

/// Returns a component that imports the log and has the contract version in a custom section, as
/// SDKs write it.
fn stamped(version: &str, stamp: &str) -> Program {
    let mut content = leb("rind:contract".len());
    content.extend(b"rind:contract");
    content.extend(stamp.as_bytes());
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    module.extend(section(0, &content));
    let import = format!("(component (import \"rind:plugin/log@{version}\" (instance)))");
    let mut component = wat::parse_str(import).unwrap();
    component.extend(section(1, &module));
    Program::Bytes(component)
}
