//! Stores the operator's answers to grant questions in one file, to which neither a plugin nor a
//! tool can get access.
//!
//! An answer is tied to the pin of the request, so it no longer applies when the plugin or its
//! request changes. Writes happen under a lock and atomically. Start from [`GrantAnswerStore`].

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Capability, GrantRequest, Trust};
use crate::disk::{acquire_file_lock, read_if_present, replace_private_file};

/// Time for which an operator's answer about permissions is valid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AnswerLifetime {
    /// The answer is valid until the pin of the plugin's request changes.
    Always,
    /// The answer is valid for the session with this id.
    Session(String),
}

/// Remembered answer of the operator, which approved permissions that a plugin requested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantAnswer {
    /// Name of the plugin that requested the permissions.
    pub plugin: String,
    /// Version of the plugin at the time of the answer, for display.
    pub version: String,
    /// Trust of the plugin at the time of the answer.
    pub trust: Trust,
    /// Directory of the plugin; empty if the trust and the name identify it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Digest of the plugin's component at the time of the answer.
    pub digest: String,
    /// Digest of everything that decides the plugin's behavior, for display. See
    /// [`GrantRequest::compute_content_digest`].
    #[serde(default)]
    pub content: String,
    /// Pin of the request that was answered; the answer does not apply to other requests.
    pub pin: String,
    /// Capabilities that the operator granted, in the notation of policies, such as `tool:NAME`.
    pub capabilities: Vec<String>,
    /// Whether the plugin has a hook that blocks when it fails. If such a plugin is missing later,
    /// the operator must be notified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_guard: bool,
    /// Time of the answer, in the format of RFC 3339.
    pub given: String,
    /// Time for which the answer is valid.
    pub lasting: AnswerLifetime,
}

impl GrantAnswer {
    fn is_valid_in_session(&self, session: Option<&str>) -> bool {
        match &self.lasting {
            AnswerLifetime::Always => true,
            AnswerLifetime::Session(id) => session == Some(id.as_str()),
        }
    }

    /// Whether the answer grants this capability.
    #[must_use]
    pub fn grants_capability(&self, capability: &Capability) -> bool {
        let text = capability.to_string();
        self.capabilities.contains(&text)
    }
}

/// Error while reading or storing the operator's answers about permissions of plugins.
#[derive(Debug, thiserror::Error)]
#[error("the file {} with your decisions about permissions {message}", path.display())]
pub struct GrantAnswersError {
    /// Path of the file with the remembered answers.
    pub path: PathBuf,
    /// Problem and remedy, as the predicate of a sentence about the file.
    pub message: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct GrantAnswersFile {
    version: u32,
    answers: Vec<GrantAnswer>,
}

const ANSWERS_FILE_VERSION: u32 = 1;

/// Maximum number of stored answers; the oldest are dropped first. Enough for a thousand plugins in
/// ten projects.
const MAX_STORED_ANSWERS: usize = 10_000;

/// Maximum size of the file of answers, in bytes; enough for [`MAX_STORED_ANSWERS`] answers about
/// plugins with long manifests.
const MAX_ANSWERS_FILE_BYTES: u64 = 256 << 20;

/// File in which the operator's answers about permissions are remembered.
#[derive(Clone, Debug)]
pub struct GrantAnswerStore {
    path: PathBuf,
    answers: Vec<GrantAnswer>,
}

impl GrantAnswerStore {
    /// Reads the answers in `path`; there are none if the file does not exist. A file with other
    /// content is an error: if it were ignored, the operator would be asked everything again, and
    /// the next write would lose the answers.
    ///
    /// # Errors
    /// The file cannot be read or is not a file of answers.
    pub fn read(path: &Path) -> Result<Self, GrantAnswersError> {
        let refuse = |message: String| GrantAnswersError {
            path: path.to_owned(),
            message,
        };
        let content = match read_if_present(path, MAX_ANSWERS_FILE_BYTES) {
            Ok(None) => GrantAnswersFile::default(),
            Err(e) => return Err(refuse(format!("cannot be read: {e}"))),
            Ok(Some(text)) => serde_json::from_str::<GrantAnswersFile>(&text).map_err(|e| {
                refuse(format!(
                    "is corrupt ({e}); move it away, and Rind asks you again about all permissions"
                ))
            })?,
        };
        if content.version > ANSWERS_FILE_VERSION {
            return Err(refuse(format!(
                "was written by a newer version of rind (format {}, this one supports {ANSWERS_FILE_VERSION})",
                content.version
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            answers: content.answers,
        })
    }

    /// Returns all remembered answers, oldest first.
    #[must_use]
    pub fn all(&self) -> &[GrantAnswer] {
        &self.answers
    }

    /// Returns the answer that applies to this request, including answers for `session`.
    #[must_use]
    pub fn find(&self, request: &GrantRequest, session: Option<&str>) -> Option<&GrantAnswer> {
        let pin = request.compute_pin_hash();
        let holds = |answer: &&GrantAnswer| {
            answer.pin == pin.as_str() && answer.is_valid_in_session(session)
        };
        self.answers.iter().find(holds)
    }

    /// Returns the latest answer for a plugin of this name, trust and directory, even if it was for
    /// other content or another request, so that the question can name the changes.
    #[must_use]
    pub fn latest_answer_for_plugin(&self, request: &GrantRequest) -> Option<&GrantAnswer> {
        let is_it = |answer: &&GrantAnswer| {
            answer.plugin == request.plugin
                && answer.trust == request.trust
                && answer.source == request.source
        };
        self.answers.iter().rev().find(is_it)
    }

    /// Whether the operator has answered before about a plugin in the directory `source`, or, if
    /// `source` is empty, about a plugin of this name. The content of the plugin does not matter.
    /// An answer for one session counts only in that session.
    #[must_use]
    pub fn has_answered_about_plugin(
        &self,
        plugin: &str,
        source: &str,
        session: Option<&str>,
    ) -> bool {
        let is_it = |answer: &GrantAnswer| {
            let is_from = answer.source == source;
            answer.is_valid_in_session(session)
                && is_from
                && (!source.is_empty() || answer.plugin == plugin)
        };
        self.answers.iter().any(is_it)
    }

    /// Returns the valid answers for plugins that have a hook which blocks when it fails.
    pub fn answers_for_plugins_with_blocking_hooks<'a>(
        &'a self,
        session: Option<&'a str>,
    ) -> impl Iterator<Item = &'a GrantAnswer> {
        let answers = self.answers.iter();
        answers.filter(move |answer| answer.is_guard && answer.is_valid_in_session(session))
    }

