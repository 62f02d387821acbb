//! Runs lines in a real shell whose `PATH` has only stubs and wrappers. The stubs record their
//! calls.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

/// Programs that start other programs, in ways that the parser knows. The real programs run, and
/// find only the stubs.
const WRAPPERS: &[&str] = &[
    "bash", "dash", "env", "find", "nice", "nohup", "setsid", "sh", "timeout", "xargs",
];

const STUBS: &[&str] = &["zqa", "zqb", "x", "f"];

/// Script that runs each argument as a line, in its own subshell and folder. Direct calls of `zqa`
/// and `zqb` are shell functions, which are faster than programs. Each call is recorded in the next
/// free file: calls may run concurrently, and bash writes line by line.
const DRIVER: &str = r#"
ulimit -t 120 -f 2048 2>/dev/null
record() (
  set -C
  i=0
  until printf '%s\037' "$@" 2>/dev/null > "$LOG.$i" || [ $i -gt 999 ]; do i=$((i + 1)); done
)
zqa() { record zqa "$@"; }
zqb() { record zqb "$@"; }
n=0
for line; do
  n=$((n + 1))
  ( cd "$ROOT/$n/w" && LOG="$ROOT/$n/log" && export LOG && unset n ROOT && eval "$line"
    wait ) </dev/null >/dev/null 2>&1
done
"#;

/// Stubs that a line called, and files that it created.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// Calls of stubs, each with its arguments.
    pub(super) calls: Vec<Vec<String>>,
    /// Paths of created files, relative to the folder of the line.
    pub(super) files: Vec<String>,
}

/// A shell that is on this machine.
pub(super) struct Shell {
    pub(super) name: &'static str,
    program: PathBuf,
}

fn find(name: &str) -> Option<PathBuf> {
    let folders = ["/usr/bin", "/bin", "/usr/local/bin"].into_iter();
    let mut programs = folders.map(|folder| Path::new(folder).join(name));
    programs.find(|path| path.exists())
}

impl Shell {
    pub(super) fn find(name: &'static str) -> Option<Self> {
        let program = find(name)?;
        Some(Self { name, program })
    }

    /// Runs each line, and returns its calls and files.
    pub(super) fn run(&self, lines: &[&str]) -> Vec<Ran> {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let programs = root.join("bin");
        fs::create_dir(&programs).unwrap();
        for name in STUBS {
            // Records the call as `record` does. A call without `LOG` belongs to no line.
            let text = format!(
                "#!/bin/sh\nset -C\ni=0\nuntil printf '%s\\037' {name} \"$@\" 2>/dev/null > \"${{LOG:-{}/stray}}.$i\" || [ $i -gt 999 ]; do i=$((i + 1)); done\n",
                root.display()
            );
            let path = programs.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        for name in WRAPPERS {
            if let Some(real) = find(name) {
                symlink(real, programs.join(name)).unwrap();
            }
        }
        for n in 1..=lines.len() {
            let own = root.join(n.to_string());
            fs::create_dir_all(own.join("w/a")).unwrap();
        }
        // Each shell runs up to 500 lines, each in its own subshell.
        for (at, lines) in lines.chunks(500).enumerate() {
            let own = root.join(format!("of-{at}"));
            fs::create_dir(&own).unwrap();
            for n in 1..=lines.len() {
                let real = root.join((at * 500 + n).to_string());
                symlink(real, own.join(n.to_string())).unwrap();
            }
            let mut command = self.apart();
            command
                .args(["-c", DRIVER, "driver"])
                .args(lines)
                .env_clear()
                .env("PATH", &programs)
                .env("ROOT", &own)
                .env("X", "zqb  y")
                .env("LANG", "C.UTF-8")
                .current_dir(&root)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let status = command.status();
            assert!(status.is_ok(), "{status:?}");
        }
        let of_none = fs::read_to_string(root.join("stray.0")).unwrap_or_default();
        assert_eq!(of_none, "", "a call without its line");
        let dirs = (1..=lines.len()).map(|n| root.join(n.to_string()));
        dirs.map(|own| ran(&own)).collect()
    }

    /// Returns the command for the shell, in new namespaces (user, network, processes) if the
    /// system allows it.
    fn apart(&self) -> Command {
        let apart = ["-rnpf", "--kill-child"];
        let unshare = find("unshare").map(Command::new);
        let mut works = unshare.into_iter().filter_map(|mut unshare| {
            let output = unshare.args(apart).arg("true").output();
            output.ok().filter(|output| output.status.success())
        });
        let unshare = find("unshare").filter(|_| works.next().is_some());
        let Some(mut command) = unshare.map(Command::new) else {
            tell_bare();
            return Command::new(&self.program);
        };
        command.args(apart).arg(&self.program);
        command
    }
}

/// Reports once that lines run without namespaces. Writes directly to standard error, which the
/// test harness does not capture, because such a run of CI looks like any other.
fn tell_bare() {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        let text = "shells: `unshare -rnpf` does not work here, so lines run bare, with network and among other processes\n";
        // A closed standard error must not fail the test.
        let _ = std::io::stderr().write_all(text.as_bytes());
    });
}

fn ran(own: &Path) -> Ran {
    let logs = (0..).map_while(|n| fs::read(own.join(format!("log.{n}"))).ok());
    let calls = logs.map(|log| {
        let log = String::from_utf8_lossy(&log).into_owned();
        let words = log.strip_suffix('\u{1f}').unwrap_or(&log);
        words.split('\u{1f}').map(str::to_owned).collect()
    });
    let mut files = Vec::new();
    for (folder, prefix) in [("w", ""), ("w/a", "a/"), ("", "../")] {
        for entry in fs::read_dir(own.join(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_log = prefix == "../" && name.starts_with("log.");
            let is_ours = is_log || matches!((prefix, &*name), ("../", "w") | ("", "a"));
            if !is_ours && !entry.file_type().unwrap().is_dir() {
                files.push(format!("{prefix}{name}"));
            }
        }
    }
    Ran {
        calls: calls.collect(),
        files,
    }
}
