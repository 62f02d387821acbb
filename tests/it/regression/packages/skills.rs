//! Tests of skills that a fault or a name collision excludes: reported when a session starts, in
//! its events, by `/skills` and by `rind doctor`.

use rind_tests::cli::Rind;
use serde_json::Value;

use super::skill;

/// Script of a model that answers every request.
const SCRIPT: &str = "[[reply]]\ntext = \"hello\"\ntimes = 0\n";

/// Skills with a fault: name, text, cause in the event, and part of the message.
const FAULTS: &[(&str, &str, &str, &str)] = &[
    (
        "colon",
        "---\nname: colon\ndescription: Does a thing. Use when: somebody asks\n---\nDo.\n",
        "user-only",
        "put the value of `description` in quotes",
    ),
    (
        "torn",
        "---\nname: torn\n",
        "unusable",
        "the front matter is not closed",
    ),
    (
        "newer",
        "---\nskill_format: corteza.skill/v2\nname: newer\ndescription: Does.\n---\nDo.\n",
        "unusable",
        "`skill_format` is `corteza.skill/v2`",
    ),
];

#[test]
fn a_skill_that_a_fault_keeps_from_the_model_is_told_wherever_a_session_is_seen() {
    let rind = Rind::with_script(SCRIPT);
    rind.user_file("config/skills/good/SKILL.md", &skill("good"));
    for (name, text, ..) in FAULTS {
        rind.user_file(&format!("config/skills/{name}/SKILL.md"), text);
    }
    std::fs::create_dir_all(rind.home().join("config/skills/wide")).unwrap();
    std::fs::write(
        rind.home().join("config/skills/wide/SKILL.md"),
        b"\xff\xfe-\0-\0",
    )
    .unwrap();
    let start = rind.run(&["run", "hi"]).exits(0).stderr;
    let listed = rind.run(&["run", "/skills"]).exits(0).stdout;
    let doctor = rind.run(&["doctor"]).stdout;
    let lines = rind.run(&["run", "--json", "hi"]).exits(0).json_lines();
    let events: Vec<&Value> = lines
        .iter()
        .filter(|line| line["type"] == "skill-left-out")
        .collect();
    let wide = ("wide", "", "unusable", "the file is UTF-16");
    for (name, _, cause, why) in FAULTS.iter().chain([&wide]) {
        for (place, said) in [("start", &start), ("/skills", &listed), ("doctor", &doctor)] {
            let flat = said
                .replace('\n', " ")
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            assert!(
                flat.contains(&format!("{name}/SKILL.md:")),
                "{place}: {name}\n{said}"
            );
            assert!(flat.contains(why), "{place}: {why}\n{said}");
        }
        let event = events.iter().find(|event| event["skill"] == *name).unwrap();
        assert_eq!(event["cause"], *cause);
        assert!(event["reason"].as_str().unwrap().contains(why), "{event}");
    }
    assert_eq!(events.len(), 4, "{events:?}");
    assert!(!start.contains("good"), "{start}");
}

#[test]
fn of_two_skills_of_one_name_the_one_that_is_not_used_is_named_everywhere_and_a_copy_is_not() {
    let rind = Rind::with_script(SCRIPT);
    rind.user_file("config/skills/twice/SKILL.md", &skill("twice"));
    rind.user_file("config/skills/same/SKILL.md", &skill("same"));
    let elsewhere = rind.home().join(".claude/skills");
    for (name, text) in [
        (
            "twice",
            "---\ndescription: Does something else.\n---\nElse.\n",
        ),
        ("same", &skill("same")),
    ] {
        std::fs::create_dir_all(elsewhere.join(name)).unwrap();
        std::fs::write(elsewhere.join(name).join("SKILL.md"), text).unwrap();
    }
    let start = rind.run(&["run", "hi"]).exits(0).stderr;
    let chat = rind.run_with_input(&["chat"], "hi\n").stderr;
    for said in [&start, &chat] {
        assert!(said.contains("skill twice is not used: "), "{said}");
    }
    let doctor = rind.run(&["doctor"]).stdout;
    let listed = rind.run(&["run", "/skills"]).exits(0).stdout;
    let in_chat = rind.run_with_input(&["chat"], "/skills\n").stdout;
    for (place, said) in [
        ("start", &start),
        ("chat", &chat),
        ("doctor", &doctor),
        ("/skills", &listed),
        ("/skills in chat", &in_chat),
    ] {
        let flat = said.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            ".claude/skills/twice/SKILL.md: ",
            "config/skills/twice/SKILL.md has the same name and is used instead",
        ] {
            assert!(flat.contains(part), "{place}: {part}\n{said}");
        }
        assert!(!said.contains(".claude/skills/same/"), "{place}\n{said}");
    }
}

#[test]
fn many_skills_with_faults_do_not_bury_the_start_of_a_session() {
    let rind = Rind::with_script(SCRIPT);
    for n in 0..30 {
        rind.user_file(&format!("config/skills/s{n}/SKILL.md"), "no front matter\n");
    }
    let said = rind.run(&["run", "hi"]).exits(0).stderr;
    assert_eq!(said.matches("is not used").count(), 5, "{said}");
    assert!(
        said.contains("25 more skills not shown; `rind skill list` shows all"),
        "{said}"
    );
}

#[test]
fn a_tool_of_a_skill_that_is_nearly_one_is_told_where_a_session_starts_and_by_doctor() {
    let rind = Rind::with_script(SCRIPT);
    let text = "---\nname: look\ndescription: Looks.\ntools:\n  allow: [read_fiel, WebFetch]\n  deny: [bahs, Bash, other_tool]\n---\nLook.\n";
    rind.user_file("config/skills/look/SKILL.md", text);
    let run = rind.run(&["run", "hi"]).exits(0).stderr;
    let chat = rind.run_with_input(&["chat"], "hi\n").stderr;
    let doctor = rind.run(&["doctor"]).stdout;
    for said in [run, chat, doctor] {
        for told in [
            "look/SKILL.md:5:11: skill `look` allows `read_fiel`, and there is no such tool; did you mean `read_file`?",
            "look/SKILL.md:6:10: skill `look` denies `bahs`, and there is no such tool; did you mean `bash`?",
        ] {
            assert_eq!(said.matches(told).count(), 1, "{told}\n{said}");
        }
        assert!(
            !said.contains("other_tool") && !said.contains("WebFetch"),
            "{said}"
        );
    }
}
