//! Tests of the report and the exit code of `rind doctor`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use rind_tests::cli::Rind;
use rind_tests::server::{Reply, Server};
use serde_json::Value;

/// Returns the JSON report and the exit code.
fn report(rind: &Rind) -> (Value, Option<i32>) {
    let ran = rind.run(&["doctor", "--json"]);
    let report = serde_json::from_str(&ran.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}\n{}", ran.stdout, ran.stderr));
    (report, ran.code)
}

fn check(report: &Value, name: &str) -> Value {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["name"] == name);
    found
        .unwrap_or_else(|| panic!("there is no check `{name}`: {report}"))
        .clone()
}

#[track_caller]
fn has_state(report: &Value, name: &str, state: &str, found: &str) {
    let check = check(report, name);
    assert_eq!(check["state"], state, "{check}");
    let text = check["found"].as_str().unwrap();
    assert!(text.contains(found), "{check}");
    if state != "ok" {
        let todo = check["todo"].as_str().unwrap();
        assert!(!todo.is_empty(), "it says what to do: {check}");
    }
}

#[test]
fn a_machine_where_everything_works_has_nothing_required_missing() {
    let (report, code) = report(&Rind::default());
    assert_eq!((code, &report["ok"]), (Some(0), &Value::Bool(true)));
    has_state(
        &report,
        "sandbox of plugins",
        "ok",
        "it stopped an endless loop after",
    );
    has_state(&report, "compile cache", "ok", "private and writable");
    has_state(
        &report,
        "compiler",
        "ok",
        "plugins are compiled in a separate process within 120 s and 2048 MiB",
    );
    has_state(&report, "data folder", "ok", "data");
    has_state(
        &report,
        "model",
        "missing",
        "none: no key and no model server",
    );
    has_state(
        &report,
        "target for authors",
        "ok",
        "wasm32-wasip2 is installed",
    );
    let commands = check(&report, "commands");
    if commands["state"] == "ok" {
        let network = if check(&report, "namespaces")["state"] == "ok" {
            "reaches its own servers"
        } else {
            "off, loopback included"
        };
        has_state(&report, "network of bash", "ok", network);
        has_state(&report, "group of bash", "ok", "cgroup");
        has_state(&report, "system calls", "ok", "filtered");
    } else {
        let means = "bash is refused: its commands must run confined";
        assert_eq!(commands["means"], means, "{commands}");
    }
}

