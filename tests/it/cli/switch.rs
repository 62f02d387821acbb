//! `rind plugin enable` and `disable`.

use std::fs;

use rind_tests::cli::Rind;

/// Whether hello ran in a turn.
fn runs(rind: &Rind) -> bool {
    let ran = rind.run(&["run", "hello"]).exits(0);
    ran.stderr.contains("1 hook call of 1 plugin")
}

#[test]
fn a_plugin_is_switched_off_and_on_everywhere_and_the_settings_keep_their_comments() {
    let rind = Rind::default();
    rind.managed("hello");
    rind.config("# mine\n[agent]\nmax_steps = 9 # enough\n");
    assert!(runs(&rind));
    let ran = rind.run(&["plugin", "disable", "hello"]).exits(0);
    assert!(
        ran.stderr.contains("hello is switched off everywhere"),
        "{}",
        ran.stderr
    );
    assert!(!runs(&rind));
    let list = rind.run(&["plugin", "list"]).exits(0).stdout;
    assert!(
        list.contains("switched off by ") && list.contains("config/config.toml:6"),
        "{list}"
    );
    let config = fs::read_to_string(rind.home().join("config/config.toml")).unwrap();
    assert_eq!(
        config,
        "# mine\n[agent]\nmax_steps = 9 # enough\n\n[plugins.hello]\nenabled = false\n"
    );
    rind.run(&["plugin", "enable", "hello"]).exits(0);
    assert!(runs(&rind));
}

#[test]
fn a_plugin_is_switched_off_in_one_project_without_a_file_in_it() {
    let rind = Rind::default();
    rind.managed("hello");
    rind.run(&["plugin", "disable", "hello", "--project"])
        .exits(0);
    assert!(!runs(&rind));
    assert_eq!(fs::read_dir(rind.workspace()).unwrap().count(), 0);
    let other = rind.workspace().join("other");
    fs::create_dir_all(&other).unwrap();
    let elsewhere = rind.run(&["run", "hello", "--workspace", other.to_str().unwrap()]);
    assert!(
        elsewhere.stderr.contains("1 hook call of 1 plugin"),
        "{}",
        elsewhere.stderr
    );
    rind.run(&["plugin", "enable", "hello", "--project"])
        .exits(0);
    assert!(runs(&rind));
}

#[test]
fn what_another_file_says_in_spite_of_the_switch_is_told() {
    let rind = Rind::default();
    rind.managed("hello");
    let switch = |args: &[&str]| rind.run(&[&["plugin"], args].concat()).exits(0).stderr;
    assert!(!switch(&["disable", "hello", "--project"]).contains("already"));
    let again = switch(&["disable", "hello", "--project"]);
    assert!(again.contains("was switched off in "), "{again}");
    let told = switch(&["enable", "hello"]);
    assert!(
        told.contains("▲ plugin hello still does not run in this folder: switched off by ")
            && told.contains(".toml:3"),
        "{told}"
    );
    switch(&["enable", "hello", "--project"]);
    let told = switch(&["disable", "hello"]);
    assert!(
        told.contains("▲ plugin hello still runs in this folder, because "),
        "{told}"
    );
    assert!(runs(&rind));
}

#[test]
fn what_is_not_there_cannot_be_switched_off() {
    let ran = Rind::default()
        .run(&["plugin", "disable", "hello"])
        .exits(2);
    assert!(
        ran.stderr.contains("there is no plugin `hello`"),
        "{}",
        ran.stderr
    );
}

#[test]
fn the_audit_log_is_not_switched_off() {
    let rind = Rind::default();
    rind.managed("audit-log");
    let ran = rind.run(&["plugin", "disable", "audit-log"]).exits(2);
    assert!(ran.stderr.contains("audit-log"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("/etc/rind/policy.toml"),
        "{}",
        ran.stderr
    );
    assert!(!rind.home().join("config/config.toml").exists());
}

#[test]
fn a_switch_that_something_stronger_undoes_here_says_so() {
    let rind = Rind::default();
    rind.managed("hello");
    rind.run(&["plugin", "disable", "hello", "--project"])
        .exits(0);
    let ran = rind.run(&["plugin", "enable", "hello"]).exits(0);
    assert!(!runs(&rind));
    assert!(
        ran.stderr.contains(
            "▲ plugin hello still does not run in this folder: switched off by [RIND_HOME]"
        ),
        "{}",
        ran.stderr
    );
    let ran = rind
        .run(&["plugin", "enable", "hello", "--project"])
        .exits(0);
    assert!(!ran.stderr.contains(" still "), "{}", ran.stderr);
}

#[test]
fn nothing_runs_without_a_plugin_that_the_policy_requires_and_no_session_begins() {
    let require = |rind: &Rind, more: &str| {
        let policy = format!("[plugins.hello]\nrequire = true\n{more}");
        std::fs::write(rind.home().join("config/policy.toml"), policy).unwrap();
    };
    let rind = Rind::default();
    rind.config("");
    require(&rind, "");
    let refused = |rind: &Rind, arguments: &[&str], why: &str| {
        let ran = rind.run(arguments).exits(3);
        let says = "plugin hello, which [plugins.hello] in ";
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
        assert!(ran.stderr.contains(why), "{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    };
    refused(&rind, &["run", "hi"], "it does not exist");
    // A plugin given with `--plugin` does not satisfy the requirement, since its name can be chosen
    // freely.
    let local = rind_tests::guests::put("hello", &rind.user_home(), |manifest| manifest);
    let local = local.to_str().unwrap();
    refused(
        &rind,
        &["run", "hi", "--plugin", local],
        "anybody can name one of those",
    );

    rind.managed("hello");
    rind.run(&["run", "hi"]).exits(0);
    let listed = rind.run(&["session", "list"]).exits(0);
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    refused(&rind, &["run", "hi", "--no-plugins"], "it does not exist");
    rind.run(&["plugin", "disable", "hello"]).exits(0);
    refused(&rind, &["run", "hi"], "it is not loaded");
    rind.run(&["plugin", "enable", "hello"]).exits(0);
    rind.config("[plugins.hello.hooks.turn-end]\nenabled = false\n");
    refused(
        &rind,
        &["run", "hi"],
        "its hook at turn-end is switched off",
    );
    rind.config("");
    rind.run(&["run", "hi"]).exits(0);
    let other = "0".repeat(64);
    require(&rind, &format!("digest = \"blake3:{other}\"\n"));
    refused(&rind, &["run", "hi"], "the loaded one has digest blake3:");
}
