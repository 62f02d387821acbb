//! Tests of `rind demo`, the first thing that a new user runs.

use std::process::Command;

use rind_tests::cli::{Ran, Rind, masked, program};
use rind_tests::guests::CORE;

/// Runs the demo on a machine that has only the program: outside a checkout, with an empty PATH and
/// without a toolchain.
fn demo(args: &[&str]) -> Ran {
    let rind = Rind::bare();
    let installed = rind.user_home().join("rind");
    std::fs::hard_link(program(), &installed)
        .or_else(|_| std::fs::copy(program(), &installed).map(drop))
        .unwrap();
    let like = rind.command(args);
    let set = like.get_envs();
    let kept = set.filter(|(name, _)| {
        let name = name.to_string_lossy();
        !name.starts_with("CARGO") && !name.starts_with("RUSTUP")
    });
    let mut command = Command::new(installed);
    command
        .args(args)
        .env_clear()
        .envs(kept.filter_map(|(name, value)| Some((name, value?))))
        .env("PATH", "/nowhere")
        .current_dir(rind.workspace());
    rind.finish(&mut command).exits(0)
}

#[test]
fn the_demo_shows_every_first_party_plugin_at_work() {
    let ran = demo(&["demo"]);
    assert!(
        ran.stdout.starts_with("The station is calibrated"),
        "{}",
        ran.stdout
    );
    let screen = masked(&ran.stderr);
    for line in [
        "    ▲ injection-guard possible prompt injection in the result of `read_file`: it says to drop",
        "    pre-reason injection-guard [T] changed inject",
        "      ▲ loop-detection `station.toml` edited 5 times",
        "      ▲ loop-detection `station.toml` edited 6 times",
        "      post-tool tool-output-sandbox [T] changed content",
        "    ● read_output of tool-output-sandbox {\"handle\":\"out-1\",\"search\":\"level_cm=31\"}",
        "    ● greet of hello {\"name\":\"Ada\"}",
        "  pre-output, post-output, turn-end [T] 7 hooks passed",
        "    · pre-completion-checklist answer sent back to the model: no build, test or check ran after",
        "11 steps · 10 tool calls · ",
    ] {
        let squeezed = screen
            .lines()
            .map(squeeze)
            .any(|shown| shown.starts_with(line));
        assert!(squeezed, "{line}\n{screen}");
    }
    assert!(!screen.contains("edited 4 times"), "{screen}");
    let n_timed = ran
        .stderr
        .lines()
        .filter(|line| line.contains(" µs "))
        .count();
    assert!(
        n_timed >= 10,
        "hook lines carry microseconds\n{}",
        ran.stderr
    );
    assert!(
        !screen.contains("✗") && !screen.contains("error"),
        "{screen}"
    );
}

/// Reduces the space between columns to one, and keeps the indentation.
fn squeeze(line: &str) -> String {
    let indent = line.len() - line.trim_start().len();
    let words: Vec<&str> = line.split_whitespace().collect();
    format!("{}{}", &line[..indent], words.join(" "))
}

#[test]
fn the_demo_as_json_is_one_event_a_line() {
    let ran = demo(&["demo", "--json"]);
    let events = ran.json_lines();
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(events[0]["type"], "session-opened");
    assert_eq!(events.last().unwrap()["type"], "turn-end");
    // A refused call would have an end without a start; the notices tell which plugin refused it.
    let calls = (of("tool-start"), of("tool-end"));
    assert_eq!(calls, (10, 10), "{}\n{}", ran.stderr, ran.stdout);
    assert_eq!(of("step-start"), 11);
    let hook = events.iter().find(|event| event["type"] == "hook").unwrap();
    assert!(hook["micros"].as_f64().unwrap() > 0.0, "{hook}");
}

#[test]
fn the_program_carries_the_core_plugins_for_every_command_and_the_example_for_demos_only() {
    let rind = Rind::bare();
    let list = rind.run(&["plugin", "list", "--json"]).exits(0);
    let list: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let plugins = list["plugins"].as_array().unwrap();
    let names: Vec<&str> = plugins
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    let mut core = CORE;
    core.sort_unstable();
    assert_eq!(names, core);
    for row in plugins {
        assert_eq!(row["trust"], "managed");
        let folder = row["folder"].as_str().unwrap();
        let within = program().join("plugins");
        assert!(folder.starts_with(within.to_str().unwrap()), "{folder}");
    }
    // The embedded plugins were not written to disk.
    assert!(!rind.home().join("managed").exists());
    let path = rind.run(&["plugin", "search-path", "--json"]).exits(0);
    let path: serde_json::Value = serde_json::from_str(&path.stdout).unwrap();
    assert_eq!(path[0]["exists"], true);
    // The names of embedded plugins are reserved, and one of them runs even with `--no-plugins`.
    let mine = rind.workspace().join("mine");
    rind_tests::guests::put("hello", &mine, |text| {
        text.replace("\"hello\"", "\"summarization\"")
    });
    let ran = rind
        .run(&["plugin", "install", "mine/summarization"])
        .exits(1);
    assert!(ran.stderr.contains("comes with Rind"), "{}", ran.stderr);
    let list = rind
        .run(&["plugin", "list", "--no-plugins"])
        .exits(0)
        .stdout;
    assert!(list.starts_with("✓ audit-log "), "{list}");
    assert_eq!(list.lines().count(), 1, "{list}");
}

