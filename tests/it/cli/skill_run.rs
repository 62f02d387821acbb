//! Skills in runs of the program: invoked by the person or the model, with their own files and
//! scripts.

use rind_tests::cli::Rind;

/// Text of the results of tools that the session keeps.
fn results(rind: &Rind) -> Vec<String> {
    let messages = rind.entries("message").into_iter();
    let results = messages.filter(|entry| entry["message"]["role"] == "tool");
    results.map(|entry| entry["message"].to_string()).collect()
}

const COUNT: &str = "---
name: count
description: Counts words of notes as references/rules.md says.
allowed-tools: Bash(/usr/bin/python3 *)
---
Read references/rules.md, then run {baseDir}/scripts/count.py on the notes.
";

#[test]
fn a_script_without_its_bit_and_a_reference_in_the_users_folder_work_on_files_of_the_workspace() {
    let rind = Rind::bare();
    rind.user_file("config/skills/count/SKILL.md", COUNT);
    rind.user_file("config/skills/count/references/rules.md", "Count words.\n");
    let script = "import sys\nprint('counted', len(open(sys.argv[1]).read().split()))\nopen('count.txt', 'w').write('3')\n";
    rind.user_file("config/skills/count/scripts/count.py", script);
    rind.file("notes.md", "one two three\n");
    let place = rind.home().join("config/skills/count");
    let script = format!(
        "[[reply]]\ntool_calls = [{{ name = \"skill\", arguments = {{ skill = \"count\" }} }}]\n\
         [[reply]]\ntool_calls = [{{ name = \"skill\", arguments = {{ skill = \"count\", file = \"references/rules.md\" }} }}]\n\
         [[reply]]\ntool_calls = [{{ name = \"bash\", arguments = {{ command = \"/usr/bin/python3 {}/scripts/count.py notes.md\" }} }}]\n\
         [[reply]]\ntext = \"{{tool_result}}\"\n",
        place.display()
    );
    rind.script(&script);
    // Runs without `--yes`: a skill of the user may allow its own program without a question.
    let ran = rind.run(&["run", "count my notes"]).exits(0);
    assert!(
        ran.stdout.contains("counted 3"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    assert_eq!(
        std::fs::read_to_string(rind.workspace().join("count.txt")).unwrap(),
        "3"
    );
    let results = results(&rind);
    assert!(results[0].contains("scripts/count.py") && results[0].contains("references/rules.md"));
    assert!(results[1].contains("Count words."), "{results:?}");
    let started = &rind.entries("skill-activated")[0];
    assert_eq!(
        (&started["skill"], &started["by"]),
        (&"count".into(), &"model".into())
    );
    // The skill allows only that program, and only during its turn.
    let script = "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"/usr/bin/python3 -V; touch x\" } }]\n\
                  [[reply]]\ntext = \"{tool_result}\"\n";
    rind.script(script);
    for line in ["/count", "python3 as before"] {
        let ran = rind.run(&["run", line]).exits(0);
        assert!(ran.stdout.contains("needs approval"), "{}", ran.stdout);
        rind.script(&script.replace("; touch x", ""));
    }
}

#[test]
fn a_conversational_skill_is_listed_as_active_until_done() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"bash\", arguments = { command = \"true\" } }]\ntimes = 1\n[[reply]]\ntext = \"{tool_result}\"\ntimes = 0\n",
    );
    rind.user_file(
        "config/skills/tutor/SKILL.md",
        "---\nskill_format: corteza.skill/v1\nname: tutor\ndescription: Teaches.\ninteraction: conversational\ntools:\n  allow: [read_file]\n---\nTeach $ARGUMENTS.\n",
    );
    let ran = rind
        .run(&["run", "--yes", "--trace", "/tutor rust"])
        .exits(0);
    assert!(
        ran.stdout.contains("refused by skill tutor"),
        "{}{}",
        ran.stdout,
        ran.stderr
    );
    // The line for the person states the refusal once.
    let line = "✗ refused by skill tutor: is active and does not allow `bash`";
    assert!(ran.stderr.contains(line), "{}", ran.stderr);
    let start = &rind.entries("turn-start")[0];
    assert_eq!(start["command"], "/tutor of your skills");
    assert!(start["input"].as_str().unwrap().contains("Teach rust."));
    let listed = rind.run(&["run", "/skills"]).exits(0).stdout;
    assert_eq!(listed, "tutor (user, for you and the model): Teaches.\n");
    let done = || {
        rind.run(&["run", "--resume", "last", "/done"])
            .exits(0)
            .stdout
    };
    assert_eq!(done(), "ended: tutor\n");
    assert_eq!(done(), "no skill stays active from turn to turn\n");
}

#[test]
fn a_skill_of_the_project_is_asked_about_and_without_a_person_refused() {
    let rind = Rind::with_script("[[reply]]\ntext = \"You said: {input}\"\ntimes = 0\n");
    rind.file(
        ".rind/skills/tidy/SKILL.md",
        "---\nname: tidy\ndescription: Tidies.\n---\nTidy.\n",
    );
    let ran = rind.run(&["run", "/tidy"]).exits(2);
    assert!(
        ran.stderr.contains("there is no command /tidy"),
        "{}",
        ran.stderr
    );
    let ran = rind.run(&["run", "--trust-project", "/tidy"]).exits(2);
    assert!(
        ran.stderr.contains("the skill tidy was refused by policy")
            && ran
                .stderr
                .contains("tools.rules = [{ tool = \"skill\", decision = \"allow\" }]"),
        "{}",
        ran.stderr
    );
    rind.run(&["run", "--trust-project", "--yes", "/tidy"])
        .exits(0);
    let ran = rind
        .run(&["run", "--trust-project", "--dry-run", "/tidy"])
        .exits(0);
    assert!(
        ran.stderr
            .contains("dry run: the text of the skill tidy is read, which changes nothing; the skill does not say what it changes"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_interrupt_in_the_chat_ends_the_question_of_a_skill() {
    let rind = Rind::with_script("[[reply]]\ntext = \"You said: {input}\"\ntimes = 0\n");
    rind.file(
        ".rind/skills/tidy/SKILL.md",
        "---\nname: tidy\ndescription: Tidies.\n---\nTidy.\n",
    );
    let args = ["chat", "--trust-project"];
    let Some(mut terminal) = rind.terminal(&args, (100, 30), &[]) else {
        return;
    };
    terminal
        .sees("scripted")
        .keys("/tidy\r")
        .sees("[n]o")
        .keys("\u{3}")
        .sees("was interrupted");
    terminal.keys("hello\r").sees("You said: hello");
    terminal.sees_no("Enter steers").keys("\u{4}");
    assert_eq!(terminal.ends(), Some(0));
}
