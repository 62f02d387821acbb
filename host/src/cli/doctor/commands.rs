//! How the commands of `bash` run.

use super::super::sandbox::{self, Sandbox};
use super::{Check, State, wrong_settings};
use crate::config::Config;
use crate::paths::Paths;
use crate::tool::builtin::Commands;
use crate::tool::process::confine::{Mechanism, Report};
use crate::tool::sandbox::Need;

/// Parts of Landlock, with the version that they came with.
const PARTS: [(u32, &str); 5] = [
    (3, "files"),
    (4, "TCP ports"),
    (5, "device commands"),
    (6, "signals"),
    (9, "Unix sockets"),
];

pub(super) async fn checks(paths: &Paths, config: &Config) -> Vec<Check> {
    let sandbox = match sandbox::sandbox(paths, config).await {
        Ok(sandbox) => sandbox,
        Err(error) => return vec![wrong_settings(&error)],
    };
    let mut checks = vec![confinement(&sandbox)];
    let Ok(detected) = &sandbox.detected else {
        return checks;
    };
    let report = &detected.report;
    if let Some(version) = report.landlock {
        checks.push(landlock(version));
        let found = match &sandbox.bwrap {
            Some(path) => format!("{}, not needed besides Landlock", path.display()),
            None => "not installed, and not needed besides Landlock".to_owned(),
        };
        checks.push(Check::new("bwrap", State::Ok, found));
    }
    checks.push(Check::new(
        "system calls",
        State::Ok,
        "filtered: other processes, mounts, namespaces, kernel modules and keys, io_uring, typing into terminals",
    ));
    checks.push(network(detected.confinement.network, report));
    checks.push(signals(report));
    checks.push(user());
    checks
}

fn confinement(sandbox: &Sandbox) -> Check {
    const NAME: &str = "commands";
    let free = "a command of bash can do everything that you can: read your keys, write your files, use the network";
    let way = "use Linux 6.2 or newer with Landlock switched on, or install bubblewrap (the program `bwrap`)";
    match (sandbox.quiet_commands(), &sandbox.detected) {
        (Commands::Confined(_), Ok(detected)) => {
            let (by, passed_over) = match &detected.confinement.mechanism {
                Mechanism::Namespaces => ("namespaces".to_owned(), String::new()),
                Mechanism::Landlock => ("Landlock".to_owned(), String::new()),
                Mechanism::Bwrap(path) => (
                    path.display().to_string(),
                    detected
                        .passed_over
                        .as_ref()
                        .map(|why| format!(" ({why})"))
                        .unwrap_or_default(),
                ),
            };
            Check::new(
                NAME,
                State::Ok,
                format!("bash runs confined by {by}{passed_over} and a system call filter"),
            )
            .means("its commands change the workspace and a temporary folder only, and read besides that only the system and its tools")
        }
        (Commands::Refused(why), _) => Check::new(NAME, State::Missing, why)
            .required()
            .means("bash is refused: `bash = \"required\"` in [sandbox] of config.toml")
            .todo(way),
        _ if sandbox.config.bash == Need::Off => Check::new(
            NAME,
            State::Weaker,
            "`bash = \"off\"` in [sandbox] of config.toml",
        )
        .means(free)
        .todo("take that line out"),
        (_, detected) => {
            let why = detected.as_ref().err().cloned().unwrap_or_default();
            let todo = if why.contains("overlaps") {
                "work in another folder, or put Rind's own elsewhere with RIND_HOME"
            } else {
                way
            };
            Check::new(NAME, State::Weaker, format!("bash runs unconfined: {why}"))
                .means(free)
                .todo(todo)
        }
    }
}

fn landlock(version: u32) -> Check {
    let named = |wanted: bool| {
        let parts = PARTS
            .iter()
            .filter(|(since, _)| (*since <= version) == wanted)
            .map(|(_, part)| *part);
        parts.collect::<Vec<_>>().join(", ")
    };
    let mut found = format!("version {version}: {}", named(true));
    let without = named(false);
    if !without.is_empty() {
        found.push_str(&format!("; not {without}"));
    }
    Check::new("landlock", State::Ok, found)
}

fn network(is_on: bool, report: &Report) -> Check {
    const NAME: &str = "network of bash";
    if is_on {
        return Check::new(
            NAME,
            State::Weaker,
            "on: `network = true` in [sandbox] of config.toml",
        )
        .means("a command can send what it reads to anybody")
        .todo("take that line out");
    }
    let unix = if report.unix_sockets {
        "Unix sockets only in the workspace"
    } else {
        "and no Unix sockets"
    };
    Check::new(NAME, State::Ok, format!("off, loopback included, {unix}"))
}

fn signals(report: &Report) -> Check {
    const NAME: &str = "signals";
    if report.can_signal {
        return Check::new(
            NAME,
            State::Weaker,
            "a confined command can end your other programs",
        )
        .means("it cannot read or change them")
        .todo("use Linux 6.12 or newer");
    }
    Check::new(
        NAME,
        State::Ok,
        "a confined command reaches no process outside",
    )
}

fn user() -> Check {
    const NAME: &str = "user";
    if rustix::process::geteuid().is_root() {
        return Check::new(NAME, State::Weaker, "root")
            .means(
                "commands may read the system, and of it what only root may, such as /etc/shadow",
            )
            .todo("run rind as an ordinary user");
    }
    Check::new(NAME, State::Ok, "not root")
}
