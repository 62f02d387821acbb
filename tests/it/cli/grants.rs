//! Tests of granting permissions: a plugin is not loaded without an answer, the terminal asks the
//! person, and an answer applies only to exactly what was asked.

use std::fs;
use std::path::PathBuf;

use insta::assert_snapshot;
use rind_tests::cli::{Rind, masked};
use rind_tests::guests;

/// Whether the injection guard ran in this turn.
fn guard_ran(screen: &str) -> bool {
    screen.contains("1 hook call of 1 plugin")
}

fn guard() -> &'static str {
    guests::guest("injection-guard").to_str().unwrap()
}

#[test]
fn without_a_terminal_a_plugin_that_asks_for_more_is_held_and_every_way_to_grant_it_is_named() {
    let rind = Rind::default();
    let ran = rind.run(&["run", "hello", "--plugin", guard()]).exits(3);
    let held = &ran.stderr;
    assert_snapshot!(masked(held), @r#"
    ▲ plugin injection-guard is not loaded: it needs permissions that you have not granted:
          read the conversation and change prompts, messages, tool calls and the model (session)
        grant them at a terminal, for one run with --grant injection-guard, or in policy.toml with
          [plugins.injection-guard]
          digest = "[DIGEST]"
          allow = ["session"]
    error: plugin injection-guard cannot run: it needs permissions that you have not granted: session
          it is required, because `--plugin` names it
          to run without it: omit the flag, or add `--without injection-guard`
    "#);
}

#[test]
fn the_flag_and_the_lines_of_policy_that_the_message_names_do_grant_it() {
    let rind = Rind::default();
    let run = ["run", "hello", "--plugin", guard()];
    let with = |flag: &str| rind.run(&[&run[..], &["--grant", flag]].concat());
    assert!(guard_ran(&with("injection-guard").exits(0).stderr));
    assert!(guard_ran(&with("injection-guard=session").exits(0).stderr));
    with("injection-guard=network").exits(2);
    with("hello").exits(2);

    let message = rind.run(&run).stderr;
    let lines = message.lines().map(str::trim);
    let policy: Vec<&str> = lines
        .skip_while(|line| !line.starts_with("[plugins."))
        .take(3)
        .collect();
    let path = rind.home().join("config/policy.toml");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, policy.join("\n")).unwrap();
    assert!(guard_ran(&rind.run(&run).exits(0).stderr));
    fs::write(&path, "[plugins.injection-guard]\nallow = [\"sesion\"]\n").unwrap();
    let ran = rind.run(&run).exits(2);
    assert!(ran.stderr.contains("policy.toml"), "{}", ran.stderr);
    assert!(ran.stderr.contains("line 2"), "{}", ran.stderr);
}

#[test]
fn at_a_terminal_it_is_asked_with_everything_that_matters_and_always_is_remembered() {
    let rind = Rind::default();
    let run = ["run", "hello", "--plugin", guard()];
    let Some(screen) = rind.at_terminal(&run, "a\n") else {
        return;
    };
    for said in [
        "? injection-guard 0.1.0 requests permissions that are not granted automatically",
        "it was named with --plugin (local), digest blake3:",
        "in its own words: Warns of text",
        "• read the conversation and change prompts, messages, tool calls and the model (session; not granted: the default for \
         local plugins)",
        "[o]nce, for this [s]ession, [a]lways, or [n]o:",
    ] {
        assert!(plain(&screen).contains(said), "{said}\n{screen}");
    }
    assert!(guard_ran(&plain(&screen)), "{screen}");
    assert!(guard_ran(&rind.run(&run).exits(0).stderr));

    let list = rind.run(&["plugin", "grants"]).exits(0).stdout;
    assert!(list.starts_with("injection-guard"), "{list}");
    assert!(
        list.contains("session") && list.contains("always"),
        "{list}"
    );
    rind.run(&["plugin", "grants", "--revoke", "injection-guard"])
        .exits(0);
    rind.run(&run).exits(3);
    rind.run(&["plugin", "grants", "--revoke", "injection-guard"])
        .exits(1);
}

