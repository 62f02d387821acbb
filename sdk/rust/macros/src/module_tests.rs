//! Tests of the compile errors that plugin authors see.

use super::Plugin;
use syn::ItemMod;

fn faults(source: &str) -> String {
    let module: ItemMod = syn::parse_str(source).expect("the source is Rust");
    match Plugin::parse(module) {
        Ok(_) => String::new(),
        Err(error) => error.into_iter().map(|one| format!("{one}\n")).collect(),
    }
}

#[test]
fn a_wrong_point_name_lists_the_right_ones() {
    let faults = faults("mod p { #[hook] fn pre_tol(call: ProposedCall) -> CallOutcome {} }");
    assert!(
        faults.starts_with("there is no extension point `pre_tol`"),
        "{faults}"
    );
    assert!(
        faults.contains("`pre_tool`") && faults.contains("`error`"),
        "{faults}"
    );
}

#[test]
fn a_misspelt_point_and_one_of_another_system_get_the_point_that_is_meant() {
    for (name, meant) in [
        ("pre_tol", Some("pre_tool")),
        ("turn_start_", Some("turn_start")),
        ("before_tool", Some("pre_tool")),
        ("before_llm", Some("pre_reason")),
        ("session_compact", Some("after_compact")),
        ("elsewhere", None),
        ("x", None),
    ] {
        let faults = faults(&format!("mod p {{ #[hook] fn {name}(x: X) {{}} }}"));
        let said = meant.map(|meant| format!("`{name}`, did you mean `{meant}`?"));
        assert_eq!(
            said.as_ref().is_some_and(|said| faults.contains(said)),
            meant.is_some(),
            "{faults}"
        );
        assert_eq!(faults.contains("did you mean"), meant.is_some(), "{faults}");
    }
}

#[test]
fn two_hooks_of_one_point_are_refused() {
    let hook = "#[hook] fn turn_end(summary: TurnSummary) {}";
    let faults = faults(&format!("mod p {{ {hook} {hook} }}"));
    assert!(
        faults.contains("there is a hook on `turn-end` already"),
        "{faults}"
    );
}

#[test]
fn every_fault_is_reported_at_once() {
    let faults = faults("mod p { #[hook] fn a(x: X) {} #[tool] fn b() -> String {} }");
    assert_eq!(faults.lines().count(), 2, "{faults}");
}

#[test]
fn signatures_that_the_host_cannot_call_are_refused() {
    for (function, expected) in [
        (
            "#[hook] fn turn_end() {}",
            "the hook `turn_end` takes a payload, a `TurnSummary`",
        ),
        (
            "#[hook] fn context() {}",
            "takes a payload, a `&Conversation`",
        ),
        (
            "#[hook] fn turn_end(a: A, b: B) {}",
            "`turn_end` takes the payload alone; ask who calls with `caller::turn()`",
        ),
        (
            "#[hook] async fn turn_end(a: A) {}",
            "it must be a plain function",
        ),
        (
            "#[hook] fn turn_end<T>(a: T) {}",
            "it must be a plain function",
        ),
        (
            "#[hook(x)] fn turn_end(a: A) {}",
            "this attribute has no options",
        ),
        (
            "#[hook] #[tool] fn turn_end(a: A) {}",
            "can be only one of hook, tool",
        ),
        ("#[run_loop] fn run(text: String) {}", "`run` takes nothing"),
        (
            "#[agent_loop] fn one() {} #[agent_loop] fn two() {}",
            "there is a loop already",
        ),
        (
            "#[implements(\"owner\")] fn run(p: P) {}",
            "write the point as \"owner.name\"",
        ),
        (
            "#[command] fn run() {}",
            "the command `/run` needs a doc comment",
        ),
        ("fn helper() {}", "nothing is exported"),
    ] {
        let faults = faults(&format!("mod p {{ {function} }}"));
        assert!(faults.contains(expected), "{function}: {faults}");
    }
}

#[test]
fn a_tool_says_what_it_does_and_what_it_may_do() {
    for (function, expected) in [
        (
            "#[tool(effect = \"read\")] fn a() -> String {}",
            "the tool `a` needs a doc comment",
        ),
        (
            "#[doc = \"A.\"] #[tool] fn a() -> String {}",
            "must say what running it may do",
        ),
        (
            "#[doc = \"A.\"] #[tool(effect = \"reed\")] fn a() -> String {}",
            "\"read\", \"write\", \"execute\"",
        ),
        (
            "#[doc = \"A.\"] #[tool(effect = \"read\")] fn a() {}",
            "the tool `a` returns nothing",
        ),
        (
            "#[doc = \"A.\"] #[tool(effect = \"read\", name = \"a b\")] fn a() -> u8 {}",
            "a tool's name is",
        ),
        (
            "#[doc = \"A.\"] #[tool(effect = \"read\", nme = \"a\")] fn a() -> u8 {}",
            "a tool has `effect` and `name`",
        ),
    ] {
        let faults = faults(&format!("mod p {{ {function} }}"));
        assert!(faults.contains(expected), "{function}: {faults}");
    }
}

#[test]
fn a_right_plugin_has_no_faults() {
    let source = "mod p {
        #[doc = \"Adds.\"] #[tool(effect = \"read\")] fn add(args: Add) -> i64 {}
        #[doc = \"Says.\"] #[rind_sdk::command] fn say_it(text: String) -> String {}
        #[implements(\"other.check\")] fn check(payload: Value) -> Result<Value, Error> {}
        #[run_loop] fn beat() -> Result<(), Error> {}
        #[agent_loop] fn order() -> Result<(), Error> {}
        #[hook] fn turn_end(summary: &TurnSummary) {}
        #[hook] fn pre_tool(call: ProposedCall) -> Result<CallOutcome, Error> {}
        fn helper() {}
    }";
    assert_eq!(faults(source), "");
}
