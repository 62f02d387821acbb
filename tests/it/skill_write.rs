//! Property tests of writing skills: the format v1 keeps everything, and the open format all but
//! the losses that its table names.

use std::path::Path;

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use rind::grant::Trust;
use rind::skill::{
    Skill, SkillFile, SkillInvocationRule, SkillLifetime, SkillWriteError, Source,
    UnconvertibleSkillKey, find_skill_difference, to_agent_skills_format, to_v1_format,
};
use serde_json::{Value, json};

fn config() -> ProptestConfig {
    ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Generates texts, among them those that YAML would parse as something other than a string.
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

/// Generates a front matter with any of the keys, each with a valid value.
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

/// Parses a skill file. Returns `None` if it has a fault.
fn skill(text: &str) -> Option<Skill> {
    file(text, None)
        .parse()
        .ok()
        .filter(|skill| !skill.is_restricted)
}

/// Returns a YAML string in double quotes, with all but printable ASCII characters escaped.
fn quoted(text: &str) -> String {
    let each = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        ' '..='~' => c.to_string(),
        c => format!("\\U{:08X}", u32::from(c)),
    });
    format!("\"{}\"", each.collect::<String>())
}

/// Whether YAML reads the text as this string without quotes.
fn is_plain(text: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase());
    let means_more = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.split(' ').all(is_word) && !means_more.contains(&text)
}

fn yaml_key(key: &str) -> String {
    let is_word = key.starts_with(|c: char| c.is_ascii_lowercase())
        && key
            .chars()
            .all(|c| c.is_ascii_lowercase() || "_-".contains(c));
    match is_word && (key.contains(['_', '-']) || is_plain(key)) {
        true => key.to_owned(),
        false => quoted(key),
    }
}

/// Writes a value in flow style, on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| format!("{}: {}", quoted(key), flow(value)));
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

/// Writes a string value in one of five YAML styles.
fn scalar(text: &str, style: u8, indent: &str) -> String {
    let is_printable = |text: &str| text.chars().all(|c| (' '..='~').contains(&c));
    let lines: Vec<&str> = text.split('\n').collect();
    let is_block = lines
        .iter()
        .all(|line| is_printable(line) && !line.trim().is_empty())
        && !text.starts_with(' ');
    let words: Vec<&str> = text.split(' ').collect();
    let is_folded = is_printable(text) && words.iter().all(|word| !word.is_empty());
    match style % 5 {
        1 if is_printable(text) => format!("'{}'", text.replace('\'', "''")),
        2 if is_plain(text) => text.to_owned(),
        3 if is_block => format!("|-\n{indent}  {}", lines.join(&format!("\n{indent}  "))),
        4 if is_folded => format!(">-\n{indent}  {}", words.join(&format!("\n{indent}  "))),
        _ => quoted(text),
    }
}

/// Writes a key with its value in one of several YAML styles.
fn lines(key: &str, value: &Value, style: u8, indent: &str) -> String {
    let key = yaml_key(key);
    let next = style / 2;
    match value {
        Value::String(text) => format!("{indent}{key}: {}\n", scalar(text, style, indent)),
        Value::Array(items) if !items.is_empty() && style % 3 == 1 => {
            let items = items.iter().map(|item| match item {
                Value::String(text) if is_plain(text) => format!("{indent}- {text}\n"),
                other => format!("{indent}  # one\n{indent}- {}\n", flow(other)),
            });
            format!("{indent}{key}:\n{}", items.collect::<String>())
        }
        Value::Object(map) if !map.is_empty() && !style.is_multiple_of(3) => {
            let indent_in = format!("{indent}  ");
            let entries = map
                .iter()
                .map(|(key, value)| lines(key, value, next, &indent_in));
            format!("{indent}{key}:\n{}", entries.collect::<String>())
        }
        Value::Array(items) if items.len() > 1 && style % 3 == 2 => {
            let items: Vec<String> = items.iter().map(flow).collect();
            format!(
                "{indent}{key}: [{}]  # all\n",
                items.join(&format!(",\n{indent}    "))
            )
        }
        other => format!("{indent}{key}: {}\n", flow(other)),
    }
}

