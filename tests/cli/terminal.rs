//! A terminal at which a test types, and a terminal emulator that shows what a user would see.
//!
//! `script` of util-linux creates the terminal; a test resizes it from outside with `stty`, as a
//! window manager does.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant, SystemTime};

use super::{PATIENCE, Rind, masked};

/// Rows of scrollback that the emulator keeps.
const SCROLLBACK_ROWS: usize = 10_000;

/// Interval at which a test checks the screen.
const GLANCE: Duration = Duration::from_millis(5);

/// The program at a terminal. Killed when dropped.
pub struct Terminal<'a> {
    rind: &'a Rind,
    child: Child,
    stdin: ChildStdin,
    shown: Arc<Mutex<Shown>>,
    device: PathBuf,
}

struct Shown {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    /// Times at which output arrived, each with the total number of bytes by then.
    arrivals: Vec<(SystemTime, usize)>,
}

impl Rind {
    /// Starts the program at a terminal of this size; `None` if there is no `script` of util-linux.
    #[allow(clippy::print_stderr, reason = "a test that cannot run here says why")]
    pub fn terminal(
        &self,
        args: &[&str],
        (columns, rows): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Option<Terminal<'_>> {
        if !cfg!(target_os = "linux") {
            eprintln!("skipped, `script` is another program here");
            return None;
        }
        let run = self.command(args);
        let words: Vec<String> = std::iter::once(run.get_program())
            .chain(run.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect();
        let told = self.root().join("tty");
        let _ = std::fs::remove_file(&told);
        // The commands after the program run in its terminal, as if a user had typed them in a
        // shell.
        let command = format!(
            "trap : INT; stty cols {columns} rows {rows}; tty > {told}; {}; code=$?; stty -a | grep -ow -e '-\\?icanon' -e '-\\?echo'; exit $code",
            words.join(" "),
            told = told.display(),
        );
        let mut terminal = Command::new("timeout");
        terminal
            .args(["--foreground", "--signal=KILL"])
            // The limit is longer than every wait of a test, so that a failing test reports first
            // what it waited for.
            .arg((2 * PATIENCE.as_secs()).to_string())
            .arg("script")
            .args(["-q", "-e", "-c", &command, "/dev/null"])
            .env_clear()
            .envs(
                run.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("TERM", "xterm-256color")
            .envs(variables.iter().copied())
            .current_dir(self.workspace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = match terminal.spawn() {
            Ok(child) => child,
            Err(error) => {
                eprintln!("skipped, `script` of util-linux cannot be run: {error}");
                return None;
            }
        };
        let stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let shown = Arc::new(Mutex::new(Shown {
            parser: vt100::Parser::new(rows, columns, SCROLLBACK_ROWS),
            bytes: Vec::new(),
            arrivals: Vec::new(),
        }));
        let reader = shown.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            let mut pending = Vec::new();
            loop {
                let n_read = stdout.read(&mut bytes).unwrap_or(0);
                pending.extend_from_slice(&bytes[..n_read]);
                // Holds back an unfinished synchronized update, which a terminal would not show.
                let n_whole = match n_read {
                    0 => pending.len(),
                    _ => whole(&pending),
                };
                let rest = pending.split_off(n_whole);
                let mut shown = reader.lock().unwrap();
                shown.parser.process(&pending);
                shown.bytes.append(&mut pending);
                let n_bytes = shown.bytes.len();
                shown.arrivals.push((SystemTime::now(), n_bytes));
                pending = rest;
                if n_read == 0 {
                    return;
                }
            }
        });
        Some(Terminal {
            rind: self,
            child,
            stdin,
            shown,
            device: told,
        })
    }
}

impl Terminal<'_> {
    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap()
    }

    /// Types keys.
    pub fn keys(&mut self, keys: &str) -> &mut Self {
        self.stdin.write_all(keys.as_bytes()).unwrap();
        self.stdin.flush().unwrap();
        self
    }

    /// Waits until `is_so` accepts the screen.
    #[track_caller]
    pub fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> &mut Self {
        let started = Instant::now();
        loop {
            let screen = self.screen();
            if is_so(&screen) {
                return self;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && started.elapsed() < PATIENCE,
                "{what:?} never came ({ended:?}):\n{}",
                self.all()
            );
            std::thread::sleep(GLANCE);
        }
    }

    /// Waits until the screen shows a text.
    #[track_caller]
    pub fn sees(&mut self, text: &str) -> &mut Self {
        self.until(text, |screen| screen.contains(text))
    }

    /// Waits until the screen no longer shows a text.
    #[track_caller]
    pub fn sees_no(&mut self, text: &str) -> &mut Self {
        self.until(&format!("no {text}"), |screen| !screen.contains(text))
    }

    /// Sleeps: before keys that would mean something else if they came at once, or where nothing
    /// visible changes.
    pub fn waits(&mut self, millis: u64) -> &mut Self {
        std::thread::sleep(Duration::from_millis(millis));
        self
    }

    /// Resizes the terminal.
    pub fn resize(&mut self, columns: u16, rows: u16) -> &mut Self {
        let device = std::fs::read_to_string(&self.device).unwrap();
        let mut stty = Command::new("stty");
        stty.args(["-F", device.trim()]);
        stty.args(["cols", &columns.to_string(), "rows", &rows.to_string()]);
        self.shown().parser.screen_mut().set_size(rows, columns);
        assert!(stty.status().unwrap().success());
        self
    }

    /// Returns the current screen, with trailing blanks of rows removed.
    #[must_use]
    pub fn screen(&self) -> String {
        let shown = self.shown();
        let screen = shown.parser.screen();
        let (_, columns) = screen.size();
        trimmed(screen.rows(0, columns))
    }

    /// Returns the scrollback and the screen.
    #[must_use]
    pub fn all(&self) -> String {
        let mut shown = self.shown();
        let screen = shown.parser.screen_mut();
        let (rows, columns) = screen.size();
        screen.set_scrollback(usize::MAX);
        let n_above = screen.scrollback();
        let mut all: Vec<String> = Vec::new();
        let mut above = n_above;
        while above > 0 {
            screen.set_scrollback(above);
            all.extend(screen.rows(0, columns).take(above.min(usize::from(rows))));
            above = above.saturating_sub(usize::from(rows));
        }
        screen.set_scrollback(0);
        all.extend(screen.rows(0, columns));
        trimmed(all.into_iter())
    }

    /// Returns all bytes that the program wrote to the terminal.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.shown().bytes.clone()
    }

    /// Returns the number of bytes that the program wrote to the terminal.
    #[must_use]
    pub fn n_bytes(&self) -> usize {
        self.shown().bytes.len()
    }

    /// Returns the time at which a text had arrived completely, searching the output from byte
    /// offset `from`.
    #[must_use]
    pub fn arrived(&self, from: usize, text: &str) -> Option<SystemTime> {
        let shown = self.shown();
        let end = from
            + text.len()
            + shown.bytes[from..]
                .windows(text.len().max(1))
                .position(|bytes| bytes == text.as_bytes())?;
        let mut arrivals = shown.arrivals.iter();
        arrivals.find(|(_, n)| *n >= end).map(|(at, _)| *at)
    }

    /// Returns the screen for a snapshot, with the parts masked that differ between runs.
    #[must_use]
    pub fn picture(&self) -> String {
        masked(&self.rind.named(&self.screen()))
    }

    /// Returns everything from the last occurrence of a text, for a snapshot. A snapshot of the
    /// screen alone would depend on how far it has scrolled, which temporary rows can change.
    #[track_caller]
    #[must_use]
    pub fn picture_from(&self, text: &str) -> String {
        let picture = masked(&self.rind.named(&self.all()));
        let at = picture.rfind(text);
        picture[at.unwrap_or_else(|| panic!("no {text:?} in:\n{picture}"))..].to_owned()
    }

    /// Returns row and column of the cursor, from 0.
    #[must_use]
    pub fn cursor(&self) -> (u16, u16) {
        self.shown().parser.screen().cursor_position()
    }

    /// Waits until the program exits and checks that the terminal's modes are restored. Returns the
    /// exit code.
    #[track_caller]
    pub fn ends(&mut self) -> Option<i32> {
        let started = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                started.elapsed() < PATIENCE,
                "it never ended:\n{}",
                self.all()
            );
            std::thread::sleep(GLANCE);
        };
        // Waits until the reader thread has received the remaining output.
        let mut n_seen = 0;
        while n_seen < self.shown().bytes.len() {
            n_seen = self.shown().bytes.len();
            std::thread::sleep(10 * GLANCE);
        }
        let all = self.all();
        assert!(
            all.ends_with("icanon\necho"),
            "the terminal was not left as it was:\n{all}"
        );
        status.code()
    }
}

