//! Tests of the search for skills, in folders that are structured like those of users.

use std::fs;
use std::os::unix::fs::symlink;

use super::super::model::AllRequirementsMetLookup;
use super::*;

fn write_skill(root: &Path, name: &str, description: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(
        path,
        format!("---\ndescription: {description}\n---\nText.\n"),
    )
    .unwrap();
}

fn skill_ids(skills: &SessionSkills) -> Vec<&str> {
    skills.iter().map(|skill| skill.id.as_str()).collect()
}

#[test]
fn skill_bundles_flat_skill_files_and_links_are_found_and_templates_are_not() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let skills = root.path().join("skills");
    write_skill(&skills, "a/SKILL.md", "a");
    write_skill(&skills, "a/assets/template/SKILL.md", "data");
    write_skill(&skills, "group/deep/b/SKILL.md", "b");
    write_skill(&skills, "c/skill.md", "c");
    write_skill(&skills, "flat.md", "flat");
    write_skill(&skills, "README.md", "no skill");
    write_skill(&skills, ".hidden/SKILL.md", "no");
    write_skill(&skills, "node_modules/x/SKILL.md", "no");
    write_skill(&skills, "help/SKILL.md", "reserved");
    write_skill(&skills, "a<b/SKILL.md", "bad name");
    fs::write(skills.join(".gitignore"), "*\n").unwrap();
    write_skill(elsewhere.path(), "linked/SKILL.md", "linked");
    symlink(elsewhere.path().join("linked"), skills.join("z")).unwrap();
    // Two symlinks to skills that are found under another name too.
    symlink(elsewhere.path().join("linked"), skills.join("z2")).unwrap();
    symlink(skills.join("a"), skills.join("again")).unwrap();
    symlink("/nowhere/at/all", skills.join("broken")).unwrap();
    fs::create_dir_all(skills.join("out")).unwrap();
    symlink("/etc/passwd", skills.join("out/SKILL.md")).unwrap();
    fs::create_dir_all(skills.join("pipe/SKILL.md")).unwrap();
    let found = discover_skills(
        &[SkillSearchDirectory::new(Source::User, skills)],
        &["help"],
        &AllRequirementsMetLookup,
    );
    assert_eq!(skill_ids(&found), ["a", "b", "c", "flat", "z"]);
    let refused = found.unusable_skills().iter();
    let refused: Vec<String> = refused
        .map(|u| format!("{}: {}", u.id, u.diagnostics[0].text))
        .collect();
    assert_eq!(
        refused,
        [
            "a<b: the folder's name, which is the skill's, has the character `<`",
            "broken: the link leads nowhere",
            "help: `help` is a command of rind",
            "out: `SKILL.md` is a link that leads out of its folder",
            "pipe: the path is not a file",
        ]
    );
}

#[test]
fn among_skills_of_one_name_the_users_is_used_and_the_others_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    write_skill(home.path(), "skills/review/SKILL.md", "mine");
    write_skill(home.path(), ".claude/skills/review/SKILL.md", "mine");
    write_skill(project.path(), "skills/Rev\u{200b}iew/SKILL.md", "theirs");
    write_skill(project.path(), "skills/ReView/SKILL.md", "theirs");
    write_skill(project.path(), "skills/own/SKILL.md", "own");
    let mut roots = user_skill_roots(home.path(), Some(home.path()));
    let held = Arc::new(InMemoryFolder::read(project.path()).unwrap());
    let path = project.path().join("skills");
    roots.insert(
        0,
        SkillSearchDirectory {
            held: Some(held),
            ..SkillSearchDirectory::new(Source::Project, path)
        },
    );
    let carried = tempfile::tempdir().unwrap();
    write_skill(carried.path(), "review/SKILL.md", "carried");
    let source = Source::Plugin("git".into());
    let plugin = SkillSearchDirectory {
        trust: Trust::Package,
        ..SkillSearchDirectory::new(source, carried.path().to_owned())
    };
    roots.push(plugin);
    let found = discover_skills(&roots, &[], &AllRequirementsMetLookup);
    assert_eq!(skill_ids(&found), ["git:review", "own", "review"]);
    let review = found.find("ＲＥＶＩＥＷ").unwrap();
    assert_eq!(
        (review.description.as_str(), review.trust),
        ("mine", Trust::User)
    );
    assert_eq!(found.find("GIT:Review").unwrap().trust, Trust::Package);
    let shadowed = found.shadowed_skills().iter();
    let shadowed: Vec<_> = shadowed
        .map(|s| (s.skill.source.to_string(), s.is_identical))
        .collect();
    assert_eq!(
        shadowed,
        [
            ("user (.claude)".to_owned(), true),
            ("project".to_owned(), false)
        ]
    );
    // The search ignores the change on disk, because it uses only the content in memory.
    write_skill(project.path(), "skills/own/SKILL.md", "changed");
    let again = discover_skills(roots.get(..1).unwrap(), &[], &AllRequirementsMetLookup);
    assert_eq!(again.find("own").unwrap().description, "own");
}