/// Writes a file of v1 as a person could: each key in its own style, with comments, empty lines,
/// and either kind of line ending.
fn file_of(front: &Value, body: &str, styles: &[u8], has_crlf: bool) -> String {
    let keys = front.as_object().unwrap().iter().zip(styles.iter().cycle());
    let lines = keys.map(|((key, value), style)| {
        let before = match style % 7 {
            1 => "# about the next\n",
            2 => "\n",
            3 => " # indented\n\n",
            _ => "",
        };
        before.to_owned() + &lines(key, value, *style, "")
    });
    let text = format!("---\n{}---\n{body}", lines.collect::<String>());
    match has_crlf {
        true => text.replace('\n', "\r\n"),
        false => text,
    }
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

/// Names of tools in Claude Code, which the open format lists beside the names of tools in Rind.
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

/// Checks that `after` equals `before`, except that each key in `lost` has its default.
fn check_but_for(
    lost: &[UnconvertibleSkillKey],
    before: &Skill,
    after: &Skill,
    text: &str,
) -> Result<(), TestCaseError> {
    let is_lost = |key: &str| lost.iter().any(|lost| lost.key == key);
    // A conversion never allows more invocations or tools.
    prop_assert_eq!(before.is_startable_by_user(), after.is_startable_by_user());
    prop_assert_eq!(
        before.invocation == SkillInvocationRule::Auto,
        after.invocation == SkillInvocationRule::Auto
    );
    prop_assert_eq!(is_lost("tools.allow"), before.tools.allow.is_some());
    prop_assert!(after.tools.allow.is_none());
    let added: Vec<&str> = denied(after)
        .into_iter()
        .filter(|name| !denied(before).contains(name))
        .collect();
    prop_assert!(
        added.iter().all(|name| CLAUDE.contains(name)),
        "{:?}",
        added
    );
    prop_assert!(
        denied(before)
            .iter()
            .all(|name| denied(after).contains(name))
    );
    // Keys that have no equivalent in the open format are reported as lost.
    let keys = [
        ("side_effects", !before.side_effects.is_empty()),
        (
            "interaction",
            before.interaction != SkillLifetime::Returning,
        ),
        ("library_depends", !before.library_depends.is_empty()),
        ("attach", before.attach),
        ("generated_from", before.generated_from.is_some()),
        ("arguments.schema", before.arguments.is_some()),
    ];
    for (key, is_there) in keys {
        prop_assert_eq!(is_lost(key), is_there, "{}", key);
    }
    let mut want = Skill {
        invocation: after.invocation,
        user_invocable: after.user_invocable,
        tools: after.tools.clone(),
        side_effects: Default::default(),
        interaction: SkillLifetime::Returning,
        library_depends: Vec::new(),
        attach: false,
        generated_from: None,
        arguments: None,
        ..before.clone()
    };
    let mut got = after.clone();
    if is_lost("trust") {
        want.trust = got.trust;
    }
    if before.arguments.is_some() && after.argument_names.is_empty() {
        let is_in_name = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
        let is_name = |name: &String| name != "ARGUMENTS" && name.chars().all(is_in_name);
        prop_assert!(
            before.argument_names.is_empty() || !before.argument_names.iter().all(is_name)
        );
        want.argument_names.clear();
    }
    let places = ["requires", "rind"].into_iter();
    let mut free = places.filter(|place| !before.metadata.contains_key(*place));
    match free.next() {
        None => want.requires = got.requires.clone(),
        Some(place) => {
            got.metadata.remove(place);
        }
    }
    prop_assert!(!is_lost("requires") || want.metadata.len() >= 2);
    for skill in [&mut want, &mut got] {
        let needs = &mut skill.requires;
        let all = [&mut needs.bins, &mut needs.any_bins, &mut needs.env];
        all.into_iter().for_each(|names| names.sort());
    }
    prop_assert_eq!(find_skill_difference(&want, &got), None, "{}", text);
    Ok(())
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_side_file_becomes_a_front_matter_that_means_the_same(front in front(), body in "\\PC{0,40}") {
        let side = front.to_string();
        let body = format!("Body\n{body}");
        let read = file(&body, Some(&side));
        let before = read.parse().unwrap();
        prop_assume!(!before.is_restricted);
        let written = to_v1_format(&read).unwrap();
        prop_assert!(written.ends_with(&body));
        let after = skill(&written);
        prop_assert!(after.is_some(), "{}", written);
        prop_assert_eq!(find_skill_difference(&before, &after.unwrap()), None, "{}", written);
        // A file that is v1 already stays the same, byte for byte.
        prop_assert_eq!(&to_v1_format(&file(&written, None)).unwrap(), &written);
    }

    #[test]
    fn v1_in_the_open_format_and_back_loses_what_is_told_and_nothing_else(
        front in front(),
        body in "\\PC{0,40}",
        styles in vec(any::<u8>(), 40),
        has_crlf in any::<bool>(),
    ) {
        let v1 = file_of(&front, &format!("Body\n{body}"), &styles, has_crlf);
        let before = file(&v1, None).parse();
        prop_assert!(before.is_ok(), "{} {:?}", v1, before);
        let before = before.unwrap();
        // The style of the YAML does not change the parsed skill.
        let plain = format!("---\n{}\n---\n", flow(&front));
        let plain = Skill { body: before.body.clone(), ..file(&plain, None).parse().unwrap() };
        prop_assert_eq!(find_skill_difference(&before, &plain), None, "{}", v1);
        prop_assume!(!before.is_restricted);
        prop_assert_eq!(&to_v1_format(&file(&v1, None)).unwrap(), &v1);

        let (open, lost) = to_agent_skills_format(&file(&v1, None)).unwrap();
        // The open format has no keys that other programs would reject.
        let read = skill(&open).unwrap();
        for key in ["skill_format", "model_invocation", "tools", "side_effects", "trust", "interaction", "library_depends", "attach", "generated_from", "requires"] {
            let mut keys = open.lines().skip(1).take_while(|line| line.trim_end() != "---");
            prop_assert!(!keys.any(|line| line.starts_with(&format!("{key}:"))), "{} in {}", key, open);
        }
        check_but_for(&lost, &before, &read, &open)?;
        // A file in the open format stays the same when it is converted to that format again.
        let (again, more) = to_agent_skills_format(&file(&open, None)).unwrap();
        prop_assert_eq!(&again, &open);
        prop_assert!(more.is_empty());
        // Converting back to v1 gives the first skill, except for the losses.
        let back = to_v1_format(&file(&open, None)).unwrap();
        let read_back = skill(&back).unwrap();
        prop_assert_eq!(find_skill_difference(&read, &read_back), None, "{}", back);
        check_but_for(&lost, &before, &read_back, &back)?;
        let ending = if has_crlf { "\r\n" } else { "\n" };
        let opening = ["---", "skill_format: corteza.skill/v1"].map(|line| line.to_owned() + ending).concat();
        prop_assert!(back.starts_with(&opening), "{}", back);
    }

    #[test]
    fn nothing_that_is_written_panics_or_loosens(front in "[ -~\n]{0,200}") {
        let text = format!("---\ndescription: d\nmodel_invocation: user-only\n{front}\n---\nx\n");
        let before = file(&text, None).parse().ok();
        if let (Ok(written), Some(before)) = (to_v1_format(&file(&text, None)), &before)
            && !before.is_restricted
        {
            prop_assert_eq!(find_skill_difference(before, &skill(&written).unwrap()), None);
        }
        let differs = |error: &SkillWriteError| matches!(error, SkillWriteError::Differs(_));
        prop_assert!(!to_v1_format(&file(&text, None)).is_err_and(|error| differs(&error)));
        let open = to_agent_skills_format(&file(&text, None));
        prop_assert!(!open.as_ref().is_err_and(differs), "{:?}", open);
        if let Ok((written, _)) = open {
            prop_assert_ne!(skill(&written).unwrap().invocation, SkillInvocationRule::Auto);
        }
    }
}
