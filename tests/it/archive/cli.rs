//! Archival in the real program: settings, output on the screen, files on disk, and resuming.

use rind_tests::cli::Rind;

const ON: &str = "[subagents]\nenabled = true\n[archival]\nenabled = true\n";

/// Script of a model that reads a file five times, answers, and writes summaries.
fn script() -> String {
    let call =
        "[[reply]]\n[[reply.tool_calls]]\nname = \"read_file\"\narguments = { path = \"a.txt\" }\n";
    format!(
        "{}[[reply]]\ntext = \"It says alpha.\"\n[[reply]]\nwhen = {{ contains = \"Sum up this turn.\" }}\ntext = '{}'\n",
        call.repeat(5),
        super::SUMMARY
    )
}

/// Sets the script of a second turn, in the background of which the first turn is archived.
fn next(rind: &Rind) {
    next_with(rind, super::SUMMARY);
}

fn next_with(rind: &Rind, summary: &str) {
    let script = format!(
        "[[reply]]\ntext = \"Still here.\"\ntimes = 0\n[[reply]]\nwhen = {{ contains = \"Sum up this turn.\" }}\ntext = '{summary}'\n"
    );
    rind.script(&script);
}

fn archived() -> (Rind, String) {
    let rind = Rind::with_script(&script());
    rind.file("a.txt", "alpha\n").config(ON);
    let ran = rind.run(&["run", "What does a.txt say?"]).exits(0);
    assert_eq!(ran.stdout, "It says alpha.\n");
    assert!(!ran.stderr.contains('≡'), "{}", ran.stderr);
    next(&rind);
    let ran = rind.run(&["run", "--resume", "last", "Go on"]).exits(0);
    assert_eq!(ran.stdout, "Still here.\n");
    let line = ran.stderr.lines().find(|line| line.starts_with('≡'));
    let line = line.unwrap_or_else(|| panic!("{}", ran.stderr));
    assert!(
        line.starts_with("≡ an earlier turn was archived: 12 messages moved to held-"),
        "{line}"
    );
    let entry = rind.entries("replaced").remove(0);
    let id = entry["holder"]["agent"].as_str().unwrap().to_owned();
    assert!(line.contains(&id), "{line}");
    (rind, id)
}

#[test]
fn a_turn_is_archived_listed_and_queried_over_several_runs() {
    let (rind, id) = archived();
    rind.script(&format!(
        "[[reply]]\n[[reply.tool_calls]]\nname = \"query_subagent\"\narguments = {{ id = \"{id}\", search = \"alpha\" }}\n\
         [[reply]]\ntext = \"{{tool_result}}\"\n"
    ));
    let ran = rind
        .run(&["run", "--resume", "last", "What was it?"])
        .exits(0);
    assert!(ran.stdout.starts_with("6 of "), "{}", ran.stdout);
    assert!(ran.stderr.contains("query_subagent"), "{}", ran.stderr);

    let listed = rind.run(&["session", "list"]).exits(0);
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    assert!(listed.stdout.contains("3 turns"), "{}", listed.stdout);
    let prompt = rind
        .run(&["session", "prompt", &format!("last/agents/{id}")])
        .exits(0);
    assert!(
        prompt.stdout.contains("turn 1 What does a.txt say?"),
        "{}",
        prompt.stdout
    );
    let own = rind.run(&["session", "prompt", "last"]).exits(0);
    assert!(own.stdout.contains("20-live-subagents"), "{}", own.stdout);
    rind.run(&["session", "prompt", "last/agents/../x"])
        .exits(2);
    rind.run(&["run", "--resume", &format!("last/agents/{id}"), "hi"])
        .exits(2);
}