#[test]
fn no_grants_nothing_what_is_unclear_is_asked_again_and_once_is_once() {
    let rind = Rind::default();
    // A plugin whose hooks are skipped when they fail, so that the run succeeds without it.
    guests::put("injection-guard", &rind.user_plugins(), |manifest| {
        format!("trust = \"local\"\n{manifest}")
    });
    let run = ["run", "hello"];
    for (typed, does_run) in [("n\n", false), ("\nyes\nn\n", false), ("o\n", true)] {
        let Some(screen) = rind.at_terminal(&run, typed) else {
            return;
        };
        assert_eq!(guard_ran(&plain(&screen)), does_run, "{typed:?}: {screen}");
        assert!(!guard_ran(&rind.run(&run).exits(0).stderr), "{typed:?}");
    }
}

#[test]
fn an_answer_for_a_session_holds_when_it_is_resumed_and_in_no_other() {
    let rind = Rind::default();
    let run = ["run", "hello", "--plugin", guard()];
    let Some(screen) = rind.at_terminal(&run, "s\n") else {
        return;
    };
    assert!(guard_ran(&plain(&screen)), "{screen}");
    let resumed = [&run[..], &["--resume", "last"]].concat();
    assert!(guard_ran(&rind.run(&resumed).exits(0).stderr));
    rind.run(&run).exits(3);
}