    /// Stores the operator's answers about plugins' permissions. Answers that other processes
    /// stored meanwhile are kept.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, new: Vec<GrantAnswer>) -> Result<(), GrantAnswersError> {
        self.update_answers_file(|answers| {
            for answer in new {
                answers.retain(|a| a.pin != answer.pin || a.lasting != answer.lasting);
                answers.push(answer);
            }
            let n_over = answers.len().saturating_sub(MAX_STORED_ANSWERS);
            answers.drain(..n_over);
        })
    }

    /// Revokes every answer for a plugin. Returns how many there were.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn revoke(&mut self, plugin: &str) -> Result<usize, GrantAnswersError> {
        let mut n_revoked = 0;
        self.update_answers_file(|answers| {
            let before = answers.len();
            answers.retain(|answer| answer.plugin != plugin);
            n_revoked = before - answers.len();
        })?;
        Ok(n_revoked)
    }

    /// Reads, changes and writes the file under a lock, so that no answer of a concurrent process
    /// is lost.
    fn update_answers_file(
        &mut self,
        change: impl FnOnce(&mut Vec<GrantAnswer>),
    ) -> Result<(), GrantAnswersError> {
        let path = self.path.clone();
        let refuse = |e: std::io::Error| GrantAnswersError {
            path: path.clone(),
            message: format!("cannot be written: {e}"),
        };
        let _lock = acquire_file_lock(&path, || {}).map_err(refuse)?;
        let mut answers = Self::read(&path)?.answers;
        change(&mut answers);
        let content = GrantAnswersFile {
            version: ANSWERS_FILE_VERSION,
            answers,
        };
        let bytes =
            serde_json::to_vec_pretty(&content).map_err(|e| refuse(std::io::Error::other(e)))?;
        replace_private_file(&path, &bytes).map_err(refuse)?;
        self.answers = content.answers;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::grant::SideEffect;
    use crate::grant::ask::{GrantApproval, GrantApprovalLifetime};

    fn request(digest: &str) -> GrantRequest {
        GrantRequest {
            plugin: "p".into(),
            version: "0.1.0".into(),
            description: String::new(),
            trust: Trust::Local,
            source: "/p".into(),
            digest: digest.into(),
            manifest: String::new(),
            side_effects: vec![SideEffect::Session],
            capabilities: vec![Capability::Session],
            tools: Vec::new(),
            has_hooks: false,
        }
    }

    fn answer(request: &GrantRequest, yes: GrantApprovalLifetime) -> GrantAnswer {
        let given = GrantApproval {
            request: request.clone(),
            capabilities: Vec::new(),
            yes,
            is_guard: false,
        };
        given
            .to_stored_answer("s", "2026-01-01T00:00:00Z".into())
            .unwrap()
    }

    #[test]
    fn an_answer_holds_for_its_pin_and_its_session_until_it_is_revoked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/grants.json");
        let mut answers = GrantAnswerStore::read(&path).unwrap();
        let (one, two) = (request("sha256:1"), request("sha256:2"));
        answers
            .add(vec![answer(&one, GrantApprovalLifetime::Always)])
            .unwrap();
        let for_session = answer(&two, GrantApprovalLifetime::Session);
        GrantAnswerStore::read(&path)
            .unwrap()
            .add(vec![for_session])
            .unwrap();

        let mut again = GrantAnswerStore::read(&path).unwrap();
        assert!(again.find(&one, None).is_some());
        assert!(again.find(&two, None).is_none());
        assert!(again.find(&two, Some("t")).is_none());
        assert!(again.find(&two, Some("s")).is_some());
        assert!(
            again
                .latest_answer_for_plugin(&request("sha256:3"))
                .is_some()
        );
        assert_eq!(again.revoke("q").unwrap(), 0);
        assert_eq!(again.revoke("p").unwrap(), 2);
        assert!(
            GrantAnswerStore::read(&path)
                .unwrap()
                .find(&one, None)
                .is_none()
        );
    }

    #[test]
    fn a_damaged_file_is_an_error_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grants.json");
        fs::write(&path, "{\"version\":1,\"answ").unwrap();
        let error = GrantAnswerStore::read(&path).unwrap_err().to_string();
        assert!(error.contains("move it away"), "{error}");
        fs::write(&path, "{\"version\":9,\"answers\":[]}").unwrap();
        let error = GrantAnswerStore::read(&path).unwrap_err().to_string();
        assert!(error.contains("newer"), "{error}");
    }
}
