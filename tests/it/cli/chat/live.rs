//! Tool calls in the chat, while they run and afterwards: the last lines of output, the running
//! time, the list of calls.

use rind_tests::cli::Rind;

const SIZE: (u16, u16) = (100, 40);

const CTRL_C: &str = "\u{3}";
const CTRL_O: &str = "\u{f}";

const SCRIPT: &str = r#"
[[reply]]
when = { contains = "slow", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "echo one; echo two; echo AKIA$(echo IOSFODNN7EXAMPLF); printf '\\033[2Jlast\n'; sleep 60" } }]

[[reply]]
when = { contains = "quick", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "seq 1 9" } }, { name = "list_files", arguments = { path = "." } }]

[[reply]]
times = 0
text = "So it is."
"#;

#[test]
fn the_last_lines_of_a_running_command_are_seen_with_its_time_and_without_secrets() {
    let rind = Rind::with_script(SCRIPT);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "--yes"], SIZE, &[]) else {
        return;
    };
    terminal.sees("/help").keys("slow\r").sees("│ two");
    terminal.sees("│ last").sees("secret masked").sees("  1 s");
    let screen = terminal.screen();
    assert!(
        !screen.contains("│ one") && !screen.contains("AKIAIOS"),
        "{screen}"
    );
    terminal.keys(CTRL_C).sees("interrupted");
    let own = "!echo mine; sleep 60\r";
    terminal
        .keys(own)
        .sees("! echo mine; sleep 60 runs")
        .sees("│ mine");
    terminal.keys(CTRL_C).sees("[stopped").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn the_last_lines_of_a_command_stay_and_every_call_can_be_opened_whole() {
    let rind = Rind::with_script(SCRIPT);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "--yes"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("/help")
        .keys(CTRL_O)
        .sees("no tool call has ended yet");
    terminal
        .keys("\u{1b}")
        .sees_no("no tool call has ended yet");
    terminal
        .keys("quick\r")
        .sees("So it is.")
        .sees_no("Enter steers");
    let screen = terminal.screen();
    assert!(screen.contains("… 6 lines before (Ctrl-O)"), "{screen}");
    assert!(
        screen.contains("│ 9") && !screen.contains("│ 6"),
        "{screen}"
    );
    terminal.keys(CTRL_O).sees("tool calls, the last one first");
    terminal
        .sees("2  list_files")
        .keys("seq")
        .sees("▸ 1  bash seq 1 9");
    terminal.keys("\r").sees("│ 1\n").sees("$ seq 1 9");
    terminal.keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}
