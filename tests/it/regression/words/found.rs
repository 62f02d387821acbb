//! Tests of messages about plugins that were not found, and about demos without plugins.

use std::fs;
use std::path::PathBuf;

use rind_tests::cli::Rind;
use rind_tests::guests;

const ANSWER: &str = "[[reply]]\ntext = \"the answer\"\n";

/// Creates a machine with the plugin `hello` in the user's folder, whose manifest is renamed, or
/// removed for `None`.
fn misnamed(manifest: Option<&str>) -> Rind {
    let rind = Rind::with_script(ANSWER);
    let folder = guests::put("hello", &rind.user_plugins(), |manifest| manifest);
    let path = folder.join("plugin.toml");
    match manifest {
        Some(name) => fs::rename(&path, folder.join(name)).unwrap(),
        None => fs::remove_file(&path).unwrap(),
    }
    rind
}

#[test]
fn a_folder_that_is_meant_for_a_plugin_and_has_no_manifest_is_left_out_and_said_by_every_command() {
    for (manifest, todo) in [
        (Some("Plugin.toml"), "rename Plugin.toml to it"),
        (Some("plugin.json"), "rename plugin.json to it"),
        (
            None,
            "put the manifest of the component hello.wasm into this folder",
        ),
    ] {
        let rind = misnamed(manifest);
        let said = format!("[RIND_HOME]/config/plugins/hello has no plugin.toml: {todo}");
        let ran = rind.run(&["run", "hello"]).exits(3);
        assert!(ran.stderr.contains(&said), "{}", ran.stderr);
        let list = rind.run(&["plugin", "list"]).exits(1);
        assert!(list.stdout.contains(&said), "{}", list.stdout);
        let json = rind.run(&["plugin", "list", "--json"]).exits(1);
        assert!(json.stdout.contains(&said), "{}", json.stdout);
        let doctor = rind.run(&["doctor"]);
        assert!(doctor.stdout.contains(&said), "{}", doctor.stdout);
        let ran = rind.run(&["run", "hello", "--without", "hello"]).exits(0);
        assert_eq!(ran.stdout, "the answer\n");
    }
}

#[test]
fn sources_and_loose_files_among_plugins_are_said_and_keep_nothing_from_running() {
    let rind = Rind::with_script(ANSWER);
    let plugins = rind.user_plugins();
    fs::create_dir_all(plugins.join("crate")).unwrap();
    fs::write(plugins.join("crate/Cargo.toml"), "[package]\n").unwrap();
    fs::create_dir_all(plugins.join("notes")).unwrap();
    fs::write(plugins.join("notes/README.md"), "notes").unwrap();
    fs::write(plugins.join("loose.wasm"), "\0asm").unwrap();
    let said = [
        "[RIND_HOME]/config/plugins/crate is ignored: it has no plugin.toml",
        "[RIND_HOME]/config/plugins/loose.wasm has no effect",
    ];
    for args in [&["run", "hello"][..], &["plugin", "list"], &["doctor"]] {
        let ran = rind.run(args);
        let all = format!("{}{}", ran.stdout, ran.stderr);
        assert!(
            said.iter().all(|said| all.contains(said)),
            "{args:?}: {all}"
        );
        assert!(!all.contains("notes"), "{args:?}: {all}");
    }
    rind.run(&["run", "hello"]).exits(0);
}

#[test]
fn a_flag_for_a_folder_that_is_no_plugin_says_what_is_there() {
    let rind = misnamed(Some("Plugin.toml"));
    let folder = rind.user_plugins().join("hello");
    let other = rind.user_home().join("hello");
    fs::rename(&folder, &other).unwrap();
    let at = |path: &PathBuf| {
        let path = path.to_str().unwrap();
        let ran = rind.run(&["run", "hello", "--plugin", path]).exits(2);
        let list = rind.run(&["plugin", "list", "--plugin", path]).exits(2);
        assert_eq!(ran.stderr, list.stderr);
        ran.stderr
    };
    let said = at(&other);
    assert!(
        said.contains(
            "neither the folder nor a folder in it has a plugin.toml; rename Plugin.toml to it"
        ),
        "{said}"
    );
    let said = at(&other.join("hello.wasm"));
    assert!(said.contains("it is not a folder"), "{said}");
    let said = at(&other.join("nowhere"));
    assert!(said.contains("No such file or directory"), "{said}");
}

#[test]
fn a_demo_without_plugins_is_wrong_usage_that_says_where_they_were_looked_for() {
    let rind = Rind::default();
    for args in [&["demo"][..], &["demo", "--all"]] {
        let ran = rind.run(args).exits(2);
        let said = "no core plugin runs, so there is nothing to show; they were looked for in [RIND_HOME]/managed";
        assert!(ran.stderr.contains(said), "{}", ran.stderr);
    }
}

#[test]
fn a_run_without_plugins_does_not_speak_of_the_audit_log() {
    let rind = Rind::with_script(ANSWER);
    rind.managed("audit-log");
    let ran = rind.run(&["run", "hello", "--no-plugins"]).exits(0);
    assert!(!ran.stderr.contains("audit-log"), "{}", ran.stderr);
    rind.run(&["session", "audit", "--verify"]).exits(0);
}