impl Drop for Terminal<'_> {
    fn drop(&mut self) {
        // Sends SIGTERM instead of killing: `timeout` forwards it to `script`, and when `script`
        // exits, the chat loses its terminal and exits as well. The process may have exited
        // already.
        let id = self.child.id().to_string();
        let _ = Command::new("kill")
            .args(["-s", "TERM", &id])
            .stderr(Stdio::null())
            .status();
        let _ = self.child.wait();
    }
}

fn trimmed(rows: impl Iterator<Item = String>) -> String {
    let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
    rows.join("\n").trim_end().to_owned()
}

/// Returns the length of the prefix of `bytes` without an unfinished synchronized update.
fn whole(bytes: &[u8]) -> usize {
    let last = |mark: &[u8]| bytes.windows(mark.len()).rposition(|found| found == mark);
    match (last(b"\x1b[?2026h"), last(b"\x1b[?2026l")) {
        (Some(begin), Some(end)) if end > begin => bytes.len(),
        (Some(begin), _) => begin,
        // The start mark itself may have arrived only in part.
        (None, _) => bytes
            .iter()
            .rposition(|byte| *byte == 0x1b)
            .map_or(bytes.len(), |at| {
                if bytes.len() - at < 8 {
                    at
                } else {
                    bytes.len()
                }
            }),
    }
}

/// Adds the marks that a terminal sends around a paste (bracketed paste).
#[must_use]
pub fn pasted(text: &str) -> String {
    format!("\u{1b}[200~{text}\u{1b}[201~")
}

/// Whether only the owner may read a file.
#[must_use]
pub fn is_private(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o077 == 0)
}

/// Sends a signal, by name, to the chat that runs in this machine's workspace.
pub fn signal_chat(rind: &Rind, name: &str) {
    let workspace = rind.workspace();
    let is_chat = |process: &Path| {
        let is_there = std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == workspace);
        let program = std::fs::read_link(process.join("exe"));
        is_there && program.is_ok_and(|program| program.ends_with("rind"))
    };
    let processes = std::fs::read_dir("/proc").unwrap();
    let mut chats = processes.filter_map(|entry| {
        let path = entry.unwrap().path();
        is_chat(&path).then(|| path.file_name().unwrap().to_owned())
    });
    let chat = chats.next().expect("the chat runs");
    let sent = Command::new("kill").args(["-s", name]).arg(chat).status();
    assert!(sent.unwrap().success());
}
