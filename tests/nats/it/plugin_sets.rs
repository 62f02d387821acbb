//! Tests of sets of plugins that are published once and run by all workers.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, OnceLock};

use rind_lib::session::{Body, SessionStore};
use rind_nats::NatsSessions;
use rind_nats_tests::{Machine, NatsServers};
use serde_json::Value;

use super::front::{PROGRAM, start};

/// A model that calls the tool `greet`, or runs `rm`, or greets slowly, depending on the input.
const SCRIPT: &str = r#"
[[reply]]
when = { contains = "greet", step = 1 }
times = 0
tool_calls = [{ name = "greet", arguments = { name = "Ada" } }]
[[reply]]
when = { contains = "delete", step = 1 }
times = 0
tool_calls = [{ name = "bash", arguments = { command = "rm -rf precious" } }]
[[reply]]
when = { contains = "linger", step = 1 }
times = 1
delay_ms = 60000
text = "Too late."
[[reply]]
when = { contains = "linger", step = 1 }
times = 0
tool_calls = [{ name = "greet", arguments = { name = "Bo" } }]
[[reply]]
times = 0
text = "Done."
"#;

/// Builds a guard and a plugin with a tool, once for all tests of this process. Returns their
/// folder.
fn built() -> &'static Path {
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = BUILT.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let output = Command::new(PROGRAM)
            .args(["plugin", "build"])
            .args([root.join("plugins/hello"), root.join("tests/guests/sentry")])
            .arg("--out")
            .arg(folder.path().join("plugins"))
            .env("RIND_HOME", folder.path().join("home"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_success(&output);
        // Compiles the components once, because a debug build of the compiler is slow.
        let machine = Machine::new(PROGRAM, "", SCRIPT);
        let plugins = folder.path().join("plugins").display().to_string();
        let list = ["plugin", "list", "--grant", "sentry", "--plugin", &plugins];
        // The list may fail because a plugin is left out, which does not matter here.
        machine.local(&list).output().unwrap();
        copy_compiled(&machine.path("home"), &folder.path().join("compiled"));
        folder
    });
    folder.path()
}

