//! Attacks with instructions and types of WebAssembly proposals that this build of the engine does
//! not support at run time.
//!
//! The engine is built without its cargo features `gc` and `threads`. Its compiler still accepts
//! the instructions, and the runtime functions that they call abort the process: their bodies are
//! `unreachable!()` behind `extern "C"`. Each attack must be refused before it runs; one that is
//! not refused ends this test with SIGABRT.

use crate::attack::{Attack, Stage, attack};
use crate::programs::started;

const SUB: &str = "was built for garbage collection (GC); this host";
const THREADS: &str = "was built for threads; this host";

/// Declarations before the instruction under attack: a function type, its subtype, and a table with
/// a function of the subtype.
const SUBTYPES: &str = "(type $above (sub (func))) (type $below (sub $above (func)))
    (table $t 1 funcref) (func $callee (type $below)) (elem $e func $callee)
    (elem (table $t) (i32.const 0) func $callee)";

pub(crate) fn attacks() -> Vec<Attack> {
    let load = |what, module: String, meets| attack(what, started(&module), Stage::Load, meets);
    let start = |body: &str| format!("{SUBTYPES} (func $f {body}) (start $f)");
    vec![
        load(
            "calls a function of a type below the one it names",
            start("(call_indirect $t (type $above) (i32.const 0))"),
            SUB,
        ),
        load(
            "calls such a function at its end",
            start("(return_call_indirect $t (type $above) (i32.const 0))"),
            SUB,
        ),
        load(
            "asks whether a function is of a type",
            start("(drop (ref.test (ref $above) (table.get $t (i32.const 0))))"),
            SUB,
        ),
        load(
            "casts a function to a type",
            start("(drop (ref.cast (ref $above) (table.get $t (i32.const 0))))"),
            SUB,
        ),
        load(
            "branches by the type of a function",
            start(
                "(block $b (result (ref $above)) (br_on_cast $b funcref (ref $above) (table.get $t (i32.const 0))) (drop) (return)) (drop)",
            ),
            SUB,
        ),
        load(
            "waits on memory of its own",
            "(memory 1) (func $f (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const 0)))) (start $f)".to_owned(),
            THREADS,
        ),
        load(
            "wakes those that wait on its memory",
            "(memory 1) (func $f (drop (memory.atomic.notify (i32.const 0) (i32.const 1)))) (start $f)".to_owned(),
            THREADS,
        ),
        load(
            "throws an exception",
            "(tag $e) (func $f (throw $e)) (start $f)".to_owned(),
            "was built for exceptions; this host",
        ),
        load(
            "makes a structure",
            "(type $s (struct (field i32))) (func $f (drop (struct.new $s (i32.const 1)))) (start $f)".to_owned(),
            SUB,
        ),
        load(
            "has a table of foreign references",
            "(table $t 1 externref) (func $f (table.fill $t (i32.const 0) (ref.null extern) (i32.const 1))) (start $f)".to_owned(),
            SUB,
        ),
        load(
            "has a table of exceptions",
            "(table $t 1 exnref) (func $f (table.fill $t (i32.const 0) (ref.null exn) (i32.const 1))) (start $f)".to_owned(),
            "was built for exceptions; this host",
        ),
        load(
            "has a table of references that are never there",
            "(table $t 1 nullfuncref) (func $f (call_indirect $t (i32.const 0))) (start $f)".to_owned(),
            SUB,
        ),
    ]
}