/// Returns the messages of a run, a chat and `rind doctor`, each with the name of the command.
fn said(rind: &Rind) -> [(&'static str, String); 3] {
    let run = rind.run(&["run", "hello"]).stderr;
    let chat = rind.run_with_input(&["chat"], "hello\n").stderr;
    [
        ("run", run),
        ("chat", chat),
        ("doctor", rind.run(&["doctor"]).stdout),
    ]
}

#[test]
fn a_link_to_nothing_and_a_file_in_the_place_of_a_folder_are_told() {
    for (name, of_link, of_file) in [
        (
            "config",
            "`[RIND_HOME]/config` is dangling: its target does not exist",
            "Not a directory",
        ),
        (
            "config/plugins",
            "the plugins in [RIND_HOME]/config/plugins are not loaded: No such file",
            "the plugins in [RIND_HOME]/config/plugins are not loaded: Not a directory",
        ),
        (
            "config/skills",
            "config/skills:1:1: the link leads nowhere; restore its target or remove it",
            "config/skills:1:1: it is not a folder; replace it with a folder of skills",
        ),
        (
            "config/prompts",
            "[RIND_HOME]/config/prompts: cannot read prompts from this folder: No such file",
            "[RIND_HOME]/config/prompts: cannot read prompts from this folder: Not a directory",
        ),
        (
            "config/plugins/linked",
            "[RIND_HOME]/config/plugins/linked has no effect: it is a dangling symlink",
            "",
        ),
        (
            "config/prompts/linked.md",
            "the command /linked of your prompts cannot be used: [RIND_HOME]/config/prompts/linked.md: No such file",
            "",
        ),
    ] {
        for (is_link, told) in [(true, of_link), (false, of_file)] {
            if told.is_empty() {
                continue;
            }
            let rind = Rind::with_script(ANSWER);
            let path = rind.home().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            match is_link {
                true => std::os::unix::fs::symlink("/mnt/not-mounted", &path).unwrap(),
                false => fs::write(&path, "").unwrap(),
            }
            for (command, said) in said(&rind) {
                // A run that uses no template reads no folder of templates.
                let n = usize::from(command != "run" || !name.contains("prompts"));
                let found = said.matches(told).count();
                // Without the folder of settings several checks of `rind doctor` report the same
                // fault.
                let found = if name == "config" {
                    found.min(1)
                } else {
                    found
                };
                assert_eq!(found, n, "{command}: {told}\n{said}");
            }
        }
    }
}

#[test]
fn something_else_in_the_place_of_a_projects_folder_is_told() {
    let told =
        "the folder .rind of the project is not used: [WORKSPACE]/.rind: is a link or not a folder";
    for is_link in [true, false] {
        let rind = Rind::with_script(ANSWER);
        let path = rind.workspace().join(".rind");
        match is_link {
            true => std::os::unix::fs::symlink("/mnt/not-mounted", &path).unwrap(),
            false => fs::write(&path, "").unwrap(),
        }
        let ran = rind.run(&["run", "hello"]).exits(0);
        assert_eq!(ran.stderr.matches(told).count(), 1, "{}", ran.stderr);
        let doctor = rind.run(&["doctor"]);
        let all = format!("{}{}", doctor.stdout, doctor.stderr);
        assert_eq!(all.matches(told).count(), 1, "{all}");
    }
    for (name, told) in [
        (
            "plugins",
            "the plugins in [WORKSPACE]/.rind/plugins are not loaded: not a directory",
        ),
        (
            "skills",
            "[WORKSPACE]/.rind/skills:1:1: it is not a folder; replace it with a folder of skills",
        ),
        (
            "prompts",
            "[WORKSPACE]/.rind/prompts: cannot read prompts from this folder: not a directory",
        ),
    ] {
        let rind = Rind::with_script(ANSWER);
        rind.file(&format!(".rind/{name}"), "");
        let args = ["chat", "--trust-project"];
        let ran = rind.run_with_input(&args, "hello\n").exits(0);
        assert_eq!(
            ran.stderr.matches(told).count(),
            1,
            "{name}: {}",
            ran.stderr
        );
    }
    let rind = Rind::with_script(ANSWER);
    fs::create_dir_all(rind.workspace().join(".rind/config.toml")).unwrap();
    let ran = rind.run(&["run", "hello", "--trust-project"]).exits(2);
    let told = "[WORKSPACE]/.rind/config.toml is a folder, but must be a settings file";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
}

#[test]
fn a_template_that_cannot_be_used_is_told_where_a_chat_starts_and_by_doctor() {
    let rind = Rind::with_script(ANSWER);
    rind.user_file(
        "config/prompts/good.md",
        "---\ndescription: Good.\n---\nHi.\n",
    );
    rind.user_file(
        "config/prompts/torn.md",
        "---\ndescripton: Torn.\n---\nHi.\n",
    );
    rind.user_file(
        "config/prompts/open.md",
        "---\ndescription: Open.\n---\nHi {{ x\n",
    );
    for (command, said) in said(&rind) {
        let n = usize::from(command != "run");
        for told in [
            "the command /torn of your prompts cannot be used: [RIND_HOME]/config/prompts/torn.md:2:1: unknown key `descripton`",
            "the command /open of your prompts cannot be used: [RIND_HOME]/config/prompts/open.md:4:",
        ] {
            assert_eq!(said.matches(told).count(), n, "{command}: {told}\n{said}");
        }
        assert!(!said.contains("/good"), "{command}: {said}");
    }
    // Only five of many faults are listed; the rest is counted.
    for n in 0..9 {
        rind.user_file(&format!("config/prompts/torn-{n}.md"), "Hi.\n");
    }
    let chat = rind.run_with_input(&["chat"], "hello\n").stderr;
    assert_eq!(
        chat.matches("of your prompts cannot be used").count(),
        5,
        "{chat}"
    );
    assert!(
        chat.contains("6 more templates cannot be used; /help lists all of them"),
        "{chat}"
    );
}
