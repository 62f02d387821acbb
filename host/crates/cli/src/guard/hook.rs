//! `rind guard hook AGENT POINT`, or the small program `rind-guard-hook AGENT POINT`: the program
//! that other agents run as a hook.
//!
//! The hook runs before Rind sets up anything else, because the agent waits for it at each call.
//! Every run writes an answer: a refusal whenever the guard could not decide.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rind_guard::{
    AgentHookPoint, AgentHookRequest, GuardDaemonFolder, GuardDaemonStarter, GuardedAgent,
    HookAnswer, ask_daemon_for_hook_answer,
};
use rind_lib::paths::{HOME_VARIABLE, RindPaths};
use rind_lib::tool::process::{base_environment_with_variables, start_detached_program};
use rind_operator::managed::MANAGED_PLUGINS_FOLDER_VARIABLE;

/// Deadline for the complete run, including reading standard input: a little shorter than the
/// timeout of the agents.
const HOOK_RUN_DEADLINE: Duration = Duration::from_secs(48);

/// Maximum number of bytes that are read from standard input. The crate that parses the input has a
/// lower limit, and reports inputs beyond that.
const MAX_STDIN_BYTES: u64 = 17 << 20;

/// Size of the daemon's log, in bytes, beyond which a new log is started.
const MAX_DAEMON_LOG_BYTES: u64 = 1 << 20;

/// Stack size, in bytes, of the thread that watches the deadline. The thread only sleeps, and may
/// then write a short text.
const DEADLINE_THREAD_STACK_BYTES: usize = 64 << 10;

/// Name of the small hook program, which starts faster than `rind` because it does not contain the
/// host.
const HOOK_PROGRAM: &str = "rind-guard-hook";

/// Environment variable that with the value `never` keeps the hook from starting a daemon. `rind
/// guard test` sets it.
pub(super) const DAEMON_START_ENV_VARIABLE: &str = "RIND_GUARD_START";

/// Arguments with which an agent starts `rind guard hook`.
struct GuardHookCommandArguments {
    agent: GuardedAgent,
    point: AgentHookPoint,
    home: Option<PathBuf>,
}

/// Runs the hook if `args` are `hook` and its arguments. Returns `None` for everything else,
/// including `--help`, which clap then handles.
pub(in super::super) fn run_guard_hook_if_requested(
    mut args: impl Iterator<Item = OsString>,
) -> Option<ExitCode> {
    if args.next()? != "hook" {
        return None;
    }
    let words: Vec<OsString> = args.collect();
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return None;
    }
    Some(answer_hook_with_arguments(&words))
}

/// Answers the hook call that these command line arguments describe.
pub(in super::super) fn answer_hook_with_arguments(words: &[OsString]) -> ExitCode {
    let answer = match parse_hook_arguments(words) {
        Ok(words) => return answer_hook_before_deadline(words),
        Err(why) => HookAnswer::from_refusal_reason(&why),
    };
    write_answer(&answer)
}

fn parse_hook_arguments(words: &[OsString]) -> Result<GuardHookCommandArguments, String> {
    let text = |at: usize| words.get(at).and_then(|word| word.to_str());
    let agent = text(0).and_then(GuardedAgent::from_name);
    let point = text(1).and_then(AgentHookPoint::from_name);
    let home = match (words.get(2).map(OsString::as_os_str), words.get(3)) {
        (None, _) => None,
        (Some(flag), Some(home)) if flag == OsStr::new("--home") && words.len() == 4 => {
            Some(PathBuf::from(home))
        }
        _ => return Err(unknown_arguments_text()),
    };
    match (agent, point) {
        (Some(agent), Some(point)) => Ok(GuardHookCommandArguments { agent, point, home }),
        _ => Err(unknown_arguments_text()),
    }
}

fn unknown_arguments_text() -> String {
    "the hook was called with unknown arguments; run `rind guard install` again".to_owned()
}

