//! Skills that are written: whatever v1 can say is kept in v1, and in the open format all but what the table of the format names.

use std::path::Path;

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use rind::grant::Trust;
use rind::skill::{Interaction, Invocation, Skill, SkillFile, Source, difference, to_open, to_v1};
use serde_json::{Value, json};

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Text as people and programs write it: with what YAML would take for something else.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-z][a-z ]{0,20}[a-z]",
        2 => "[ -~]{1,30}",
        2 => "\\PC{1,20}",
        1 => prop::sample::select(vec![
            "true", "null", "~", "1.10", "0x10", "- a", "a: b", "a #b", "'", "\"", "\\", "{a}", "[b]", "---", "*x", "&x", "!x",
            "%x", "@x", "`x`", "a\nb", "a\r\nb", "a\tb", "\u{85}x", "\u{2028}x", "x\u{feff}y", "\u{202e}x", "\u{1F600}", "yes",
            "=", "<<", "\u{7f}x", "\u{fffe}x", "|", ">", "?", "? a", ": a", "2026-01-02",
        ]).prop_map(str::to_owned),
    ]
}

fn names() -> impl Strategy<Value = Vec<String>> {
    vec("[a-z][a-z_-]{0,8}[a-z]", 0..4)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        text().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        Just(json!(1.5)),
        Just(Value::Null),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(text(), inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// A front matter with any of the keys, each with a value that it can have.
fn front() -> impl Strategy<Value = Value> {
    let texts = (
        of(text()),
        of(text()),
        of(text()),
        of(text()),
        of(text()),
        of(text()),
        of(text()),
    );
    let rights = (
        of(prop::sample::select(vec!["auto", "user-only", "disabled"])),
        of(any::<bool>()),
        of(any::<bool>()),
        of(vec(
            prop::sample::select(vec![
                "bash",
                "read_file",
                "git:*",
                "edit_file",
                "Write",
                "x_*",
            ]),
            0..4,
        )),
        of(vec(
            prop::sample::select(vec![
                "bash",
                "read_file",
                "git:*",
                "edit_file",
                "Write",
                "x_*",
            ]),
            1..4,
        )),
        of(vec(
            prop::sample::select(vec!["Bash(git push *)", "Write", "search"]),
            1..3,
        )),
        of(vec(
            prop::sample::select(vec![
                "Bash(git diff *)",
                "Read",
                "Bash(npm run a, b)",
                "Grep",
            ]),
            1..3,
        )),
        of(prop::sample::select(vec![
            "local", "project", "user", "package", "managed",
        ])),
    );
    let rest = (
        of(vec(
            prop::sample::select(vec!["filesystem", "network", "session", "external"]),
            1..4,
        )),
        of(prop::sample::select(vec!["returning", "conversational"])),
        of(names()),
        of(any::<bool>()),
        of(btree_map(
            "[a-z]{1,5}|a b|ARGUMENTS",
            Just(json!({"type": "string"})),
            0..3,
        )),
        of((names(), names(), names())),
        of(btree_map(
            "[a-zA-Z_.-]{1,8}|requires|rind|\\PC{1,6}",
            value(),
            0..4,
        )),
        of(text()),
        of(vec("[a-z*/]{1,10}", 1..3)),
        of(prop::sample::select(vec!["inline", "fork"])),
    );
    (texts, rights, rest).prop_map(|(texts, rights, rest)| {
        let mut all = serde_json::Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            value.map(|value| all.insert(key.to_owned(), value));
        };
        put("skill_format", Some("corteza.skill/v1".into()));
        put(
            "description",
            Some(texts.0.unwrap_or("d".to_owned()).into()),
        );
        put("name", texts.1.map(Value::from));
        put("when_to_use", texts.2.map(Value::from));
        put("argument-hint", texts.3.map(Value::from));
        put("version", texts.4.map(Value::from));
        put("license", texts.5.map(Value::from));
        put("model", texts.6.map(Value::from));
        put("model_invocation", rights.0.map(Value::from));
        put("disable-model-invocation", rights.1.map(Value::from));
        put("user-invocable", rights.2.map(Value::from));
        let mut tools = serde_json::Map::new();
        rights
            .3
            .map(|allow| tools.insert("allow".to_owned(), allow.into()));
        rights
            .4
            .map(|deny| tools.insert("deny".to_owned(), deny.into()));
        put("tools", (!tools.is_empty()).then_some(Value::Object(tools)));
        put("disallowed-tools", rights.5.map(Value::from));
        put("allowed-tools", rights.6.map(Value::from));
        put("trust", rights.7.map(Value::from));
        put("side_effects", rest.0.map(Value::from));
        put("interaction", rest.1.map(Value::from));
        put("library_depends", rest.2.map(Value::from));
        put("attach", rest.3.map(Value::from));
        put(
            "arguments",
            rest.4
                .map(|properties| json!({"schema": {"type": "object", "properties": properties}})),
        );
        put(
            "requires",
            rest.5.map(
                |(bins, any_bins, env)| json!({"bins": bins, "any_bins": any_bins, "env": env}),
            ),
        );
        put(
            "metadata",
            rest.6.map(|metadata| {
                metadata
                    .into_iter()
                    .collect::<serde_json::Map<_, _>>()
                    .into()
            }),
        );
        put(
            "generated_from",
            rest.7.map(|package| json!({"package": package})),
        );
        put("paths", rest.8.map(Value::from));
        put("context", rest.9.map(Value::from));
        Value::Object(all)
    })
}

fn file<'a>(text: &'a str, side: Option<&'a str>) -> SkillFile<'a> {
    SkillFile {
        folder: "folder",
        dir: Path::new("folder"),
        real_dir: Path::new("folder"),
        held: None,
        file: Path::new("folder/SKILL.md"),
        is_flat: false,
        source: &Source::User,
        trust: Trust::User,
        bytes: text.as_bytes(),
        side: side.map(str::as_bytes),
    }
}

/// The skill of a front matter in JSON, which is YAML where nothing in it is beyond JSON; `None` for one with faults.
fn skill(text: &str) -> Option<Skill> {
    file(text, None)
        .parse()
        .ok()
        .filter(|skill| !skill.is_restricted)
}

fn denied(skill: &Skill) -> Vec<&str> {
    let mut names: Vec<&str> = skill
        .tools
        .deny
        .iter()
        .map(|pattern| pattern.text())
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Names of Claude Code that stand beside those of tools here.
const CLAUDE: [&str; 10] = [
    "Agent",
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "LS",
    "MultiEdit",
    "Read",
    "Task",
    "Write",
];

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_side_file_becomes_a_front_matter_that_means_the_same(front in front(), body in "\\PC{0,40}") {
        let side = front.to_string();
        let body = format!("Body\n{body}");
        let read = file(&body, Some(&side));
        let Ok(before) = read.parse() else { return Ok(()) };
        prop_assume!(!before.is_restricted);
        let written = to_v1(&read).unwrap();
        prop_assert!(written.ends_with(&body));
        let after = skill(&written);
        prop_assert!(after.is_some(), "{}", written);
        prop_assert_eq!(difference(&before, &after.unwrap()), None, "{}", written);
        // What is v1 stays as it is, byte for byte.
        prop_assert_eq!(&to_v1(&file(&written, None)).unwrap(), &written);
    }

    #[test]
    fn the_open_format_loses_what_its_table_says_and_nothing_else(front in front(), body in "\\PC{0,40}") {
        let side = front.to_string();
        let body = format!("Body\n{body}");
        let Ok(v1) = to_v1(&file(&body, Some(&side))) else { return Ok(()) };
        let Some(before) = skill(&v1) else { return Ok(()) };
        let (open, lost) = to_open(&file(&v1, None)).unwrap();
        let after = skill(&open).unwrap();
        let is_lost = |key: &str| lost.iter().any(|lost| lost.key == key);
        // What other programs would take for an error is gone.
        for key in ["skill_format", "model_invocation", "tools", "side_effects", "trust", "interaction", "library_depends", "attach", "generated_from", "requires"] {
            let stands = open.lines().take_while(|line| *line != "---" || open.starts_with(line)).any(|line| line.starts_with(&format!("{key}:")));
            prop_assert!(!stands, "{} in {}", key, open);
        }
        // Who may start it.
        prop_assert_eq!(before.is_for_user(), after.is_for_user());
        prop_assert_eq!(before.invocation == Invocation::Auto, after.invocation == Invocation::Auto);
        // What it may call: never less is denied.
        prop_assert_eq!(is_lost("tools.allow"), before.tools.allow.is_some());
        prop_assert!(after.tools.allow.is_none());
        let more: Vec<&str> = denied(&after).into_iter().filter(|name| !denied(&before).contains(name)).collect();
        prop_assert!(more.iter().all(|name| CLAUDE.contains(name)), "{:?}", more);
        prop_assert!(denied(&before).iter().all(|name| denied(&after).contains(name)));
        prop_assert_eq!(&before.spares, &after.spares);
        // The keys without another word.
        prop_assert_eq!(is_lost("side_effects"), !before.side_effects.is_empty());
        prop_assert_eq!(is_lost("interaction"), before.interaction != Interaction::Returning);
        prop_assert_eq!(is_lost("library_depends"), !before.library_depends.is_empty());
        prop_assert_eq!(is_lost("attach"), before.attach);
        prop_assert_eq!(is_lost("generated_from"), before.generated_from.is_some());
        prop_assert_eq!(is_lost("arguments.schema"), before.arguments.is_some());
        prop_assert!(is_lost("trust") || before.trust == after.trust);
        if before.arguments.is_none() || !after.argument_names.is_empty() {
            prop_assert_eq!(&before.argument_names, &after.argument_names);
        }
        if !is_lost("requires") {
            let sorted = |skill: &Skill| {
                let mut all = [skill.requires.bins.clone(), skill.requires.any_bins.clone(), skill.requires.env.clone()];
                all.iter_mut().for_each(|names| names.sort());
                all
            };
            prop_assert_eq!(sorted(&before), sorted(&after));
        }
        for (key, value) in &before.metadata {
            prop_assert_eq!(after.metadata.get(key), Some(value));
        }
        // Everything else.
        let rest = |skill: &Skill| json!([
            skill.id, skill.label, skill.description, skill.when_to_use, &*skill.body, skill.argument_hint, skill.context,
            skill.agent, skill.model, skill.effort, skill.paths, skill.version, skill.license, skill.compatibility,
        ]);
        prop_assert_eq!(rest(&before), rest(&after), "{}", open);
        // And what is open stays so, but for the name of the format.
        let (again, lost) = to_open(&file(&open, None)).unwrap();
        prop_assert_eq!(again, open);
        prop_assert!(lost.is_empty());
    }

    #[test]
    fn nothing_that_is_written_panics_or_loosens(front in "[ -~\n]{0,200}") {
        let text = format!("---\ndescription: d\nmodel_invocation: user-only\n{front}\n---\nx\n");
        let before = file(&text, None).parse().ok();
        if let (Ok(written), Some(before)) = (to_v1(&file(&text, None)), &before)
            && !before.is_restricted
        {
            prop_assert_eq!(difference(before, &skill(&written).unwrap()), None);
        }
        if let Ok((written, _)) = to_open(&file(&text, None)) {
            prop_assert_ne!(skill(&written).unwrap().invocation, Invocation::Auto);
        }
    }
}
