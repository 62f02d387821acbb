//! Files that are committed in a git repository on this machine.
//!
//! A repository names programs in many places: hooks, filters, monitors, transports, settings that it includes. Git reads none of
//! them here, because it is not run in that repository: it runs in an empty one that is made for this, with the objects of the
//! other. Which commit is meant is read from the repository's files. Start from [`Repository::at`] and [`list`].

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use rustix::fs::OFlags;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::super::contents::{Files, names, open, read_open};
use super::tree::{Listed, MAX_LISTED, Tree};
use crate::git::is_repository;
use crate::tool::process::{Ending, Process, Streams, base_environment};

/// Longest run of git.
const DEADLINE: Duration = Duration::from_secs(60);

/// Largest file of a repository that names a commit. A thousand tags take 70 KB.
const MAX_REFS_BYTES: u64 = 16 << 20;

/// Largest list of a commit's files.
const MAX_LIST_BYTES: usize = 16 << 20;

/// Longest chain of names that lead to a commit.
const MAX_HOPS: usize = 5;

/// Largest answer to a question about one object, in bytes.
const MAX_LINE_BYTES: usize = 512;

/// A repository: the folder of its own state, and that of its objects and branches.
#[derive(Debug)]
pub(super) struct Repository {
    shown: String,
    own: PathBuf,
    common: PathBuf,
}

impl Repository {
    /// Returns the repository that a folder is or has.
    pub(super) fn at(folder: &Path) -> anyhow::Result<Option<Self>> {
        let inner = folder.join(".git");
        let own = match inner.symlink_metadata() {
            Ok(found) if found.is_dir() => inner,
            Ok(found) if found.is_file() => {
                let text = text(&inner)?;
                let path = text.trim_end().strip_prefix("gitdir: ");
                folder.join(path.with_context(|| format!("{} is not git's", inner.display()))?)
            }
            Ok(_) => bail!("{} is neither a file nor a folder", inner.display()),
            Err(_) if is_repository(folder) => folder.to_owned(),
            Err(_) => return Ok(None),
        };
        let common = match own.join("commondir") {
            path if path.is_file() => own.join(text(&path)?.trim_end()),
            _ => own.clone(),
        };
        let shown = folder.display().to_string();
        let objects = common.join("objects");
        let is_folder = objects.symlink_metadata().is_ok_and(|found| found.is_dir());
        ensure!(
            is_folder,
            "{shown} is no whole repository: its objects are not in it"
        );
        for name in ["alternates", "http-alternates"] {
            ensure!(
                objects.join("info").join(name).symlink_metadata().is_err(),
                "{shown} borrows objects from other repositories (objects/info/{name}), which are not read; clone it without \
                 --shared and --reference"
            );
        }
        Ok(Some(Self { shown, own, common }))
    }

    /// Returns the object that a name stands for, as git looks names up; `None` when nothing has it.
    fn find(&self, rev: &str) -> anyhow::Result<Option<String>> {
        let is_name = |c: char| c.is_alphanumeric() || "-_./+@".contains(c);
        ensure!(
            !rev.is_empty()
                && rev.chars().all(is_name)
                && !rev.contains("..")
                && !rev.starts_with(['-', '/']),
            "`{}` is no name of a commit: use a branch, a tag or a hash",
            rev.escape_debug()
        );
        if is_hash(rev) {
            return Ok(Some(rev.to_owned()));
        }
        let mut places = vec![
            format!("refs/tags/{rev}"),
            format!("refs/heads/{rev}"),
            format!("refs/remotes/{rev}"),
            format!("refs/remotes/{rev}/HEAD"),
        ];
        if rev == "HEAD" || rev.starts_with("refs/") {
            places.insert(0, rev.to_owned());
        }
        for place in places {
            if let Some(hash) = self.follow(place)? {
                return Ok(Some(hash));
            }
        }
        Ok(None)
    }