#[test]
fn one_line_says_where_the_turn_is_wherever_a_transcript_is_read() {
    let (rind, id) = archived();
    let line = format!("[archived: {id}]");
    let shown = rind.run(&["session", "show", "last"]).exits(0).stdout;
    assert_eq!(shown.matches(&line).count(), 1, "{shown}");
    for (name, format) in [("a.md", "markdown"), ("a.html", "html")] {
        rind.run(&["session", "export", "last", "-o", name, "--format", format])
            .exits(0);
        let text = std::fs::read_to_string(rind.workspace().join(name)).unwrap();
        // Undoes the escaping of brackets in Markdown.
        let text = text.replace('\\', "");
        assert_eq!(text.matches(&line).count(), 1, "{text}");
    }
    let Some(mut terminal) = rind.terminal(
        &["chat", "--no-plugins", "--resume", "last"],
        (100, 30),
        &[],
    ) else {
        return;
    };
    terminal.sees(&line).sees("Still here.").keys("/quit\r");
    assert_eq!(terminal.ends(), Some(0));
}

#[test]
fn as_json_it_is_two_events_beside_the_next_turn() {
    let rind = Rind::with_script(&script());
    rind.file("a.txt", "alpha\n").config(ON);
    rind.run(&["run", "Read it"]).exits(0);
    next(&rind);
    let ran = rind
        .run(&["run", "--json", "--resume", "last", "Go on"])
        .exits(0);
    let events = ran.json_lines();
    let mut types: Vec<&str> = events.iter().filter_map(|e| e["type"].as_str()).collect();
    types.retain(|name| *name != "hook" && !name.starts_with("request-"));
    let at = types.iter().position(|name| *name == "archive-start");
    assert_eq!(types[at.unwrap() + 1], "archive-end");
    let start = events.iter().find(|e| e["type"] == "archive-start");
    assert_eq!(start.unwrap()["reason"], "tool-calls");
}

#[test]
fn settings_may_be_json_and_a_trusted_project_may_bring_them() {
    let settings = r#"{
  "subagents": { "enabled": true },
  "archival": {
    "enabled": true,
    "trigger": {
      "on_max_turns": true,
      "token_threshold": 8000,
      "tool_call_threshold": 5,
      "depth_cap": 3
    },
    "summary": {
      "style": "structured",
      "model": null
    }
  }
}"#;
    let rind = Rind::with_script(&script());
    rind.file("a.txt", "alpha\n");
    let file = rind.home().join("config/config.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, settings).unwrap();
    let is_archived = |stderr: &str| stderr.contains("an earlier turn was archived");
    rind.run(&["run", "Read it"]).exits(0);
    next(&rind);
    let again = ["run", "--resume", "last", "Go on"];
    let ran = rind.run(&again).exits(0);
    assert!(is_archived(&ran.stderr), "{}", ran.stderr);
    rind.script(&script());
    let wrong = settings.replace("depth_cap", "depth");
    std::fs::write(&file, wrong).unwrap();
    let ran = rind.run(&["run", "Read it"]).exits(2);
    assert!(
        ran.stderr
            .contains("config.json:9: in [archival]: unknown field `depth`"),
        "{}",
        ran.stderr
    );

    std::fs::remove_file(&file).unwrap();
    rind.file(".rind/config.json", settings);
    let ran = rind.run(&["run", "Read it"]).exits(0);
    assert!(ran.stderr.contains("is not trusted"), "{}", ran.stderr);
    next(&rind);
    let ran = rind.run(&again).exits(0);
    assert!(!is_archived(&ran.stderr), "{}", ran.stderr);
    rind.script(&script());
    rind.run(&["run", "--trust-project", "Read it"]).exits(0);
    next(&rind);
    let trusting = ["run", "--trust-project", "--resume", "last", "Go on"];
    let ran = rind.run(&trusting).exits(0);
    assert!(is_archived(&ran.stderr), "{}", ran.stderr);
}

