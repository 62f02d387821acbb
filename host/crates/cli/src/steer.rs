//! Steers a turn from another program: reads JSON lines, and prints an answer to each.
//!
//! A line is `{"steer": "…"}`, `{"follow_up": "…"}` or `{"cancel": true}`, optionally with an `id`
//! that the answers repeat. A line is answered when it is accepted or refused, and again when the
//! turn takes its text, a hook drops it, or it is too late.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::exit_code::{Usage, bail_usage};
use super::render;
use rind_lib::agent::AgentSteeringHandle;
use rind_lib::event::{Event, Stamped};
use rind_lib::point::payload::Source;

/// Maximum length of an input line that steers the turn, in bytes.
const MAX_INPUT_LINE_BYTES: u64 = 1 << 20;

/// Maximum number of lines that are read before the turn handles them.
const MAX_LINES_READ_AHEAD: usize = 16;

/// Timeout at the end of a run for reading the lines already written, because a named pipe has no
/// end.
const FINAL_INPUT_READ_TIMEOUT: Duration = Duration::from_millis(100);

/// Line of the steering input, or the reason why the input cannot be read.
pub(super) type SteeringLineReadResult = Result<String, String>;

/// Receiver of the lines that steer the turn, in the order in which they were read.
pub(super) type SteeringLineReceiver = Receiver<SteeringLineReadResult>;

/// Reads lines from a file, a named pipe or, for `-`, standard input.
pub(super) fn open_steering_input(path: &Path) -> anyhow::Result<SteeringLineReceiver> {
    let is_pipe = if path == Path::new("-") {
        false
    } else {
        let found = path.metadata();
        let found = found
            .with_context(|| Usage(format!("cannot open {} of --steer-from", path.display())))?;
        if found.is_dir() {
            bail_usage!(
                "--steer-from {} is a folder; name a file, a named pipe, or `-` for standard input",
                path.display()
            );
        }
        found.file_type().is_fifo()
    };
    let (sender, lines) = mpsc::channel(MAX_LINES_READ_AHEAD);
    let path = path.to_owned();
    // Read on a detached thread: opening a FIFO blocks until it has a writer, possibly forever.
    let thread = std::thread::Builder::new().name("steer-from".to_owned());
    thread
        .spawn(move || read_steering_lines(&path, is_pipe, &sender))
        .context("cannot start the thread that reads the steering lines")?;
    Ok(lines)
}

/// Reads lines to the end of the file. A named pipe has no end: when one writer closes it, waits
/// for the next one.
fn read_steering_lines(path: &PathBuf, is_pipe: bool, sender: &Sender<SteeringLineReadResult>) {
    loop {
        let read = if path == Path::new("-") {
            send_steering_lines_from_reader(BufReader::new(std::io::stdin().lock()), sender)
        } else {
            match File::open(path) {
                Ok(file) => send_steering_lines_from_reader(BufReader::new(file), sender),
                Err(error) => Err(error),
            }
        };
        if let Err(error) = read {
            let why = format!("cannot read {}: {error}", path.display());
            let _ = sender.blocking_send(Err(why));
            return;
        }
        if !is_pipe || sender.is_closed() {
            return;
        }
    }
}

