//! Runs work on untrusted text in a separate process, with limits on stack and time, and on Linux
//! also on memory and processor time.
//!
//! Unlike a parser in this process, a worker can be stopped. It gets its input in a private folder,
//! writes its output there, and may access nothing else. Start from [`WorkerProcessSpec`].

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use rind_lib::disk::TemporaryFolder;
use rind_lib::tool::process::confine::{
    ConfinementFailureReason, confine_this_process, deny_process_inspection, die_with_parent,
    limit_memory_and_cpu,
};
use rind_lib::tool::process::{FinishedProcess, ProcessEndReason, ProcessSpec};

/// Maximum size of the output that is read, in bytes.
const MAX_WORKER_OUTPUT_BYTES: u64 = 64 << 20;

/// Prefix of the names of the workers' private folders.
const PRIVATE_FOLDER_NAME_PREFIX: &str = "rind-worker-";

/// Names of the worker's input and output files in its private folder.
pub(super) const WORKER_INPUT_FILE_NAME: &str = "input.json";
pub(super) const WORKER_OUTPUT_FILE_NAME: &str = "output.json";

/// Kind of work that a worker process does, with its limits.
#[derive(Debug)]
pub(super) struct WorkerProcessSpec {
    /// Hidden subcommand of this program with which the worker process is started.
    pub(super) command: &'static str,
    pub(super) name: &'static str,
    /// Maximum time for the work. It is long, so that a busy machine can finish, and is the only
    /// time limit where the kernel does not limit processor time.
    pub(super) deadline: Duration,
    /// Maximum processor time of the worker process, in seconds; enforced only on Linux.
    pub(super) max_cpu_seconds: u64,
    /// Maximum memory of the worker process, in bytes; enforced only on Linux.
    pub(super) max_memory_bytes: u64,
    /// Stack size of the thread that does the work, in bytes.
    pub(super) stack_bytes: usize,
}

impl WorkerProcessSpec {
    /// Runs the worker process until it exits, its deadline passes or `cancel` is set. Returns its
    /// output, which may be incomplete, and how the process ended.
    pub(super) async fn run_worker(
        &self,
        program: &Path,
        input: &[u8],
        cancel: &CancellationToken,
    ) -> Result<(String, FinishedProcess), String> {
        let failed = |error: std::io::Error| {
            format!("cannot prepare the process that {}: {error}", self.name)
        };
        let private = TemporaryFolder::new(PRIVATE_FOLDER_NAME_PREFIX).map_err(failed)?;
        fs::write(private.path().join(WORKER_INPUT_FILE_NAME), input).map_err(failed)?;
        let args: Vec<OsString> = vec![self.command.into(), private.path().into()];
        let finished = ProcessSpec {
            args,
            // Otherwise the program's allocator (mimalloc) would reserve a gigabyte that it does
            // not use, which counts towards the limit.
            env: vec![("MIMALLOC_ARENA_EAGER_COMMIT".into(), "0".into())],
            deadline: self.deadline,
            ..ProcessSpec::new_unconfined(program, private.path())
        }
        .run(cancel)
        .await
        .map_err(|error| error.to_string())?;
        let text = self.read_worker_output_file(&private.path().join(WORKER_OUTPUT_FILE_NAME))?;
        Ok((text, finished))
    }