/// Returns the names of the core plugins that run, and the check `plugins` of `rind doctor`, after
/// `prepare` has changed the machine.
fn with_managed(prepare: impl FnOnce(&Rind)) -> (Vec<String>, serde_json::Value) {
    let rind = Rind::bare();
    prepare(&rind);
    let json = |args: &[&str]| -> serde_json::Value {
        let mut command = rind.command(args);
        let ran = rind.finish(command.env_remove("RIND_MANAGED"));
        serde_json::from_str(&ran.exits(0).stdout).unwrap()
    };
    let list = json(&["plugin", "list", "--json"]);
    let running = list["plugins"].as_array().unwrap().iter();
    let names = running.filter_map(|row| Some(row["name"].as_str()?.to_owned()));
    let names = names.filter(|name| CORE.contains(&&**name)).collect();
    let report = json(&["doctor", "--json"]);
    let checks = report["checks"].as_array().unwrap();
    let plugins = checks.iter().find(|check| check["name"] == "plugins");
    (names, plugins.unwrap().clone())
}

#[test]
fn no_folder_under_rind_home_removes_a_plugin_that_the_program_carries() {
    use std::fs;
    let mut core = CORE;
    core.sort_unstable();
    let managed = |rind: &Rind| rind.home().join("managed");
    let own = |rind: &Rind, file: &str| {
        let path = managed(rind).join("audit-log").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    };
    type Prepare<'a> = Box<dyn FnOnce(&Rind) + 'a>;
    let cases: Vec<(&str, Prepare<'_>, &str)> = vec![
        (
            "an empty folder",
            Box::new(|rind| fs::create_dir(managed(rind)).unwrap()),
            "a session here would run 10 plugins",
        ),
        (
            "an empty folder with the name of a plugin",
            Box::new(|rind| fs::create_dir_all(managed(rind).join("audit-log")).unwrap()),
            "a session here would run 10 plugins",
        ),
        (
            "a component with the name of a plugin",
            Box::new(|rind| own(rind, "plugin.wasm")),
            "audit-log: shadowed by",
        ),
        (
            "a broken manifest with the name of a plugin",
            Box::new(|rind| own(rind, "plugin.toml")),
            "audit-log: shadowed by",
        ),
        (
            "another plugin",
            Box::new(|rind| _ = rind.managed("hello")),
            "a session here would run 11 plugins",
        ),
        (
            "a link that leads nowhere",
            Box::new(|rind| std::os::unix::fs::symlink("nowhere", managed(rind)).unwrap()),
            "managed are not loaded: No such file",
        ),
        (
            "a file",
            Box::new(|rind| fs::write(managed(rind), "").unwrap()),
            "managed are not loaded: Not a directory",
        ),
    ];
    for (case, prepare, said) in cases {
        let (names, check) = with_managed(prepare);
        assert_eq!(names, core, "{case}");
        let found = check["found"].as_str().unwrap();
        assert!(found.contains(said), "{case}: {found}");
    }
}

#[test]
fn a_variable_that_replaces_the_core_plugins_names_a_folder_and_doctor_says_what_is_missing() {
    let rind = Rind::default();
    rind.managed("loop-detection");
    let list = rind.run(&["plugin", "list"]).exits(0).stdout;
    assert!(list.starts_with("✓ loop-detection "), "{list}");
    assert_eq!(list.lines().count(), 1, "{list}");
    let doctor = rind.run(&["doctor"]).exits(0).stdout;
    assert!(
        doctor.contains("▲ plugins            a session here would run 1 plugin; RIND_MANAGED replaces the plugins that are embedded in rind: \
                         audit-log, content-safety"),
        "{doctor}"
    );
    for (named, why) in [("nowhere", "No such file"), ("a-file", "Not a directory")] {
        let rind = Rind::bare();
        std::fs::write(rind.home().join("a-file"), "").unwrap();
        let mut command = rind.command(&["plugin", "list"]);
        command.env("RIND_MANAGED", rind.home().join(named));
        let ran = rind.finish(&mut command).exits(2);
        assert!(
            ran.stderr.contains(why) && ran.stderr.contains("unset RIND_MANAGED"),
            "{}",
            ran.stderr
        );
    }
}

/// Demos that shared a folder of plugins could lose one while another demo replaced it.
#[test]
fn demos_that_run_at_once_have_all_their_plugins() {
    let rind = Rind::bare();
    let demos: Vec<_> = (0..4)
        .map(|_| rind.command(&["demo", "--json"]).spawn().unwrap())
        .collect();
    for demo in demos {
        let output = demo.wait_with_output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        let events: Vec<serde_json::Value> = stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        assert_eq!(
            (of("tool-start"), of("tool-end")),
            (10, 10),
            "{stderr}\n{stdout}"
        );
        assert!(output.status.success(), "{stderr}");
    }
}

#[test]
fn a_first_start_compiles_none_of_the_plugins_that_the_program_carries() {
    let rind = Rind::bare();
    // The cache shared with other tests would hide that a plugin is compiled.
    std::fs::remove_file(rind.home().join("cache")).unwrap();
    for plugin in CORE {
        let ran = rind.run(&["plugin", "inspect", plugin]).exits(0);
        let loaded = ran
            .stdout
            .lines()
            .find(|line| line.starts_with("loaded in"));
        assert!(
            loaded.is_some_and(|line| line.ends_with("from the cache")),
            "{loaded:?}"
        );
    }
}