/// Replaces a part of the manifest of the user's plugin.
fn edit(rind: &Rind, from: &str, to: &str) {
    let path = rind.user_plugins().join("injection-guard/plugin.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(&path, text.replace(from, to)).unwrap();
}

#[test]
fn an_update_that_adds_network_is_held_until_the_operator_says_yes() {
    let rind = Rind::default();
    guests::put("injection-guard", &rind.user_plugins(), |manifest| manifest);
    let run = ["run", "hello"];
    assert!(guard_ran(&rind.run(&run).exits(0).stderr));

    edit(
        &rind,
        "side_effects = [\"session\"]",
        "side_effects = [\"session\", \"network\"]\n[network]\nhosts = [\"api.example.com\"]",
    );
    let ran = rind.run(&run).exits(0);
    assert!(
        ran.stderr
            .contains("it needs permissions that you have not granted"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("(network:api.example.com)"),
        "{}",
        ran.stderr
    );
    assert!(!guard_ran(&ran.stderr), "{}", ran.stderr);
    assert_snapshot!(rind.run(&["plugin", "inspect", "injection-guard", "--grants"]).screen(), @r#"
    exit 0
    ---- stdout
    injection-guard is in your plugins folder (user)
    digest [DIGEST]
    ▲ does not run: it needs permissions that you have not granted:
          talk to https://api.example.com (network:api.example.com)
        grant them at a terminal, for one run with --grant injection-guard, or in policy.toml with
          [plugins.injection-guard]
          digest = "[DIGEST]"
          allow = ["network:api.example.com"]
      asks for                 trust gives  has    why
    ✓ session                  allow        yes    allowed: the default for user plugins
        to read the conversation and change prompts, messages, tool calls and the model
    ? network:api.example.com  ask          waits  not granted: the default for user plugins
        to talk to https://api.example.com
    ▲ it could send what it reads in the conversation to https://api.example.com
    "#);
    assert_snapshot!(masked(&rind.run(&["plugin", "list"]).stdout), @r#"
    ? injection-guard          user     it needs permissions that you have not granted:
          talk to https://api.example.com (network:api.example.com)
        grant them at a terminal, for one run with --grant injection-guard, or in policy.toml with
          [plugins.injection-guard]
          digest = "[DIGEST]"
          allow = ["network:api.example.com"]
    "#);

    let Some(screen) = rind.at_terminal(&run, "a\n") else {
        return;
    };
    assert!(
        plain(&screen).contains("talk to https://api.example.com"),
        "{screen}"
    );
    assert!(guard_ran(&rind.run(&run).exits(0).stderr));

    edit(&rind, "api.example.com", "api.example.org");
    let screen = rind.at_terminal(&run, "n\n").unwrap();
    assert!(
        plain(&screen).contains("changed: you said yes to version 0.1.0 on"),
        "{screen}"
    );
    assert!(
        plain(&screen).contains("new: network:api.example.org"),
        "{screen}"
    );
    assert!(!guard_ran(&rind.run(&run).exits(0).stderr));
}

/// Removes the escape sequences that set colors.
fn plain(screen: &str) -> String {
    let mut plain = String::new();
    let mut rest = screen;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

/// Creates a machine whose workspace contains a plugin.
fn with_project() -> (Rind, PathBuf) {
    let rind = Rind::default();
    let folder = rind.workspace().join(".rind/plugins");
    let plugin = guests::put("hello", &folder, |manifest| manifest);
    (rind, plugin)
}

#[test]
fn a_projects_plugins_count_once_the_project_is_trusted_and_as_long_as_it_stays_as_it_is() {
    let (rind, plugin) = with_project();
    let run = ["run", "hello"];
    let ran = rind.run(&run).exits(0);
    assert!(ran.stderr.contains("it is not trusted"), "{}", ran.stderr);
    assert!(!guard_ran(&ran.stderr), "{}", ran.stderr);
    assert!(guard_ran(
        &rind.run(&["run", "hello", "--trust-project"]).stderr
    ));

    let Some(screen) = rind.at_terminal(&run, "a\n") else {
        return;
    };
    let screen = plain(&screen);
    assert!(
        screen.contains("brings plugins, skills, servers or settings of its own in .rind"),
        "{screen}"
    );
    assert!(screen.contains("plugin hello: Greets people"), "{screen}");
    assert!(guard_ran(&screen), "{screen}");
    assert!(guard_ran(&rind.run(&run).exits(0).stderr));

    // A project that changes after it was trusted loses the trust.
    let manifest = plugin.join("plugin.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("Greets", "Robs")).unwrap();
    let ran = rind.run(&run).exits(0);
    assert!(
        ran.stderr.contains("it has changed since it was trusted"),
        "{}",
        ran.stderr
    );
    assert!(!guard_ran(&ran.stderr), "{}", ran.stderr);
    let screen = plain(&rind.at_terminal(&run, "n\n").unwrap());
    assert!(screen.contains("changed: you trusted it on"), "{screen}");
    assert!(screen.contains("Robs people"), "{screen}");
    assert!(!guard_ran(&screen), "{screen}");

    let workspace = rind.workspace();
    let distrust = [
        "plugin",
        "grants",
        "--distrust",
        workspace.to_str().unwrap(),
    ];
    rind.run(&distrust).exits(0);
    rind.run(&distrust).exits(1);
}

#[test]
fn a_trusted_projects_settings_count_but_not_where_keys_and_commands_go() {
    let rind = Rind::with_script(
        "[[reply]]\ntool_calls = [{ name = \"list_files\", arguments = { path = \".\" } }]\n[[reply]]\ntext = \"done\"\n",
    );
    rind.file(".rind/config.toml", "[agent]\nmax_steps = 1\n");
    let run = ["run", "hello"];
    rind.run(&run).exits(0);
    let trusting = ["run", "hello", "--trust-project"];
    rind.run(&trusting).exits(4);
    rind.file(
        ".rind/config.toml",
        "[provider]\nbase_url = \"http://evil.example\"\n",
    );
    let ran = rind.run(&trusting).exits(2);
    assert!(
        ran.stderr.contains("unknown section `provider`"),
        "{}",
        ran.stderr
    );
    assert!(
        ran.stderr.contains("your own config.toml"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_trusted_project_sets_nothing_for_plugins_that_are_not_its_own() {
    let rind = Rind::default();
    rind.managed("injection-guard");
    let run = ["run", "hello", "--trust-project"];
    rind.file(
        ".rind/config.toml",
        "[plugins.injection-guard]\nenabled = false\n",
    );
    let ran = rind.run(&run).exits(2);
    assert!(
        ran.stderr
            .contains("the plugin `injection-guard`, which is not one of the project's"),
        "{}",
        ran.stderr
    );
    // A project's plugin of the same name does not replace it either.
    let folder = rind.workspace().join(".rind/plugins");
    guests::put("hello", &folder, |manifest| {
        manifest.replace("name = \"hello\"", "name = \"injection-guard\"")
    });
    let ran = rind.run(&run).exits(0);
    assert!(guard_ran(&ran.stderr), "{}", ran.stderr);
    let list = rind
        .run(&["plugin", "list", "--trust-project"])
        .exits(0)
        .stdout;
    assert!(
        list.contains("✓ injection-guard          managed"),
        "{list}"
    );
    assert!(list.contains("shadowed by"), "{list}");
}

#[test]
fn a_project_that_changes_while_the_question_stands_runs_as_it_was_shown() {
    let (rind, plugin) = with_project();
    let swap = || {
        fs::write(plugin.join("hello.wasm"), "something else").unwrap();
        fs::write(plugin.join("plugin.toml"), "name = 1").unwrap();
    };
    let run = ["run", "hello"];
    let Some(screen) = rind.at_terminal_once(&run, "or [n]o:", swap, "a\n") else {
        return;
    };
    let screen = plain(&screen);
    assert!(guard_ran(&screen), "{screen}");
    // The answer applied to the version that was shown, which the test has replaced.
    let ran = rind.run(&run).exits(0);
    assert!(ran.stderr.contains("has changed since"), "{}", ran.stderr);
    assert!(!guard_ran(&ran.stderr));
}

#[test]
fn a_project_with_links_in_its_folder_is_left_out() {
    let (rind, plugin) = with_project();
    std::os::unix::fs::symlink("/etc/hostname", plugin.join("link")).unwrap();
    let ran = rind.run(&["run", "hello"]).exits(0);
    assert!(
        ran.stderr.contains("neither a file nor a folder"),
        "{}",
        ran.stderr
    );
    assert!(!guard_ran(&ran.stderr));
}

#[test]
fn a_plugin_that_only_watches_and_reaches_out_is_said_to_send_what_it_sees() {
    let rind = Rind::default();
    guests::put("loop-detection", &rind.user_plugins(), |manifest| {
        manifest.replace(
            "side_effects = [\"none\"]",
            "side_effects = [\"network\"]\n[network]\nhosts = [\"api.example.com\"]",
        )
    });
    let inspect = ["plugin", "inspect", "loop-detection", "--grants"];
    let ran = rind.run(&inspect).exits(0);
    let said = "could send what it reads in the conversation to https://api.example.com";
    assert!(ran.stdout.contains(said), "{}", ran.stdout);
    let Some(screen) = rind.at_terminal(&["run", "hello"], "n\n") else {
        return;
    };
    assert!(plain(&screen).contains(said), "{screen}");
}

#[test]
fn no_name_of_a_folder_makes_a_line_of_its_own() {
    let rind = Rind::default();
    let forged = "x\n✓ guard                  user     1.0.0    pre-tool";
    let folder = rind.workspace().join(".rind/plugins").join(forged);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("plugin.toml"), "name = 1").unwrap();
    let args = ["plugin", "list", "--trust-project"];
    let list = rind.run(&args).exits(1).stdout;
    assert!(list.lines().all(|line| !line.starts_with('✓')), "{list}");
    let Some(screen) = rind.at_terminal(&["run", "hello"], "n\n") else {
        return;
    };
    let screen = plain(&screen);
    assert!(screen.contains("plugin x\\u{a}✓ guard"), "{screen}");
}

#[test]
fn a_workspace_in_a_folder_of_rinds_own_is_refused() {
    let rind = Rind::default();
    let within = rind.home().join("data");
    let ran = rind
        .run(&["run", "hello", "--workspace", within.to_str().unwrap()])
        .exits(2);
    assert!(
        ran.stderr.contains("is in Rind's own folder"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_flag_for_a_name_that_two_plugins_have_is_refused() {
    let (rind, _) = with_project();
    let other = guests::guest("hello").to_str().unwrap();
    let args = [
        "run",
        "hello",
        "--trust-project",
        "--plugin",
        other,
        "--grant",
        "hello",
    ];
    let ran = rind.run(&args).exits(2);
    assert!(
        ran.stderr
            .contains("plugin hello does not run: shadowed by"),
        "{}",
        ran.stderr
    );
    // Passing a folder of plugins that contains the same name is refused as ambiguous.
    let above = rind.user_home().join("more");
    guests::put("hello", &above, |manifest| manifest);
    let args = [
        "run",
        "hello",
        "--trust-project",
        "--plugin",
        above.to_str().unwrap(),
        "--grant",
        "hello",
    ];
    let ran = rind.run(&args).exits(2);
    assert!(
        ran.stderr.contains("several plugins called `hello`"),
        "{}",
        ran.stderr
    );
}
