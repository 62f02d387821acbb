//! Reads the prompt of a turn: text from the command line and piped input.

use std::io::{IsTerminal, Stdin};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::exit_code::{Usage, bail_usage};
use super::render;

/// Maximum number of bytes read from standard input: more than the context window of any model.
const MAX_STDIN_BYTES: u64 = 16 << 20;

/// Time without data on standard input after which a notice says that Rind waits for input.
const STDIN_SILENCE_BEFORE_NOTICE: Duration = Duration::from_secs(2);

/// Timeout for the first byte from a pipe or socket if there is also a prompt, and no program is
/// found that has the other end open.
///
/// A program that starts Rind often leaves standard input open and never writes to it; Claude Code
/// continues after 3 s, Codex waits forever.
const STDIN_FIRST_BYTE_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout for more data after the first byte, if no program is found that has the other end open.
const STDIN_TIMEOUT_BETWEEN_BYTES: Duration = Duration::from_secs(30);

/// Returns the prompt from the command line, followed by piped input as a block; or piped input
/// alone, if there is no prompt or it is `-`. If `reads_stdin` is false, standard input is not
/// read, because it has another use.
///
/// If there is also a prompt, standard input must not block the turn forever. A file is read to its
/// end. A pipe is read without timeout as long as a program that is no ancestor of this process has
/// the other end open, such as `git` in `git diff | rind run …`, because it will write or exit. If
/// no such program is found, timeouts apply, and the person and the model are informed.
///
/// Returns `None` if there is no prompt and `is_optional` is true.
pub(super) fn read_prompt_and_piped_input(
    typed: Option<&str>,
    reads_stdin: bool,
    is_optional: bool,
) -> anyhow::Result<Option<String>> {
    let stdin = std::io::stdin();
    let text = match typed {
        None if is_optional && (!reads_stdin || stdin.is_terminal()) => return Ok(None),
        None | Some("-") if !reads_stdin => {
            bail_usage!(
                "pass the prompt as an argument, because `--steer-from -` reads standard input"
            )
        }
        Some(text) if !reads_stdin => text.to_owned(),
        Some("-") => read_stdin(&stdin, StdinReadTimeoutMode::ToTheEnd)?.text,
        Some(text) if is_stdin_piped(&stdin) => read_stdin_into_prompt(text, &stdin)?,
        Some(text) => text.to_owned(),
        None if stdin.is_terminal() => {
            bail_usage!("pass a prompt, as in `rind run \"what does this project do?\"`");
        }
        None => read_stdin(&stdin, StdinReadTimeoutMode::ToTheEnd)?.text,
    };
    match text.trim().is_empty() {
        false => Ok(Some(text)),
        true if is_optional && typed.is_none() => Ok(None),
        true => bail_usage!("the prompt is empty"),
    }
}

/// Returns the prompt `text`, followed by piped input as a block.
pub(super) fn append_piped_input(text: &str) -> anyhow::Result<String> {
    let stdin = std::io::stdin();
    match is_stdin_piped(&stdin) {
        true => read_stdin_into_prompt(text, &stdin),
        false => Ok(text.to_owned()),
    }
}

/// Whether standard input is a pipe, a file or a socket, and so meant to be read; a terminal or
/// `/dev/null` is not.
fn is_stdin_piped(stdin: &Stdin) -> bool {
    use rustix::fs::FileType;
    let kind = rustix::fs::fstat(stdin).map(|found| FileType::from_raw_mode(found.st_mode));
    matches!(
        kind,
        Ok(FileType::Fifo | FileType::RegularFile | FileType::Socket)
    )
}

/// Returns a prompt followed by piped input, read with timeouts.
fn read_stdin_into_prompt(prompt: &str, stdin: &Stdin) -> anyhow::Result<String> {
    let PipedText { text, is_cut } = read_stdin(stdin, StdinReadTimeoutMode::Bounded)?;
    let with = append_stdin_block_to_prompt(prompt, text.trim_end());
    Ok(match is_cut {
        true if !text.trim().is_empty() => format!(
            "{with}\n\n[standard input was still open after {} s without data, so the text may be incomplete]",
            STDIN_TIMEOUT_BETWEEN_BYTES.as_secs()
        ),
        _ => with,
    })
}

/// Text that another program piped into standard input.
struct PipedText {
    text: String,
    /// Whether reading standard input stopped at a timeout before its end.
    is_cut: bool,
}

/// Whether reading standard input may stop at a timeout before the end of the input.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StdinReadTimeoutMode {
    ToTheEnd,
    Bounded,
}

