//! `audit-log`: its hash chain continues across sessions and failures, is verified by the host, and
//! cannot be switched off accidentally.

use std::path::{Path, PathBuf};

use rind::grant::Trust;
use rind::grant::policy::CapabilityPolicy;
use rind::message::{Message, Role};
use rind::paths::ADMIN_POLICY_FILE_PATH;
use rind::plugin::load::{FoundPluginSet, PluginSkipReason};
use rind::point::catalog as at;
use rind::provider::scripted::Reply;
use rind::session::{Body, SessionStore};
use rind_audit::{Checked, Head};
use rind_tests::cli::Rind;
use rind_tests::guests::{self, Host};
use rind_tests::session::Session;
use serde_json::json;

use super::setup_of;
use crate::harness::{Running, session_spec};

const NAME: &str = rind_audit::PLUGIN;

fn host() -> Host {
    let mut host = Host::default();
    host.guest(NAME);
    host
}

fn script() -> Vec<Reply> {
    let read = |path: &str| Reply::call("read_file", json!({"path": path}));
    vec![
        read("a.txt"),
        read("missing.txt"),
        Reply::text("a private answer"),
    ]
}

/// Folder of the only log.
fn log_folder(host: &Host) -> PathBuf {
    let folder = host.options.data.join(NAME).join("files");
    let mut found = std::fs::read_dir(folder).unwrap();
    found.next().unwrap().unwrap().path()
}

fn log_file(host: &Host) -> PathBuf {
    log_folder(host).join("0001.jsonl")
}

/// Verifies the log as the host does.
fn check(host: &Host, store: &SessionStore) -> Checked {
    let file = log_file(host);
    let id = file
        .parent()
        .unwrap()
        .file_name()
        .unwrap()
        .to_str()
        .unwrap();
    let (entries, _) = store.read_entries(id).unwrap();
    let head = entries
        .into_iter()
        .rev()
        .find_map(|entry| match entry.body {
            Body::State { plugin, value, .. } if plugin == NAME => value,
            _ => None,
        });
    let head: Head = serde_json::from_str(&head.unwrap()).unwrap();
    let files = [("0001.jsonl".to_owned(), std::fs::read(&file).unwrap())];
    rind_audit::check(id, &files, Some(&head))
}

fn kinds(checked: &Checked) -> Vec<&str> {
    checked.lines.iter().map(rind_audit::Line::kind).collect()
}

/// Kinds of the log's lines for one turn of the script.
const TURN: [&str; 8] = [
    "input", "call", "result", "call", "result", "reply", "output", "turn-end",
];

/// Runs another turn of the same session, as a new process would.
async fn resumed(host: &Host, running: Running) -> Running {
    let id = running.session.id().clone();
    let folder = running.folder;
    drop((running.agent, running.session));
    let mut setup = setup_of(host, script()).await;
    setup.folder = folder;
    let spec = session_spec(&setup.workspace());
    let session = setup.store().resume(&id, &spec).unwrap();
    let mut running = setup.build_on(session);
    running.turn("go on").await;
    running
}

fn store_of(running: &Running) -> SessionStore {
    SessionStore::new(running.folder.path().join("sessions"))
}

#[tokio::test]
async fn a_turn_is_logged_without_its_texts_and_the_chain_is_whole() {
    let host = host();
    let mut running = setup_of(&host, script()).await.build();
    let outcome = running.turn("a private question").await;
    let checked = check(&host, &store_of(&running));
    assert_eq!(checked.broken, None);
    assert_eq!(kinds(&checked), TURN);
    let of = |at: usize, key: &str| checked.lines[at].event[key].clone();
    assert_eq!(
        (of(2, "tool"), of(2, "outcome")),
        (json!("read_file"), json!("ok"))
    );
    assert_eq!(of(4, "outcome"), "error");
    assert_eq!((of(7, "stop"), of(7, "steps")), (json!("done"), json!(3)));
    let usage = outcome.summary.usage;
    assert_eq!(of(7, "input_tokens"), usage.input_tokens);
    assert_eq!(
        of(6, "hash"),
        of(7, "hash"),
        "output and turn-end speak of the same text"
    );
    let text = std::fs::read_to_string(log_file(&host)).unwrap();
    for private in ["private", "alpha", "a.txt"] {
        assert!(!text.contains(private), "{private}: {text}");
    }
}

#[tokio::test]
async fn the_chain_goes_on_in_another_process_and_after_a_torn_line() {
    let host = host();
    let mut running = setup_of(&host, script()).await.build();
    running.turn("begin").await;
    let running = resumed(&host, running).await;
    let checked = check(&host, &store_of(&running));
    assert_eq!(
        (checked.broken.as_deref(), kinds(&checked)),
        (None, [TURN, TURN].concat())
    );

    let mut text = std::fs::read_to_string(log_file(&host)).unwrap();
    text.push_str("{\"n\":17,\"ti");
    std::fs::write(log_file(&host), text).unwrap();
    assert!(
        check(&host, &store_of(&running))
            .broken
            .unwrap()
            .contains(":17: the line is cut off")
    );
    let running = resumed(&host, running).await;
    let checked = check(&host, &store_of(&running));
    assert_eq!((checked.broken.as_deref(), checked.notes.len()), (None, 1));
    assert_eq!(checked.lines.len(), 3 * TURN.len() + 1);
    assert_eq!(kinds(&checked)[16], "torn");
}

