//! Tests of loading plugins from folders: refusals with their messages, and that the rest runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use rind::grant::Trust;
use rind::grant::held::InMemoryFolder;
use rind::message::{EffectClass, ToolCall};
use rind::plugin::discover::PluginSearchPath;
use rind::plugin::inspect::build_plugin_report;
use rind::plugin::installed::InstalledPlugin;
use rind::plugin::load::{FoundPluginSet, PluginSkipReason};
use rind::point::catalog::PreTool;
use rind::point::payload::ProposedCall;
use rind::point::trace::TraceOutcome;
use rind_tests::guests::Host;
use rind_tests::session::Session;
use serde_json::json;

fn names(plugins: &FoundPluginSet) -> Vec<&str> {
    plugins
        .plugins
        .iter()
        .map(|plugin| plugin.manifest.name.as_str())
        .collect()
}

/// Returns the reason why the plugin was not loaded.
fn why(plugins: &FoundPluginSet, name: &str) -> String {
    let left = plugins.left_out.iter().find(|left| left.name == name);
    let left = left.unwrap_or_else(|| panic!("`{name}` was not left out: {plugins:?}"));
    match &left.why {
        PluginSkipReason::Failed(error) => error.to_string(),
        PluginSkipReason::Shadowed { by } => format!(
            "shadowed by {}",
            by.parent().unwrap().file_name().unwrap().display()
        ),
        PluginSkipReason::Disallowed { place } => format!("disallowed {place}"),
        PluginSkipReason::Disabled { .. } => "disabled".to_owned(),
        PluginSkipReason::Without => "without".to_owned(),
        PluginSkipReason::Held(plugin) => format!(
            "held: {:?}",
            plugin
                .decision
                .capabilities_with_status(rind::grant::decide::GrantStatus::Waiting)
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        ),
    }
}

/// Loads one guest with a changed manifest, and `hello` beside it, which must always be loaded.
async fn refused(guest: &str, manifest: impl FnOnce(String) -> String) -> String {
    let mut host = Host::default();
    host.guest("hello");
    let folder = host.plugin(Trust::Managed, guest, manifest);
    let plugins = host.load().await;
    assert_eq!(names(&plugins), ["hello"]);
    let text = why(&plugins, &plugins.left_out[0].name);
    text.replace(&folder.display().to_string(), "FOLDER")
}

#[tokio::test]
async fn an_unknown_key_is_refused_at_its_line_and_the_others_run() {
    let text = refused("every-point", |manifest| {
        manifest.replace("[hooks.tool_call]", "[hook.tool_call]")
    })
    .await;
    assert!(
        text.starts_with(
            "FOLDER/plugin.toml is not a plugin manifest: TOML parse error at line 10, column 2"
        ),
        "{text}"
    );
    assert!(text.contains("unknown field `hook`"), "{text}");
}

