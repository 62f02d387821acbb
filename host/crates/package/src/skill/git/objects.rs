//! Reads objects of a repository, and checks that their content matches their hashes.
//!
//! The git commands run in an empty temporary repository, which has none of the configuration,
//! hooks or filters of the source repository and only uses its object directory. Every git command
//! is limited in output and time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::super::super::contents::FileContentsByPath;
use super::object::{GitObjectKind, compute_object_hash};
use super::repository::{GIT_OBJECTS_FOLDER_NAME, GitRepository};
use rind_lib::tool::process::{OutputPipeMode, ProcessEndReason, ProcessSpec, base_environment};

/// Timeout of one git command.
const GIT_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum length in bytes of git's output line about one object.
const MAX_GIT_OBJECT_INFO_LINE_BYTES: usize = 512;

#[derive(Debug)]
pub(in super::super) struct GitObjectReader {
    shown: String,
    empty: TempDir,
    objects: PathBuf,
    /// Hash of the git object with the content of each file, by the file's path.
    pub(super) names: BTreeMap<Vec<String>, String>,
}

impl GitObjectReader {
    /// Creates the empty temporary repository. The hashes of its objects have `n_digits`
    /// hexadecimal digits.
    pub(super) fn new(repository: &GitRepository, n_digits: usize) -> anyhow::Result<Self> {
        let make = || {
            let empty = tempfile::tempdir()?;
            for folder in [GIT_OBJECTS_FOLDER_NAME, "refs"] {
                fs::create_dir(empty.path().join(folder))?;
            }
            fs::write(empty.path().join("HEAD"), "ref: refs/heads/none\n")?;
            let format = match n_digits {
                64 => "\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n",
                _ => "\trepositoryformatversion = 0\n",
            };
            fs::write(
                empty.path().join("config"),
                format!("[core]\n\tbare = true\n{format}"),
            )?;
            std::io::Result::Ok(empty)
        };
        let objects = repository.common.join(GIT_OBJECTS_FOLDER_NAME);
        Ok(Self {
            shown: repository.shown.clone(),
            empty: make().context("cannot make a temporary repository")?,
            objects: objects
                .canonicalize()
                .with_context(|| format!("cannot read {}", objects.display()))?,
            names: BTreeMap::new(),
        })
    }

    /// Resolves an abbreviated hash, or the hash of an annotated tag, to the full hash of a commit;
    /// `None` if there is no such commit.
    pub(super) async fn resolve_commit_hash(&self, name: &str) -> Option<String> {
        let rev = format!("{name}^{{commit}}");
        let args = ["rev-parse", "--verify", "--quiet", &rev];
        let found = self
            .run_git(&args, None, MAX_GIT_OBJECT_INFO_LINE_BYTES)
            .await
            .ok()?;
        Some(String::from_utf8_lossy(&found).trim().to_owned())
    }

    pub(in super::super) async fn read_blobs(
        &self,
        wanted: &[Vec<String>],
        max_bytes: u64,
    ) -> anyhow::Result<FileContentsByPath> {
        let known = wanted.iter().filter_map(|names| self.names.get(names));
        let known: Vec<&str> = known.map(String::as_str).collect();
        ensure!(
            known.len() == wanted.len(),
            "{} has no such file",
            self.shown
        );
        let contents = self
            .read_objects(GitObjectKind::Blob, &known, max_bytes)
            .await?;
        Ok(wanted.iter().cloned().zip(contents).collect())
    }