/// Copies compiled components from one home to another, with the key that proves that the program
/// compiled them.
fn copy_compiled(from: &Path, to: &Path) {
    for name in ["cache/components", "data"] {
        std::fs::create_dir_all(to.join(name)).unwrap();
        for entry in std::fs::read_dir(from.join(name)).into_iter().flatten() {
            let path = entry.unwrap().path();
            let is_wanted = path.is_file() && (name != "data" || path.ends_with("cache.key"));
            if is_wanted {
                std::fs::copy(&path, to.join(name).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
}

#[track_caller]
fn assert_success(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Servers, the machine of the operator with two plugins installed, and a machine for workers.
struct Fleet {
    _servers: NatsServers,
    sessions: NatsSessions,
    operator: Machine,
    machine: Machine,
    public: String,
}

impl Fleet {
    fn start() -> Self {
        let (servers, sessions, machine) = start(SCRIPT);
        let operator = Machine::new(PROGRAM, &servers.urls(), SCRIPT);
        for machine in [&operator, &machine] {
            copy_compiled(&built().join("compiled"), &machine.path("home"));
        }
        for name in ["hello", "sentry"] {
            let folder = built().join("plugins").join(name);
            let folder = folder.display().to_string();
            let install = operator.local(&["plugin", "install", &folder]).output();
            assert_success(&install.unwrap());
        }
        let mut fleet = Self {
            _servers: servers,
            sessions,
            operator,
            machine,
            public: String::new(),
        };
        fleet.public = fleet.make_key("key");
        fleet
    }

    fn key(&self, name: &str) -> String {
        self.operator.path(name).display().to_string()
    }

    /// Creates a signing key, and returns its public part.
    fn make_key(&self, name: &str) -> String {
        let made = self
            .operator
            .local(&["cluster", "plugins", "key", &self.key(name)])
            .output();
        assert_success(&made.unwrap()).trim().to_owned()
    }

    fn publish(&self, args: &[&str]) -> String {
        let key = self.key("key");
        let args = [&["--yes", "--key", &key], args].concat();
        self.operator
            .output(&["cluster", "plugins", "publish"], &args)
    }

    fn start_worker(&mut self) -> u32 {
        let public = self.public.clone();
        self.machine
            .start_worker(&["--yes", "--plugins-key", &public])
    }

    /// Runs a turn, and returns the results of its calls.
    fn run(&self, session: &str, text: &str) -> String {
        let answer = self.machine.output(&["run"], &["--session", session, text]);
        assert_eq!(answer, "Done.\n");
        self.told(session)
    }

    fn entries(&self, session: &str) -> Vec<Body> {
        let store = SessionStore::with_backend(Arc::new(self.sessions.clone()));
        let read = store.read_entries(session).map(|(entries, _)| entries);
        let entries = read.unwrap_or_default().into_iter();
        entries.map(|entry| entry.body).collect()
    }

    fn told(&self, session: &str) -> String {
        serde_json::to_string(&self.entries(session)).unwrap()
    }

    /// Returns for each turn of a session the set of plugins in its start.
    fn sets(&self, session: &str) -> Vec<Option<String>> {
        let entries = self.entries(session).into_iter();
        let sets = entries.filter_map(|body| match body {
            Body::TurnStart { plugins, .. } => Some(plugins),
            _ => None,
        });
        sets.collect()
    }

    /// Waits until this number of turns of a session have ended.
    #[track_caller]
    fn wait_for_ends(&self, session: &str, n: usize) {
        self.machine.wait_for("the end of the turns", |_| {
            let entries = self.entries(session);
            let is_end = |body: &&Body| matches!(body, Body::TurnEnd { .. });
            entries.iter().filter(is_end).count() == n
        });
    }

    /// Waits until a worker reports a fault with this text, because of which it begins no turn.
    #[track_caller]
    fn wait_for_fault(&self, why: &str) {
        self.machine.wait_for(why, |machine| {
            let faults = machine.workers();
            let mut faults = faults.iter().filter_map(|worker| worker["fault"].as_str());
            faults.any(|fault| fault.contains(why))
        });
    }

    /// Waits until a worker has loaded the set with this number.
    #[track_caller]
    fn wait_for_set(&self, number: u64) {
        let start = format!("{number} ");
        self.machine.wait_for("the set", |machine| {
            let workers = machine.workers();
            let mut sets = workers
                .iter()
                .filter_map(|worker| worker["plugins"].as_str());
            sets.any(|set| set.starts_with(&start))
        });
    }
}

/// Runs `work` with a client of the servers.
fn with_client<T>(
    machine: &Machine,
    work: impl AsyncFnOnce(async_nats::Client, async_nats::jetstream::Context) -> T,
) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = async_nats::connect(machine.urls()).await.unwrap();
        let context = async_nats::jetstream::new(client.clone());
        work(client, context).await
    })
}

/// Returns the stored record of a tenant.
fn stored(machine: &Machine, tenant: &str) -> Vec<u8> {
    with_client(machine, async |_, context| {
        let stream = context
            .get_stream(format!("KV_rind-{tenant}-plugins"))
            .await;
        let subject = format!("$KV.rind-{tenant}-plugins.tenant");
        let last = stream
            .unwrap()
            .get_last_raw_message_by_subject(&subject)
            .await;
        last.unwrap().payload.to_vec()
    })
}

/// Stores bytes as the record of the tenant `t`, or of its class `default`.
fn store(machine: &Machine, key: &str, bytes: &[u8]) {
    let (subject, bytes) = (format!("$KV.rind-t-plugins.{key}"), bytes.to_vec());
    with_client(machine, async |_, context| {
        let stored = context.publish(subject, bytes.into()).await.unwrap();
        stored.await.unwrap();
    });
}

#[test]
fn a_worker_begins_no_turn_before_a_set_is_published_and_then_runs_it_and_nothing_of_its_own() {
    let mut fleet = Fleet::start();
    // A broken plugin on the worker's own machine, which must not be loaded.
    let own = fleet.machine.path("home/config/plugins/hello");
    std::fs::create_dir_all(&own).unwrap();
    std::fs::write(own.join("plugin.toml"), "broken").unwrap();
    fleet.start_worker();
    let send = ["--session", "first", "greet me"];
    fleet.machine.output(&["cluster", "send"], &send);
    fleet.wait_for_fault("no set of plugins is published");
    let shown = fleet.machine.run(&["cluster", "status"], &[]);
    let warned = String::from_utf8_lossy(&shown.stderr).into_owned();
    assert!(warned.contains("this worker starts no turn"), "{warned}");
    assert!(fleet.entries("first").is_empty());
    let refused = fleet.operator.run(
        &["cluster", "plugins", "publish"],
        &["--key", &fleet.key("key")],
    );
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("pass --yes"), "{why}");
    let published = fleet.publish(&[]);
    for words in [
        "set 1 of the tenant t",
        "hello 0.1.0: ",
        "session",
        "the set of plugins 1 is published",
    ] {
        assert!(published.contains(words), "{words}: {published}");
    }
    fleet.wait_for_set(1);
    fleet
        .machine
        .wait_for("the turn", |_| fleet.told("first").contains("Hello, Ada!"));
    let told = fleet.run("second", "delete it");
    assert!(told.contains("it would delete everything"), "{told}");
    let public = fleet.public.clone();
    let shown = fleet
        .machine
        .output(&["cluster", "plugins", "show"], &["--plugins-key", &public]);
    let digest = fleet.sets("second")[0].clone().unwrap();
    assert!(shown.contains(&digest), "{digest}: {shown}");
    // A worker without the key, or a server that runs turns itself, would run them without the
    // guard, so both refuse.
    let mut plain = Machine::new(PROGRAM, fleet.machine.urls(), SCRIPT);
    plain.start(&["worker"], &["--yes", "--class", "plain"]);
    let send = ["--class", "plain", "--session", "plain", "greet me"];
    plain.output(&["cluster", "send"], &send);
    fleet.wait_for_fault("started without its key");
    plain.start_front(&[]);
    let turn = serde_json::json!({"text": "greet me"});
    let refused = plain
        .post("/v1/sessions/second/turns", &turn)
        .has_status(503);
    assert!(refused.body.contains("--class"), "{refused:?}");
    assert!(fleet.entries("plain").is_empty());
}

#[test]
fn old_forged_and_foreign_records_stop_new_turns_until_a_good_one_is_published() {
    let mut fleet = Fleet::start();
    fleet.publish(&[]);
    let first = stored(&fleet.machine, "t");
    fleet.start_worker();
    fleet.wait_for_set(1);
    fleet.publish(&[]);
    fleet.wait_for_set(2);
    let second = stored(&fleet.machine, "t");
    store(&fleet.machine, "tenant", &first);
    fleet.wait_for_fault("the newer set 2 was seen before");
    let send = ["--session", "s", "greet me"];
    fleet.machine.output(&["cluster", "send"], &send);
    let text = String::from_utf8(second.clone()).unwrap();
    let forged = text.replace("\\\"number\\\":2", "\\\"number\\\":9");
    assert_ne!(forged, text);
    store(&fleet.machine, "tenant", forged.as_bytes());
    fleet.wait_for_fault("its signature does not match the key");
    // Signed with the right key, for another tenant.
    let (key, urls) = (fleet.key("key"), fleet.machine.urls().to_owned());
    let of_u = [
        "cluster", "plugins", "publish", "--nats", &urls, "--tenant", "u",
    ];
    let of_u = [&of_u[..], &["--yes", "--key", &key, "--number", "9"]].concat();
    assert_success(&fleet.operator.local(&of_u).output().unwrap());
    store(&fleet.machine, "tenant", &stored(&fleet.machine, "u"));
    fleet.wait_for_fault("the set was published for another tenant, u");
    // A record of the tenant that is stored as the record of a class.
    store(&fleet.machine, "tenant", &second);
    fleet.wait_for_set(2);
    store(&fleet.machine, "class.default", &second);
    fleet.wait_for_fault("it was published for the whole tenant");
    store(&fleet.machine, "class.default", b"{\"format\":7}");
    fleet.wait_for_fault("it is not a signed set of plugins");
    // Signed with another key.
    fleet.make_key("other");
    let other = fleet.key("other");
    let args = ["--yes", "--key", &other, "--class", "default"];
    let publish = ["cluster", "plugins", "publish"];
    let refused = fleet.operator.run(&publish, &args);
    let why = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(why.contains("--number"), "{why}");
    fleet
        .operator
        .output(&publish, &[&args[..], &["--number", "3"]].concat());
    fleet.wait_for_fault("not among the keys");
    fleet.publish(&["--class", "default", "--number", "4"]);
    fleet.wait_for_set(4);
    fleet
        .machine
        .wait_for("the turn", |_| fleet.told("s").contains("Hello, Ada!"));
}

#[test]
fn a_missing_or_wrong_file_stops_new_turns_and_publishing_again_repairs_it() {
    let mut fleet = Fleet::start();
    fleet.publish(&["hello"]);
    // Replaces the contents of all files by others of the same length.
    with_client(&fleet.machine, async |_, context| {
        let stream = context.get_stream("RIND-t-BLOB-0").await.unwrap();
        let mut info = stream
            .info_with_subjects("rind.t.blob.0.=plugins.*.part.0")
            .await
            .unwrap();
        while let Some(Ok((subject, _))) = futures_util::StreamExt::next(&mut info).await {
            let old = stream
                .get_last_raw_message_by_subject(&subject)
                .await
                .unwrap();
            let wrong = vec![b'x'; old.payload.len()];
            context
                .publish(subject, wrong.into())
                .await
                .unwrap()
                .await
                .unwrap();
        }
    });
    fleet.start_worker();
    fleet.wait_for_fault("its content is missing or another");
    purge_files(&fleet.machine);
    fleet.publish(&["hello", "--class", "other"]);
    purge_files(&fleet.machine);
    let send = ["--session", "s", "greet me"];
    fleet.machine.output(&["cluster", "send"], &send);
    fleet.publish(&["hello"]);
    fleet.wait_for_set(2);
    fleet
        .machine
        .wait_for("the turn", |_| fleet.told("s").contains("Hello, Ada!"));
    // Each load compares the files on the disk with the set, so the changed ones are fetched again.
    let files = find_files(&fleet.machine.path("home/data/plugin-sets/files"));
    assert!(files.len() >= 2, "{files:?}");
    for file in files {
        std::fs::write(file, "changed").unwrap();
    }
    fleet.publish(&["hello"]);
    fleet.wait_for_set(3);
    assert!(fleet.run("t", "greet me").contains("Hello, Ada!"));
}

/// Removes the files of all sets.
fn purge_files(machine: &Machine) {
    with_client(machine, async |_, context| {
        let stream = context.get_stream("RIND-t-BLOB-0").await.unwrap();
        let purged = stream.purge().filter("rind.t.blob.0.=plugins.>").await;
        purged.unwrap();
    });
}

fn find_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let (folders, mut files): (Vec<_>, Vec<_>) = paths.partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| find_files(folder)));
    files
}