#[tokio::test]
async fn manifests_that_contradict_themselves_are_refused_with_what_to_do() {
    let cases = [
        (
            "side_effects = [\"session\"]",
            "side_effects = [\"none\", \"session\"]",
            "`none` cannot be combined with others",
        ),
        (
            "side_effects = [\"session\"]",
            "side_effects = [\"session\"]\n[network]\nhosts = []",
            "[network] needs `side_effects = [\"network\"]`",
        ),
        (
            "[hooks.post-output]\nasync = true",
            "[hooks.pre-output]\nasync = true",
            "line 7, [hooks.pre-output]: only hooks of observe points can be `async`",
        ),
        (
            "[hooks.post-output]\nasync = true",
            "[hooks.post-output]\non_failure = \"block\"",
            "is not possible for hooks of observe points",
        ),
        (
            "[hooks.post-output]",
            "[hooks.post-outptu]",
            "there is no such point; did you mean `post-output`?",
        ),
        (
            "name = \"every-point\"",
            "name = \"Every Point\"",
            "is not made of 1 to 64 of a-z, 0-9 and `-`",
        ),
        (
            "component = \"guest_every_point.wasm\"",
            "component = \"../x.wasm\"",
            "is not the name of a file in the folder of the manifest",
        ),
        (
            "priority = 7",
            "timeout = \"0s\"",
            "a time of 0 would stop every call",
        ),
        (
            "priority = 7",
            "timeout = \"soon\"",
            "`soon` is not a time like \"5s\" or \"500ms\"",
        ),
        (
            "priority = 7",
            "[limits]\nmemory = \"lots\"",
            "`lots` is not a size like \"64MiB\"",
        ),
        (
            "priority = 7",
            "[implements]\nreview = {}",
            "`review` is not of the form `owner.NAME`",
        ),
        (
            "priority = 7",
            "[dependencies]\n\"../other\" = \"*\"",
            "[dependencies]: the name `../other` is not made of 1 to 64 of a-z, 0-9 and `-`",
        ),
    ];
    for (old, new, expected) in cases {
        let text = refused("every-point", |manifest| {
            assert!(manifest.contains(old), "{old}");
            manifest.replace(old, new)
        })
        .await;
        assert!(text.contains(expected), "{new}: {text}");
    }
}

#[tokio::test]
async fn imports_that_are_not_covered_are_refused_by_name() {
    let text = refused("reach-http", |manifest| manifest).await;
    assert_eq!(
        text,
        "the component imports `rind:plugin/http@0.1.1`, which needs `side_effects = [\"network\"]` in plugin.toml"
    );
    let text = refused("reach-http", |manifest| {
        manifest + "side_effects = [\"network\"]\n"
    })
    .await;
    assert_eq!(
        text,
        "the component imports `rind:plugin/http@0.1.1`, but no host was granted: list those that it talks to under `[network] hosts` in plugin.toml"
    );
    let text = refused("reach-sockets", |manifest| manifest).await;
    assert!(
        text.starts_with("the component imports `wasi:sockets/")
            && text.contains("use `rind:plugin/http`"),
        "{text}"
    );
}

#[tokio::test]
async fn sockets_that_are_declared_inert_are_linked_and_denied_at_every_use() {
    let mut host = Host::default();
    host.plugin(Trust::Managed, "reach-sockets", |manifest| {
        manifest + "[compat]\nsockets = \"inert\"\n"
    });
    let plugins = host.load().await;
    assert_eq!(names(&plugins), ["reach-sockets"]);
    let output = Session::open(&plugins).tool("connect", json!({})).await;
    assert!(output.is_error, "{output:?}");
    assert!(output.content.text().contains("denied"), "{output:?}");
}

#[tokio::test]
async fn exports_that_change_the_conversation_need_the_session_side_effect() {
    let text = refused("every-point", |manifest| {
        manifest.replace("side_effects = [\"session\"]", "side_effects = []")
    })
    .await;
    assert!(
        text.contains("a mutate point, which needs `side_effects = [\"session\"]` in plugin.toml"),
        "{text}"
    );
}

#[tokio::test]
async fn options_for_what_is_not_exported_are_refused() {
    let text = refused("hostile", |manifest| manifest + "[hooks.pre-output]\n").await;
    assert_eq!(
        text,
        "FOLDER/plugin.toml declares `[hooks.pre-output]`, but the component does not export `pre-output`; implement `pre-output`, \
         or remove `[hooks.pre-output]` from the manifest"
    );
}

#[tokio::test]
async fn bytes_that_are_no_component_are_refused() {
    let cases: [(&str, Vec<u8>, &str); 4] = [
        ("nothing", Vec::new(), "is not a valid component"),
        ("text", b"(component)".to_vec(), "is not a valid component"),
        (
            "a core module",
            wat::parse_str("(module)").unwrap(),
            "is a core module, not a component",
        ),
        (
            "half a component",
            wat::parse_str("(component (core module))").unwrap()[..12].to_vec(),
            "is not a valid component",
        ),
    ];
    for (what, bytes, expected) in cases {
        let mut host = Host::default();
        let folder = host.guest("hello");
        std::fs::write(folder.join("hello.wasm"), bytes).unwrap();
        let text = why(&host.load().await, "hello");
        assert!(text.contains(expected), "{what}: {text}");
    }
}

