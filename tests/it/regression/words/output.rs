//! Tests of the output of commands: text, destination and width.

use std::fs::File;
use std::process::Stdio;

use rind_tests::cli::{Rind, Step};
use rind_tests::guests;

const ANSWER: &str = "[[reply]]\ntext = \"the answer\"\n";

/// Commands that write something to standard output.
const WRITE: [&[&str]; 6] = [
    &["run", "hello"],
    &["run", "hello", "--json"],
    &["plugin", "list"],
    &["plugin", "list", "--json"],
    &["schema", "events"],
    &["--help"],
];

#[test]
fn output_that_cannot_be_written_is_exit_1_with_a_message() {
    let rind = Rind::with_script(ANSWER);
    rind.managed("hello");
    for args in WRITE {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = rind.command(args);
        let ran = rind.finish(command.stdout(Stdio::from(full))).exits(1);
        let said = "error: cannot write to standard output: ";
        assert!(ran.stderr.contains(said), "{args:?}: {}", ran.stderr);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let rind = Rind::with_script(ANSWER);
    rind.managed("hello");
    for args in WRITE {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = rind.command(args);
        let ran = rind.finish(command.stdout(Stdio::from(writer))).exits(0);
        assert!(!ran.stderr.contains("error"), "{args:?}: {}", ran.stderr);
    }
}

/// Returns the text that a terminal with this number of columns shows, without styles.
fn shown(rind: &Rind, args: &[&str], columns: usize) -> Option<String> {
    let size = format!("stty cols {columns} rows 50");
    let screen = rind.at_terminal_with(args, &size, Vec::<Step<'_>>::new())?;
    // Enough rows for the complete output, so that nothing scrolls away.
    let mut emulator = vt100::Parser::new(5000, u16::try_from(columns).unwrap(), 0);
    // The captured text has plain line feeds, and the emulator needs carriage returns.
    emulator.process(screen.replace('\n', "\r\n").as_bytes());
    Some(emulator.screen().contents())
}

#[test]
fn on_a_terminal_what_the_program_says_is_broken_at_blanks_and_elsewhere_it_is_not() {
    let rind = Rind::with_script(ANSWER);
    rind.managed("hello");
    guests::put("fetch", &rind.home().join("managed"), |manifest| {
        format!("{manifest}[network]\nhosts = [\"a.example\", \"b.example\"]\n")
    });
    for args in [
        &["plugin", "inspect", "hello"][..],
        &["doctor"],
        &["run", "hello"],
    ] {
        let plain = rind.run(args);
        let all = format!("{}{}", plain.stdout, plain.stderr);
        let words: Vec<&str> = all
            .split_whitespace()
            .filter(|word| word.len() < 40)
            .collect();
        let Some(screen) = shown(&rind, args, 60) else {
            return;
        };
        for row in screen.lines().filter(|row| row.chars().count() > 60) {
            let longest = row
                .split_whitespace()
                .map(str::len)
                .max()
                .unwrap_or_default();
            assert!(longest > 30, "{row}\n{screen}");
        }
        // Times and sizes differ from run to run. All other words are shown, and none is split.
        let missing = words.iter().filter(|word| !screen.contains(*word)).count();
        assert!(
            missing * 5 < words.len(),
            "{missing} of {}\n{screen}\n{all}",
            words.len()
        );
        assert!(screen.lines().count() > all.lines().count(), "{screen}");
    }
}

#[test]
fn json_and_the_answer_are_not_broken_on_a_terminal() {
    let long = "word ".repeat(40);
    let rind = Rind::with_script(&format!("[[reply]]\ntext = \"{}\"\n", long.trim()));
    let Some(screen) = shown(&rind, &["run", "hello"], 60) else {
        return;
    };
    // The answer is wrapped into rows without splitting words or changing their order.
    let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(long.trim()), "{screen}");
    let json = shown(&rind, &["run", "hello", "--json"], 60).unwrap();
    let lines = json.lines().filter(|line| line.starts_with('{'));
    let parsed: Vec<serde_json::Value> = lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(
        parsed.iter().any(|event| event["type"] == "turn-end"),
        "{json}"
    );
}

#[test]
fn results_of_calls_that_ran_beside_others_say_which_they_are_of() {
    let call = |path: &str| {
        format!("[[reply.tool_calls]]\nname = \"read_file\"\narguments = {{ path = \"{path}\" }}\n")
    };
    let rind = Rind::with_script(&format!(
        "[[reply]]\n{}{}{ANSWER}",
        call("a.txt"),
        call("b.txt")
    ));
    rind.file("a.txt", "alpha").file("b.txt", "beta");
    let ran = rind.run(&["run", "read both"]).exits(0);
    let named = |path: &str| {
        let is_it =
            |line: &str| line.contains('└') && line.contains(&format!("read_file {path}: "));
        ran.stderr.lines().filter(|line| is_it(line)).count()
    };
    assert_eq!((named("a.txt"), named("b.txt")), (1, 1), "{}", ran.stderr);
    // Calls that run one after the other need no name: each result is shown below its call.
    rind.script(&format!("[[reply]]\n{}{ANSWER}", call("a.txt")));
    let ran = rind.run(&["run", "read one"]).exits(0);
    assert!(!ran.stderr.contains("read_file a.txt: "), "{}", ran.stderr);
}
