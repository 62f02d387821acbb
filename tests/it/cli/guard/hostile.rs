//! Tests that a guard refuses the call in case of doubt: without a daemon, with a broken plugin,
//! with garbage as input, and with a planted socket.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use super::{Guarded, HookSaid};

const NEVER: (&str, &str) = ("RIND_GUARD_START", "never");

#[test]
fn without_a_daemon_the_call_is_refused_and_one_that_was_killed_is_started_again() {
    for agent in ["claude-code", "codex", "opencode", "goose", "pi"] {
        let own = Guarded::of(agent);
        let line = own.installed_line(agent, "pre-tool");
        let payload = own.call(agent, "ls").to_string();
        let alone = HookSaid::of(&own.hook_with(&line, payload.as_bytes(), &[NEVER]));
        assert!(
            alone.refusal().unwrap().contains("no guard daemon runs"),
            "{agent}: {alone:?}"
        );
        assert!(own.judge(agent, "ls").is_pass());
        let before = own.daemon();
        own.kill_daemon();
        let alone = HookSaid::of(&own.hook_with(&line, payload.as_bytes(), &[NEVER]));
        assert!(alone.refusal().is_some(), "{agent}: {alone:?}");
        assert!(own.judge(agent, "ls").is_pass(), "{agent}");
        assert_ne!(own.daemon(), before);
    }
}

#[test]
fn a_plugin_that_traps_or_hangs_is_a_refusal() {
    let own = Guarded::of("codex");
    let trapped = own.judge("codex", "crash");
    assert!(trapped.refusal().unwrap().contains("sentry"), "{trapped:?}");
    let hung = own.judge("codex", "hang");
    assert!(hung.refusal().unwrap().contains("sentry"), "{hung:?}");
    let mut payload = own.recorded("codex-post-tool");
    payload["tool_response"] = "hunter2 explode".into();
    let withheld = own.hook("codex", "post-tool", &payload);
    assert_eq!(withheld.json["decision"], "block");
    assert!(
        !withheld.json.to_string().contains("hunter2"),
        "{withheld:?}"
    );
    assert!(
        own.judge("codex", "ls").is_pass(),
        "the next turn has the plugin again"
    );
}

#[test]
fn a_plugin_that_is_missing_where_it_is_required_is_a_refusal() {
    let own = Guarded::of("codex");
    own.rind
        .user_file("config/policy.toml", "[plugins.other]\nrequire = true\n");
    let refused = own.judge("codex", "ls");
    assert!(refused.refusal().unwrap().contains("other"), "{refused:?}");
}

#[test]
fn garbage_of_the_agent_is_a_refusal() {
    let own = Guarded::of("codex");
    let line = own.installed_line("codex", "pre-tool");
    let huge = format!("{{\"session_id\":\"{}\"}}", "x".repeat(20 << 20));
    let deep = format!("{}1{}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    let call = own.call("codex", "ls").to_string();
    let nested = call.replace(
        "{\"command\":\"ls\"}",
        &format!("{{\"command\":{}1{}}}", "[".repeat(400), "]".repeat(400)),
    );
    for payload in [
        "".as_bytes(),
        b"not json",
        b"\xff\xfe\x00",
        b"{\"session_id\":\"a\0b\"}",
        b"[]",
        b"{}",
        huge.as_bytes(),
        deep.as_bytes(),
        nested.as_bytes(),
        &call.as_bytes()[..call.len() - 1],
        call.replace("call1", "../../\\u0007x").as_bytes(),
    ] {
        let said = HookSaid::of(&own.hook_with(&line, payload, &[]));
        let shown = String::from_utf8_lossy(&payload[..payload.len().min(40)]);
        assert!(said.refusal().is_some(), "{shown}: {said:?}");
        assert!(!said.stderr.contains('\u{7}'), "{said:?}");
    }
    for line in [
        line.replace("codex pre-tool", "codex elsewhere"),
        line.replace("codex pre-tool", "extra codex pre-tool"),
        line.replace("rind-guard-hook'", "no-such-program'"),
    ] {
        let said = HookSaid::of(&own.hook_with(&line, call.as_bytes(), &[]));
        assert_eq!(said.code, Some(2), "{line}: {said:?}");
    }
    // A session id that is not a valid file name is not used as a path.
    let odd = call.replace("01a2180f-483f-7000-8c07-48b27a447b74", "../../../x y/é");
    let said = HookSaid::of(&own.hook_with(&line, odd.as_bytes(), &[]));
    assert!(said.is_pass(), "{said:?}");
}

#[test]
fn thirty_calls_at_once_are_all_judged_by_one_daemon() {
    let own = Guarded::of("codex");
    let line = own.installed_line("codex", "pre-tool");
    let judge = |at: usize| {
        let command = if at.is_multiple_of(3) {
            "rm -rf /"
        } else {
            "ls"
        };
        let call = own.call("codex", command).to_string();
        let call = call.replace("call1", &format!("call{at}"));
        (
            at,
            HookSaid::of(&own.hook_with(&line, call.as_bytes(), &[])),
        )
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..30).map(|at| scope.spawn(move || judge(at))).collect();
        for one in all {
            let (at, said) = one.join().unwrap();
            assert_eq!(said.refusal().is_some(), at % 3 == 0, "{at}: {said:?}");
            assert!(
                said.refusal().is_none_or(|why| why.contains("delete")),
                "{said:?}"
            );
        }
    });
}

#[test]
fn changed_settings_are_those_of_the_next_call() {
    let own = Guarded::of("codex");
    assert!(own.judge("codex", "curl x").is_pass());
    let before = own.daemon();
    own.rind
        .config("[tools]\nrules = [{ command = \"curl *\", decision = \"deny\" }]\n");
    assert!(own.judge("codex", "curl x").refusal().is_some());
    assert_ne!(own.daemon(), before);
}

#[test]
fn a_socket_or_folder_of_somebody_else_is_refused() {
    let own = Guarded::of("codex");
    let guard = own.rind.home().join("data/guard");
    let socket = guard.join("guard.sock");
    let refused = |words: &str| {
        let said = own.judge("codex", "ls");
        let why = said.refusal().unwrap_or_default();
        assert!(why.contains(words), "{words}: {said:?}");
    };
    symlink("/tmp/elsewhere.sock", &socket).unwrap();
    refused("it is not a socket");
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, "").unwrap();
    refused("it is not a socket");
    std::fs::remove_file(&socket).unwrap();
    // A socket that all users may access could have been created by another user.
    let planted = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777)).unwrap();
    refused("other users have access to it");
    drop(planted);
    std::fs::remove_file(&socket).unwrap();
    std::fs::set_permissions(&guard, std::fs::Permissions::from_mode(0o770)).unwrap();
    let line = own.rind.run(&["guard", "status", "codex"]).exits(1);
    assert!(
        line.stderr.contains("other users have access to it"),
        "{line:?}"
    );
    std::fs::set_permissions(&guard, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert!(own.judge("codex", "ls").is_pass());
}

#[test]
fn a_daemon_that_does_not_answer_is_a_refusal_before_the_agent_gives_up() {
    let own = Guarded::of("codex");
    let socket = own.rind.home().join("data/guard/guard.sock");
    let line = own.installed_line("codex", "pre-tool");
    let silent = UnixListener::bind(&socket).unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o600)).unwrap();
    let begun = Instant::now();
    let call = own.call("codex", "ls").to_string();
    let said = HookSaid::of(&own.hook_with(&line, call.as_bytes(), &[]));
    assert!(said.refusal().unwrap().contains("no answer in"), "{said:?}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    drop(silent);
}
