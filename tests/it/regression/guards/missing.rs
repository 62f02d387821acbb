//! Tests of required plugins that cannot run: no session begins, and the message names the ways
//! out.

use std::fs;
use std::path::PathBuf;

use rind_tests::cli::{Ran, Rind};
use rind_tests::guests;

const SCRIPT: &str = "[[reply]]\ntext = \"done\"\n";

/// Creates a machine with the scripted guest as the managed plugin `guard`. Returns the plugin's
/// folder as well.
fn guarded() -> (Rind, PathBuf) {
    let rind = Rind::with_script(SCRIPT);
    let folder = put(&rind, "managed", "guard", "");
    (rind, folder)
}

/// Installs the scripted guest below a folder of the home under this name, with the lines `more` in
/// front of its manifest. Returns its folder.
fn put(rind: &Rind, place: &str, name: &str, more: &str) -> PathBuf {
    guests::put("scripted-hook", &rind.home().join(place), |manifest| {
        let manifest = manifest.replace("name = \"scripted-hook\"", &format!("name = \"{name}\""));
        format!("{more}\n{manifest}")
    })
}

/// Checks that no session begins and that the message contains each text of `says`. Returns the
/// ended run.
#[track_caller]
fn refused(rind: &Rind, args: &[&str], says: &[&str]) -> Ran {
    let ran = rind.run(args).exits(3);
    for part in says {
        assert!(ran.stderr.contains(part), "{part}\n{}", ran.stderr);
    }
    assert_eq!(ran.stdout, "");
    let sessions = rind.run(&["session", "list"]).exits(0);
    assert_eq!(sessions.stdout, "", "no session begins");
    ran
}

/// Truncates the component file to half its length.
fn truncate(folder: &std::path::Path) {
    let component = folder.join("guest_scripted_hook.wasm");
    let bytes = fs::read(&component).unwrap();
    fs::write(&component, &bytes[..bytes.len() / 2]).unwrap();
}