#[tokio::test]
async fn lines_that_were_taken_away_stay_missed_when_the_log_goes_on() {
    let host = host();
    let mut running = setup_of(&host, script()).await.build();
    running.turn("begin").await;
    let text = std::fs::read_to_string(log_file(&host)).unwrap();
    let kept: Vec<&str> = text.split_inclusive('\n').take(3).collect();
    std::fs::write(log_file(&host), kept.concat()).unwrap();
    let running = resumed(&host, running).await;
    let checked = check(&host, &store_of(&running));
    assert!(
        checked
            .broken
            .unwrap()
            .starts_with("0001.jsonl:4: earlier lines were missing")
    );
}

#[tokio::test]
async fn a_long_session_has_several_files_and_one_chain() {
    let host = host();
    let mut running = setup_of(&host, script()).await.build();
    running.turn("begin").await;
    let id = running.session.id().clone();
    // A long line is appended to the log, so that the next line starts a new file.
    let text = std::fs::read_to_string(log_file(&host)).unwrap();
    std::fs::write(
        log_file(&host),
        format!("{text}{}\n", " ".repeat(128 << 10)),
    )
    .unwrap();
    let running = resumed(&host, running).await;
    let files = ["0001.jsonl", "0002.jsonl"].map(|name| {
        let bytes = std::fs::read(log_folder(&host).join(name)).unwrap();
        (name.to_owned(), bytes)
    });
    let first = (files[0].0.clone(), text.into_bytes());
    let checked = rind_audit::check(&id, &[first, files[1].clone()], None);
    assert_eq!(checked.broken, None);
    assert_eq!(checked.lines.len(), 2 * TURN.len());
    drop(running);
}

const SCRIPT: &str = "[[reply]]\ntext = \"done\"\n[[reply]]\ntext = \"done again\"\n";

#[test]
fn the_command_shows_a_log_and_exits_with_1_when_it_was_touched() {
    let rind = Rind::with_script(SCRIPT);
    rind.managed(NAME);
    assert_eq!(rind.run(&["run", "hello there"]).code, Some(0));
    let shown = rind.run(&["session", "audit"]);
    assert_eq!(shown.code, Some(0));
    assert_eq!(shown.stdout.lines().count(), 4, "{}", shown.stdout);
    let whole = rind.run(&["session", "audit", "last", "--verify"]);
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    assert!(
        whole.stderr.contains("is complete: 4 lines"),
        "{}",
        whole.stderr
    );

    let folder = rind.home().join("data/plugins/audit-log/files");
    let file = only_entry(&only_entry(&folder));
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("\"turn\":1", "\"turn\":2", 1)).unwrap();
    let broken = rind.run(&["session", "audit", "--verify"]);
    assert_eq!(broken.code, Some(1));
    assert!(
        broken
            .stderr
            .contains("is broken: 0001.jsonl:2: it does not continue"),
        "{}",
        broken.stderr
    );
    let json = rind.run(&["session", "audit", "--verify", "--json"]);
    assert_eq!(json.code, Some(1));
    let value: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(
        (&value["whole"], value["lines"].as_array().unwrap().len()),
        (&json!(false), 4)
    );
}

#[test]
fn the_log_of_a_session_whose_id_has_dots_is_found_and_belongs_to_no_other() {
    let rind = Rind::with_script(SCRIPT);
    rind.managed(NAME);
    for id in ["a.b", "ab"] {
        rind.run(&["run", "--session", id, "hello"]).exits(0);
    }
    for id in ["a.b", "ab"] {
        let whole = rind.run(&["session", "audit", id, "--verify"]).exits(0);
        assert!(
            whole.stderr.contains("is complete: 4 lines"),
            "{id}: {}",
            whole.stderr
        );
    }
}

fn only_entry(folder: &Path) -> PathBuf {
    let entries: Vec<_> = std::fs::read_dir(folder).unwrap().collect();
    assert_eq!(entries.len(), 1, "{}", folder.display());
    entries[0].as_ref().unwrap().path()
}