#[tokio::test]
async fn a_component_that_is_not_there_says_how_to_build_it() {
    let mut host = Host::default();
    let folder = host.guest("hello");
    std::fs::remove_file(folder.join("hello.wasm")).unwrap();
    let text = why(&host.load().await, "hello");
    assert!(
        text.ends_with(&format!(
            "build it with `rind plugin build {}`",
            folder.display()
        )),
        "{text}"
    );
}

#[tokio::test]
async fn a_local_folder_without_a_plugin_is_reported() {
    let mut host = Host::default();
    let folder = host.folder().join("empty");
    std::fs::create_dir(&folder).unwrap();
    host.options.sources.push(PluginSearchPath {
        trust: Trust::Local,
        path: folder,
    });
    let why = why(&host.load().await, "empty");
    assert!(why.contains("plugin.toml"), "{why}");
}

#[tokio::test]
async fn a_name_found_twice_goes_to_the_more_trusted_even_when_that_one_is_broken() {
    let mut host = Host::default();
    host.plugin(Trust::Project, "hello", |manifest| manifest);
    host.plugin(Trust::User, "hello", |manifest| manifest);
    let plugins = host.load().await;
    assert_eq!(
        (names(&plugins), plugins.plugins[0].trust),
        (vec!["hello"], Trust::User)
    );
    assert_eq!(why(&plugins, "hello"), "shadowed by user");
    let broken = host.plugin(Trust::Managed, "hello", |manifest| manifest);
    std::fs::write(broken.join("hello.wasm"), "broken").unwrap();
    let plugins = host.load().await;
    assert!(
        plugins.plugins.is_empty(),
        "breaking a plugin makes no room for another of its name"
    );
    assert_eq!(plugins.left_out.len(), 3);
}

#[tokio::test]
async fn of_two_tools_with_one_name_the_more_trusted_plugins_comes_first() {
    let mut host = Host::default();
    host.plugin(Trust::Local, "hello", |manifest| {
        manifest.replace("name = \"hello\"", "name = \"aaa\"")
    });
    host.guest("hello");
    let session = Session::open(&host.load().await);
    let from: Vec<_> = session
        .tools
        .iter()
        .map(|tool| tool.spec().plugin.clone().unwrap())
        .collect();
    assert_eq!(
        from,
        ["hello", "aaa"],
        "and the second of a name is refused when tools are registered"
    );
}

#[tokio::test]
async fn dependencies_are_loaded_first_and_missing_old_or_circular_ones_are_named() {
    let named = |name: &'static str, depends: &'static str| {
        move |manifest: String| {
            format!(
                "{}\n[dependencies]\n{depends}\n",
                manifest.replace("name = \"hello\"", &format!("name = \"{name}\""))
            )
        }
    };
    let mut host = Host::default();
    host.plugin(Trust::Managed, "hello", named("a", "b = \"^0.1\""));
    host.plugin(Trust::Managed, "hello", named("b", ""));
    host.plugin(Trust::Managed, "hello", named("missing", "nowhere = \"1\""));
    host.plugin(Trust::Managed, "hello", named("old", "b = \"^2\""));
    host.plugin(Trust::Managed, "hello", named("x", "y = \"*\""));
    host.plugin(Trust::Managed, "hello", named("y", "x = \"*\""));
    let plugins = host.load().await;
    assert_eq!(names(&plugins), ["b", "a"]);
    assert_eq!(
        why(&plugins, "missing"),
        "it depends on plugin `nowhere` ^1, which is not loaded"
    );
    assert_eq!(
        why(&plugins, "old"),
        "it depends on plugin `b` ^2, but version 0.1.0 is loaded"
    );
    assert_eq!(
        why(&plugins, "x"),
        "its dependencies form a cycle: `x`, `y`"
    );
}