#[test]
fn a_configured_plugin_that_cannot_run_keeps_the_run_from_starting() {
    let set = "[plugins.guard]\non_failure = \"block\"\n";
    // A setting with an unknown key.
    let (rind, _) = guarded();
    rind.config(&format!("{set}[plugins.guard.config]\nanswrs = 3\n"));
    let says = [
        "plugin guard cannot run: the settings of the plugin do not fit",
        "config.toml:1 configures it",
        "`--without guard` for one run",
        "`enabled = false` at ",
    ];
    refused(&rind, &["run", "hi"], &says);
    refused(&rind, &["run", "hi", "--json"], &says);
    // The two ways out that the message names.
    let ran = rind.run(&["run", "hi", "--without", "guard"]).exits(0);
    assert!(ran.stdout.contains("done"));
    rind.config("[plugins.guard]\nenabled = false\n[plugins.guard.config]\nanswrs = 3\n");
    rind.run(&["run", "hi"]).exits(0);

    // A truncated component.
    let (rind, folder) = guarded();
    rind.config(set);
    rind.run(&["run", "hi"]).exits(0);
    truncate(&folder);
    let ran = rind.run(&["run", "hi"]).exits(3);
    assert!(
        ran.stderr.contains("is not a valid component"),
        "{}",
        ran.stderr
    );

    // A plugin of the user whose permissions nobody has granted.
    let (rind, folder) = guarded();
    rind.config(set);
    fs::create_dir_all(rind.user_plugins()).unwrap();
    fs::rename(folder, rind.user_plugins().join("guard")).unwrap();
    let manifest = rind.user_plugins().join("guard/plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let text = text.replace("[\"session\"]", "[\"session\", \"external\"]");
    fs::write(&manifest, format!("{text}\n[external]\nmodel = true\n")).unwrap();
    refused(
        &rind,
        &["run", "hi"],
        &["guard cannot run: it needs permissions that you have not granted: model"],
    );
    rind.run(&["run", "hi", "--grant", "guard"]).exits(0);

    // A missing dependency.
    let rind = Rind::with_script(SCRIPT);
    let folder = put(&rind, "managed", "guard", "");
    let manifest = folder.join("plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &manifest,
        format!("{text}\n[dependencies]\nhelper = \"^1\"\n"),
    )
    .unwrap();
    rind.config(set);
    refused(
        &rind,
        &["run", "hi"],
        &["it depends on plugin `helper` ^1, which is not loaded"],
    );

    // A plugin that does not exist, for example because its name is misspelled in the settings.
    let (rind, _) = guarded();
    rind.config("[plugins.gaurd]\non_failure = \"block\"\n");
    let says = [
        "plugin gaurd cannot run: there is no such plugin",
        "config.toml:1",
    ];
    refused(&rind, &["run", "hi"], &says);
    rind.run(&["run", "hi", "--without", "gaurd"]).exits(0);
    rind.run(&["run", "hi", "--no-plugins"]).exits(0);
}

#[test]
fn a_plugin_that_blocks_when_it_fails_is_missed_without_any_setting() {
    // The plugin may be a guard: its manifest names no hook, and its component cannot be read.
    let (rind, folder) = guarded();
    truncate(&folder);
    let says = [
        "it blocks when it fails, or may block",
        "rind plugin disable guard",
    ];
    refused(&rind, &["run", "hi"], &says);
    rind.run(&["plugin", "disable", "guard"]).exits(0);
    rind.run(&["run", "hi"]).exits(0);

    // An invalid manifest does not tell the hooks either. Such a plugin is disabled by the name of
    // its folder.
    let (rind, folder) = guarded();
    fs::write(folder.join("plugin.toml"), "name = ").unwrap();
    refused(
        &rind,
        &["run", "hi"],
        &["guard cannot run", "is not a plugin manifest"],
    );
    rind.run(&["run", "hi", "--without", "guard"]).exits(0);
    rind.run(&["plugin", "disable", "guard"]).exits(0);
    rind.run(&["run", "hi"]).exits(0);

    // A plugin whose hooks are all skipped when they fail is not required: the run starts with a
    // warning.
    let rind = Rind::with_script(SCRIPT);
    let folder = put(&rind, "managed", "helper", "");
    let manifest = folder.join("plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &manifest,
        format!("{text}\n[hooks.turn-end]\npriority = 3\n"),
    )
    .unwrap();
    truncate(&folder);
    let ran = rind.run(&["run", "hi"]).exits(0);
    assert!(
        ran.stderr.contains("plugin helper is not loaded"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_guard_that_was_granted_before_and_changed_keeps_the_run_from_starting() {
    let rind = Rind::with_script(SCRIPT);
    let folder = put(&rind, "elsewhere", "guard", "");
    let dir = folder.to_str().unwrap();
    let Some(screen) = rind.at_terminal(&["run", "hi", "--plugin", dir], "always\n") else {
        return;
    };
    assert!(screen.contains("done"), "{screen}");
    // A changed description in the manifest makes the stored answer invalid.
    let manifest = folder.join("plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("Answers at", "Answers well at")).unwrap();
    let ran = rind.run(&["run", "hi", "--plugin", dir]).exits(3);
    assert!(ran.stderr.contains("`--plugin` names it"), "{}", ran.stderr);
}

#[test]
fn a_plugin_of_a_project_that_nobody_answered_for_is_held_and_said() {
    let rind = Rind::with_script(SCRIPT);
    fs::create_dir_all(rind.workspace().join(".rind/plugins")).unwrap();
    let folder = put(&rind, "elsewhere", "theirs", "");
    fs::rename(folder, rind.workspace().join(".rind/plugins/theirs")).unwrap();
    let run = ["run", "hi", "--trust-project"];
    let ran = rind.run(&run).exits(0);
    assert!(
        ran.stderr
            .contains("plugin theirs is not loaded: it needs permissions"),
        "{}",
        ran.stderr
    );
    let lines = rind
        .run(&["run", "hi", "--trust-project", "--json"])
        .exits(0)
        .json_lines();
    let event = lines
        .iter()
        .find(|line| line["type"] == "plugin-left-out")
        .unwrap();
    assert_eq!(
        (&event["plugin"], &event["cause"]),
        (&"theirs".into(), &"held".into())
    );
    assert_eq!(lines[0]["type"], "session-opened");
    // The operator configures the plugin, which makes it required.
    rind.config("[plugins.theirs]\npriority = 3\n");
    let ran = rind.run(&run).exits(3);
    assert!(ran.stderr.contains("theirs cannot run"), "{}", ran.stderr);
}

#[test]
fn a_project_cannot_switch_off_what_the_operator_configured() {
    let rind = Rind::with_script(SCRIPT);
    fs::create_dir_all(rind.workspace().join(".rind/plugins")).unwrap();
    let folder = put(&rind, "elsewhere", "theirs", "");
    fs::rename(folder, rind.workspace().join(".rind/plugins/theirs")).unwrap();
    rind.file(".rind/config.toml", "[plugins.theirs]\nenabled = false\n");
    let run = ["run", "hi", "--trust-project"];
    rind.run(&run).exits(0);
    rind.config("[plugins.theirs]\non_failure = \"block\"\n");
    let ran = rind.run(&run).exits(3);
    let says = "theirs cannot run: switched off by ";
    assert!(ran.stderr.contains(says), "{}", ran.stderr);
}

#[test]
fn flags_that_cannot_be_honored_are_errors() {
    let (rind, folder) = guarded();
    let other = put(&rind, "elsewhere", "guard", "");
    let asks_nothing = put(&rind, "elsewhere", "quiet", "");
    let text = fs::read_to_string(asks_nothing.join("plugin.toml")).unwrap();
    let text = format!("{text}\n[hooks.pre-output]\npriority = 1\n");
    fs::write(asks_nothing.join("plugin.toml"), text).unwrap();
    let other = other.to_str().unwrap();
    let quiet = asks_nothing.to_str().unwrap();
    fs::create_dir(rind.home().join("empty")).unwrap();
    let empty = rind.home().join("empty");
    let wrong: [(&[&str], &str); 9] = [
        (
            &["--plugin", "/nope"],
            "there is no plugin at --plugin /nope",
        ),
        (&["--plugin", "/etc/hostname"], "it is not a folder"),
        (
            &["--plugin", empty.to_str().unwrap()],
            "neither the folder nor a folder in it has a plugin.toml",
        ),
        (&["--grant", "TYPO"], "--grant TYPO: unknown plugin"),
        (&["--without", "TYPO"], "--without TYPO: unknown plugin"),
        (&["--plugin", other], "shadowed by "),
        (
            &["--grant", "quiet=network:*", "--plugin", quiet],
            "does not ask for `network:*`",
        ),
        (
            &["--plugin", quiet, "--set", "plugins.quiet.enabled=false"],
            "plugin quiet does not run: switched off by --set",
        ),
        (
            &["--grant", "guard", "--without", "guard"],
            "switched off by --without",
        ),
    ];
    for (flags, says) in wrong {
        let args = [&["run", "hi"], flags].concat();
        let ran = rind.run(&args).exits(2);
        assert!(ran.stderr.contains(says), "{flags:?}\n{}", ran.stderr);
    }
    // A folder that is given twice, once as an installed plugin and once with `--plugin`, is one
    // plugin.
    rind.run(&["run", "hi", "--plugin", folder.to_str().unwrap()])
        .exits(0);
    // A plugin that `--plugin` names is required, also if its permissions are not granted.
    let ran = rind.run(&["run", "hi", "--plugin", quiet]).exits(3);
    assert!(ran.stderr.contains("`--plugin` names it"), "{}", ran.stderr);
    rind.run(&["run", "hi", "--plugin", quiet, "--grant", "quiet"])
        .exits(0);
}

#[test]
fn plugins_left_out_are_events_and_lines_of_doctor_and_of_the_list() {
    let (rind, folder) = guarded();
    truncate(&folder);
    rind.config("[plugins.guard]\non_failure = \"block\"\n[plugins.gaurd]\npriority = 3\n");
    let list = rind.run(&["plugin", "list"]).exits(1);
    for part in ["✗ guard", "✗ gaurd", "required: ", "`--without guard`"] {
        assert!(list.stdout.contains(part), "{part}\n{}", list.stdout);
    }
    let json = rind.run(&["plugin", "list", "--json"]).exits(1).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["absent"][0]["name"], "gaurd");
    let relied = json["left_out"][0]["relied_on"].as_str().unwrap();
    assert!(relied.contains("config.toml:1 configures it"), "{relied}");
    let doctor = rind.run(&["doctor"]).exits(1);
    assert!(
        doctor.stdout.contains("plugin guard cannot run"),
        "{}",
        doctor.stdout
    );

    rind.config("[plugins.guard]\nenabled = false\n");
    let lines = rind.run(&["run", "hi", "--json"]).exits(0).json_lines();
    let event = &lines[1];
    assert_eq!(event["type"], "plugin-left-out");
    assert_eq!(
        (&event["plugin"], &event["cause"]),
        (&"guard".into(), &"switched-off".into())
    );
    let doctor = rind.run(&["doctor"]);
    assert!(
        doctor.stdout.contains("guard: switched off by"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn a_guard_that_was_granted_and_is_gone_keeps_the_run_from_starting() {
    let rind = Rind::with_script(SCRIPT);
    let folder = put(&rind, "elsewhere", "guard", "");
    let own = rind.user_plugins().join("guard");
    fs::create_dir_all(rind.user_plugins()).unwrap();
    fs::rename(folder, &own).unwrap();
    let manifest = own.join("plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    let text = text.replace("[\"session\"]", "[\"session\", \"external\"]");
    fs::write(&manifest, format!("{text}\n[external]\nmodel = true\n")).unwrap();
    let Some(screen) = rind.at_terminal(&["run", "hi"], "always\n") else {
        return;
    };
    assert!(screen.contains("done"), "{screen}");
    fs::remove_dir_all(&own).unwrap();
    for args in [&["run", "hi"][..], &["run", "hi", "--json"]] {
        let ran = rind.run(args).exits(3);
        for part in [
            "plugin guard cannot run: it is no longer installed",
            "it blocks when it fails, and your grant is still valid",
        ] {
            assert!(ran.stderr.contains(part), "{part}\n{}", ran.stderr);
        }
    }
    // The two ways out that the message names.
    rind.run(&["run", "hi", "--without", "guard"]).exits(0);
    rind.run(&["plugin", "grants", "--revoke", "guard"])
        .exits(0);
    rind.run(&["run", "hi"]).exits(0);
}

#[test]
fn a_granted_guard_of_a_project_that_changed_keeps_the_run_from_starting() {
    let rind = Rind::with_script(SCRIPT);
    let plugins = rind.workspace().join(".rind/plugins");
    fs::create_dir_all(&plugins).unwrap();
    let folder = put(&rind, "elsewhere", "theirs", "");
    fs::rename(folder, plugins.join("theirs")).unwrap();
    let Some(screen) = rind.at_terminal(&["run", "hi", "--trust-project"], "always\n") else {
        return;
    };
    assert!(screen.contains("done"), "{screen}");
    // Anybody who may write to the project could change the plugin or remove it.
    let manifest = plugins.join("theirs/plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("Answers at", "Answers well at")).unwrap();
    let says = "plugin theirs cannot run: ";
    let ran = rind.run(&["run", "hi"]).exits(3);
    assert!(ran.stderr.contains(says), "{}", ran.stderr);
    fs::remove_dir_all(rind.workspace().join(".rind")).unwrap();
    let ran = rind.run(&["run", "hi"]).exits(3);
    assert!(ran.stderr.contains(says), "{}", ran.stderr);
    rind.run(&["run", "hi", "--without", "theirs"]).exits(0);
    // The plugin is not required in another workspace.
    fs::create_dir_all(rind.workspace().join("below")).unwrap();
    let below = rind.workspace().join("below");
    let args = ["run", "hi", "--workspace", below.to_str().unwrap()];
    rind.run(&args).exits(0);
}

#[test]
fn a_broken_audit_log_is_a_failure_whatever_the_user_switches_off() {
    let rind = Rind::with_script(SCRIPT);
    rind.managed("audit-log");
    rind.config("[plugins.audit-log]\nenabled = false\n");
    let manifest = rind.home().join("managed/audit-log/plugin.toml");
    fs::write(&manifest, "name = \"audit-log\"\nversion = [\n").unwrap();
    let says = ["plugin audit-log cannot run", "plugin.toml"];
    let ran = refused(&rind, &["run", "hi"], &says);
    assert!(!ran.stderr.contains("switched off"), "{}", ran.stderr);
    let list = rind.run(&["plugin", "list"]).exits(1);
    assert!(list.stdout.contains("plugin.toml"), "{}", list.stdout);
    assert!(!list.stdout.contains("switched off"), "{}", list.stdout);
}