/// Answers the hook call, after a panic with a refusal. If the input does not end, or the daemon
/// does not answer before the deadline, a second thread writes a refusal. The call itself runs on
/// the main thread, because each further thread with its own heap would take a tenth of the total
/// time.
fn answer_hook_before_deadline(words: GuardHookCommandArguments) -> ExitCode {
    let is_answered = Arc::new(AtomicBool::new(false));
    let watched = is_answered.clone();
    let watch = std::thread::Builder::new().stack_size(DEADLINE_THREAD_STACK_BYTES);
    let watch = watch.spawn(move || {
        std::thread::sleep(HOOK_RUN_DEADLINE);
        if !watched.swap(true, Ordering::SeqCst) {
            let why = format!("no answer within {} s", HOOK_RUN_DEADLINE.as_secs());
            let refusal = HookAnswer::from_refusal_reason(&why);
            write_answer(&refusal);
            std::process::exit(i32::from(refusal.code));
        }
    });
    if let Err(error) = watch {
        return write_answer(&HookAnswer::from_refusal_reason(&format!(
            "cannot start a thread: {error}"
        )));
    }
    let answer = catch_unwind(AssertUnwindSafe(|| answer_agent_hook_call(words)));
    let answer = answer.unwrap_or_else(|_| {
        HookAnswer::from_refusal_reason("the program crashed; see the message above")
    });
    while is_answered.swap(true, Ordering::SeqCst) {
        // The deadline has passed: the second thread writes a refusal and then ends the process.
        std::thread::park();
    }
    write_answer(&answer)
}

fn answer_agent_hook_call(words: GuardHookCommandArguments) -> HookAnswer {
    let mut payload = Vec::new();
    let read = std::io::stdin()
        .lock()
        .take(MAX_STDIN_BYTES)
        .read_to_end(&mut payload);
    if let Err(error) = read {
        return HookAnswer::from_refusal_reason(&format!("standard input: {error}"));
    }
    let (request, data, start) = match prepare_daemon_request(words, payload) {
        Ok(prepared) => prepared,
        Err(why) => return HookAnswer::from_refusal_reason(&why),
    };
    ask_daemon_for_hook_answer(&request, GuardDaemonFolder::open(&data), &start)
}

fn prepare_daemon_request(
    words: GuardHookCommandArguments,
    payload: Vec<u8>,
) -> Result<(AgentHookRequest, PathBuf, GuardDaemonProcessStarter), String> {
    let folder = std::env::current_dir()
        .map_err(|error| format!("cannot find the current folder: {error}"))?;
    let user_home = std::env::home_dir().ok_or("there is no home folder; set HOME")?;
    let home = words.home.clone();
    let variable = |name: &str| match (name, &home) {
        (HOME_VARIABLE, Some(home)) => home.to_str().map(str::to_owned),
        _ => std::env::var(name).ok(),
    };
    let paths = RindPaths::new(&user_home, variable, &folder);
    let request = AgentHookRequest {
        agent: words.agent,
        point: words.point,
        payload,
        folder,
        build: daemon_compatibility_key(&paths)?,
    };
    Ok((
        request,
        paths.data,
        GuardDaemonProcessStarter { home: words.home },
    ))
}

/// Returns the path of `rind`: this program, or the one next to this small hook program.
fn find_rind_program_path() -> Result<PathBuf, String> {
    let program = std::env::current_exe()
        .map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let is_small = program.file_name().is_some_and(|name| name == HOOK_PROGRAM);
    Ok(match is_small {
        true => program.with_file_name("rind"),
        false => program,
    })
}

/// Returns the program to install as hook: the small one if it is next to `program`, otherwise
/// `program`. The second value is whether it is the small one.
pub(super) fn choose_guard_hook_program(program: PathBuf) -> (PathBuf, bool) {
    let small = program.with_file_name(HOOK_PROGRAM);
    match small.is_file() {
        true => (small, true),
        false => (program, false),
    }
}