#[tokio::test]
async fn settings_are_checked_against_the_schema_and_an_unknown_one_is_refused() {
    let mut host = Host::default();
    host.guest("hostile");
    host.set("hostile", "how", 7);
    let text = why(&host.load().await, "hostile");
    assert!(
        text.contains("`how`: 7 is not") && text.contains("[plugins.hostile.config]"),
        "{text}"
    );
    host.set("hostile", "how", "");
    host.set("hostile", "hwo", "trap");
    let text = why(&host.load().await, "hostile");
    assert!(text.contains("hwo"), "{text}");
}

#[tokio::test]
async fn a_plugin_that_is_switched_off_is_listed_as_such() {
    let mut host = Host::default();
    host.guest("hello");
    host.options
        .settings
        .entry("hello".to_owned())
        .or_default()
        .enabled = false;
    assert_eq!(why(&host.load().await, "hello"), "disabled");
}

#[tokio::test]
async fn the_second_load_comes_from_the_cache_and_a_forged_entry_is_compiled_again() {
    let mut host = Host::default();
    host.options.cache = host.folder().join("compiled");
    host.options.cache_key = host.folder().join("key/cache");
    host.guest("hello");
    assert!(!host.load().await.plugins[0].was_cached);
    assert!(host.load().await.plugins[0].was_cached);
    let entry = std::fs::read_dir(&host.options.cache)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut bytes = std::fs::read(&entry).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&entry, bytes).unwrap();
    let plugins = host.load().await;
    assert!(!plugins.plugins[0].was_cached && plugins.left_out.is_empty());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(&host.options.cache)
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o700, "native code is nobody else's business");
    }
}

#[tokio::test]
async fn a_report_is_made_from_the_bytes() {
    let mut host = Host::default();
    host.guest("every-point");
    host.guest("hello");
    let plugins = host.load().await;
    let report = build_plugin_report(&plugins.plugins[0]);
    assert_eq!(report.hooks.len(), rind::point::catalog::CATALOG.len());
    let pre_tool = report
        .hooks
        .iter()
        .find(|hook| hook.point == "pre-tool")
        .unwrap();
    assert_eq!(
        (pre_tool.priority, pre_tool.deadline_ms),
        (7, 5000),
        "options under an alias count"
    );
    let post_output = report
        .hooks
        .iter()
        .find(|hook| hook.point == "post-output")
        .unwrap();
    assert_eq!(
        (post_output.is_async, post_output.deadline_ms),
        (true, 15_000)
    );
    let report = build_plugin_report(&plugins.plugins[1]);
    assert_eq!(report.digest.len(), "sha256:".len() + 64);
    assert_eq!(report.tools[0].name, "greet");
    assert_eq!(report.hooks[0].point, "turn-end");
    let ours: Vec<&str> = report
        .imports
        .iter()
        .map(|i| i.interface.as_str())
        .filter(|i| i.starts_with("rind:plugin/") && !i.contains("/types@"))
        .collect();
    let expected = ["payloads", "outcomes", "log"].map(|name| format!("rind:plugin/{name}@0.1.1"));
    assert_eq!(ours, expected, "what it calls, and nothing else");
}