#[test]
fn archival_without_subagents_is_a_mistake_in_the_settings() {
    let rind = Rind::with_script(&script());
    rind.config("[archival]\nenabled = true\n");
    let ran = rind.run(&["run", "Read it"]).exits(2);
    assert!(
        ran.stderr
            .contains("config.toml:2: archival.enabled requires subagents.enabled"),
        "{}",
        ran.stderr
    );
    assert_eq!(rind.session_lines(), Vec::<String>::new());
    rind.config(&format!("{ON}[archival.summary]\nstyle = \"haiku\"\n"));
    let ran = rind.run(&["run", "Read it"]).exits(2);
    assert!(ran.stderr.contains("in [archival]"), "{}", ran.stderr);
}

/// Runs a turn with a long summary in a process whose files may have at most `limit` KiB. Returns
/// the machine, standard error, and the size of the session's file in bytes.
fn with_long_summary(limit: Option<u64>) -> (Rind, String, u64) {
    let sentence = "It went well and as it was to be expected. ";
    let rind = Rind::with_script(&script());
    rind.file("a.txt", "alpha\n");
    rind.config(&format!("{ON}summary.style = \"paragraph\"\n"));
    rind.run(&["run", "What does a.txt say?"]).exits(0);
    next_with(&rind, &sentence.repeat(350));
    let run = rind.command(&["run", "--resume", "last", "Go on"]);
    let limit = limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let mut limited = std::process::Command::new("bash");
    limited
        .arg("-c")
        .arg(format!(
            "trap '' XFSZ; ulimit -f {limit}; exec \"$0\" \"$@\""
        ))
        .arg(run.get_program())
        .args(run.get_args())
        .env_clear()
        .envs(
            run.get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(rind.workspace());
    let ran = rind.finish(&mut limited).exits(0);
    let lines = rind.session_lines();
    let bytes = lines.iter().map(|line| line.len() as u64 + 1).sum();
    (rind, ran.stderr, bytes)
}

#[test]
fn a_disk_that_is_full_at_the_last_entry_leaves_the_turn_and_no_copy_of_it() {
    let (rind, said, bytes) = with_long_summary(None);
    assert!(said.contains("≡ an earlier turn was archived"), "{said}");
    assert_eq!(holders(&rind), 1);
    // The limit leaves room for everything except the last entry, which contains the summary.
    let (rind, said, less) = with_long_summary(Some((bytes - 8192) / 1024));
    let line = "≡ an earlier turn is not archived: cannot write ";
    assert!(said.contains(line) && less < bytes - 8192, "{said}");
    assert_eq!(rind.entries("replaced").len(), 0);
    assert_eq!(holders(&rind), 0);
}

/// Returns the number of holders that have a folder.
fn holders(rind: &Rind) -> usize {
    let sessions = std::fs::read_dir(rind.home().join("data/sessions")).unwrap();
    let agents = sessions.map(|session| session.unwrap().path().join("agents"));
    let holders = agents.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten());
    holders.count()
}

#[test]
fn the_audit_log_shows_what_one_subagent_did() {
    let rind = Rind::with_script(
        "[[reply]]\n[[reply.tool_calls]]\nname = \"spawn_subagent\"\narguments = { task = \"Look around\", wait = true }\n\
         [[reply]]\n[[reply.tool_calls]]\nname = \"list_files\"\narguments = {}\n\
         [[reply]]\ntext = \"nothing there\"\n[[reply]]\ntext = \"done\"\n",
    );
    rind.managed("audit-log").config(ON);
    rind.run(&["run", "Look around"]).exits(0);
    let agent = rind.entries("subagent-start").remove(0);
    let agent = agent["agent"].as_str().unwrap();
    let path = format!("last/agents/{agent}");
    let ran = rind.run(&["session", "audit", &path, "--verify"]).exits(0);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines.iter().all(|line| line.contains(agent)), "{lines:#?}");
    assert!(lines[1].contains("tool=list_files"), "{lines:#?}");
    assert!(ran.stderr.contains("is complete: "), "{}", ran.stderr);
}