/// Returns a name for this build and its folders. A hook uses a daemon only if both have the same
/// name, because a daemon of another build or with other folders has other plugins and rules.
pub(super) fn daemon_compatibility_key(paths: &RindPaths) -> Result<String, String> {
    use std::os::unix::fs::MetadataExt;
    let program = find_rind_program_path()?;
    let found = program
        .metadata()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let managed = std::env::var_os(MANAGED_PLUGINS_FOLDER_VARIABLE).unwrap_or_default();
    let home = std::env::home_dir().unwrap_or_default();
    let RindPaths {
        config,
        data,
        cache,
        ..
    } = paths;
    Ok(format!(
        "{} {}:{} {}.{} {:?}",
        env!("CARGO_PKG_VERSION"),
        found.dev(),
        found.ino(),
        found.mtime(),
        found.mtime_nsec(),
        (config, data, cache, home, managed),
    ))
}

/// Starts a daemon as `rind guard serve`, in `home` if set.
pub(super) struct GuardDaemonProcessStarter {
    home: Option<PathBuf>,
}

impl GuardDaemonStarter for GuardDaemonProcessStarter {
    fn start_daemon(&self, folder: &GuardDaemonFolder) -> Result<(), String> {
        if std::env::var_os(DAEMON_START_ENV_VARIABLE).is_some_and(|value| value == "never") {
            return Err(format!(
                "no guard daemon runs, and {DAEMON_START_ENV_VARIABLE} keeps this program from starting one"
            ));
        }
        let program = find_rind_program_path()?;
        let log = open_guard_daemon_log(folder)
            .map_err(|error| format!("{}: {error}", folder.log_path().display()))?;
        // Pass on only variables with these prefixes: the guard must not get the agent's API keys.
        let mut env = base_environment_with_variables(&[], &["RIND_", "XDG_"]);
        if let Some(home) = &self.home {
            env.retain(|(name, _)| name != HOME_VARIABLE);
            env.push((HOME_VARIABLE.into(), home.into()));
        }
        let args = ["guard", "serve"].map(OsString::from);
        start_detached_program(&program, &args, env, log)
            .map_err(|error| format!("cannot start {}: {error}", program.display()))
    }
}

/// Opens the daemon's log for appending. Removes the old log first if it is too large or no regular
/// file.
fn open_guard_daemon_log(folder: &GuardDaemonFolder) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = folder.log_path();
    let is_large = path
        .symlink_metadata()
        .is_ok_and(|found| !found.is_file() || found.len() > MAX_DAEMON_LOG_BYTES);
    if is_large {
        std::fs::remove_file(&path)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)
}

/// Writes the answer to standard output. If that fails, the exit code refuses the call.
fn write_answer(answer: &HookAnswer) -> ExitCode {
    let mut out = std::io::stdout();
    let written = out
        .write_all(answer.stdout.as_bytes())
        .and_then(|()| out.flush());
    // Ignore an error: this text is only the reason for the model, and the exit code refuses
    // without it.
    let _ = write_nonempty_line(&mut std::io::stderr(), &answer.stderr);
    match written {
        Ok(()) => ExitCode::from(answer.code),
        Err(_) => ExitCode::from(HookAnswer::from_refusal_reason("").code),
    }
}

fn write_nonempty_line(out: &mut impl Write, text: &str) -> std::io::Result<()> {
    match text.is_empty() {
        true => Ok(()),
        false => writeln!(out, "{text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_of_a_hook_are_an_error() {
        let read = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            parse_hook_arguments(&words).map(|words| (words.agent, words.point, words.home))
        };
        let own = Some(PathBuf::from("/x"));
        assert_eq!(
            read(&["codex", "pre-tool", "--home", "/x"]),
            Ok((GuardedAgent::Codex, AgentHookPoint::PreTool, own))
        );
        for words in [
            &[] as &[&str],
            &["codex"],
            &["codex", "pre_tool"],
            &["other", "pre-tool"],
            &["codex", "pre-tool", "--home"],
            &["codex", "pre-tool", "/x"],
        ] {
            assert!(read(words).is_err(), "{words:?}");
        }
    }
}
