//! `rind plugin list` and `rind plugin inspect`.

use insta::assert_snapshot;
use rind_tests::cli::{Rind, masked};
use rind_tests::guests;
use serde_json::Value;

/// Creates a machine with four plugins: running, broken, shadowed and disabled.
fn mixed() -> Rind {
    let rind = Rind::default();
    rind.managed("hello").managed("loop-detection");
    guests::put("hello", &rind.user_plugins(), |manifest| manifest);
    guests::put("echo", &rind.user_plugins(), |manifest| {
        manifest.replace("component =", "compnent =")
    });
    rind.config("[plugins.loop-detection]\nenabled = false\n");
    rind
}

#[test]
fn the_list_says_what_runs_and_why_the_others_do_not() {
    let rind = mixed();
    assert_snapshot!(rind.run(&["plugin", "list"]).screen(), @r#"
    exit 1
    ---- stdout
    ✓ hello                    managed  0.1.0    turn-end, greet()
    ○ loop-detection           managed  switched off by [RIND_HOME]/config/config.toml:2
    ✗ echo                     user     [RIND_HOME]/config/plugins/echo/plugin.toml is not a plugin manifest: TOML parse error at line 4, column 1
          |
        4 | compnent = "guest_echo.wasm"
          | ^^^^^^^^
        unknown field `compnent`, expected one of `name`, `version`, `description`, `component`, `side_effects`, `trust`, `hooks`, `filesystem`, `network`, `external`, `limits`, `config`, `dependencies`, `points`, `implements`, `tools`, `compat`; did you mean `component`?
      required: it blocks when it fails, or may block, and it was installed or granted before; to run without it: `--without echo` for one run; `rind plugin disable echo` for good
    ○ hello                    user     shadowed by [RIND_HOME]/managed/hello
    ---- stderr
    the model's answers are shown while they are written
    "#);
}

#[test]
fn the_list_as_json_says_the_same() {
    let rind = mixed();
    let ran = rind.run(&["plugin", "list", "--json"]).exits(1);
    let list: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(list["plugins"][0]["name"], "hello");
    assert_eq!(list["plugins"].as_array().unwrap().len(), 1);
    assert_snapshot!(serde_json::to_string_pretty(&list["left_out"]).unwrap(), @r#"
    [
      {
        "name": "loop-detection",
        "trust": "managed",
        "folder": "[RIND_HOME]/managed/loop-detection",
        "why": "switched off by [RIND_HOME]/config/config.toml:2"
      },
      {
        "name": "echo",
        "trust": "user",
        "folder": "[RIND_HOME]/config/plugins/echo",
        "why": "[RIND_HOME]/config/plugins/echo/plugin.toml is not a plugin manifest: TOML parse error at line 4, column 1\n  |\n4 | compnent = \"guest_echo.wasm\"\n  | ^^^^^^^^\nunknown field `compnent`, expected one of `name`, `version`, `description`, `component`, `side_effects`, `trust`, `hooks`, `filesystem`, `network`, `external`, `limits`, `config`, `dependencies`, `points`, `implements`, `tools`, `compat`; did you mean `component`?",
        "relied_on": "it blocks when it fails, or may block, and it was installed or granted before"
      },
      {
        "name": "hello",
        "trust": "user",
        "folder": "[RIND_HOME]/config/plugins/hello",
        "why": "shadowed by [RIND_HOME]/managed/hello"
      }
    ]
    "#);
}

#[test]
fn an_empty_list_says_how_to_get_plugins() {
    assert_snapshot!(Rind::default().run(&["plugin", "list"]).screen(), @r"
    exit 0
    ---- stderr
    no plugins are installed; see `rind plugin install --help` and `rind plugin new --help`, and `--plugin PATH` of `rind run`
    ");
}

#[test]
fn a_broken_plugin_that_may_be_a_guard_keeps_the_run_from_starting_until_it_is_left_out() {
    let rind = mixed();
    let ran = rind.run(&["run", "hello"]).exits(3);
    assert_snapshot!(masked(&ran.stderr), @r#"
    ▲ plugin hello is not loaded: shadowed by [RIND_HOME]/managed/hello
    error: plugin echo cannot run: [RIND_HOME]/config/plugins/echo/plugin.toml is not a plugin manifest: TOML parse error at line 4, column 1
          |
        4 | compnent = "guest_echo.wasm"
          | ^^^^^^^^
        unknown field `compnent`, expected one of `name`, `version`, `description`, `component`, `side_effects`, `trust`, `hooks`, `filesystem`, `network`, `external`, `limits`, `config`, `dependencies`, `points`, `implements`, `tools`, `compat`; did you mean `component`?
          it is required, because it blocks when it fails, or may block, and it was installed or granted before
          to run without it: `--without echo` for one run; `rind plugin disable echo` for good
    "#);
    let ran = rind.run(&["run", "hello", "--without", "echo"]).exits(0);
    assert_snapshot!(masked(&ran.stderr), @r#"
    ▲ plugin hello is not loaded: shadowed by [RIND_HOME]/managed/hello
    model: scripted (scripted was asked for)
    session [SESSION] (new)
    1 step · 0 tool calls · [N] tokens in, [N] out · [T] · 1 hook call of 1 plugin in [T]
    "#);
}

#[test]
fn a_hook_is_not_called_without_the_setting_that_it_needs_and_the_list_says_so() {
    let rind = Rind::default();
    rind.managed("model-quartermaster");
    let hook_calls = || {
        let ran = rind.run(&["run", "--json", "hello"]).exits(0);
        ran.stdout.matches("\"type\":\"hook\"").count()
    };
    assert_eq!(hook_calls(), 0);
    let list = rind.run(&["plugin", "list"]).exits(0).stdout;
    assert!(list.contains("pre-reason (off without `models`)"), "{list}");
    let shown = rind.run(&["plugin", "inspect", "model-quartermaster"]);
    let shown = shown.exits(0).stdout;
    assert!(
        shown.contains("not called: it has nothing to do without the setting `models`"),
        "{shown}"
    );

    rind.config("[[plugins.model-quartermaster.config.models]]\nname = \"scripted\"\n");
    assert_eq!(hook_calls(), 4);
    let list = rind.run(&["plugin", "list"]).exits(0).stdout;
    assert!(!list.contains("off without"), "{list}");
}

#[test]
fn a_hook_is_called_only_for_the_tools_and_answers_that_it_wants_and_inspect_says_so() {
    let rind = Rind::default();
    rind.managed("pre-completion-checklist");
    rind.file(
        "script.toml",
        r#"
[[reply]]
text = "I write."
tool_calls = [
    { name = "write_file", arguments = { path = "a.md", content = "a" } },
    { name = "read_file", arguments = { path = "a.md" } },
    { name = "list_files", arguments = {} },
]
[[reply]]
text = "Done."
"#,
    );
    let n_calls = || {
        let ran = rind.run(&["run", "--yes", "--json", "--script", "script.toml", "go"]);
        let events = ran.exits(0).stdout;
        assert_eq!(
            events.matches("\"type\":\"tool-end\"").count(),
            3,
            "{events}"
        );
        // The turn has two answers; only the second one is final and reaches `post-reason`.
        assert_eq!(events.matches("\"point\":\"post-reason\"").count(), 1);
        events.matches("\"point\":\"post-tool\"").count()
    };
    assert_eq!(n_calls(), 1);
    let inspect = || rind.run(&["plugin", "inspect", "pre-completion-checklist"]);
    let shown = inspect().exits(0).stdout;
    assert!(
        shown.contains("only for calls of edit_file, write_file, bash\n")
            && shown.contains("only for answers that call no tool\n"),
        "{shown}"
    );

    rind.config("[plugins.pre-completion-checklist.config]\ncheck_tools = [\"read_file\", \"a\\u001b[2J\"]\n");
    assert_eq!(n_calls(), 2);
    let shown = inspect().exits(0).stdout;
    assert!(shown.contains("bash, read_file, a"), "{shown}");
    assert!(!shown.contains('\u{1b}'), "{shown:?}");

    rind.config("[plugins.pre-completion-checklist.config]\nedit_tools = []\ncommand_tools = []\n");
    assert_eq!(n_calls(), 0);
    let shown = inspect().exits(0).stdout;
    assert!(
        shown.contains("without the setting `edit_tools` or `command_tools` or `check_tools`"),
        "{shown}"
    );
}

#[test]
fn a_hook_is_called_only_for_results_that_are_longer_than_its_setting_and_inspect_says_so() {
    let rind = Rind::default();
    rind.managed("tool-output-sandbox");
    rind.file("short.txt", "a short file\n");
    rind.file("long.txt", &"a long file\n".repeat(2000));
    rind.file(
        "script.toml",
        r#"
[[reply]]
tool_calls = [
    { name = "read_file", arguments = { path = "short.txt" } },
    { name = "read_file", arguments = { path = "long.txt" } },
]
[[reply]]
text = "Done."
"#,
    );
    for (config, least, calls) in [
        ("", 16384, &["call_2"][..]),
        ("threshold = 4096\n", 4096, &["call_2"]),
        ("threshold = 65536\n", 65536, &[]),
    ] {
        rind.config(&format!("[plugins.tool-output-sandbox.config]\n{config}"));
        let ran = rind.run(&["run", "--yes", "--json", "--script", "script.toml", "go"]);
        let mut events = ran.exits(0).json_lines();
        events.retain(|event| event["point"] == "post-tool");
        let called: Vec<_> = events.iter().map(|event| &event["call_id"]).collect();
        assert_eq!(called, calls, "{config}");
        let shown = rind.run(&["plugin", "inspect", "tool-output-sandbox"]);
        let said = format!("only for results of more than {least} bytes\n");
        let shown = shown.exits(0).stdout;
        assert!(shown.contains(&said), "{shown}");
    }
}

#[test]
fn inspect_says_what_a_plugin_does_and_may_touch() {
    let rind = Rind::default();
    rind.managed("hello");
    assert_snapshot!(rind.run(&["plugin", "inspect", "hello"]).screen(), @r"
    exit 0
    ---- stdout
    hello 0.1.0
    Greets people: the smallest plugin with a tool and a hook.
    trust         managed
    folder        [RIND_HOME]/managed/hello
    digest [DIGEST]
    side effects  none
    hook          turn-end                 observe  priority 100, [T], is skipped when it fails
    tool          greet                    read     Greets somebody by name.
    built with    rind-sdk 0.1.0 (rust), contract 0.1.1, this plugin.toml
    import        rind:plugin/types@0.1.1                  data types, no access
    import        rind:plugin/payloads@0.1.1               data types, no access
    import        rind:plugin/outcomes@0.1.1               data types, no access
    import        rind:plugin/log@0.1.1                    its own lines in the log
    import        wasi:io/poll@0.2.6                       streams, no access by themselves
    import        wasi:io/error@0.2.6                      streams, no access by themselves
    import        wasi:io/streams@0.2.6                    streams, no access by themselves
    import        wasi:cli/environment@0.2.6               an empty environment
    import        wasi:cli/exit@0.2.6                      no access
    import        wasi:cli/stdin@0.2.6                     a stream that leads nowhere
    import        wasi:cli/stdout@0.2.6                    a stream that leads nowhere
    import        wasi:cli/stderr@0.2.6                    a buffer that only shows in its error messages
    import        wasi:cli/terminal-input@0.2.6            no access
    import        wasi:cli/terminal-output@0.2.6           no access
    import        wasi:cli/terminal-stdin@0.2.6            no access
    import        wasi:cli/terminal-stdout@0.2.6           no access
    import        wasi:cli/terminal-stderr@0.2.6           no access
    memory        at most 64 MiB
    loaded in [T], [LOADED]
    ");
}

#[test]
fn inspect_takes_a_folder_and_speaks_json() {
    let rind = Rind::default();
    let folder = guests::guest("injection-guard").to_str().unwrap();
    let ran = rind.run(&["plugin", "inspect", folder, "--json"]).exits(0);
    let mut report: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(report["trust"], "local");
    // Removes fields that differ between builds and machines, or that another test's snapshot has.
    for key in [
        "digest",
        "folder",
        "imports",
        "load_ms",
        "stopped",
        "was_cached",
    ] {
        assert!(!report[key].is_null(), "{key}");
        report.as_object_mut().unwrap().shift_remove(key);
    }
    assert_snapshot!(serde_json::to_string_pretty(&report).unwrap(), @r#"
    {
      "name": "injection-guard",
      "version": "0.1.0",
      "description": "Warns of text that gives the model orders in the voice of somebody else.",
      "trust": "local",
      "side_effects": [
        "session"
      ],
      "grants": [
        {
          "capability": "session",
          "words": "read the conversation and change prompts, messages, tool calls and the model",
          "trust_gives": "ask",
          "standing": "waiting",
          "why": "not granted: the default for local plugins"
        }
      ],
      "combined": null,
      "hooks": [
        {
          "point": "pre-reason",
          "kind": "mutate",
          "priority": 5,
          "deadline_ms": 5000,
          "on_failure": "skip",
          "is_async": false,
          "enabled": true,
          "holds_text": false,
          "of_plugin": null
        },
        {
          "point": "after-compact",
          "kind": "observe",
          "priority": 5,
          "deadline_ms": 5000,
          "on_failure": "skip",
          "is_async": false,
          "enabled": true,
          "holds_text": false,
          "of_plugin": null
        },
        {
          "point": "after-archive",
          "kind": "observe",
          "priority": 5,
          "deadline_ms": 5000,
          "on_failure": "skip",
          "is_async": false,
          "enabled": true,
          "holds_text": false,
          "of_plugin": null
        }
      ],
      "settings": [
        {
          "name": "mode",
          "value": "warn",
          "is_default": true
        },
        {
          "name": "skip_tools",
          "value": [],
          "is_default": true
        }
      ],
      "tools": [],
      "commands": [],
      "prompts": [],
      "built_with": {
        "contract": "0.1.1",
        "language": "rust",
        "sdk": "rind-sdk 0.1.0"
      },
      "has_own_manifest": true,
      "is_called": true,
      "other_exports": [],
      "implements": [],
      "points": [],
      "memory_limit": 67108864
    }
    "#);
}

#[test]
fn inspect_says_why_a_plugin_does_not_run() {
    let rind = mixed();
    for (name, code) in [("nothing", 2), ("loop-detection", 0), ("echo", 1)] {
        rind.run(&["plugin", "inspect", name]).exits(code);
    }
    assert_snapshot!(rind.run(&["plugin", "inspect", "nothing"]).screen(), @r"
    exit 2
    ---- stderr
    error: there is no plugin `nothing`: it is neither a folder with a plugin.toml nor listed by `rind plugin list`
    ");
    let off = rind.run(&["plugin", "inspect", "loop-detection"]).stdout;
    let line = "does not run  switched off by [RIND_HOME]/config/config.toml:2\n";
    assert!(off.contains(line), "{off}");
    assert_snapshot!(rind.run(&["plugin", "inspect", "echo"]).screen(), @r#"
    exit 1
    ---- stderr
    error: inspect plugin `echo`
      because [RIND_HOME]/config/plugins/echo/plugin.toml is not a plugin manifest: TOML parse error at line 4, column 1
          |
        4 | compnent = "guest_echo.wasm"
          | ^^^^^^^^
        unknown field `compnent`, expected one of `name`, `version`, `description`, `component`, `side_effects`, `trust`, `hooks`, `filesystem`, `network`, `external`, `limits`, `config`, `dependencies`, `points`, `implements`, `tools`, `compat`; did you mean `component`?
    "#);
}

#[test]
fn what_the_operator_set_of_hooks_and_settings_is_shown() {
    let rind = Rind::default();
    rind.managed("injection-guard").managed("quartermaster");
    rind.config(
        "[plugins.injection-guard]\npriority = 50\non_failure = \"block\"\n\
         [plugins.injection-guard.config]\nmode = \"block\"\n\
         [plugins.quartermaster.hooks.post-tool]\nenabled = false\n\
         [plugins.quartermaster.hooks.turn-end]\ntimeout_seconds = 90\n\
         [plugins.quartermaste]\npriority = 5\n",
    );
    let list = rind.run(&["plugin", "list"]).exits(1);
    assert_snapshot!(list.screen(), @r"
    exit 1
    ---- stdout
    ✓ injection-guard          managed  0.1.0    pre-reason (priority 50, blocks when it fails), after-compact (priority 50, blocks when it fails), after-archive (priority 50, blocks when it fails)
    ✓ quartermaster            managed  0.1.0    post-tool (switched off), turn-end
    ✗ quartermaste             -        there is no such plugin; see `rind plugin list`
      required: [RIND_HOME]/config/config.toml:10 configures it; to run without it: `--without quartermaste` for one run; `enabled = false` at [RIND_HOME]/config/config.toml:10 for good
    ---- stderr
    ▲ [RIND_HOME]/config/config.toml:9: plugins.quartermaster.hooks.turn-end.timeout_seconds: [T] exceeds the limit, so the limit of [T] applies
    the model's answers are shown while they are written
    ");
    let shown = |name: &str| {
        let all = rind.run(&["plugin", "inspect", name]).exits(0).stdout;
        let lines = all.lines().filter(|line| {
            ["hook", "setting", "   "]
                .iter()
                .any(|word| line.starts_with(word))
        });
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    assert_snapshot!(masked(&(shown("injection-guard") + &shown("quartermaster"))), @r#"
    hook          pre-reason               mutate   priority 50, [T], blocks when it fails
                    your settings, in place of priority 5, [T], is skipped when it fails
    hook          after-compact            observe  priority 50, [T], blocks when it fails
                    your settings, in place of priority 5, [T], is skipped when it fails
    hook          after-archive            observe  priority 50, [T], blocks when it fails
                    your settings, in place of priority 5, [T], is skipped when it fails
    setting       mode                     "block" your settings
    setting       skip_tools               []
    hook          post-tool                mutate   priority 6, [T], is skipped when it fails
                    your settings switch it off
    hook          turn-end                 observe  priority 6, [T], is skipped when it fails
    setting       confidence               0.6
    setting       observations             5
    setting       suggest                  true
    "#);
}

#[test]
fn inspect_says_who_may_call_the_points_that_a_plugin_defines() {
    let folder = guests::guest("points").to_str().unwrap();
    let rind = Rind::default();
    let shown = rind.run(&["plugin", "inspect", folder]).exits(0).stdout;
    let defined: Vec<&str> = shown
        .lines()
        .filter_map(|line| line.strip_prefix("defines"))
        .map(str::trim)
        .collect();
    assert_eq!(
        defined,
        [
            "owner.news (observe)",
            "owner.opinions (collect)",
            "owner.permit (gate), may be called by friend",
            "owner.review (mutate)",
        ]
    );
}