#[test]
fn neither_settings_nor_flags_nor_the_users_policy_switch_it_off() {
    let rind = Rind::with_script(SCRIPT);
    rind.managed(NAME);
    rind.config("[plugins.audit-log]\nenabled = false\n[plugins.audit-log.hooks.turn-end]\nenabled = false\n");
    let policy = "[plugins.audit-log]\ndisable = true\ndeny = [\"write:data\"]\n";
    std::fs::write(rind.home().join("config/policy.toml"), policy).unwrap();
    let ran = rind.run(&["run", "hello there", "--no-plugins"]);
    assert_eq!(ran.code, Some(0));
    for what in ["the settings of [plugins.audit-log]", "policy.toml: only"] {
        assert!(ran.stderr.contains(what), "{what}: {}", ran.stderr);
    }
    let hint = "only the administrator can switch it off, with `disable = true` under [plugins.audit-log] in /etc/rind/policy.toml";
    // The hint appears for both attempts. The help of `--no-plugins` already says that this plugin
    // stays on, so a run does not repeat that.
    assert_eq!(ran.stderr.matches(hint).count(), 2, "{}", ran.stderr);
    let checked = rind.run(&["session", "audit", "--verify"]);
    assert!(
        checked.stderr.contains("is complete: 4 lines"),
        "{}",
        checked.stderr
    );
}

#[tokio::test]
async fn the_administrator_switches_it_off_by_policy() {
    for (path, expected) in [(ADMIN_POLICY_FILE_PATH, 0), ("policy.toml", 1)] {
        let mut host = host();
        let text = "[plugins.audit-log]\ndisable = true\n";
        host.options.grants.policy = CapabilityPolicy::parse(&[(text, Path::new(path))]).unwrap();
        let set = host.load().await;
        assert_eq!(set.plugins.len(), expected, "{path}");
        assert_eq!(set.refused.len(), expected, "{path}");
        let is_off = |set: &FoundPluginSet| matches!(&set.left_out[..], [left] if matches!(&left.why, PluginSkipReason::Disallowed { place } if place.contains(ADMIN_POLICY_FILE_PATH)));
        assert_eq!(is_off(&set), expected == 0, "{path}");
    }
}

#[tokio::test]
async fn nobody_else_can_have_its_name() {
    for trust in [Trust::User, Trust::Project, Trust::Local] {
        for is_there in [true, false] {
            let mut host = Host::default();
            if is_there {
                host.guest(NAME);
            }
            host.plugin(trust, "hello", |manifest| {
                manifest.replace("name = \"hello\"", "name = \"audit-log\"")
            });
            let set = host.load().await;
            assert_eq!(set.plugins.len(), usize::from(is_there), "{trust}");
            assert!(
                matches!(&set.left_out[0].why, PluginSkipReason::Failed(error) if error.to_string().contains("the name `audit-log` is reserved"))
            );
        }
    }
}

#[test]
fn a_plugin_that_would_replace_it_is_refused_by_name_in_a_run_and_the_real_one_logs() {
    let rind = Rind::with_script(SCRIPT);
    rind.managed(NAME);
    let local = guests::put("hello", &rind.user_home(), |manifest| {
        manifest.replace("name = \"hello\"", "name = \"audit-log\"")
    });
    guests::put("hello", &rind.user_plugins(), |manifest| {
        manifest.replace("name = \"hello\"", "name = \"audit-log\"")
    });
    let ran = rind.run(&["run", "hello there", "--plugin", local.to_str().unwrap()]);
    let refusal = "plugin audit-log is not loaded: the name `audit-log` is reserved";
    let ran = ran.exits(0);
    assert_eq!(ran.stderr.matches(refusal).count(), 2, "{}", ran.stderr);
    let checked = rind.run(&["session", "audit", "--verify"]).exits(0);
    assert!(
        checked.stderr.contains("is complete: 4 lines"),
        "{}",
        checked.stderr
    );
    let granted = rind.run(&["plugin", "disable", NAME]).exits(2);
    assert!(
        granted
            .stderr
            .contains("only the administrator can switch it off"),
        "{}",
        granted.stderr
    );
}

#[test]
fn a_plugin_of_its_name_is_refused_by_name_in_a_run() {
    let rind = Rind::with_script(SCRIPT);
    guests::put("hello", &rind.user_plugins(), |manifest| {
        manifest.replace("name = \"hello\"", "name = \"audit-log\"")
    });
    let ran = rind.run(&["run", "hello there"]);
    assert!(
        ran.stderr
            .contains("plugin audit-log is not loaded: the name `audit-log` is reserved"),
        "{}",
        ran.stderr
    );
}

#[tokio::test]
async fn what_other_plugins_cause_meanwhile_is_written_one_line_after_the_other() {
    let host = host();
    let plugins = host.load().await;
    let session = Session::open(&plugins);
    let told = (0..24).map(|n| {
        let mut caller = session.caller.clone();
        if n % 2 == 0 {
            caller.call_chain.push("helper".into());
        }
        let message = Message::text(Role::User, n.to_string());
        let dispatcher = session.dispatcher.clone();
        async move {
            dispatcher
                .dispatch::<at::MessageEnd>(&caller, message)
                .await
        }
    });
    futures_util::future::join_all(told).await;
    let files = [("1".to_owned(), std::fs::read(log_file(&host)).unwrap())];
    let head = session.state(NAME, rind_audit::HEAD_KEY);
    let checked = rind_audit::check("s", &files, Some(&serde_json::from_str(&head).unwrap()));
    assert_eq!((checked.lines.len(), checked.broken), (24, None));
}