fn send_steering_lines_from_reader(
    mut reader: impl BufRead,
    sender: &Sender<SteeringLineReadResult>,
) -> std::io::Result<()> {
    loop {
        let mut bytes = Vec::new();
        let n = reader
            .by_ref()
            .take(MAX_INPUT_LINE_BYTES + 1)
            .read_until(b'\n', &mut bytes)?;
        if n == 0 {
            return Ok(());
        }
        let is_whole = bytes.pop_if(|last| *last == b'\n').is_some();
        let line = if n as u64 > MAX_INPUT_LINE_BYTES {
            if !is_whole {
                reader.skip_until(b'\n')?;
            }
            Err(format!(
                "the line is longer than {MAX_INPUT_LINE_BYTES} bytes"
            ))
        } else if is_whole {
            String::from_utf8(bytes).map_err(|_| "the line is not UTF-8 text".to_owned())
        } else {
            Err("the line is incomplete: its line break is missing".to_owned())
        };
        let is_blank = line.as_ref().is_ok_and(|line| line.trim().is_empty());
        if !is_blank && sender.blocking_send(line).is_err() {
            return Ok(());
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SteerCommand {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    steer: Option<String>,
    #[serde(default)]
    follow_up: Option<String>,
    #[serde(default)]
    cancel: bool,
}

struct AcceptedSteeringText {
    line: u64,
    id: Value,
}

pub(super) struct TurnSteeringController {
    lines: SteeringLineReceiver,
    handle: AgentSteeringHandle,
    cancel: CancellationToken,
    is_json: bool,
    n_lines: u64,
    /// Accepted texts that the turn has not taken yet, by their number in the queue.
    waiting: BTreeMap<u64, AcceptedSteeringText>,
    is_over: bool,
}

impl TurnSteeringController {
    pub(super) fn new(
        lines: SteeringLineReceiver,
        handle: AgentSteeringHandle,
        cancel: CancellationToken,
        is_json: bool,
    ) -> Self {
        Self {
            lines,
            handle,
            cancel,
            is_json,
            n_lines: 0,
            waiting: BTreeMap::new(),
            is_over: false,
        }
    }

    /// Waits for the next line; pending forever once the input has ended.
    pub(super) async fn next_steering_input_line(&mut self) -> SteeringLineReadResult {
        match self.lines.recv().await {
            Some(line) => line,
            None => std::future::pending().await,
        }
    }

    pub(super) fn handle_steering_line(&mut self, line: SteeringLineReadResult) {
        self.n_lines += 1;
        let command = line.and_then(|line| parse_command(&line));
        let (id, text, is_follow_up) = match command {
            Ok(SteerCommand {
                id,
                steer: Some(text),
                ..
            }) => (id, Some(text), false),
            Ok(SteerCommand {
                id,
                follow_up: Some(text),
                ..
            }) => (id, Some(text), true),
            Ok(SteerCommand { id, .. }) => (id, None, false),
            Err(why) => {
                let accepted = self.create_accepted_text(Value::Null);
                return self.print_steering_response(&accepted, "refused", json!({"reason": why}));
            }
        };
        let accepted = self.create_accepted_text(id);
        if self.is_over {
            return self.print_steering_response(&accepted, "too-late", json!({}));
        }
        self.print_steering_response(&accepted, "accepted", json!({}));
        match text {
            None => self.cancel.cancel(),
            Some(text) => {
                let queue = if is_follow_up {
                    AgentSteeringHandle::follow_up
                } else {
                    AgentSteeringHandle::steer
                };
                let number = queue(&self.handle, text, Source::Terminal);
                self.waiting.insert(number, accepted);
            }
        }
    }

    /// Prints the response to each accepted line whose text, according to the event, was taken by
    /// the turn, was dropped by a plugin, or came too late.
    pub(super) fn print_steering_outcomes(&mut self, stamped: &Stamped) {
        if !stamped.is_from_main_agent() {
            return;
        }
        match &stamped.event {
            Event::SteeringTaken {
                number,
                dropped_by,
                reason,
            } => {
                let Some(accepted) = self.waiting.remove(number) else {
                    return;
                };
                let step = stamped.step;
                match dropped_by {
                    None => self.print_steering_response(&accepted, "taken", json!({"step": step})),
                    Some(by) => {
                        let about = json!({"step": step, "by": by, "reason": reason});
                        self.print_steering_response(&accepted, "dropped", about);
                    }
                }
            }
            Event::TurnEnd { .. } => self.reject_waiting_and_later_texts(),
            _ => {}
        }
    }

    /// Answers `too-late` to the steering texts that no turn took, and to the input lines that were
    /// not read yet.
    pub(super) async fn reject_pending_steering_lines(&mut self) {
        self.reject_waiting_and_later_texts();
        let until = Instant::now() + FINAL_INPUT_READ_TIMEOUT;
        while let Ok(Some(line)) = timeout_at(until, self.lines.recv()).await {
            self.handle_steering_line(line);
        }
    }

    /// Answers all waiting texts with `too-late`, and rejects every later text in the same way.
    fn reject_waiting_and_later_texts(&mut self) {
        self.is_over = true;
        for accepted in std::mem::take(&mut self.waiting).into_values() {
            self.print_steering_response(&accepted, "too-late", json!({}));
        }
    }

    fn create_accepted_text(&self, id: Value) -> AcceptedSteeringText {
        AcceptedSteeringText {
            line: self.n_lines,
            id,
        }
    }

    fn print_steering_response(&self, accepted: &AcceptedSteeringText, status: &str, about: Value) {
        if self.is_json {
            let mut answer =
                json!({"type": "steer-answer", "line": accepted.line, "status": status});
            if !accepted.id.is_null() {
                answer["id"] = accepted.id.clone();
            }
            if let (Some(answer), Value::Object(about)) = (answer.as_object_mut(), about) {
                answer.extend(about);
            }
            return render::print_to_stdout(format!("{answer}\n"));
        }
        let id = match &accepted.id {
            Value::Null => String::new(),
            id => format!(" ({id})"),
        };
        let step = about["step"]
            .as_u64()
            .map(|step| format!(" at step {step}"));
        let by = about["by"].as_str().map(|by| format!(" by plugin {by}"));
        let reason = about["reason"].as_str().map(|reason| format!(": {reason}"));
        let about = [by, step, reason].into_iter().flatten().collect::<String>();
        let text = format!("--steer-from line {}{id}: {status}{about}", accepted.line);
        render::print_note(&render::printable_text(&text));
    }
}

fn parse_command(line: &str) -> Result<SteerCommand, String> {
    let command: SteerCommand = serde_json::from_str(line).map_err(|error| {
        format!("the line is not one of {{\"steer\": …}}, {{\"follow_up\": …}}, {{\"cancel\": true}}: {error}")
    })?;
    if !matches!(
        command.id,
        Value::Null | Value::String(_) | Value::Number(_)
    ) {
        return Err("`id` is neither a text nor a number".to_owned());
    }
    let texts = [&command.steer, &command.follow_up];
    let n_texts = texts.iter().filter(|text| text.is_some()).count();
    if n_texts + usize::from(command.cancel) != 1 {
        return Err("the line must have one of `steer`, `follow_up` and `cancel: true`".to_owned());
    }
    let is_empty =
        |text: &&Option<String>| text.as_ref().is_some_and(|text| text.trim().is_empty());
    if texts.iter().any(is_empty) {
        return Err("the text is empty".to_owned());
    }
    Ok(command)
}
