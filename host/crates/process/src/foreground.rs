//! Runs the user's own programs, either in the foreground of the terminal (for example the editor)
//! or to get their output (for example the program that reads the clipboard).

use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;

/// Runs the user's own command line with a file as the last argument, and waits until it exits. The
/// program has the terminal, the environment and all rights of the user, so `command` must come
/// from the user and from no other source.
///
/// # Errors
/// There is no shell, or waiting failed.
pub fn run_shell_command_with_file_argument(command: &str, file: &Path) -> io::Result<ExitStatus> {
    Command::new("sh")
        .arg("-c")
        .arg(format!("{command} \"$1\""))
        .arg("sh")
        .arg(file)
        .status()
}

/// Runs a program without input and returns its output. Reads at most one byte more than
/// `max_bytes`, so that the caller can detect longer output. Returns `None` if the program fails or
/// takes longer than `deadline`. The program has the environment and all rights of the user, so
/// `program` must come from the caller's own list, and the user must have asked to run it.
///
/// # Errors
/// The program does not exist, or its output cannot be read.
pub async fn read_program_output(
    program: &[&str],
    max_bytes: u64,
    deadline: Duration,
) -> io::Result<Option<Vec<u8>>> {
    let [name, arguments @ ..] = program else {
        return Err(io::ErrorKind::NotFound.into());
    };
    let mut child = tokio::process::Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let output = child.stdout.take();
    let read = async {
        let mut bytes = Vec::new();
        if let Some(output) = output {
            let mut bounded = output.take(max_bytes.saturating_add(1));
            bounded.read_to_end(&mut bytes).await?;
        }
        // Do not wait for a program whose output exceeds the limit: it ends when its pipe is
        // closed.
        let is_whole = bytes.len() as u64 <= max_bytes;
        let is_done = !is_whole || child.wait().await?.success();
        Ok(is_done.then_some(bytes))
    };
    tokio::time::timeout(deadline, read)
        .await
        .unwrap_or(Ok(None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_is_bounded_in_time_and_output() {
        let run = |script: &'static str| async move {
            read_program_output(&["sh", "-c", script], 4, Duration::from_secs(10)).await
        };
        assert_eq!(run("printf abcd").await.unwrap().unwrap(), b"abcd");
        assert_eq!(run("yes").await.unwrap().unwrap().len(), 5);
        assert_eq!(run("printf a; exit 1").await.unwrap(), None);
        let slow = ["sleep", "60"];
        let slow = read_program_output(&slow, 4, Duration::from_millis(50)).await;
        assert_eq!(slow.unwrap(), None);
        let absent =
            read_program_output(&["no-such-program-of-rind"], 4, Duration::from_secs(1)).await;
        assert!(absent.is_err());
        assert!(
            read_program_output(&[], 4, Duration::from_secs(1))
                .await
                .is_err()
        );
    }
}
