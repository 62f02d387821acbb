//! Sessions from within the chat: resuming, choosing and copying one, and switching the model.

use rind_tests::cli::Rind;

use super::{ECHO, SIZE, conversation};

#[test]
fn options_and_a_first_prompt_need_no_command_and_a_session_is_chosen_by_its_number() {
    let rind = Rind::default();
    rind.file("script.toml", ECHO);
    let begin = [
        "the first question",
        "--no-plugins",
        "--script",
        "script.toml",
    ];
    let choose = ["-r", "--no-plugins", "--script", "script.toml"];
    let Some(mut terminal) = rind.terminal(&begin, SIZE, &[]) else {
        return;
    };
    terminal.sees("You said: the first question");
    terminal.sees_no("Enter steers").keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));

    // Input that matches no number and no text of a session is asked for again, and the numbers
    // stay the same.
    let mut terminal = rind.terminal(&choose, SIZE, &[]).unwrap();
    terminal.sees("the first question").sees("or [q]uit");
    let again = |screen: &str| screen.matches("or [q]uit").count() == 2;
    // Text with spaces, because a short text could occur in the random name of the test's folder.
    terminal.keys("z z z\r").until("the question again", again);
    terminal.sees("no session has the text z z z").keys("1\r");
    terminal.sees("You said: the first question");
    terminal.keys("the second\r").sees("You said: the second");
    terminal.sees_no("Enter steers").keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    let said = conversation(&rind);
    assert_eq!(said.len(), 4, "{said:?}");
    assert_eq!(said[2], "user: the second");

    let mut terminal = rind.terminal(&choose, SIZE, &[]).unwrap();
    terminal.sees("or [q]uit").keys("q\r");
    assert_eq!(terminal.ends(), Some(0));
    assert_eq!(conversation(&rind).len(), 4);
}

#[test]
fn a_session_is_chosen_among_those_of_this_folder_and_of_others_with_their_age_state_and_folder() {
    let rind = Rind::with_script(ECHO);
    rind.run(&["run", "--no-plugins", "of this folder"])
        .exits(0);
    std::fs::create_dir(rind.workspace().join("below")).unwrap();
    rind.run(&["run", "--no-plugins", "--workspace", "below", "of another"])
        .exits(0);
    let listed = rind.run(&["session"]).exits(0).stdout;
    assert!(
        listed.contains("of this folder") && !listed.contains("of another"),
        "{listed}"
    );
    let Some(mut terminal) = rind.terminal(&["session"], SIZE, &[]) else {
        return;
    };
    terminal.sees("just now · 1 turn · of this folder");
    terminal.sees("2 ").sees("of another · in ");
    terminal.sees("or [q]uit").keys("below\r");
    let again = |screen: &str| screen.matches("or [q]uit").count() == 2;
    terminal
        .sees("with below")
        .until("the question again", again);
    terminal.keys("q\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn a_word_that_is_no_command_is_refused_and_sent_to_no_model() {
    let rind = Rind::with_script(ECHO);
    let ran = rind.run(&["plugni", "list"]).exits(2);
    assert!(ran.stderr.contains("plugni"), "{}", ran.stderr);
    assert!(!rind.home().join("data/sessions").exists());
}

#[test]
fn a_copy_goes_its_own_way_and_the_first_session_stays_as_it_was() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal.sees("scripted").keys("one\r");
    terminal.sees("You said: one").sees_no("Enter steers");
    let before = std::fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let before: Vec<_> = before.map(|entry| entry.unwrap().path()).collect();
    let kept = std::fs::read(before[0].join("session.jsonl")).unwrap();
    terminal
        .keys("/fork\r")
        .sees("this session is a copy of session");
    let begun = |screen: &str| screen.matches("/help lists").count() == 2;
    terminal.until("the chat of the copy", begun);
    terminal.keys("two\r").sees("You said: two");
    terminal.sees_no("Enter steers").keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));

    let sessions = std::fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let sessions: Vec<_> = sessions.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    for session in sessions {
        let text = std::fs::read_to_string(session.join("session.jsonl")).unwrap();
        let is_first = session == before[0];
        assert_eq!(text.contains("You said: two"), !is_first, "{text}");
        assert!(text.contains("You said: one"), "{text}");
        if is_first {
            assert!(text.as_bytes().starts_with(&kept), "{text}");
        }
    }
}

#[test]
fn another_model_answers_from_the_next_turn_on() {
    let rind = Rind::with_script(ECHO);
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal.sees("scripted").keys("/model\r");
    terminal
        .sees("which model")
        .sees("the server lists no models");
    terminal.keys("\u{1b}").sees_no("which model");
    terminal.keys("/model other-one\r");
    terminal.sees("the next turns use the model other-one");
    terminal.keys("hello\r").sees("You said: hello");
    terminal.sees_no("Enter steers").keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    let models: Vec<String> = rind
        .entries("step")
        .iter()
        .map(|entry| entry["model"].to_string())
        .collect();
    assert!(
        !models.is_empty() && models.iter().all(|model| model.contains("other-one")),
        "{models:?}"
    );
    let switched = &rind.entries("resumed")[0];
    assert_eq!(switched["model"], "other-one", "{switched}");
    assert_eq!(switched["is_switch"], true, "{switched}");
}

#[test]
fn a_resumed_session_marks_refused_calls_and_shows_what_it_has_cost() {
    let rind = Rind::with_script(
        r#"
        [[reply]]
        when = { contains = "write", step = 1 }
        tool_calls = [{ name = "write_file", arguments = { path = "a.txt", content = "x" } }]
        [[reply]]
        times = 0
        text = "So it is."
        usage = { input_tokens = 1000000, output_tokens = 0 }
        "#,
    );
    rind.config("[prices.scripted]\ninput = 2.0\noutput = 2.0\n");
    let Some(mut terminal) = rind.terminal(&["chat", "--no-plugins"], SIZE, &[]) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("write\r")
        .sees("[n]o and why")
        .keys("n\r")
        .sees("✗ write_file refused by user: no")
        .sees("So it is.");
    terminal.sees_no("Enter steers").keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
    let args = ["chat", "--no-plugins", "--continue"];
    let mut terminal = rind.terminal(&args, SIZE, &[]).unwrap();
    terminal.sees("✗ write_file a.txt").sees(" · $2.0");
    terminal.keys("/quit\r").sees("$2.0");
    assert_eq!(terminal.ends(), Some(0));
    let all = terminal.all();
    assert!(!all.contains("The call was not run"), "{all}");
}