#[test]
fn a_policy_of_the_worker_that_denies_what_a_set_grants_refuses_the_set() {
    let mut fleet = Fleet::start();
    let policy = fleet.machine.path("home/config/policy.toml");
    std::fs::create_dir_all(policy.parent().unwrap()).unwrap();
    std::fs::write(&policy, "[plugins.sentry]\ndeny = [\"session\"]\n").unwrap();
    fleet.publish(&[]);
    fleet.start_worker();
    fleet.wait_for_fault("plugin sentry of the set");
    let send = ["--session", "s", "greet me"];
    fleet.machine.output(&["cluster", "send"], &send);
    std::fs::write(&policy, "").unwrap();
    fleet.publish(&[]);
    fleet.wait_for_set(2);
    fleet
        .machine
        .wait_for("the turn", |_| fleet.told("s").contains("Hello, Ada!"));
}

/// Kills the worker of a slow turn with the first set, publishes the next set without the tool, and
/// starts another worker, which continues the turn. Returns the session's entries as JSON.
fn continue_elsewhere(revoke: &[&str]) -> (Fleet, String) {
    let mut fleet = Fleet::start();
    fleet.publish(&[]);
    let worker = fleet.start_worker();
    fleet.wait_for_set(1);
    let send = ["--session", "s", "linger for Bo"];
    fleet.machine.output(&["cluster", "send"], &send);
    fleet
        .machine
        .wait_for("the turn", |_| !fleet.sets("s").is_empty());
    std::thread::sleep(std::time::Duration::from_millis(500));
    fleet.machine.kill(worker);
    fleet.publish(&[&["sentry"], revoke].concat());
    let quick = SCRIPT.replace("60000", "1").replace("Too late.", "Done.");
    let quick = quick.replace(
        "times = 1",
        "times = 0\ntool_calls = [{ name = \"greet\", arguments = { name = \"Bo\" } }]",
    );
    std::fs::write(fleet.machine.path("script.toml"), quick).unwrap();
    fleet.start_worker();
    fleet.wait_for_set(2);
    // Another input wakes the session earlier than the redelivered wake of the killed worker would.
    let send = ["--session", "s", "greet me"];
    fleet.machine.output(&["cluster", "send"], &send);
    fleet.wait_for_ends("s", 2);
    let told = fleet.told("s");
    (fleet, told)
}