#[test]
fn the_catalogue_is_deterministic_and_cuts_the_longest_descriptions_first() {
    let root = tempfile::tempdir().unwrap();
    write_skill(root.path(), "b/SKILL.md", "short <b>");
    write_skill(root.path(), "a/SKILL.md", &"long ".repeat(300));
    let long = format!("x\nwhen_to_use: {}", "y".repeat(2000));
    write_skill(root.path(), "c/SKILL.md", &long);
    let by_user = "for the user\ndisable-model-invocation: true";
    write_skill(root.path(), "d/SKILL.md", by_user);
    let needs = "needs\nrequires: {bins: [nothing]}";
    write_skill(root.path(), "e/SKILL.md", needs);
    write_skill(root.path(), "f/SKILL.md", "rust\npaths: src/**");
    struct MachineWithNothing;
    impl ProgramAndVariableLookup for MachineWithNothing {
        fn has_program(&self, _: &str) -> bool {
            false
        }
        fn has_variable(&self, _: &str) -> bool {
            false
        }
    }
    let user = SkillSearchDirectory::new(Source::User, root.path().to_owned());
    let found = || discover_skills(std::slice::from_ref(&user), &[], &MachineWithNothing);
    let whole = found().catalogue(8_000);
    assert_eq!((whole.n_skills, whole.n_cut, whole.is_over), (3, 1, false));
    assert!(
        whole.text.contains("- b: short &lt;b&gt;\n"),
        "{}",
        whole.text
    );
    let small = found().catalogue(300);
    assert_eq!((small.n_cut, small.is_over), (2, false));
    assert!(small.text.chars().count() <= 300, "{}", small.text);
    assert!(
        small.text.contains("- b: short &lt;b&gt;\n"),
        "{}",
        small.text
    );
    assert_eq!(small, found().catalogue(300));
    let names = found().catalogue(3);
    assert_eq!(
        (names.text.as_str(), names.n_cut, names.is_over),
        ("- a\n- b\n- c\n", 3, true)
    );
    assert_eq!(found().hash(), found().hash());
}

#[test]
fn an_unusable_skill_still_reserves_its_name() {
    let root = tempfile::tempdir().unwrap();
    let (user, claude) = (root.path().join("a"), root.path().join("b"));
    write_skill(&claude, "Deploy/SKILL.md", "of .claude");
    write_skill(&claude, "unread/SKILL.md", "of .claude");
    write_skill(&claude, "other/SKILL.md", "of .claude");
    fs::create_dir_all(user.join("deploy")).unwrap();
    fs::write(user.join("deploy/SKILL.md"), "---\ndescription: d").unwrap();
    fs::create_dir_all(user.join("unread/SKILL.md")).unwrap();
    let roots = [
        SkillSearchDirectory::new(Source::User, user.clone()),
        SkillSearchDirectory::new(Source::ClaudeUser, claude),
    ];
    let found = discover_skills(&roots, &[], &AllRequirementsMetLookup);
    assert_eq!(skill_ids(&found), ["other"]);
    let by: Vec<_> = found
        .shadowed_skills()
        .iter()
        .map(|s| &s.shadowed_by)
        .collect();
    assert_eq!(
        by,
        [&user.join("deploy/SKILL.md"), &user.join("unread/SKILL.md")]
    );
    // Unusable files of a later source do not hide skills of an earlier source.
    let roots = [
        SkillSearchDirectory::new(Source::ClaudeUser, user),
        SkillSearchDirectory::new(Source::User, root.path().join("b")),
    ];
    let found = discover_skills(&roots, &[], &AllRequirementsMetLookup);
    assert_eq!(skill_ids(&found), ["Deploy", "other", "unread"]);
}

#[test]
fn a_refused_symlink_does_not_hide_a_valid_one_to_the_same_folder() {
    let root = tempfile::tempdir().unwrap();
    let skills = root.path().join("skills");
    write_skill(root.path(), "real/SKILL.md", "d");
    fs::create_dir_all(&skills).unwrap();
    for name in ["help", "a<b", "z"] {
        symlink(root.path().join("real"), skills.join(name)).unwrap();
    }
    let found = discover_skills(
        &[SkillSearchDirectory::new(Source::User, skills)],
        &["help"],
        &AllRequirementsMetLookup,
    );
    assert_eq!(skill_ids(&found), ["z"]);
    let all: Vec<_> = found.iter().collect();
    assert_eq!(
        all[0].real_dir,
        root.path().canonicalize().unwrap().join("real")
    );
}

#[test]
fn hundreds_of_skills_are_read_in_order_whatever_thread_reads_them() {
    let root = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..200).map(|n| format!("s{n:03}")).collect();
    for name in &names {
        write_skill(root.path(), &format!("{name}/SKILL.md"), name);
    }
    let roots = [SkillSearchDirectory::new(
        Source::User,
        root.path().to_owned(),
    )];
    let found = discover_skills(&roots, &[], &AllRequirementsMetLookup);
    assert_eq!(skill_ids(&found), names);
    assert!(found.iter().all(|skill| skill.description == skill.id));
    let again = discover_skills(&roots, &[], &AllRequirementsMetLookup);
    assert_eq!(again.hash(), found.hash());
    assert_eq!(again.catalogue(8_000).text, found.catalogue(8_000).text);
}