/// The guest `points` under two names: one owns the points, the others implement them.
async fn points_session(implementers: &[&'static str]) -> Session {
    let mut host = Host::default();
    host.guest("points");
    for name in implementers {
        host.plugin(Trust::Managed, "points", |_| {
            format!(
                "name = \"{name}\"\nversion = \"0.1.0\"\ndescription = \"x\"\ncomponent = \"guest_points.wasm\"\n\
                 [implements.\"owner.review\"]\n[implements.\"owner.opinions\"]\n[implements.\"owner.permit\"]\n\
                 [implements.\"owner.news\"]\n\
                 [config]\ntype = \"object\"\n[config.properties.name]\ntype = \"string\"\ndefault = \"{name}\"\n"
            )
        });
    }
    let plugins = host.load().await;
    assert!(plugins.left_out.is_empty(), "{:?}", plugins.left_out);
    Session::open(&plugins)
}

#[tokio::test]
async fn points_of_plugins_chain_or_collect_and_check_their_schemas() {
    let session = points_session(&["one", "two"]).await;
    let ask = async |point: &str, payload| {
        session
            .tool("owner:ask", json!({"point": point, "payload": payload}))
            .await
            .content
            .to_string()
    };
    assert_eq!(
        ask("review", json!({"text": "good"})).await,
        r#"{"text":"good!!"} pass"#
    );
    assert_eq!(
        ask("opinions", json!({"all": ["value", "fine"]})).await,
        r#"[{"text":"fine"},{"text":"fine"}] pass"#
    );
    assert_eq!(
        ask("opinions", json!({"two": ["value", "fine"]})).await,
        r#"[{"text":"fine"}] pass"#,
        "who has nothing to say adds nothing"
    );
    assert_eq!(
        ask("review", json!({"text": "wrong"})).await,
        r#"{"text":"wrong"} pass"#,
        "an answer that does not fit is that hook's failure"
    );
    let text = ask("review", json!({"txet": "good"})).await;
    assert!(
        text.contains("the payload of `owner.review` does not fit its schema"),
        "{text}"
    );
    let text = ask("nothing", json!({})).await;
    assert!(
        text.contains("plugin `owner` declares no point `nothing`"),
        "{text}"
    );
}

#[tokio::test]
async fn implementers_refuse_and_ask_as_far_as_the_kind_of_the_point_goes() {
    let session = points_session(&["one", "two"]).await;
    let ask = async |point: &str, payload| {
        let arguments = json!({"point": point, "payload": payload});
        let content = session
            .tool("owner:ask", arguments)
            .await
            .content
            .to_string();
        let failures: Vec<String> = std::mem::take(&mut *session.memory.traces.lock().unwrap())
            .into_iter()
            .filter(|record| record.outcome == TraceOutcome::Failed)
            .filter_map(|record| record.reason)
            .collect();
        (content, failures.join("; "))
    };
    let none = String::new();
    assert_eq!(
        ask("permit", json!({"all": ["ask", "sure?"]})).await,
        (
            r#"{"all":["ask","sure?"]} ask one (sure?) two (sure?)"#.to_owned(),
            none.clone()
        )
    );
    assert_eq!(
        ask(
            "permit",
            json!({"one": ["ask", "sure?"], "two": ["block", "no"]})
        )
        .await
        .0,
        r#"{"one":["ask","sure?"],"two":["block","no"]} block two (no)"#,
        "block beats ask"
    );
    let effects = std::mem::take(&mut *session.memory.effects.lock().unwrap());
    assert_eq!(effects.len(), 4, "{effects:?}");
    assert_eq!(
        ask("permit", json!({"two": ["value", "new"]})).await,
        (r#"{"text":"new"} pass"#.to_owned(), none.clone())
    );
    for (point, said, why) in [
        (
            "opinions",
            "ask",
            "the hook answered `ask`, which is not possible at collect points",
        ),
        (
            "opinions",
            "block",
            "the hook answered `block`, which is not possible at collect points",
        ),
        (
            "news",
            "block",
            "the hook answered `block`, which is not possible at observe points",
        ),
    ] {
        let (content, failure) = ask(point, json!({"one": [said, "x"]})).await;
        assert!(content.ends_with(" pass"), "{content}");
        assert!(failure.contains(why), "{failure}");
    }
}

#[tokio::test]
async fn a_point_is_called_by_its_owner_and_those_that_the_owner_names() {
    let session = points_session(&["friend", "stranger"]).await;
    let ask = async |plugin: &str, point: &str| {
        let arguments = json!({"point": point, "payload": {"all": ["block", "no"]}});
        session
            .tool(&format!("{plugin}:ask"), arguments)
            .await
            .content
            .to_string()
    };
    assert!(ask("owner", "permit").await.ends_with("block friend (no)"));
    assert!(
        ask("friend", "owner.permit")
            .await
            .ends_with("block stranger (no)"),
        "a plugin is not asked about what it does itself"
    );
    for (plugin, point) in [("stranger", "owner.permit"), ("friend", "owner.opinions")] {
        let text = ask(plugin, point).await;
        let why = format!("denied: plugin `{plugin}` may not call `{point}`");
        assert!(text.contains(&why), "{text}");
        assert!(
            text.contains(&format!("`callers = [\"{plugin}\"]`")),
            "{text}"
        );
    }
}

#[tokio::test]
async fn implementing_a_point_that_nobody_defines_is_refused_with_both_names() {
    let implements = |point: &'static str| {
        move |_| {
            format!(
                "name = \"lost\"\nversion = \"0.1.0\"\ndescription = \"x\"\ncomponent = \"guest_points.wasm\"\n[implements.\"{point}\"]\n"
            )
        }
    };
    let text = refused("points", implements("nobody.review")).await;
    assert_eq!(
        text,
        "the plugin implements `nobody.review`, but plugin `nobody` is not loaded"
    );
    let text = refused("points", implements("hello.review")).await;
    assert_eq!(
        text,
        "the plugin implements `hello.review`, but plugin `hello` declares no point `review`"
    );
}

#[tokio::test]
async fn what_a_plugin_keeps_in_a_session_is_not_handed_to_one_of_its_name_from_elsewhere() {
    let keeper = async |trust: Trust| {
        let mut host = Host::default();
        host.plugin(trust, "loop-detection", |manifest| manifest);
        let session = Session::open(&host.load().await);
        let call = ProposedCall {
            call: ToolCall::new("c", "edit_file", json!({"path": "a"})),
            effect_class: EffectClass::Write,
            plugin: None,
            check: Arc::new(|_| Ok(())),
        };
        session
            .dispatcher
            .dispatch::<PreTool>(&session.caller, call)
            .await;
        let state = session.memory.state.lock().unwrap();
        let names: BTreeSet<String> = state.keys().map(|(plugin, _)| plugin.clone()).collect();
        names.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(keeper(Trust::Managed).await, "loop-detection");
    let (one, other) = (keeper(Trust::Local).await, keeper(Trust::Local).await);
    assert!(one.starts_with("loop-detection@"), "{one}");
    assert_ne!(one, other, "another folder");
}

#[tokio::test]
async fn an_installed_plugin_is_loaded_from_the_bytes_that_were_verified() {
    let mut host = Host::default();
    let folder = host.plugin(Trust::User, "hello", |manifest| manifest);
    let held = InMemoryFolder::read(&folder).unwrap();
    let own = |files| InstalledPlugin {
        name: "hello".to_owned(),
        folder: folder.clone(),
        trust: Trust::Package,
        files,
        note: None,
    };
    host.options.installed = vec![own(Ok(Arc::new(held)))];
    // The files on disk are replaced after they were verified and read.
    std::fs::write(folder.join("plugin.toml"), "x").unwrap();
    std::fs::write(folder.join("hello.wasm"), "x").unwrap();
    let plugins = host.load().await;
    assert_eq!(names(&plugins), ["hello"]);
    assert_eq!(plugins.plugins[0].trust, Trust::Package);
    // A plugin whose files were not verified is not read.
    host.options.installed = vec![own(Err("its files are others".to_owned()))];
    let plugins = host.load().await;
    let why = why(&plugins, "hello");
    assert!(why.contains("is not loaded: its files are others"), "{why}");
    assert!(why.contains("`rind plugin update hello`"), "{why}");
    // A record of an installation has no effect if its folder is not searched.
    host.options.sources.clear();
    assert!(host.load().await.left_out.is_empty());
}
