//! Completions by an MCP server: only Tab requests them, typing does not.

use super::{MATERIAL, has_python, noted, served_by};

const ANSWERS: &str = "[[reply]]\ntext = \"Done.\"\n";

fn asked(rind: &rind_tests::cli::Rind) -> Vec<String> {
    let lines = noted(rind).into_iter();
    lines.filter(|line| line.starts_with("complete ")).collect()
}

#[test]
fn tab_asks_the_server_for_values_and_addresses() {
    if !has_python() {
        return;
    }
    let rind = served_by(MATERIAL, "completes", ANSWERS, "");
    let Some(mut terminal) = rind.terminal(&["chat", "--yes"], (100, 30), &[]) else {
        return;
    };
    terminal.sees("/help").keys("/docs:review src te");
    terminal.sees("/docs:review src te");
    assert_eq!(asked(&rind), Vec::<String>::new());
    terminal
        .keys("\t")
        .sees("tender")
        .sees("by the MCP server docs");
    assert_eq!(
        asked(&rind),
        ["complete style=te after {\"path\": \"src\"}"]
    );
    // A second Tab takes the first completion that can be displayed.
    terminal.keys("\t").sees("src terse");
    terminal.keys("\u{15}/docs:review path=te").sees("path=te");
    terminal.keys("\t").sees("teapot");
    assert!(!terminal.all().contains("two words"), "{}", terminal.all());
    terminal.keys("\t").sees("path=teapot");
    terminal.keys("\u{15}See @docs:note://te").sees("note://te");
    terminal.keys("\t").sees("note://teapot");
    terminal.keys("\t").sees("See @docs:note://teapot");
    assert!(
        asked(&rind).contains(&"complete name=te after {}".to_owned()),
        "{:?}",
        asked(&rind)
    );
    terminal.keys("\u{15}\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_server_without_completions_is_not_asked() {
    if !has_python() {
        return;
    }
    let rind = served_by(MATERIAL, "plain", ANSWERS, "");
    let Some(mut terminal) = rind.terminal(&["chat", "--yes"], (100, 30), &[]) else {
        return;
    };
    terminal
        .sees("/help")
        .keys("/docs:review src te\t")
        .sees("src te");
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert_eq!(asked(&rind), Vec::<String>::new());
    terminal.keys("\u{15}\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}