#[test]
fn a_path_selects_the_bundle_that_it_is_or_lies_in() {
    let root = tempfile::tempdir().unwrap();
    write_skill(root.path(), "own/SKILL.md", "d");
    write_skill(root.path(), "own/assets/template/SKILL.md", "data");
    let own = root.path().join("own");
    for path in [
        own.clone(),
        own.join("SKILL.md"),
        own.join("."),
        own.join("assets/.."),
    ] {
        let local = SkillSearchDirectory::new(Source::Local, path.clone());
        let found = discover_skills(&[local], &[], &AllRequirementsMetLookup);
        assert_eq!(skill_ids(&found), ["own"], "{}", path.display());
        assert!(found.iter().all(|skill| !skill.is_flat));
    }
}

#[test]
fn an_unreadable_or_ambiguous_side_file_allows_nothing() {
    let root = tempfile::tempdir().unwrap();
    let skills = root.path().join("skills");
    let side = |name: &str| skills.join(name).join("SKILL.json");
    for name in ["folder", "link", "twice", "plain"] {
        fs::create_dir_all(skills.join(name)).unwrap();
        fs::write(skills.join(name).join("SKILL.md"), "Do it.\n").unwrap();
    }
    fs::create_dir(side("folder")).unwrap();
    fs::write(root.path().join("json"), r#"{"description": "d"}"#).unwrap();
    symlink(root.path().join("json"), side("link")).unwrap();
    let twice = r#"{"description": "d", "tools": {"deny": ["bash"], "deny": []}}"#;
    fs::write(side("twice"), twice).unwrap();
    fs::write(side("plain"), r#"{"description": "d"}"#).unwrap();
    let found = discover_skills(
        &[SkillSearchDirectory::new(Source::User, skills)],
        &[],
        &AllRequirementsMetLookup,
    );
    assert_eq!(skill_ids(&found), ["plain"]);
    let refused: Vec<_> = found
        .unusable_skills()
        .iter()
        .map(|u| u.id.as_str())
        .collect();
    assert_eq!(refused, ["folder", "link", "twice"]);
}

#[test]
fn a_search_stops_after_two_thousand_folders_and_reports_it() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..2_000 {
        write_skill(root.path(), &format!("s{n:04}/SKILL.md"), "d");
    }
    let user = SkillSearchDirectory::new(Source::User, root.path().to_owned());
    let found = || discover_skills(std::slice::from_ref(&user), &[], &AllRequirementsMetLookup);
    let all = found();
    assert_eq!(
        (all.iter().count(), all.unusable_skills().len()),
        (2_000, 0)
    );

    write_skill(root.path(), "t/SKILL.md", "d");
    write_skill(root.path(), "u.md", "d");
    let all = found();
    assert_eq!(all.iter().count(), 2_000);
    assert!(all.find("t").is_none() && all.find("u").is_none());
    let [told] = all.unusable_skills() else {
        panic!("{:?}", all.unusable_skills())
    };
    // The report about the limit has an empty id, so that it does not take the name of a skill.
    assert_eq!(told.id, "");
    let text = &told.diagnostics[0].text;
    assert!(
        text.starts_with("there are more than 2000 folders and files here"),
        "{text}"
    );
}

#[test]
fn flat_files_in_subfolders_are_found_in_nested_roots_only_and_links_are_not_followed() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let agents = root.path().join("agents");
    write_skill(&agents, "top.md", "top");
    write_skill(&agents, "core/coder.md", "coder");
    write_skill(&agents, "core/b/c/d/deep.md", "deep");
    write_skill(&agents, "core/b/c/d/e/deeper.md", "too deep");
    write_skill(&agents, "z/coder.md", "another coder");
    let on_disk = [SkillSearchDirectory::with_nested_folders(
        Source::ClaudeUser,
        agents.clone(),
    )];
    let held = Arc::new(InMemoryFolder::read(root.path()).unwrap());
    let in_memory = [SkillSearchDirectory {
        held: Some(held),
        ..SkillSearchDirectory::with_nested_folders(Source::ClaudeProject, agents.clone())
    }];
    write_skill(elsewhere.path(), "linked.md", "linked");
    symlink(elsewhere.path(), agents.join("core/link")).unwrap();
    symlink(
        elsewhere.path().join("linked.md"),
        agents.join("core/linked.md"),
    )
    .unwrap();
    for roots in [&on_disk, &in_memory] {
        let found = discover_skills(roots, &[], &AllRequirementsMetLookup);
        assert_eq!(skill_ids(&found), ["coder", "deep", "top"]);
        let left_out = found.omitted_skills();
        let [same] = left_out.as_slice() else {
            panic!("{left_out:?}");
        };
        assert_eq!(same.file, agents.join("z/coder.md"));
        assert!(same.reason.contains("core/coder.md"), "{}", same.reason);
    }
    let flat = discover_skills(
        &[SkillSearchDirectory::new(Source::ClaudeUser, agents)],
        &[],
        &AllRequirementsMetLookup,
    );
    assert_eq!(skill_ids(&flat), ["top"]);
}