    /// Reads the worker's output. A worker that was stopped may have written none or only a part of
    /// it.
    fn read_worker_output_file(&self, path: &Path) -> Result<String, String> {
        let failed = |error: std::io::Error| {
            let name = self.name;
            format!("cannot read the output of the process that {name}: {error}")
        };
        let output = match File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(String::new()),
            output => output.map_err(failed)?,
        };
        let mut bytes = Vec::new();
        output
            .take(MAX_WORKER_OUTPUT_BYTES)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        String::from_utf8(bytes).or_else(|error| match error.utf8_error().error_len() {
            // The output ends in the middle of a character: drop that character.
            None => {
                let n_whole = error.utf8_error().valid_up_to();
                let mut bytes = error.into_bytes();
                bytes.truncate(n_whole);
                Ok(String::from_utf8(bytes).unwrap_or_default())
            }
            Some(_) => Err(failed(std::io::Error::new(ErrorKind::InvalidData, error))),
        })
    }

    /// Returns the reason why a worker process ended without completing its work.
    pub(super) fn incomplete_worker_output_reason(&self, finished: &FinishedProcess) -> String {
        let said = finished.stderr.text();
        let said = said.trim().trim_start_matches("rind: ");
        match finished.ending {
            ProcessEndReason::Cancelled => "it was interrupted".to_owned(),
            ProcessEndReason::Deadline => {
                format!("it takes more than {} s", self.deadline.as_secs())
            }
            _ if said.contains("memory allocation of") => {
                format!(
                    "its process needs more than {} MiB of memory",
                    self.max_memory_bytes >> 20
                )
            }
            _ if said.contains("overflowed its stack") => {
                "an expression or a value in it is nested too deeply".to_owned()
            }
            // SIGKILL: the limit on processor time was reached; or SIGXCPU, if a lower soft limit
            // was inherited.
            ProcessEndReason::Signaled(9 | 24) => {
                format!(
                    "its process needs more than {} s of processor time",
                    self.max_cpu_seconds
                )
            }
            ending if said.is_empty() => {
                format!("{}: {ending:?}", self.missing_worker_answer_error())
            }
            _ => format!("{}: {said}", self.missing_worker_answer_error()),
        }
    }

    /// Returns the reason to report if the worker's output is missing or not the expected one.
    pub(super) fn missing_worker_answer_error(&self) -> String {
        format!("the process that {} did not answer", self.name)
    }

    /// Main function of the worker; the argument after the command is the private folder. The
    /// process must not run anything else, because the limits apply to all of it.
    ///
    /// # Errors
    /// The reason why the work was not done, to be printed to standard error.
    pub(super) fn run_worker_entry_point(
        &self,
        mut args: impl Iterator<Item = OsString>,
        work: fn(&Path) -> std::io::Result<()>,
    ) -> Result<(), String> {
        let folder = PathBuf::from(args.next().unwrap_or_default());
        die_with_parent();
        limit_memory_and_cpu(self.max_memory_bytes, self.max_cpu_seconds).map_err(|e| {
            format!("cannot limit the memory and the processor time of the process: {e}")
        })?;
        // Continue if the kernel does not support confinement, which `rind doctor` reports: the
        // worker only parses text, and its code is memory-safe.
        if let Err(ConfinementFailureReason::Failed(why)) = confine_this_process(&folder) {
            return Err(format!(
                "cannot confine the worker process: {why}; try again"
            ));
        }
        // Disable core dumps, because hostile input may crash the process.
        deny_process_inspection();
        // Work on a thread, whose stack size can be set: the main thread's stack has the size of
        // the inherited `ulimit`.
        let work = std::thread::Builder::new()
            .stack_size(self.stack_bytes)
            .spawn(move || work(&folder).map_err(|e| e.to_string()))
            .map_err(|e| format!("cannot start a thread: {e}"))?;
        work.join().map_err(|_| "internal error".to_owned())?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_be_cut_or_absent_and_one_that_cannot_be_read_is_said() {
        let worker = WorkerProcessSpec {
            command: "",
            name: "reads packages",
            deadline: Duration::ZERO,
            max_cpu_seconds: 0,
            max_memory_bytes: 0,
            stack_bytes: 0,
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(WORKER_OUTPUT_FILE_NAME);
        let read = || worker.read_worker_output_file(&path);
        assert_eq!(read(), Ok(String::new()));
        fs::write(&path, "whole ä").unwrap();
        assert_eq!(read().as_deref(), Ok("whole ä"));
        fs::write(&path, b"cut \xc3").unwrap();
        assert_eq!(read().as_deref(), Ok("cut "));
        fs::write(&path, b"no \xff text").unwrap();
        let failed = read().unwrap_err();
        let expected = "cannot read the output of the process that reads packages: invalid utf-8";
        assert!(failed.starts_with(expected), "{failed}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let failed = read().unwrap_err();
        assert!(failed.contains("directory"), "{failed}");
    }
}