    /// Reads objects of one kind, at most `max_bytes` in total. Refuses an object whose content
    /// does not match its name, because the owner of the repository could have stored any content
    /// under that name.
    pub(super) async fn read_objects(
        &self,
        kind: GitObjectKind,
        wanted: &[&str],
        max_bytes: u64,
    ) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut input = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        let lines: String = wanted.iter().map(|name| format!("{name}\n")).collect();
        input
            .write_all(lines.as_bytes())
            .context("cannot write a temporary file")?;
        let about = (wanted.len() + 1) * MAX_GIT_OBJECT_INFO_LINE_BYTES;
        let args = ["cat-file", "--batch-check=%(objecttype) %(objectsize)"];
        let sizes = self.run_git(&args, Some(input.path()), about).await?;
        let sizes = String::from_utf8_lossy(&sizes);
        let size = |line: &str| {
            line.strip_prefix(kind.type_name())?
                .strip_prefix(' ')?
                .parse()
                .ok()
        };
        let sizes: Option<Vec<u64>> = sizes.lines().map(size).collect();
        let sizes = sizes.filter(|sizes| sizes.len() == wanted.len());
        let sizes =
            sizes.with_context(|| format!("{}: objects of the commit are missing", self.shown))?;
        let mut all = sizes.iter();
        let n_bytes = all.try_fold(0_u64, |sum, size| sum.checked_add(*size));
        let n_bytes = n_bytes.filter(|n_bytes| *n_bytes <= max_bytes);
        let n_bytes =
            n_bytes.with_context(|| format!("it has more than {} MiB", max_bytes >> 20))?;
        let capture = usize::try_from(n_bytes)? + about;
        let args = ["cat-file", "--batch"];
        let output = self.run_git(&args, Some(input.path()), capture).await?;
        let mut rest = output.as_slice();
        let mut contents = Vec::with_capacity(wanted.len());
        for (name, size) in wanted.iter().zip(sizes) {
            let begin = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let end = begin.and_then(|begin| begin.checked_add(usize::try_from(size).ok()?));
            let content = begin.zip(end).and_then(|(begin, end)| rest.get(begin..end));
            let content = content
                .with_context(|| format!("{}: the output of git is truncated", self.shown))?;
            ensure!(
                compute_object_hash(kind, content, name.len()).as_deref() == Some(*name),
                "{}: the content of the {} {name} does not match its hash: the repository is corrupt or was tampered with; see `git fsck`",
                self.shown,
                kind.type_name()
            );
            contents.push(content.to_vec());
            // `git cat-file` writes a line break after each object.
            rest = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
        }
        Ok(contents)
    }

    async fn run_git(
        &self,
        args: &[&str],
        stdin: Option<&Path>,
        capture_bytes: usize,
    ) -> anyhow::Result<Vec<u8>> {
        let mut env = base_environment();
        let fixed = [
            ("GIT_ALLOW_PROTOCOL", "none"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_NO_LAZY_FETCH", "1"),
            ("GIT_NO_REPLACE_OBJECTS", "1"),
            ("GIT_TERMINAL_PROMPT", "0"),
        ];
        env.extend(fixed.map(|(name, value)| (name.into(), value.into())));
        let folders = [
            ("GIT_DIR", self.empty.path()),
            ("GIT_OBJECT_DIRECTORY", &self.objects),
        ];
        env.extend(folders.map(|(name, path)| (OsString::from(name), path.into())));
        let cancel = CancellationToken::new();
        let (enough, n_told) = (cancel.clone(), AtomicUsize::new(0));
        let process = ProcessSpec {
            program: "git".into(),
            args: args.iter().map(Into::into).collect(),
            // The temporary directory is not inside another repository, and other users cannot
            // write to it.
            cwd: self.empty.path().to_owned(),
            env,
            stdin: stdin.map(Path::to_owned),
            deadline: GIT_COMMAND_TIMEOUT,
            streams: OutputPipeMode::Separate,
            capture_bytes,
            // Cancel git when its output exceeds the limit. Characters are counted, because an
            // invalid byte is one character here but three bytes in the decoded line.
            on_line: Some(Arc::new(move |_, line: &str| {
                if n_told.fetch_add(line.chars().count(), Ordering::Relaxed) > capture_bytes {
                    enough.cancel();
                }
            })),
            on_bytes: None,
            confine: None,
            keeper: None,
        };
        let finished = process
            .run(&cancel)
            .await
            .context("git is needed to read a repository")?;
        if finished.ending == ProcessEndReason::Deadline {
            bail!(
                "{} is too large: git took more than {} s",
                self.shown,
                GIT_COMMAND_TIMEOUT.as_secs()
            );
        }
        let (shown, n_mib) = (&self.shown, capture_bytes >> 20);
        let too_much = format!("{shown} is too large: git wrote more than {n_mib} MiB");
        ensure!(finished.ending != ProcessEndReason::Cancelled, too_much);
        let why = finished.stderr.text();
        ensure!(
            finished.ending == ProcessEndReason::Exited(0),
            "git cannot read {}: {}",
            self.shown,
            why.lines().last().unwrap_or_default()
        );
        finished.stdout.bytes().context(too_much)
    }
}
