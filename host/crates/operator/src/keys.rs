//! Looks up API keys of models in the configured sources: environment variables, `secrets.toml`,
//! the output of commands, and files.
//!
//! A project cannot influence the lookup: its settings cannot contain the sections `provider` and
//! `providers`, and the lookup does not depend on the current folder. Start from
//! [`OperatorApiKeyLookup`].

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use tokio_util::sync::CancellationToken;

use super::environment::OperatorEnvironment;
use super::secrets::OperatorSecrets;
use super::setup::OperatorWorkspaceSetup;
use rind_lib::paths::RindPaths;
use rind_lib::provider::server_text::SanitizedServerText;
use rind_lib::provider::{EnvironmentAndApiKeyLookup, NonEnvironmentApiKeySource};
use rind_lib::tool::process::{ProcessEndReason, ProcessSpec};

/// Timeout of a key command, which may open a window to ask the user.
const API_KEY_COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of a file that contains a key, in bytes.
const MAX_KEY_FILE_BYTES: u64 = 64 << 10;

/// Looks up API keys of providers for the user who runs the program: in the environment, in
/// `secrets.toml`, in files, and in the output of commands.
pub struct OperatorApiKeyLookup<'a> {
    environment: &'a OperatorEnvironment,
    paths: &'a RindPaths,
    secrets: Arc<OperatorSecrets>,
}

impl<'a> OperatorApiKeyLookup<'a> {
    /// Reads `secrets.toml`. The other sources are read when a provider needs them.
    ///
    /// # Errors
    /// `secrets.toml` is invalid, or other users can access it.
    pub fn new(setup: &'a OperatorWorkspaceSetup) -> anyhow::Result<Self> {
        Ok(Self {
            environment: &setup.environment,
            paths: &setup.paths,
            secrets: setup.secrets()?,
        })
    }
}

impl EnvironmentAndApiKeyLookup for OperatorApiKeyLookup<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        // A URL is not a secret, so read it only from the environment.
        match name.ends_with("_URL") {
            true => self.environment.variable(name),
            false => self.secrets.variable_or_secret(name),
        }
    }

    fn key(&self, source: NonEnvironmentApiKeySource<'_>) -> Result<String, String> {
        let key =
            match source {
                NonEnvironmentApiKeySource::Command(command) => {
                    run_api_key_command(self.environment, self.paths, command)
                }
                NonEnvironmentApiKeySource::File(path) => read_key_file(
                    &resolve_config_relative_path(self.environment, self.paths, path),
                ),
            };
        key.map_err(|error| format!("{error:#}"))
    }
}

/// Resolves a path in the settings. A relative path is relative to the folder of `config.toml`, and
/// `~/` stands for the home folder.
#[must_use]
pub fn resolve_config_relative_path(
    environment: &OperatorEnvironment,
    paths: &RindPaths,
    path: &Path,
) -> PathBuf {
    match (path.strip_prefix("~"), environment.user_home()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => paths.config.join(path),
    }
}

/// Runs a command and returns the first line of its output.
///
/// The command runs in the folder of `config.toml`, not in the workspace, so `./key.sh` is a file
/// of the operator and never one of a project. It gets the complete environment of the operator,
/// because password managers need many of the variables.
fn run_api_key_command(
    environment: &OperatorEnvironment,
    paths: &RindPaths,
    command: &[String],
) -> anyhow::Result<String> {
    let Some((program, args)) = command.split_first() else {
        bail!("the command is empty; write a program and its arguments");
    };
    // A program name without a slash is looked up in PATH.
    let program = match program.contains('/') {
        true => {
            resolve_config_relative_path(environment, paths, Path::new(program)).into_os_string()
        }
        false => program.into(),
    };
    let folder = match paths.config.is_dir() {
        true => paths.config.clone(),
        false => PathBuf::from("/"),
    };
    let mut process = ProcessSpec::new_unconfined(program, folder);
    process.args = args.iter().map(Into::into).collect();
    process.env = environment.variables.clone().into_iter().collect();
    process.deadline = API_KEY_COMMAND_TIMEOUT;
    // Run on another thread: the caller may be an async task, in which blocking on a runtime is not
    // allowed.
    let ran = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build()?;
            let ran = runtime.block_on(process.run(&CancellationToken::new()));
            ran.map_err(anyhow::Error::new)
        });
        let lost = |_| Err(anyhow!("the thread that waited for the command panicked"));
        thread.join().unwrap_or_else(lost)
    });
    let ran = ran?;
    let said = SanitizedServerText::new(&ran.stderr.text());
    match ran.ending {
        ProcessEndReason::Exited(0) => {}
        ProcessEndReason::Exited(code) => {
            bail!("the command exited with {code}; its output: {said}")
        }
        ProcessEndReason::Deadline => bail!(
            "the command took longer than {} s",
            API_KEY_COMMAND_TIMEOUT.as_secs()
        ),
        ending => bail!("the command was stopped ({ending:?}); its output: {said}"),
    }
    Ok(trimmed_first_line(&ran.stdout.text()))
}

