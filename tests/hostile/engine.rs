//! Attacks on time, memory and what the engine holds.

use futures_util::FutureExt;
use rind::grant::Trust;
use rind_tests::session::Session;

use crate::attack::{Attack, Stage, attack, load, tool};
use crate::programs::{Program, started};

const WITH_SESSION: &str = "side_effects = [\"session\"]\n[limits]\ntimeout = \"300ms\"\n";

pub(crate) fn attacks() -> Vec<Attack> {
    let guest = |name| Program::Guest(name);
    let tool = || Stage::Tool;
    let load = || Stage::Load;
    let slow = "side_effects = [\"none\"]\n[limits]\ntimeout = \"5s\"\n";
    vec![
        attack(
            "1",
            "loops for ever in a tool",
            guest("loops"),
            tool(),
            "deadline of 300 ms",
        ),
        attack(
            "3",
            "loops for ever in a start function",
            started("(func $f (loop $l (br $l))) (start $f)"),
            load(),
            "longer than 5 s to start",
        ),
        attack(
            "4",
            "calls itself until no stack is left",
            guest("recurses"),
            tool(),
            "failed:",
        ),
        attack(
            "4",
            "the same in a start function, without memory",
            started("(func $f (call $f)) (start $f)"),
            load(),
            "call stack exhausted",
        ),
        attack(
            "5",
            "takes memory without end",
            guest("grows_memory"),
            tool(),
            "memory of 64 MiB",
        )
        .with(slow),
        attack(
            "6",
            "starts with more memory than it may have",
            started("(memory 2000)"),
            load(),
            "memory of 64 MiB",
        ),
        attack(
            "7",
            "many memories, each below the limit",
            memories(),
            load(),
            "memory of 64 MiB",
        ),
        attack(
            "8",
            "a table of a hundred million entries",
            started(
                "(table $t 1 funcref) (func $f (drop (table.grow $t (ref.null func) (i32.const 100000000)))) (start $f)",
            ),
            load(),
            "100000 table elements",
        ),
        attack(
            "9",
            "two hundred instances within one",
            instances(),
            load(),
            "instance count too high",
        ),
        attack(
            "10",
            "resources without end",
            resources(),
            load(),
            "resources",
        ),
        attack(
            "12",
            "answers with 40 MiB",
            guest("answers_40_mib"),
            tool(),
            "32 MiB of data",
        )
        .with("side_effects = [\"none\"]\n[limits]\nmemory = \"200MiB\"\n"),
        attack(
            "14",
            "is called again after a trap",
            guest("counts"),
            Stage::Own(|| again().boxed()),
            "call 1 of this instance",
        ),
        attack(
            "15",
            "waits in the host for an hour",
            guest("sleeps"),
            tool(),
            "deadline of 300 ms",
        ),
        attack(
            "38",
            "a million log lines that forge others",
            guest("floods_log"),
            tool(),
            "logged a million",
        )
        .with(slow),
        attack(
            "38",
            "50 MB of output",
            guest("floods_output"),
            tool(),
            "nobody reads",
        )
        .with(slow),
        attack(
            "44",
            "uses up its deadline at every call",
            guest("blocks_slowly"),
            Stage::Gate,
            "is out for the rest of this turn",
        )
        .with(WITH_SESSION),
        attack(
            "46",
            "arguments a hundred thousand levels deep",
            guest("deep_arguments"),
            Stage::Gate,
            "recursion limit",
        )
        .with(WITH_SESSION),
        attack(
            "47",
            "panics with words that forge lines",
            guest("panics"),
            tool(),
            "on purpose",
        ),
        attack(
            "47",
            "ends the process that it takes itself to be in",
            guest("exits"),
            tool(),
            "failed:",
        ),
        attack(
            "49",
            "carries values from one session into another",
            guest("counts"),
            Stage::Own(|| sessions().boxed()),
            "1 then 1",
        ),
        attack(
            "29",
            "keeps values in the session without end",
            guest("fills_state"),
            tool(),
            "full",
        )
        .with(slow),
        attack(
            "29",
            "keeps values across sessions without end",
            guest("fills_store"),
            tool(),
            "full",
        )
        .with(slow),
    ]
}

/// Eight instances with a memory of 12 MiB each.
fn memories() -> Program {
    let modules: String = (0..8)
        .map(|n| format!("(core instance $i{n} (instantiate $m))"))
        .collect();
    Program::Wat(format!(
        "(component (core module $m (memory 192)) {modules})"
    ))
}

fn instances() -> Program {
    let modules: String = (0..200)
        .map(|n| format!("(core instance $i{n} (instantiate $m))"))
        .collect();
    Program::Wat(format!("(component (core module $m) {modules})"))
}

/// Makes handles of a resource of its own in a loop.
fn resources() -> Program {
    Program::Wat(
        "(component
            (type $r (resource (rep i32)))
            (core func $new (canon resource.new $r))
            (core module $m
                (import \"h\" \"new\" (func $new (param i32) (result i32)))
                (func $f (loop $l (drop (call $new (i32.const 1))) (br $l)))
                (start $f))
            (core instance (instantiate $m (with \"h\" (instance (export \"new\" (func $new)))))))"
            .to_owned(),
    )
}

async fn again() -> String {
    let plugins = load(&Program::Guest("counts"), "", Trust::Managed).await;
    let session = Session::open(&plugins);
    assert_eq!(tool(&session, "attack").await, "call 1 of this instance");
    assert_eq!(tool(&session, "attack").await, "call 2 of this instance");
    let trapped = tool(&session, "trap").await;
    assert!(trapped.contains("on purpose"), "{trapped}");
    tool(&session, "attack").await
}

async fn sessions() -> String {
    let plugins = load(&Program::Guest("counts"), "", Trust::Managed).await;
    let mut said = Vec::new();
    for _ in 0..2 {
        let session = Session::open(&plugins);
        let text = tool(&session, "attack").await;
        said.push(text.replace("call ", "").replace(" of this instance", ""));
    }
    said.join(" then ")
}
