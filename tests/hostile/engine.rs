//! Attacks on time limits, memory limits and the resources of the engine.

use futures_util::FutureExt;
use rind::grant::Trust;
use rind_tests::fuzz::{self, OUTCOME_BASE};
use rind_tests::session::Session;

use crate::attack::{Attack, Stage, attack, load, tool};
use crate::programs::{Program, started};

const WITH_SESSION: &str = "side_effects = [\"session\"]\n[limits]\ntimeout = \"300ms\"\n";

pub(crate) fn attacks() -> Vec<Attack> {
    let guest = |name| Program::Guest(name);
    let tool = || Stage::Tool;
    let load = || Stage::Load;
    let slow = "side_effects = [\"none\"]\n[limits]\ntimeout = \"30s\"\n";
    vec![
        attack(
            "loops for ever in a tool",
            guest("loops"),
            tool(),
            "deadline of 300 ms",
        ),
        attack(
            "loops for ever in a start function",
            started("(func $f (loop $l (br $l))) (start $f)"),
            load(),
            "longer than 5 s to start",
        ),
        attack(
            "calls itself at its end for ever",
            started("(func $f (return_call $f)) (start $f)"),
            load(),
            "longer than 5 s to start",
        ),
        attack(
            "calls itself until no stack is left",
            guest("recurses"),
            tool(),
            "failed:",
        ),
        attack(
            "the same in a start function, without memory",
            started("(func $f (call $f)) (start $f)"),
            load(),
            "call stack exhausted",
        ),
        attack(
            "takes memory without end",
            guest("grows_memory"),
            tool(),
            "64 MiB of memory",
        )
        .with(slow),
        attack(
            "starts with more memory than it may have",
            started("(memory 2000)"),
            load(),
            "64 MiB of memory",
        ),
        attack(
            "many memories, each below the limit",
            memories(),
            load(),
            "64 MiB of memory",
        ),
        attack(
            "many memories of one module, each below the limit",
            started("(memory 600) (memory 600)"),
            load(),
            "64 MiB of memory",
        ),
        attack(
            "a table of a hundred million entries",
            started(
                "(table $t 1 funcref) (func $f (drop (table.grow $t (ref.null func) (i32.const 100000000)))) (start $f)",
            ),
            load(),
            "100000 table elements",
        ),
        attack(
            "two hundred instances within one",
            instances(),
            load(),
            "instance count too high",
        ),
        attack("resources without end", resources(), load(), "resources"),
        attack(
            "answers with 40 MiB",
            guest("answers_40_mib"),
            tool(),
            "32 MiB of data",
        )
        .with("side_effects = [\"none\"]\n[limits]\nmemory = \"200MiB\"\n"),
        lifting(
            "returns a pointer to nowhere",
            || lift(&[0xff; 4]).boxed(),
            "refused",
        ),
        lifting(
            "returns a case that there is not",
            || lift(&outcome(&[9])).boxed(),
            "refused",
        ),
        lifting(
            "returns a text outside of its memory",
            || lift(&outcome(&[0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0xff, 0xff, 100])).boxed(),
            "refused",
        ),
        lifting(
            "returns a text that is not UTF-8",
            || {
                let mut memory = outcome(&[0, 0, 0, 0, 3, 0, 0, 0]);
                memory.splice(
                    12..20,
                    [(OUTCOME_BASE + 36).to_le_bytes(), 2_u32.to_le_bytes()].concat(),
                );
                memory.splice(40..42, [0xff, 0xfe]);
                lift(&memory).boxed()
            },
            "refused",
        ),
        attack(
            "is called again after a trap",
            guest("counts"),
            Stage::Own(|| again().boxed()),
            "call 1 of this instance",
        ),
        attack(
            "waits in the host for an hour",
            guest("sleeps"),
            tool(),
            "deadline of 300 ms",
        ),
        attack(
            "a million log lines that forge others",
            guest("floods_log"),
            tool(),
            "logged a million",
        )
        .with(slow),
        attack(
            "50 MB of output",
            guest("floods_output"),
            tool(),
            "nobody reads",
        )
        .with(slow),
        attack(
            "uses up its deadline at every call",
            guest("blocks_slowly"),
            Stage::Gate,
            "is disabled for the rest of this turn",
        )
        .with(WITH_SESSION),
        attack(
            "arguments a hundred thousand levels deep",
            guest("deep_arguments"),
            Stage::Gate,
            "recursion limit",
        )
        .with(WITH_SESSION),
        attack(
            "panics with words that forge lines",
            guest("panics"),
            tool(),
            "on purpose",
        ),
        attack(
            "ends the process that it takes itself to be in",
            guest("exits"),
            tool(),
            "failed:",
        ),
        attack(
            "is called off in the middle of a call",
            Program::Guest("counts"),
            Stage::Own(|| cancelled().boxed()),
            "call 1 of this instance",
        ),
        attack(
            "carries values from one session into another",
            guest("counts"),
            Stage::Own(|| sessions().boxed()),
            "1 then 1",
        ),
        attack(
            "keeps values in the session without end",
            guest("fills_state"),
            tool(),
            "full",
        )
        .with(slow),
        attack(
            "keeps values across sessions without end",
            guest("fills_store"),
            tool(),
            "full",
        )
        .with(slow),
    ]
}

fn lifting(
    what: &'static str,
    run: fn() -> futures_util::future::BoxFuture<'static, String>,
    meets: &'static str,
) -> Attack {
    attack(what, Program::Guest("counts"), Stage::Own(run), meets)
}

/// Returns an input for [`fuzz::lift`]: the pointer [`OUTCOME_BASE`], then an outcome that begins
/// with `start` and is padded with zeros.
fn outcome(start: &[u8]) -> Vec<u8> {
    let mut memory = OUTCOME_BASE.to_le_bytes().to_vec();
    memory.extend(start);
    memory.resize(48, 0);
    memory
}

/// Calls a hook that returns this memory, and returns the refusal.
fn lift(memory: &[u8]) -> impl Future<Output = String> + use<> {
    let memory = memory.to_vec();
    async move {
        let said = tokio::task::spawn_blocking(move || fuzz::lift(&[&memory])).await;
        match said.unwrap().pop() {
            Some(said) if !said.is_empty() => format!("refused: {said}"),
            _ => "PWNED: it was taken for an outcome".to_owned(),
        }
    }
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

/// Creates handles of the guest's own resource type in an endless loop.
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

/// Drops the future of a call while the guest waits in a function of the host.
async fn cancelled() -> String {
    let plugins = load(&Program::Guest("counts"), "", Trust::Managed).await;
    let session = Session::open(&plugins);
    assert_eq!(tool(&session, "attack").await, "call 1 of this instance");
    let waiting = tool(&session, "wait");
    let limit = tokio::time::timeout(std::time::Duration::from_millis(100), waiting);
    assert!(limit.await.is_err(), "it waits");
    tool(&session, "attack").await
}