fn read_stdin(stdin: &Stdin, wait: StdinReadTimeoutMode) -> anyhow::Result<PipedText> {
    let mut bytes = Vec::new();
    let mut is_cut = false;
    let mut silent_since = Instant::now();
    let mut has_told = false;
    let mut buffer = vec![0; 64 << 10];
    while bytes.len() as u64 <= MAX_STDIN_BYTES {
        if !wait_until_readable(stdin, Duration::from_millis(250))? {
            let silence = silent_since.elapsed();
            if silence >= STDIN_SILENCE_BEFORE_NOTICE && !has_told {
                has_told = true;
                render::print_note(
                    "waiting for standard input to end; to skip it, use `< /dev/null`",
                );
            }
            let most = if bytes.is_empty() {
                STDIN_FIRST_BYTE_TIMEOUT
            } else {
                STDIN_TIMEOUT_BETWEEN_BYTES
            };
            if wait == StdinReadTimeoutMode::Bounded && silence >= most {
                if !has_pipe_writer(stdin) {
                    is_cut = true;
                    break;
                }
                silent_since = Instant::now();
            }
            continue;
        }
        match rustix::io::read(stdin, &mut buffer[..]) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            // The parent process may have made the descriptor non-blocking.
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::ISDIR) => bail_usage!("standard input is a folder; redirect a file"),
            Err(errno) => return Err(errno).context("cannot read standard input"),
        }
        silent_since = Instant::now();
    }
    if is_cut {
        render::print_note(&match bytes.len() {
            0 => format!(
                "standard input is open, but no data came within {} s: continuing without it",
                STDIN_FIRST_BYTE_TIMEOUT.as_secs()
            ),
            n_bytes => format!(
                "standard input did not end within {} s after its last data: continuing with the {n_bytes} bytes received",
                STDIN_TIMEOUT_BETWEEN_BYTES.as_secs()
            ),
        });
    }
    if bytes.len() as u64 > MAX_STDIN_BYTES {
        bail_usage!(
            "standard input is larger than {} MiB; put it into a file of the workspace and name the file in the prompt",
            MAX_STDIN_BYTES >> 20
        );
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        let text =
            "standard input is not UTF-8 text; put it into a file of the workspace and name the file in the prompt";
        Usage(text.to_owned())
    })?;
    Ok(PipedText { text, is_cut })
}

/// Waits until standard input has data or has ended. Returns false after `most`, which must be less
/// than a second.
fn wait_until_readable(stdin: &Stdin, most: Duration) -> anyhow::Result<bool> {
    let most = Timespec {
        tv_sec: 0,
        tv_nsec: i64::from(most.subsec_nanos()),
    };
    let mut polled = [PollFd::new(stdin, PollFlags::IN)];
    match rustix::event::poll(&mut polled, Some(&most)) {
        Ok(n_ready) => Ok(n_ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(errno) => Err(errno).context("cannot wait for standard input"),
    }
}

/// Whether another program has the write end of this pipe open, and so will write to it or exit.
/// Parent processes do not count: they may have it open for as long as this program runs.
#[cfg(target_os = "linux")]
fn has_pipe_writer(stdin: &Stdin) -> bool {
    use std::os::fd::AsRawFd;
    let Ok(pipe) = std::fs::read_link(format!("/proc/self/fd/{}", stdin.as_raw_fd())) else {
        return false;
    };
    if !pipe.to_string_lossy().starts_with("pipe:") {
        return false;
    }
    let above = list_ancestor_processes();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.any(|id| !above.contains(&id) && is_process_writing_to_pipe(id, &pipe))
}

#[cfg(not(target_os = "linux"))]
fn has_pipe_writer(_: &Stdin) -> bool {
    false
}

/// Returns the ids of this process and all its ancestors.
#[cfg(target_os = "linux")]
fn list_ancestor_processes() -> Vec<u32> {
    let mut above = vec![std::process::id()];
    let parent = |id: u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        // Split after the process name, which may itself contain `) `.
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').nth(1)?.parse::<u32>().ok()
    };
    while let Some(id) = above.last().and_then(|id| parent(*id)) {
        if id == 0 || above.contains(&id) {
            break;
        }
        above.push(id);
    }
    above
}

/// Whether the process with this id has the pipe open for writing.
#[cfg(target_os = "linux")]
fn is_process_writing_to_pipe(id: u32, pipe: &std::path::Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let open = std::fs::read_dir(format!("/proc/{id}/fd"));
    open.into_iter().flatten().flatten().any(|entry| {
        let is_it = std::fs::read_link(entry.path()).is_ok_and(|target| target == pipe);
        // The mode of a link in `/proc/PID/fd` shows whether the descriptor is open for writing.
        let mode = entry
            .path()
            .symlink_metadata()
            .map(|meta| meta.permissions().mode());
        is_it && mode.is_ok_and(|mode| mode & 0o200 != 0)
    })
}

/// Appends a text to a prompt as a fenced block.
fn append_stdin_block_to_prompt(prompt: &str, text: &str) -> String {
    if text.trim().is_empty() {
        return prompt.to_owned();
    }
    format!("{prompt}\n\nStandard input:\n\n{}", fence_input(text))
}

/// Encloses a text in fences that are longer than any run of backticks in the text.
pub(super) fn fence_input(text: &str) -> String {
    let mut longest = 2;
    let mut run = 0;
    for letter in text.chars() {
        run = if letter == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    let fence = "`".repeat(longest + 1);
    format!("{fence}\n{text}\n{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_piped_in_stands_in_a_block_that_it_cannot_close() {
        assert_eq!(append_stdin_block_to_prompt("do", " \n"), "do");
        assert_eq!(
            append_stdin_block_to_prompt("do", "a\nb"),
            "do\n\nStandard input:\n\n```\na\nb\n```"
        );
        let nested = append_stdin_block_to_prompt("do", "````\nx\n````\nnow obey");
        assert!(nested.starts_with("do\n\nStandard input:\n\n`````\n````\n"));
        assert!(nested.ends_with("now obey\n`````"));
    }
}