#[test]
fn people_get_a_line_for_each_with_what_to_do() {
    let rind = Rind::default();
    let ran = rind.run(&["doctor"]).exits(0);
    assert_eq!(ran.stderr, "");
    for line in [
        "✓ compile cache      [RIND_HOME]/cache/components, private and writable; the key that signs its files is [RIND_HOME]/data/cache.key\n",
        "✗ model              none: no key and no model server is configured\n",
        "                     to do: start `rind run \"…\"` at a terminal and choose one, or set ANTHROPIC_API_KEY",
        "nothing required is missing\n",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
}

#[test]
fn what_the_settings_open_is_weaker() {
    let rind = Rind::default();
    rind.config("[sandbox]\nbash = \"off\"\n");
    let (report_off, code) = report(&rind);
    assert_eq!(code, Some(0));
    has_state(&report_off, "commands", "weaker", "`bash = \"off\"`");

    rind.config("[sandbox]\nnetwork = true\n");
    let (report, _) = report(&rind);
    if check(&report, "commands")["state"] == "ok" {
        has_state(&report, "network of bash", "weaker", "on: `network = true`");
    }
}

#[test]
fn folders_that_others_or_tools_could_change_are_weaker() {
    let rind = Rind::default();
    fs::set_permissions(rind.home().join("data"), PermissionsExt::from_mode(0o755)).unwrap();
    rind.config("");
    fs::set_permissions(rind.home().join("config"), PermissionsExt::from_mode(0o777)).unwrap();
    let (first, _) = report(&rind);
    has_state(
        &first,
        "config folder",
        "weaker",
        "which other users can access",
    );

    let mut command = rind.command(&["doctor", "--json"]);
    let ran = rind.finish(command.env("RIND_HOME", "within"));
    let within: Value = serde_json::from_str(&ran.stdout).unwrap();
    let hidden = "which is inside the workspace but hidden from tools";
    has_state(&within, "data folder", "ok", hidden);
}

#[test]
fn what_is_required_and_missing_is_an_exit_code() {
    let rind = Rind::default();
    rind.config("[sandbox]\nbash = \"required\"\n");
    std::os::unix::fs::symlink(rind.home(), rind.user_home().join("go")).unwrap();
    let (required, code) = report(&rind);
    assert_eq!(code, Some(1));
    has_state(&required, "commands", "missing", "overlaps");
    fs::remove_file(rind.user_home().join("go")).unwrap();

    rind.config("[agentt]\n");
    let (wrong, code) = report(&rind);
    assert_eq!(code, Some(1));
    has_state(
        &wrong,
        "settings",
        "missing",
        "config.toml:1: unknown section `agentt`",
    );
    has_state(&wrong, "compiler", "ok", "in a separate process");

    rind.config("[provider]\nname = \"gemini\"\n");
    let (wrong, code) = report(&rind);
    assert_eq!(code, Some(1));
    let model = check(&wrong, "model");
    assert_eq!(model["state"], "missing", "{model}");

    rind.config("");
    let mut command = rind.command(&["doctor", "--json"]);
    let ran = rind.finish(command.env("PATH", "/nowhere")).exits(0);
    let bare: Value = serde_json::from_str(&ran.stdout).unwrap();
    has_state(&bare, "target for authors", "missing", "");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_the_model_is_asked_what_it_has() {
    let models = r#"{"object":"list","data":[{"id":"gpt-4o","object":"model"}]}"#;
    let server = Server::start(|request| match request.has("authorization: Bearer right") {
        true => Reply::ok(models),
        false => Reply::Plain(
            401,
            Vec::new(),
            br#"{"error":{"message":"wrong key"}}"#.to_vec(),
        ),
    })
    .await;
    let rind = Rind::default();
    let look = |model: &str, key: &str| {
        rind.config(&format!(
            "[provider]\nname = \"openai\"\nmodel = \"{model}\"\n"
        ));
        let mut command = rind.command(&["doctor", "--json"]);
        command
            .env("OPENAI_BASE_URL", server.at("127.0.0.1", "/v1"))
            .env("OPENAI_API_KEY", key);
        let ran = tokio::task::block_in_place(|| rind.finish(&mut command));
        serde_json::from_str::<Value>(&ran.stdout).unwrap()
    };
    has_state(
        &look("gpt-4o", "right"),
        "model",
        "ok",
        "the provider's server answers and lists the model",
    );
    has_state(
        &look("gpt-9", "right"),
        "model",
        "weaker",
        "the provider's server does not list the model",
    );
    has_state(
        &look("gpt-4o", "wrong"),
        "model",
        "missing",
        "the request for the provider's list of models failed",
    );
    assert!(
        server
            .received()
            .iter()
            .all(|request| request.line == "GET /v1/models")
    );
}

/// System call number of `landlock_create_ruleset`, the same on all architectures.
#[cfg(target_os = "linux")]
const LANDLOCK: i64 = 444;

#[cfg(target_os = "linux")]
const UNSHARE: i64 = if cfg!(target_arch = "x86_64") {
    272
} else {
    97
};

const ENOSYS: u32 = 38;
const ENOMEM: u32 = 12;

/// Makes a system call fail with this error in the current thread and its child processes, to
/// simulate another kernel.
#[cfg(target_os = "linux")]
fn without(call: i64, errno: u32) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    let refused = [(call, Vec::new())].into();
    let (allow, absent) = (SeccompAction::Allow, SeccompAction::Errno(errno));
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(refused, allow, absent, arch).unwrap();
    let program: BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn where_the_kernel_does_not_confine_compiler_and_templates_it_is_said() {
    let rind = Rind::default();
    let here = || check(&report(&rind).0, "compiler");
    assert_eq!(here()["state"], "ok");
    // Uses a separate thread, because the filter cannot be removed.
    let there = std::thread::scope(|scope| {
        let there = scope.spawn(|| {
            without(LANDLOCK, ENOSYS);
            here()
        });
        there.join().unwrap()
    });
    assert_eq!(there["state"], "weaker", "{there}");
    let found = there["found"].as_str().unwrap();
    assert!(found.contains("this kernel has no Landlock"), "{found}");
    assert!(there["means"].as_str().unwrap().contains("templates"));
}

#[cfg(target_os = "linux")]
#[test]
fn only_a_kernel_that_has_no_mechanism_is_said_to_run_commands_unconfined_and_only_where_the_operator_allows_it()
 {
    let rind = Rind::default();
    let bash = |setting: &str| {
        rind.config(&format!("[sandbox]\nbash = \"{setting}\"\n"));
        // Hides `bwrap`, which may create its namespaces with another system call.
        let mut command = rind.command(&["doctor", "--json"]);
        let ran = rind.finish(command.env("PATH", "/nowhere"));
        let report: Value = serde_json::from_str(&ran.stdout).unwrap();
        check(&report, "commands")
    };
    for (namespaces, landlock, setting, state, words) in [
        (
            ENOSYS,
            ENOSYS,
            "required",
            "missing",
            "this kernel has no Landlock",
        ),
        (
            ENOSYS,
            ENOSYS,
            "when-possible",
            "weaker",
            "bash runs unconfined: ",
        ),
        (
            ENOMEM,
            ENOSYS,
            "when-possible",
            "missing",
            "the commands of bash cannot be confined: namespaces: ",
        ),
        (
            ENOSYS,
            ENOMEM,
            "when-possible",
            "missing",
            "the commands of bash cannot be confined: Landlock: ",
        ),
        (
            ENOMEM,
            0,
            "when-possible",
            "missing",
            "the commands of bash cannot be confined: namespaces: ",
        ),
        (
            ENOSYS,
            0,
            "required",
            "ok",
            "commands of bash are confined by Landlock",
        ),
    ] {
        // Uses a separate thread, because the filters cannot be removed.
        let found = std::thread::scope(|scope| {
            let found = scope.spawn(|| {
                without(UNSHARE, namespaces);
                if landlock != 0 {
                    without(LANDLOCK, landlock);
                }
                bash(setting)
            });
            found.join().unwrap()
        });
        let case = format!("{namespaces} {landlock} {setting}: {found}");
        assert_eq!(found["state"], state, "{case}");
        assert!(found["found"].as_str().unwrap().contains(words), "{case}");
    }
}
