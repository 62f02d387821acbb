//! `rind skill list`, `show`, `check` and `new`.

use std::fs;

use rind_tests::cli::Rind;
use serde_json::Value;

const AUTORESEARCH: &str = "---\nskill_format: corteza.skill/v1\nname: autoresearch\ndescription: Bounded autonomous research \
                            loop into a pensar vault.\nmodel_invocation: user-only\nside_effects: [filesystem, \
                            network]\nlibrary_depends: [pensar, llm.api]\nattach: false\ntools:\n  allow: [web_search, \
                            pensar_ingest_url, pensar_search_pages,\n          pensar_related_pages, pensar_write_page, \
                            finalize]\ntrust: package\ninteraction: returning\n---\nSearch, then write.\n";

fn put(rind: &Rind, path: &str, text: &str) {
    let path = rind.home().join("config/skills").join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_list_says_who_may_start_each_skill_and_why_others_cannot_be_used() {
    let rind = Rind::default();
    assert!(
        rind.run(&["skill", "list"])
            .stderr
            .contains("no skills are found")
    );
    put(
        &rind,
        "review/SKILL.md",
        "---\ndescription: Reviews a change.\nrequires: {bins: [no-such-program]}\n---\nRead it.\n",
    );
    put(
        &rind,
        "greet/SKILL.md",
        "---\ndescription: Greets.\n---\nSay hello.\n",
    );
    put(&rind, "auto/SKILL.md", AUTORESEARCH);
    put(
        &rind,
        "typo/SKILL.md",
        "---\ndescription: d\nuser_invocable: false\n---\nx\n",
    );
    put(&rind, "broken/SKILL.md", "---\ndescription: d\n");
    let ran = rind.run(&["skill", "list"]).exits(1);
    let lines: Vec<&str> = ran.stdout.lines().collect();
    for expected in [
        "○ auto user  user only",
        "✓ greet user  model and user",
        "○ review user  model and user",
        "  missing: the program `no-such-program`",
        "▲ typo user  user only",
        "  3:1: unknown key `user_invocable`; write `user-invocable`; until then only the user can start the skill",
        "✗ broken user",
    ] {
        assert!(
            lines.iter().any(|line| line.starts_with(expected)),
            "{expected}\n{}",
            ran.stdout
        );
    }
    assert!(
        ran.stdout
            .contains("SKILL.md:1:1: the front matter is not closed"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stderr
            .contains("the list of skills in the prompt has 1 skill in 17 characters"),
        "{}",
        ran.stderr
    );
    let json = rind.run(&["skill", "list", "--json"]).exits(1);
    let json: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(json["skills"].as_array().unwrap().len(), 4);
    assert_eq!(json["skills"][0]["skill"]["invocation"], "user-only");
    assert_eq!(json["unusable"][0]["id"], "broken");
    assert_eq!(
        json["hash"],
        serde_json::from_str::<Value>(&rind.run(&["skill", "list", "--json"]).stdout).unwrap()["hash"]
    );
}

#[test]
fn the_worked_example_says_exactly_what_is_missing() {
    let rind = Rind::default();
    put(&rind, "autoresearch/SKILL.md", AUTORESEARCH);
    let shown = rind.run(&["skill", "show", "AutoResearch"]).exits(0);
    assert!(
        shown
            .stdout
            .contains("only these tools: web_search, pensar_ingest_url,"),
        "{}",
        shown.stdout
    );
    assert!(
        shown.stdout.contains("Search, then write."),
        "{}",
        shown.stdout
    );
    let ran = rind.run(&["skill", "check", "autoresearch"]).exits(1);
    let errors: Vec<&str> = ran
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("✗ "))
        .collect();
    let told = |words: &str| errors.iter().filter(|line| line.contains(words)).count();
    assert_eq!(
        (
            told("there is no such tool"),
            told("it depends on the plugin"),
            errors.len()
        ),
        (6, 2, 8),
        "{}",
        ran.stdout
    );
    for name in ["pensar", "llm.api"] {
        assert_eq!(
            told(&format!(
                "it depends on the plugin `{name}`, which is not loaded"
            )),
            1,
            "{}",
            ran.stdout
        );
    }
}

#[test]
fn a_skill_that_is_made_is_in_order_and_its_dangling_references_are_found() {
    let rind = Rind::default();
    let made = rind.run(&["skill", "new", "tidy-up"]).exits(0);
    assert_eq!(
        made.stdout.trim(),
        "[RIND_HOME]/config/skills/tidy-up/SKILL.md"
    );
    let checked = rind.run(&["skill", "check", "tidy-up"]).exits(0);
    assert!(checked.stdout.starts_with("✓ "), "{}", checked.stdout);
    assert!(
        rind.run(&["skill", "new", "tidy-up"])
            .exits(2)
            .stderr
            .contains("already exists")
    );
    assert!(
        rind.run(&["skill", "new", "Bad"])
            .exits(2)
            .stderr
            .contains("cannot be the name")
    );
    assert!(
        rind.run(&["skill", "new", "help"])
            .exits(2)
            .stderr
            .contains("is a command of rind")
    );
    rind.file(
        "own/SKILL.md",
        "---\ndescription: d\n---\nRun `scripts/go.py`, see [a](references/a.md), [b](../b.md) and {baseDir}/c.txt.\n",
    );
    rind.file("own/references/a.md", "a");
    let checked = rind.run(&["skill", "check", "./own"]).exits(0);
    let found: Vec<&str> = checked
        .stdout
        .lines()
        .filter_map(|line| line.split("SKILL.md:").nth(1))
        .collect();
    assert_eq!(
        found,
        [
            "4:1: `scripts/go.py` is not in the bundle; add the file or correct the path",
            "4:1: `../b.md` leads out of the bundle; put the file into the bundle; it cannot be read as part of the skill",
            "4:1: `c.txt` is not in the bundle; add the file or correct the path",
        ],
        "{}",
        checked.stdout
    );
}

#[test]
fn a_projects_skills_count_once_it_is_trusted_and_as_they_were() {
    let rind = Rind::default();
    put(
        &rind,
        "review/SKILL.md",
        "---\ndescription: Mine.\n---\nMine.\n",
    );
    rind.file(
        ".rind/skills/deploy/SKILL.md",
        "---\ndescription: Deploys.\n---\nGo.\n",
    );
    rind.file(
        ".claude/skills/review/SKILL.md",
        "---\ndescription: Theirs.\n---\nTheirs.\n",
    );
    rind.file(
        ".agents/skills/lint/SKILL.md",
        "---\ndescription: Lints.\n---\nLint.\n",
    );
    let ran = rind.run(&["skill", "list"]).exits(0);
    assert!(
        !ran.stdout.contains("deploy") && !ran.stdout.contains("lint"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("it is not trusted"), "{}", ran.stderr);
    let ran = rind.run(&["skill", "list", "--trust-project"]).exits(0);
    for expected in [
        "✓ deploy project ",
        "✓ lint project (.agents) ",
        "✓ review user ",
        "○ review project (.claude)  shadowed by ",
    ] {
        assert!(ran.stdout.contains(expected), "{expected}\n{}", ran.stdout);
    }
    // A link out of the project is reported and not followed. The other skills remain.
    std::os::unix::fs::symlink("/etc", rind.workspace().join(".agents/skills/etc")).unwrap();
    let ran = rind.run(&["skill", "list", "--trust-project"]).exits(0);
    assert!(
        ran.stderr
            .contains("a file of the project's skills is not used"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stdout.contains("✓ deploy project ") && ran.stdout.contains("✓ lint"),
        "{}",
        ran.stdout
    );
}

#[test]
fn the_schema_of_the_front_matter_is_printed() {
    let ran = Rind::default().run(&["schema", "skill"]).exits(0);
    let schema: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(
        schema["properties"]["skill_format"]["const"],
        "corteza.skill/v1"
    );
}

#[test]
fn patterns_of_files_that_hardly_match_one_are_warned_about() {
    let rind = Rind::default();
    let skill =
        |paths: &str| format!("---\nname: a\ndescription: d\npaths: ['{paths}']\n---\nText.\n");
    for (pattern, why) in [
        ("../secret/*.rs", "have no `..`"),
        ("src/{..,a}/x", "have no `..`"),
        ("~/x", "`~` is not the home folder"),
        ("!x.rs", "`!` is a plain character here"),
        ("C:/x/*", "have no drive"),
        ("C:\\x\\*", "have no drive"),
        ("src\\*.rs", "`/` parts folders"),
    ] {
        rind.file("a/SKILL.md", &skill(pattern));
        let ran = rind.run(&["skill", "check", "./a"]).exits(0);
        assert!(
            ran.stdout.contains("4:9")
                && ran.stdout.contains("probably matches no file")
                && ran.stdout.contains(why),
            "{pattern}\n{}",
            ran.stdout
        );
    }
    for pattern in [
        "/src/**",
        "app/\\[id\\]/page.tsx",
        "~$*.docx",
        "a..b/*.rs",
        "./docs/*",
    ] {
        rind.file("a/SKILL.md", &skill(pattern));
        let ran = rind.run(&["skill", "check", "./a"]).exits(0);
        assert!(!ran.stdout.contains("`paths`"), "{pattern}\n{}", ran.stdout);
    }
}