/// Reads the first line of a file that only its owner can access.
fn read_key_file(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    // Check the path before opening it, because opening a named pipe would block. The opened file
    // is checked again.
    let is_file = std::fs::metadata(path).is_ok_and(|about| about.is_file());
    if path.exists() && !is_file {
        bail!("{shown} is not a file");
    }
    let file = std::fs::File::open(path).with_context(|| format!("cannot open {shown}"))?;
    let about = file
        .metadata()
        .with_context(|| format!("cannot read the metadata of {shown}"))?;
    if about.permissions().mode() & 0o077 != 0 {
        bail!("other users can read or change {shown}; run `chmod 600 {shown}`");
    }
    if about.len() > MAX_KEY_FILE_BYTES {
        bail!(
            "{shown} has {} bytes, at most {MAX_KEY_FILE_BYTES} are read",
            about.len()
        );
    }
    let text = std::io::read_to_string(file).with_context(|| format!("cannot read {shown}"))?;
    Ok(trimmed_first_line(&text))
}

fn trimmed_first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use rind_lib::tool::process::base_environment;

    fn environment() -> OperatorEnvironment {
        OperatorEnvironment {
            variables: base_environment().into_iter().collect(),
            ..OperatorEnvironment::default()
        }
    }

    fn paths(folder: &Path) -> RindPaths {
        RindPaths::from_single_root(&folder.join("home"), &folder.join("work"))
    }

    #[test]
    fn a_key_is_the_first_line_that_a_command_says() {
        let folder = tempfile::tempdir().unwrap();
        let paths = paths(folder.path());
        let run = |command: &[&str]| {
            let command: Vec<String> = command.iter().map(ToString::to_string).collect();
            run_api_key_command(&environment(), &paths, &command)
                .map_err(|error| format!("{error:#}"))
        };
        assert_eq!(
            run(&["printf", " sk-one \\nsk-two"]),
            Ok("sk-one".to_owned())
        );
        let failed = run(&["sh", "-c", "echo sk-secret; echo locked >&2; exit 3"]).unwrap_err();
        assert_eq!(failed, "the command exited with 3; its output: \"locked\"");
        assert!(run(&["no-such-program-of-rind"]).is_err() && run(&[]).is_err());
    }

    #[test]
    fn a_command_with_a_slash_is_the_operators_and_not_the_projects() {
        let folder = tempfile::tempdir().unwrap();
        let paths = paths(folder.path());
        fs::create_dir_all(&paths.config).unwrap();
        let script = paths.config.join("key.sh");
        fs::write(&script, "#!/bin/sh\npwd\n").unwrap();
        fs::set_permissions(&script, PermissionsExt::from_mode(0o700)).unwrap();
        let ran = run_api_key_command(&environment(), &paths, &["./key.sh".to_owned()]).unwrap();
        assert_eq!(Path::new(&ran), paths.config.canonicalize().unwrap());
    }

    #[test]
    fn a_file_with_a_key_is_its_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let paths = paths(folder.path());
        fs::create_dir_all(&paths.config).unwrap();
        let file = paths.config.join("key");
        fs::write(&file, "sk-one\nmore\n").unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
        let path = resolve_config_relative_path(&environment(), &paths, Path::new("key"));
        assert_eq!(read_key_file(&path).unwrap(), "sk-one");
        fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        let error = format!("{:#}", read_key_file(&path).unwrap_err());
        assert!(
            error.contains("chmod 600") && !error.contains("sk-one"),
            "{error}"
        );
        assert!(
            read_key_file(&paths.config).is_err() && read_key_file(Path::new("/none/key")).is_err()
        );
    }
}
