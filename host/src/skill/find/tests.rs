//! Tests of the search, in folders of skills as users have them.

use std::fs;
use std::os::unix::fs::symlink;

use super::super::model::AllAvailable;
use super::*;

fn write(root: &Path, name: &str, description: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(
        path,
        format!("---\ndescription: {description}\n---\nText.\n"),
    )
    .unwrap();
}

fn ids(skills: &Skills) -> Vec<&str> {
    skills.iter().map(|skill| skill.id.as_str()).collect()
}

#[test]
fn bundles_flat_files_and_links_are_found_and_templates_are_not() {
    let root = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let skills = root.path().join("skills");
    write(&skills, "a/SKILL.md", "a");
    write(&skills, "a/assets/template/SKILL.md", "data");
    write(&skills, "group/deep/b/SKILL.md", "b");
    write(&skills, "c/skill.md", "c");
    write(&skills, "flat.md", "flat");
    write(&skills, "README.md", "no skill");
    write(&skills, ".hidden/SKILL.md", "no");
    write(&skills, "node_modules/x/SKILL.md", "no");
    write(&skills, "help/SKILL.md", "reserved");
    write(&skills, "a<b/SKILL.md", "bad name");
    fs::write(skills.join(".gitignore"), "*\n").unwrap();
    write(elsewhere.path(), "linked/SKILL.md", "linked");
    symlink(elsewhere.path().join("linked"), skills.join("z")).unwrap();
    // Two symlinks to skills that are found under another name too.
    symlink(elsewhere.path().join("linked"), skills.join("z2")).unwrap();
    symlink(skills.join("a"), skills.join("again")).unwrap();
    symlink("/nowhere/at/all", skills.join("broken")).unwrap();
    fs::create_dir_all(skills.join("out")).unwrap();
    symlink("/etc/passwd", skills.join("out/SKILL.md")).unwrap();
    fs::create_dir_all(skills.join("pipe/SKILL.md")).unwrap();
    let found = discover(&[Root::new(Source::User, skills)], &["help"], &AllAvailable);
    assert_eq!(ids(&found), ["a", "b", "c", "flat", "z"]);
    let refused = found.unusable().iter();
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
            "pipe: this is not a file",
        ]
    );
}

#[test]
fn of_one_name_the_users_is_used_and_the_others_are_listed() {
    let home = tempfile::tempdir().unwrap();
    let project = tempfile::tempdir().unwrap();
    write(home.path(), "skills/review/SKILL.md", "mine");
    write(home.path(), ".claude/skills/review/SKILL.md", "mine");
    write(project.path(), "skills/Rev\u{200b}iew/SKILL.md", "theirs");
    write(project.path(), "skills/ReView/SKILL.md", "theirs");
    write(project.path(), "skills/own/SKILL.md", "own");
    let mut roots = user_roots(home.path(), Some(home.path()));
    let held = Arc::new(HeldFolder::read(project.path()).unwrap());
    let path = project.path().join("skills");
    roots.insert(
        0,
        Root {
            held: Some(held),
            ..Root::new(Source::Project, path)
        },
    );
    let carried = tempfile::tempdir().unwrap();
    write(carried.path(), "review/SKILL.md", "carried");
    let source = Source::Plugin("git".into());
    let plugin = Root {
        trust: Trust::Package,
        ..Root::new(source, carried.path().to_owned())
    };
    roots.push(plugin);
    let found = discover(&roots, &[], &AllAvailable);
    assert_eq!(ids(&found), ["git:review", "own", "review"]);
    let review = found.find("ＲＥＶＩＥＷ").unwrap();
    assert_eq!(
        (review.description.as_str(), review.trust),
        ("mine", Trust::User)
    );
    assert_eq!(found.find("GIT:Review").unwrap().trust, Trust::Package);
    let shadowed = found.shadowed().iter();
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
    // The file has changed on disk, but only the content in memory is used.
    write(project.path(), "skills/own/SKILL.md", "changed");
    let again = discover(roots.get(..1).unwrap(), &[], &AllAvailable);
    assert_eq!(again.find("own").unwrap().description, "own");
}

#[test]
fn the_catalogue_is_the_same_bytes_and_cuts_the_longest_first() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "b/SKILL.md", "short <b>");
    write(root.path(), "a/SKILL.md", &"long ".repeat(300));
    let long = format!("x\nwhen_to_use: {}", "y".repeat(2000));
    write(root.path(), "c/SKILL.md", &long);
    let by_user = "for the user\ndisable-model-invocation: true";
    write(root.path(), "d/SKILL.md", by_user);
    let needs = "needs\nrequires: {bins: [nothing]}";
    write(root.path(), "e/SKILL.md", needs);
    write(root.path(), "f/SKILL.md", "rust\npaths: src/**");
    struct Nothing;
    impl Available for Nothing {
        fn program(&self, _: &str) -> bool {
            false
        }
        fn variable(&self, _: &str) -> bool {
            false
        }
    }
    let user = Root::new(Source::User, root.path().to_owned());
    let found = || discover(std::slice::from_ref(&user), &[], &Nothing);
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
fn a_skill_that_cannot_be_used_keeps_its_name() {
    let root = tempfile::tempdir().unwrap();
    let (user, claude) = (root.path().join("a"), root.path().join("b"));
    write(&claude, "Deploy/SKILL.md", "of .claude");
    write(&claude, "unread/SKILL.md", "of .claude");
    write(&claude, "other/SKILL.md", "of .claude");
    fs::create_dir_all(user.join("deploy")).unwrap();
    fs::write(user.join("deploy/SKILL.md"), "---\ndescription: d").unwrap();
    fs::create_dir_all(user.join("unread/SKILL.md")).unwrap();
    let roots = [
        Root::new(Source::User, user.clone()),
        Root::new(Source::ClaudeUser, claude),
    ];
    let found = discover(&roots, &[], &AllAvailable);
    assert_eq!(ids(&found), ["other"]);
    let by: Vec<_> = found.shadowed().iter().map(|s| &s.shadowed_by).collect();
    assert_eq!(
        by,
        [&user.join("deploy/SKILL.md"), &user.join("unread/SKILL.md")]
    );
    // No skill is lost if the unusable files come from the later source.
    let roots = [
        Root::new(Source::ClaudeUser, user),
        Root::new(Source::User, root.path().join("b")),
    ];
    let found = discover(&roots, &[], &AllAvailable);
    assert_eq!(ids(&found), ["Deploy", "other", "unread"]);
}