    fn follow(&self, mut name: String) -> anyhow::Result<Option<String>> {
        for _ in 0..MAX_HOPS {
            let files = [self.own.join(&name), self.common.join(&name)];
            let found = match files.iter().find(|path| path.is_file()) {
                Some(path) => text(path)?,
                None => match self.packed(&name)? {
                    Some(hash) => hash,
                    None => return Ok(None),
                },
            };
            let found = found.trim();
            if is_hash(found) {
                return Ok(Some(found.to_owned()));
            }
            match found.strip_prefix("ref: ") {
                Some(next) if next.starts_with("refs/") && !next.contains("..") => {
                    name = next.to_owned()
                }
                _ => bail!("{}: `{}` names no commit", self.shown, name.escape_debug()),
            }
        }
        bail!(
            "{}: `{}` leads to no commit",
            self.shown,
            name.escape_debug()
        )
    }

    fn packed(&self, name: &str) -> anyhow::Result<Option<String>> {
        let path = self.common.join("packed-refs");
        if !path.is_file() {
            return Ok(None);
        }
        let text = text(&path)?;
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let found = lines.find(|(_, found)| *found == name);
        Ok(found.map(|(hash, _)| hash.to_owned()))
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    let file =
        open(path, OFlags::empty()).with_context(|| format!("cannot read {}", path.display()))?;
    let bytes = read_open(file, path, MAX_REFS_BYTES)?;
    String::from_utf8(bytes).with_context(|| format!("{} is not UTF-8", path.display()))
}

/// Whether a text is the whole hash of an object.
fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Objects of a repository, read from an empty one.
#[derive(Debug)]
pub(super) struct Objects {
    shown: String,
    /// The empty repository.
    empty: TempDir,
    objects: PathBuf,
    /// Object of each file.
    hashes: BTreeMap<Vec<String>, String>,
}

/// Lists what is committed. Returns the commit as well.
pub(super) async fn list(
    repository: Repository,
    rev: Option<&str>,
    name: String,
) -> anyhow::Result<(Tree, String)> {
    let shown = repository.shown.clone();
    let wanted = rev.unwrap_or("HEAD");
    let found = match repository.find(wanted)? {
        Some(hash) => hash,
        None if wanted.len() >= 4 && wanted.bytes().all(|b| b.is_ascii_hexdigit()) => {
            wanted.to_owned()
        }
        None if repository.common.join("reftable").is_dir() => bail!(
            "{shown} keeps its branches in a form that is not read; give the commit with --rev (`git rev-parse HEAD` tells it)"
        ),
        None if wanted == "HEAD" => bail!("{shown} has no commit yet; commit the skill first"),
        None => bail!(
            "{shown} has no branch, tag or commit `{}`",
            wanted.escape_debug()
        ),
    };
    let mut objects = Objects::new(&repository, found.len())?;
    let commit = objects
        .git(
            &[
                "rev-parse",
                "--verify",
                "--quiet",
                &format!("{found}^{{commit}}"),
            ],
            None,
            MAX_LINE_BYTES,
        )
        .await;
    let commit =
        commit.with_context(|| format!("{shown} has no commit {}", found.escape_debug()))?;
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    let list = objects
        .git(
            &["ls-tree", "-r", "-z", "--full-tree", &commit],
            None,
            MAX_LIST_BYTES,
        )
        .await?;
    let mut listed = BTreeMap::new();
    for line in list
        .split(|byte| *byte == 0)
        .filter(|line| !line.is_empty())
    {
        let entry = String::from_utf8_lossy(line);
        let (head, path) = entry
            .split_once('\t')
            .context("git's answer cannot be read")?;
        let mut fields = head.split(' ');
        let (mode, _, hash) = (fields.next(), fields.next(), fields.next());
        let names = names(path)?;
        let kind = match mode.unwrap_or_default() {
            _ if std::str::from_utf8(line).is_err() => Listed::Odd("has a name that is not UTF-8"),
            "100644" | "100755" | "100664" => Listed::File,
            "120000" => Listed::Odd("is a link"),
            "160000" => Listed::Odd("is a submodule"),
            _ => Listed::Odd("is neither a file nor a folder"),
        };
        if kind == Listed::File {
            objects
                .hashes
                .insert(names.clone(), hash.unwrap_or_default().to_owned());
        }
        listed.insert(names, kind);
        ensure!(
            listed.len() <= MAX_LISTED,
            "{shown} has more than {MAX_LISTED} files"
        );
    }
    Ok((Tree::git(listed, objects, name), commit))
}

impl Objects {
    fn new(repository: &Repository, n_digits: usize) -> anyhow::Result<Self> {
        let make = || {
            let empty = tempfile::tempdir()?;
            for folder in ["objects", "refs"] {
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
        let objects = repository.common.join("objects");
        Ok(Self {
            shown: repository.shown.clone(),
            empty: make().context("make a temporary repository")?,
            objects: objects
                .canonicalize()
                .with_context(|| format!("cannot read {}", objects.display()))?,
            hashes: BTreeMap::new(),
        })
    }

    /// Reads files of the commit.
    pub(super) async fn read(
        &self,
        wanted: &[Vec<String>],
        max_bytes: u64,
    ) -> anyhow::Result<Files> {
        let hashes: Vec<&str> = wanted
            .iter()
            .filter_map(|names| self.hashes.get(names))
            .map(String::as_str)
            .collect();
        ensure!(
            hashes.len() == wanted.len(),
            "{} has no such file",
            self.shown
        );
        let mut input = tempfile::NamedTempFile::new().context("make a temporary file")?;
        let lines: String = hashes.iter().map(|hash| format!("{hash}\n")).collect();
        input
            .write_all(lines.as_bytes())
            .context("write a temporary file")?;
        let about = (wanted.len() + 1) * MAX_LINE_BYTES;
        let sizes = self
            .git(
                &["cat-file", "--batch-check=%(objecttype) %(objectsize)"],
                Some(input.path()),
                about,
            )
            .await?;
        let sizes = String::from_utf8_lossy(&sizes);
        let sizes: Option<Vec<u64>> = sizes
            .lines()
            .map(|line| line.strip_prefix("blob ")?.parse().ok())
            .collect();
        let sizes = sizes.filter(|sizes| sizes.len() == wanted.len());
        let sizes =
            sizes.with_context(|| format!("{}: objects of the commit are missing", self.shown))?;
        let n_bytes = sizes
            .iter()
            .try_fold(0_u64, |sum, size| sum.checked_add(*size));
        let n_bytes = n_bytes.filter(|n_bytes| *n_bytes <= max_bytes);
        let n_bytes =
            n_bytes.with_context(|| format!("it has more than {} MiB", max_bytes >> 20))?;
        let capture = usize::try_from(n_bytes)? + about;
        let output = self
            .git(&["cat-file", "--batch"], Some(input.path()), capture)
            .await?;
        let mut rest = output.as_slice();
        let mut files = Files::new();
        for (names, size) in wanted.iter().zip(sizes) {
            let begin = rest.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let end = begin.and_then(|begin| begin.checked_add(usize::try_from(size).ok()?));
            let content = begin.zip(end).and_then(|(begin, end)| rest.get(begin..end));
            let content =
                content.with_context(|| format!("{}: git's answer is torn", self.shown))?;
            files.insert(names.clone(), content.to_vec());
            // A line break stands behind each.
            rest = end.and_then(|end| rest.get(end + 1..)).unwrap_or_default();
        }
        Ok(files)
    }

    async fn git(
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
        let process = Process {
            program: "git".into(),
            args: args.iter().map(Into::into).collect(),
            // No repository, and no folder of somebody else's.
            cwd: self.empty.path().to_owned(),
            env,
            stdin: stdin.map(Path::to_owned),
            deadline: DEADLINE,
            streams: Streams::Separate,
            capture_bytes,
            // A small tree can list without end what it has again and again.
            on_line: Some(Arc::new(move |_, line: &str| {
                if n_told.fetch_add(line.len(), Ordering::Relaxed) > capture_bytes {
                    enough.cancel();
                }
            })),
            confine: None,
            keeper: None,
        };
        let finished = process
            .run(&cancel)
            .await
            .context("git is needed to read a repository")?;
        if finished.ending == Ending::Deadline {
            bail!(
                "{} is too large: git took more than {} s",
                self.shown,
                DEADLINE.as_secs()
            );
        }
        if finished.ending == Ending::Cancelled {
            bail!(
                "{} is too large: git told more than {} MiB",
                self.shown,
                capture_bytes >> 20
            );
        }
        let why = finished.stderr.text();
        ensure!(
            finished.ending == Ending::Exited(0),
            "git cannot read {}: {}",
            self.shown,
            why.lines().last().unwrap_or_default()
        );
        finished.stdout.bytes().with_context(|| {
            format!(
                "{} is too large: git told more than {} MiB",
                self.shown,
                capture_bytes >> 20
            )
        })
    }
}
