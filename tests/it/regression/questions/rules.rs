//! Tests of how the program applies rules about commands and paths.

use rind_tests::cli::Rind;

use super::{with_commands, with_writes};

#[test]
fn every_part_of_a_command_must_be_allowed() {
    let commands = [
        "touch one",
        "touch two; mkdir out",
        "touch three $(mkdir out)",
        "touch four | xargs mkdir out",
        "sh -c 'mkdir out'",
        "env A=1 touch five",
        "touch six > seven",
    ];
    let rind = with_commands(&commands);
    rind.config("[[tools.rules]]\ncommand = \"touch *\"\ndecision = \"allow\"\n");
    let ran = rind.run(&["run", "x"]).exits(0);
    for (file, is_there) in [
        ("one", true),
        ("two", false),
        ("three", false),
        ("four", false),
        ("out", false),
        ("five", false),
        ("seven", false),
    ] {
        assert_eq!(
            rind.workspace().join(file).exists(),
            is_there,
            "{file}: {}",
            ran.stderr
        );
    }
    assert!(
        ran.stderr
            .contains("the default for effect execute for `mkdir out`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn what_is_denied_stays_denied_however_it_is_written_and_with_yes() {
    let commands = [
        "touch x",
        "t\\ouch x",
        "'touch' x",
        "/usr/bin/touch x",
        "A=1 touch x",
        "env touch x",
        "true; touch x",
        "true && touch x",
        "true $(touch x)",
        "true \"`touch x`\"",
        "cat <(touch x)",
        "sh -c 'touch x'",
        "eval 'touch x'",
        "echo x | xargs touch",
        "nice timeout 5 touch x",
        "find . -maxdepth 0 -exec touch x ';'",
        "T=touch; $T x",
        "for i in 1; do touch x; done",
        "(touch x)",
        "sh <<E\ntouch x\nE",
        "echo 'touch x' | sh",
        "to${Z}uch x",
        "{touch,x}",
    ];
    let rind = with_commands(&commands);
    rind.config(
        "[tools]\nrules = [{ command = \"touch *\", decision = \"deny\" }, { tool = \"bash\", decision = \"allow\" }]\n",
    );
    let ran = rind.run(&["run", "x", "--yes"]).exits(0);
    assert!(!rind.workspace().join("x").exists(), "{}", ran.stderr);
    assert_eq!(
        ran.stderr.matches("bash refused by policy").count(),
        commands.len(),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_path_rule_holds_for_where_a_path_leads() {
    let rind = with_writes(&[
        ("docs/a.md", "x"),
        ("docs/../b.md", "x"),
        ("link/c.md", "x"),
        ("docs/out/d.md", "x"),
    ]);
    rind.file("docs/old.md", "").file("src/old.rs", "");
    std::os::unix::fs::symlink("docs", rind.workspace().join("link")).unwrap();
    std::os::unix::fs::symlink("../src", rind.workspace().join("docs/out")).unwrap();
    rind.config("[[tools.rules]]\npath = \"docs/**\"\ndecision = \"allow\"\n");
    let ran = rind.run(&["run", "x"]).exits(0);
    for (file, is_there) in [
        ("docs/a.md", true),
        ("b.md", false),
        ("docs/c.md", true),
        ("src/d.md", false),
    ] {
        assert_eq!(
            rind.workspace().join(file).exists(),
            is_there,
            "{file}: {}",
            ran.stderr
        );
    }
}

#[test]
fn rules_for_tools_and_plugins_that_there_are_not_are_named_with_their_line() {
    let rind = with_commands(&[]);
    rind.config(
        "[tools]\nrules = [\n  { tool = \"bash\", decision = \"ask\" },\n  { tool = \"bahs\", decision = \"deny\" },\n  { tool = \"web:fetch\", decision = \"deny\" },\n]\n",
    );
    let ran = rind.run(&["run", "x"]).exits(0);
    for said in [
        "config.toml:4: tool rule 2: there is no tool `bahs`, so this rule has no effect",
        "config.toml:5: tool rule 3: no plugin `web` with tools is loaded, so this rule has no effect",
    ] {
        assert!(ran.stderr.contains(said), "{said}\n{}", ran.stderr);
    }
    rind.config("[[tools.rules]]\ntool = \"bash\"\ndecision = \"ask\"\n\n[[tools.rules]]\neffect = \"read\"\ncommand = \"a && b\"\ndecision = \"deny\"\n");
    let ran = rind.run(&["run", "x"]).exits(2);
    assert!(
        ran.stderr.contains("is more than one command"),
        "{}",
        ran.stderr
    );
}

#[test]
fn rules_that_contradict_their_tools_are_named_with_their_line_at_the_start_and_by_doctor() {
    let rind = with_commands(&[]);
    rind.config(
        "[tools]\nrules = [\n  { tool = \"bash\", effect = \"execute\", decision = \"ask\" },\n  \
         { tool = \"write_file\", effect = \"execute\", decision = \"deny\" },\n  \
         { effect = \"read\", command = \"rm *\", decision = \"deny\" },\n  \
         { tool = \"search\", path = \"docs\", decision = \"allow\" },\n]\n",
    );
    let told = [
        "config.toml:4: tool rule 2: `write_file` has the effect class write and not execute, so this rule matches no call",
        "config.toml:5: tool rule 3: `bash` has the effect class execute and not read, so this rule matches no call",
        "config.toml:6: tool rule 4: `search` looks at a folder with everything below it, and `path = \"docs\"` allows no such folder",
    ];
    let run = rind.run(&["run", "x"]).exits(0).stderr;
    let chat = rind.run_with_input(&["chat"], "x\n").stderr;
    let doctor = rind.run(&["doctor"]).stdout;
    for said in [run, chat, doctor] {
        for line in told {
            assert_eq!(said.matches(line).count(), 1, "{line}\n{said}");
        }
        assert!(!said.contains("tool rule 1"), "{said}");
    }
    // The warnings go to standard error, and not into the stream of events.
    let json = rind.run(&["run", "--json", "x"]).exits(0);
    assert!(json.stderr.contains(told[0]), "{}", json.stderr);
    assert!(!json.json_lines().is_empty());
}

#[test]
fn a_rule_for_a_program_does_not_allow_the_commands_in_its_arguments() {
    let commands = [
        "git -c alias.x='!touch x' x",
        "git ls-remote --upload-pack='touch x;' .",
        "git ls-remote --upl='touch x;' .",
        "git ls-remote {--upload-pack='touch x;',.}",
        "git log --output=x",
        "tar cf /dev/null . --checkpoint=1 --checkpoint-action=exec='touch x'",
        "tar cf y . --use-compress='sh -c \"touch x; cat\"'",
        "tar -cI 'sh -c \"touch x; cat\"' -f y .",
        "find . -maxdepth 0 -fprintf x y",
        "test -v 'a[$(touch x)]'",
        "compgen -W '$(touch x)'",
        "jobs -x touch x",
    ];
    let rind = with_commands(&commands);
    let rule = |program: &str| format!("{{ command = \"{program} *\", decision = \"allow\" }}");
    let programs = ["git", "tar", "find", "test", "compgen", "jobs"];
    let rules = programs.map(rule).join(", ");
    rind.config(&format!("[tools]\nrules = [{rules}]\n"));
    let ran = rind.run(&["run", "x"]).exits(0);
    assert!(!rind.workspace().join("x").exists(), "{}", ran.stderr);
    assert_eq!(
        ran.stderr.matches("bash refused by policy").count(),
        commands.len(),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_wrong_rule_is_named_with_its_own_line() {
    let rind = with_commands(&[]);
    for text in [
        "[tools]\nrules = [\n  { tool = \"bash\", decision = \"ask\" },\n  { tool = \"bash\", command = \"\", decision = \"ask\" },\n  { tool = \"bash\", decision = \"ask\" },\n]\n",
        "[[tools.rules]]\ntool = \"bash\"\ndecision = \"ask\"\n[[tools.rules]]\ntool = \"bash\"\ncommand = \"\"\ndecision = \"ask\"\n",
    ] {
        rind.config(text);
        let ran = rind.run(&["run", "x"]).exits(2);
        assert!(
            ran.stderr.contains("config.toml:4: in [tools]: "),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn a_link_that_leads_elsewhere_when_the_question_is_answered_is_not_followed() {
    let rind = with_writes(&[("link/c.md", "x")]);
    rind.file("docs/old.md", "").file("src/old.rs", "");
    let link = rind.workspace().join("link");
    std::os::unix::fs::symlink("docs", &link).unwrap();
    rind.config("[[tools.rules]]\npath = \"src/**\"\ndecision = \"deny\"\n");
    let swap = || {
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink("src", &link).unwrap();
    };
    let asked = "[n]o and why: ";
    let Some(shown) = rind.at_terminal_once(&["run", "x"], asked, swap, "y\n") else {
        return;
    };
    for file in ["docs/c.md", "src/c.md"] {
        assert!(!rind.workspace().join(file).exists(), "{file}: {shown}");
    }
    let results = rind.entries("tool-end");
    assert_eq!(results[0]["refused_by"], "policy", "{results:?}");
}

#[test]
fn what_a_path_rule_denies_has_no_second_spelling() {
    let reads = [
        "secrets/key",
        "./secrets//key",
        "docs/../secrets/key",
        "docs/./../secrets/./key",
        "door/key",
        "docs/door/key",
        "far/key",
        "second",
    ];
    let rind = Rind::default();
    rind.file("secrets/key", "the secret\n")
        .file("docs/a.md", "");
    let place = |path: &str| rind.workspace().join(path);
    let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, place(at)).unwrap();
    link("secrets", "door");
    link("../door", "docs/door");
    link("docs/../docs/door", "far");
    link("far/key", "second");
    let whole = place("secrets/key").display().to_string();
    let mut script = String::new();
    for path in reads.iter().copied().chain([whole.as_str(), "SECRETS/key"]) {
        script.push_str(&format!(
            "[[reply]]\ntool_calls = [{{ name = \"read_file\", arguments = {{ path = \"{path}\" }} }}]\n"
        ));
    }
    rind.script(&format!("{script}[[reply]]\ntext = \"done\"\n"));
    rind.config("[[tools.rules]]\npath = \"secrets/**\"\ndecision = \"deny\"\n");
    let ran = rind.run(&["run", "x", "--yes", "--json"]).exits(0);
    assert!(!ran.stdout.contains("the secret"), "{}", ran.stdout);
    let refused = ran.stdout.matches("\"refused_by\":\"policy\"").count();
    // The last path is no file on a case-sensitive file system, so it may not be refused.
    assert!(refused > reads.len(), "{}", ran.stdout);
}
