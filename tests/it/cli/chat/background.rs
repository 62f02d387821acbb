//! Background commands in a chat: shown with their running time, and stopped by the person.

use rind_tests::cli::Rind;

const SCRIPT: &str = r#"
[[reply]]
when = { contains = "serve", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "echo ready; sleep 600", background = true } }]

[[reply]]
when = { contains = "two", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "sleep 601", background = true } }, { name = "bash", arguments = { command = "sleep 602", background = true } }]

[[reply]]
times = 0
text = "So it is."
"#;

/// Returns the seconds that the status line shows after `bg-1`.
fn seconds(screen: &str) -> Option<u64> {
    let behind = screen.rsplit_once(" · bg-1 ")?.1;
    behind.split(' ').next()?.parse().ok()
}

#[test]
fn the_status_line_and_status_show_commands_with_their_time_and_stop_ends_them() {
    for size in [(100, 30), (60, 20)] {
        let rind = Rind::with_script(SCRIPT);
        let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins", "--yes"], size, &[])
        else {
            return;
        };
        terminal
            .sees("/help")
            .keys("serve\r")
            .sees("So it is.")
            .sees_no("Enter steers");
        terminal.until("bg-1 with its time", |screen| seconds(screen).is_some());
        let before = seconds(&terminal.screen());
        terminal.until("a clock that goes on", |screen| seconds(screen) > before);
        terminal
            .keys("/status\r")
            .sees("bg-1 in the background, ")
            .sees("echo ready;");
        terminal
            .keys("two\r")
            .sees("sleep 602 (in the background)")
            .sees_no("Enter steers")
            .sees("bg-2 ");
        terminal.keys("/stop\r").sees("/stop ID stops one");
        terminal.keys("/stop bg-7\r").sees("no command `bg-7` runs");
        terminal.keys("/stop bg-1\r").sees("stopping bg-1");
        terminal
            .sees("bg-1 ended after")
            .sees("stopped: by the user");
        terminal.keys("hello\r");
        let told = "[commands in the background have ended; `background` answers with their output: bg-1 ended after";
        terminal.until("the model is told", |_| {
            super::conversation(&rind).join("\n").contains(told)
        });
        terminal.sees_no("Enter steers");
        terminal.keys("/quit\r");
        assert_eq!(terminal.ends(), Some(0));
        let all = terminal.all();
        assert!(all.contains("ended with the session: bg-2, bg-3"), "{all}");
    }
}
