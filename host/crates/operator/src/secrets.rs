//! Secrets of the operator: an environment variable has precedence over an entry of `secrets.toml`
//! in the configuration folder.
//!
//! Secrets are sent only in outgoing requests, and to those MCP servers and third-party components
//! whose settings name them. API keys of models are sent only to the providers of these models.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};

use super::environment::OperatorEnvironment;
use super::usage::Usage;
use rind_lib::disk::open_if_present;
use rind_lib::egress::{Secret, SecretStore};

/// Name of the file with secrets, which has lines such as `NAME = "value"`.
pub const SECRETS_FILE_NAME: &str = "secrets.toml";

const MAX_SECRETS_FILE_BYTES: u64 = 1 << 20;

/// Secrets of the operator, from environment variables and from the file of secrets.
pub struct OperatorSecrets {
    environment: Arc<OperatorEnvironment>,
    /// Secrets that were read from the file of secrets, by name.
    file: BTreeMap<String, String>,
}

impl std::fmt::Debug for OperatorSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperatorSecrets")
            .field("n_in_file", &self.file.len())
            .finish_non_exhaustive()
    }
}

impl OperatorSecrets {
    /// Reads `secrets.toml` in the folder `config`, if the file exists.
    ///
    /// # Errors
    /// Other users can access the file, or a line is invalid.
    pub fn read(environment: &Arc<OperatorEnvironment>, config: &Path) -> anyhow::Result<Self> {
        let path = config.join(SECRETS_FILE_NAME);
        let about = || Usage(format!("cannot read secrets from {}", path.display()));
        let file = read_file(&path).with_context(about)?;
        let secret = |(name, text): (String, String)| (name, text.trim().to_owned());
        let file = file.into_iter().map(secret).collect();
        Ok(Self {
            environment: environment.clone(),
            file,
        })
    }

    /// Returns the value of the environment variable `name`, or else the secret `name` from
    /// `secrets.toml`.
    #[must_use]
    pub fn variable_or_secret(&self, name: &str) -> Option<String> {
        self.environment
            .variable(name)
            .or_else(|| self.file.get(name).cloned())
    }
}

impl SecretStore for OperatorSecrets {
    fn get(&self, name: &str) -> Option<Secret> {
        let set = self
            .environment
            .variable(name)
            .map(|text| Secret::new(&text));
        set.or_else(|| Some(Secret::new(self.file.get(name)?)))
    }
}

/// Reads the secrets in a file; empty if the file does not exist.
///
/// # Errors
/// Other users can access the file, or a line is invalid.
pub fn read_file(path: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let Some(mut file) = open_if_present(path)? else {
        return Ok(BTreeMap::new());
    };
    let about = file.metadata()?;
    if about.permissions().mode() & 0o077 != 0 {
        bail!(
            "other users can read or change the secrets file; run `chmod 600 {}`",
            path.display()
        );
    }
    if about.len() > MAX_SECRETS_FILE_BYTES {
        bail!(
            "the secrets file has {} bytes, at most {MAX_SECRETS_FILE_BYTES} are read",
            about.len()
        );
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // Replace the parser's message, which would quote the line and thus reveal a secret.
    toml::from_str(&text).map_err(|e: toml::de::Error| {
        let before = text.get(..e.span().map_or(0, |span| span.start));
        let line = before.unwrap_or_default().matches('\n').count() + 1;
        anyhow::anyhow!("line {line} of the secrets file is not of the form `NAME = \"value\"`")
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(text: &str, mode: u32) -> (tempfile::TempDir, anyhow::Result<OperatorSecrets>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(SECRETS_FILE_NAME);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        let secrets = OperatorSecrets::read(&Arc::default(), folder.path());
        (folder, secrets)
    }

    #[test]
    fn secrets_come_from_a_file_that_is_its_owners_alone() {
        let (_folder, secrets) = write("RIND_TEST_TOKEN = \" value-1234 \"\n", 0o600);
        let secrets = secrets.unwrap();
        assert_eq!(
            secrets.get("RIND_TEST_TOKEN"),
            Some(Secret::new("value-1234"))
        );
        assert_eq!(secrets.get("RIND_TEST_OTHER"), None);
        let empty = tempfile::tempdir().unwrap();
        let none = OperatorSecrets::read(&Arc::default(), empty.path());
        assert!(none.unwrap().file.is_empty());
        for mode in [0o640, 0o604, 0o660] {
            let (_folder, secrets) = write("A = \"b\"", mode);
            let error = format!("{:#}", secrets.err().unwrap());
            assert!(error.contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn a_broken_file_is_refused_without_showing_what_is_in_it() {
        for text in [
            "A = \"b\"\nTOKEN = hunter2\n",
            "A = \"b\"\nTOKEN = [\"hunter2\"]\n",
        ] {
            let (_folder, secrets) = write(text, 0o600);
            let error = format!("{:#}", secrets.err().unwrap());
            assert!(error.contains("line 2"), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