#[test]
fn a_turn_of_a_killed_worker_goes_on_with_its_set_and_the_next_turn_has_the_new_one() {
    let (fleet, told) = continue_elsewhere(&[]);
    assert!(told.contains("Hello, Bo!"), "{told}");
    assert!(!told.contains("Hello, Ada!"), "{told}");
    let sets = fleet.sets("s");
    assert_eq!(sets.len(), 3, "{sets:?}");
    assert_eq!(sets[0], sets[1]);
    assert!(sets[2].is_some() && sets[2] != sets[1], "{sets:?}");
}

#[test]
fn a_turn_whose_set_was_revoked_goes_on_with_the_present_one_and_its_start_says_so() {
    let (fleet, told) = continue_elsewhere(&["--revoke"]);
    assert!(!told.contains("Hello, Bo!"), "{told}");
    let sets = fleet.sets("s");
    assert!(sets[1].is_some() && sets[1] != sets[0], "{sets:?}");
    assert_eq!(sets[1], sets[2]);
}

#[test]
fn a_turn_ends_with_the_set_that_it_began_with_and_the_next_turn_of_its_session_has_the_new_one() {
    let mut fleet = Fleet::start();
    let slow = SCRIPT.replace("60000", "4000");
    std::fs::write(fleet.machine.path("script.toml"), slow).unwrap();
    fleet.publish(&[]);
    fleet.start_worker();
    fleet.wait_for_set(1);
    let send = |text: &str| {
        let args = ["--session", "s", text];
        fleet.machine.output(&["cluster", "send"], &args);
    };
    send("linger a bit");
    fleet
        .machine
        .wait_for("the turn", |_| !fleet.sets("s").is_empty());
    send("greet me");
    fleet.publish(&["sentry"]);
    fleet.wait_for_set(2);
    fleet.wait_for_ends("s", 2);
    let (sets, told) = (fleet.sets("s"), fleet.told("s"));
    assert_eq!(sets.len(), 2, "{sets:?}");
    assert_ne!(sets[0], sets[1]);
    assert!(
        told.contains("Too late.") && !told.contains("Hello, Ada!"),
        "{told}"
    );
    let shown: Value =
        serde_json::from_str(&fleet.machine.output(&["cluster", "status"], &["--json"])).unwrap();
    assert_eq!(shown["dead"], 0);
}