#[test]
fn a_refused_link_takes_nothing_from_a_good_one_to_the_same_folder() {
    let root = tempfile::tempdir().unwrap();
    let skills = root.path().join("skills");
    write(root.path(), "real/SKILL.md", "d");
    fs::create_dir_all(&skills).unwrap();
    for name in ["help", "a<b", "z"] {
        symlink(root.path().join("real"), skills.join(name)).unwrap();
    }
    let found = discover(&[Root::new(Source::User, skills)], &["help"], &AllAvailable);
    assert_eq!(ids(&found), ["z"]);
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
        write(root.path(), &format!("{name}/SKILL.md"), name);
    }
    let roots = [Root::new(Source::User, root.path().to_owned())];
    let found = discover(&roots, &[], &AllAvailable);
    assert_eq!(ids(&found), names);
    assert!(found.iter().all(|skill| skill.description == skill.id));
    let again = discover(&roots, &[], &AllAvailable);
    assert_eq!(again.hash(), found.hash());
    assert_eq!(again.catalogue(8_000).text, found.catalogue(8_000).text);
}

#[test]
fn a_named_path_means_the_bundle_that_it_is_or_lies_in() {
    let root = tempfile::tempdir().unwrap();
    write(root.path(), "own/SKILL.md", "d");
    write(root.path(), "own/assets/template/SKILL.md", "data");
    let own = root.path().join("own");
    for path in [
        own.clone(),
        own.join("SKILL.md"),
        own.join("."),
        own.join("assets/.."),
    ] {
        let local = Root::new(Source::Local, path.clone());
        let found = discover(&[local], &[], &AllAvailable);
        assert_eq!(ids(&found), ["own"], "{}", path.display());
        assert!(found.iter().all(|skill| !skill.is_flat));
    }
}

#[test]
fn a_side_file_that_cannot_be_read_or_told_lets_nothing_pass() {
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
    let found = discover(&[Root::new(Source::User, skills)], &[], &AllAvailable);
    assert_eq!(ids(&found), ["plain"]);
    let refused: Vec<_> = found.unusable().iter().map(|u| u.id.as_str()).collect();
    assert_eq!(refused, ["folder", "link", "twice"]);
}

#[test]
fn a_folder_of_more_than_two_thousand_is_looked_into_so_far_and_says_so() {
    let root = tempfile::tempdir().unwrap();
    for n in 0..2_000 {
        write(root.path(), &format!("s{n:04}/SKILL.md"), "d");
    }
    let user = Root::new(Source::User, root.path().to_owned());
    let found = || discover(std::slice::from_ref(&user), &[], &AllAvailable);
    let all = found();
    assert_eq!((all.iter().count(), all.unusable().len()), (2_000, 0));

    write(root.path(), "t/SKILL.md", "d");
    write(root.path(), "u.md", "d");
    let all = found();
    assert_eq!(all.iter().count(), 2_000);
    assert!(all.find("t").is_none() && all.find("u").is_none());
    let [told] = all.unusable() else {
        panic!("{:?}", all.unusable())
    };
    // The finding has an empty id, so that it does not reserve a skill's name.
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
    write(&agents, "top.md", "top");
    write(&agents, "core/coder.md", "coder");
    write(&agents, "core/b/c/d/deep.md", "deep");
    write(&agents, "core/b/c/d/e/deeper.md", "too deep");
    write(&agents, "z/coder.md", "another coder");
    let on_disk = [Root::nested(Source::ClaudeUser, agents.clone())];
    let held = Arc::new(HeldFolder::read(root.path()).unwrap());
    let in_memory = [Root {
        held: Some(held),
        ..Root::nested(Source::ClaudeProject, agents.clone())
    }];
    write(elsewhere.path(), "linked.md", "linked");
    symlink(elsewhere.path(), agents.join("core/link")).unwrap();
    symlink(
        elsewhere.path().join("linked.md"),
        agents.join("core/linked.md"),
    )
    .unwrap();
    for roots in [&on_disk, &in_memory] {
        let found = discover(roots, &[], &AllAvailable);
        assert_eq!(ids(&found), ["coder", "deep", "top"]);
        let left_out = found.left_out();
        let [same] = left_out.as_slice() else {
            panic!("{left_out:?}");
        };
        assert_eq!(same.file, agents.join("z/coder.md"));
        assert!(same.reason.contains("core/coder.md"), "{}", same.reason);
    }
    let flat = discover(&[Root::new(Source::ClaudeUser, agents)], &[], &AllAvailable);
    assert_eq!(ids(&flat), ["top"]);
}
