//! A terminal for tests: `script` of util-linux runs the program in it, and an emulator tracks its
//! screen.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::Machine;

/// Size of the terminal: columns and rows.
const SIZE: (u16, u16) = (100, 40);

/// Number of rows above the screen that the emulator keeps.
const SCROLLBACK_ROWS: usize = 2_000;

/// Time after which an awaited condition counts as failed.
const PATIENCE: Duration = Duration::from_secs(90);

/// The program at a terminal. Dropping this ends the program.
pub struct Terminal {
    child: Child,
    stdin: ChildStdin,
    shown: Arc<Mutex<vt100::Parser>>,
}

impl std::fmt::Debug for Terminal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Terminal")
            .field("screen", &self.all())
            .finish()
    }
}

impl Machine {
    /// Starts the program at a terminal with a command, the servers and further arguments.
    ///
    /// # Panics
    /// There is no `script` of util-linux.
    #[must_use]
    pub fn terminal(&self, command: &[&str], args: &[&str]) -> Terminal {
        let run = self.command(command, args);
        let words: Vec<String> = std::iter::once(run.get_program())
            .chain(run.get_args())
            .map(|word| format!("'{}'", word.to_str().unwrap()))
            .collect();
        let (columns, rows) = SIZE;
        let line = format!(
            "trap : INT; stty cols {columns} rows {rows}; {}; code=$?; stty -a | grep -ow -e '-\\?icanon'; exit $code",
            words.join(" ")
        );
        let mut child = Command::new("script")
            .args(["-q", "-e", "-c", &line, "/dev/null"])
            .env_clear()
            .envs(
                run.get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .env("TERM", "xterm-256color")
            .current_dir(self.path("workspace"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("`script` of util-linux makes the terminal of this test");
        let stdin = child.stdin.take().unwrap();
        let mut stdout = child.stdout.take().unwrap();
        let parser = vt100::Parser::new(rows, columns, SCROLLBACK_ROWS);
        let shown = Arc::new(Mutex::new(parser));
        let reader = shown.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n_read @ 1..) = stdout.read(&mut bytes) {
                reader.lock().unwrap().process(&bytes[..n_read]);
            }
        });
        Terminal {
            child,
            stdin,
            shown,
        }
    }
}

impl Terminal {
    /// Types keys.
    ///
    /// # Panics
    /// The program has ended.
    pub fn keys(&mut self, keys: &str) -> &mut Self {
        self.stdin.write_all(keys.as_bytes()).unwrap();
        self.stdin.flush().unwrap();
        self
    }

    /// Types a line and Enter after a pause, because keys that are typed too early do not answer a
    /// question.
    pub fn line(&mut self, line: &str) -> &mut Self {
        std::thread::sleep(Duration::from_millis(1_200));
        self.keys(line);
        std::thread::sleep(Duration::from_millis(200));
        self.keys("\r")
    }

    /// Waits until the screen and the rows above it contain a text this many times.
    ///
    /// # Panics
    /// The text does not appear in time.
    #[track_caller]
    pub fn sees_times(&mut self, text: &str, times: usize) -> &mut Self {
        let until = Instant::now() + PATIENCE;
        loop {
            let all = self.all();
            if all.matches(text).count() >= times {
                return self;
            }
            assert!(Instant::now() < until, "{text:?} never came:\n{all}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen and the rows above it contain a text.
    ///
    /// # Panics
    /// The text does not appear in time.
    #[track_caller]
    pub fn sees(&mut self, text: &str) -> &mut Self {
        self.sees_times(text, 1)
    }

    /// Returns all rows that were written.
    ///
    /// # Panics
    /// A thread of the test has failed.
    #[must_use]
    pub fn all(&self) -> String {
        let mut shown = self.shown.lock().unwrap();
        let screen = shown.screen_mut();
        let (rows, columns) = screen.size();
        screen.set_scrollback(usize::MAX);
        let mut above = screen.scrollback();
        let mut all: Vec<String> = Vec::new();
        while above > 0 {
            screen.set_scrollback(above);
            all.extend(screen.rows(0, columns).take(above.min(usize::from(rows))));
            above = above.saturating_sub(usize::from(rows));
        }
        screen.set_scrollback(0);
        all.extend(screen.rows(0, columns));
        let rows: Vec<&str> = all.iter().map(|row| row.trim_end()).collect();
        rows.join("\n").trim_end().to_owned()
    }

    /// Waits for the end of the program, checks that it restored the terminal, and returns its exit
    /// code.
    ///
    /// # Panics
    /// The program does not end in time.
    #[track_caller]
    pub fn ends(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                std::thread::sleep(Duration::from_millis(200));
                let all = self.all();
                assert!(
                    all.ends_with("icanon") && !all.ends_with("-icanon"),
                    "{all}"
                );
                return status.code();
            }
            assert!(Instant::now() < until, "it never ended:\n{}", self.all());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
