//! Stores the pins: for each server, the tools and prompts that the operator approved. The file is
//! beside the file of grants.
//!
//! The file is written atomically and under a lock. Start from [`ServerPinsStore`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::offer::ServerToolsAndPrompts;
use super::settings::ServerSettings;
use rind_lib::disk::{acquire_file_lock, read_if_present, replace_private_file};
use rind_lib::paths::RindPaths;

/// Version of the format of the file with the approvals.
const PINS_FILE_FORMAT_VERSION: u32 = 1;

/// Maximum size of the file with the approvals, in bytes.
const MAX_PINS_FILE_BYTES: u64 = 256 << 20;

/// Tools, prompts and instructions of a server as the operator approved them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerApprovalRecord {
    /// Digest of the server's settings at the time of the approval.
    pub settings: String,
    /// Time at which the operator approved the server, as RFC 3339.
    pub given: String,
    /// Tools, prompts and instructions that the operator approved.
    pub offer: ServerToolsAndPrompts,
}

/// Error while the file with the approvals is read or written.
#[derive(Debug, thiserror::Error)]
#[error("the file {} with your approvals of MCP servers {message}", path.display())]
pub struct ServerPinsFileError {
    path: PathBuf,
    message: String,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct PinsFileContent {
    version: u32,
    servers: BTreeMap<String, ServerApprovalRecord>,
}

/// Returns the path of the file that stores which tools and prompts of MCP servers were approved.
#[must_use]
pub fn pins_file_path(paths: &RindPaths) -> PathBuf {
    paths.grant_answers_path().with_file_name("mcp.json")
}

/// Approved tools and prompts (pins) of all MCP servers, as stored in the file.
#[derive(Clone, Debug)]
pub struct ServerPinsStore {
    path: PathBuf,
    servers: BTreeMap<String, ServerApprovalRecord>,
}

impl ServerPinsStore {
    /// Reads the approvals of MCP servers (the pins); empty if the file does not exist.
    ///
    /// # Errors
    /// The file cannot be read, is damaged, or was written by a newer version.
    pub fn read(path: &Path) -> Result<Self, ServerPinsFileError> {
        let refuse = |message: String| ServerPinsFileError {
            path: path.to_owned(),
            message,
        };
        let content = match read_if_present(path, MAX_PINS_FILE_BYTES) {
            Ok(None) => PinsFileContent::default(),
            Err(e) => return Err(refuse(format!("cannot be read: {e}"))),
            Ok(Some(text)) => serde_json::from_str::<PinsFileContent>(&text).map_err(|e| {
                refuse(format!(
                    "is damaged ({e}); move the file away, and Rind asks you again about every server"
                ))
            })?,
        };
        if content.version > PINS_FILE_FORMAT_VERSION {
            return Err(refuse(format!(
                "was written by a newer version of Rind (file format {}, this version reads up to {PINS_FILE_FORMAT_VERSION})",
                content.version
            )));
        }
        Ok(Self {
            path: path.to_owned(),
            servers: content.servers,
        })
    }

    /// Returns what the operator approved for a server (its pin), even if the server's settings
    /// have changed since.
    #[must_use]
    pub fn find_pin_ignoring_settings(&self, name: &str) -> Option<&ServerApprovalRecord> {
        self.servers.get(name)
    }

    /// Returns the pin of a server if it was made with these settings.
    #[must_use]
    pub fn find_pin(&self, name: &str, settings: &ServerSettings) -> Option<&ServerApprovalRecord> {
        let pin = self.servers.get(name)?;
        (pin.settings == settings.connection_settings_digest()).then_some(pin)
    }

    /// Stores the tools and prompts that the operator approved for a server (the pin), in place of
    /// those approved earlier.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn pin_server(
        &mut self,
        name: &str,
        pin: ServerApprovalRecord,
    ) -> Result<(), ServerPinsFileError> {
        self.update_pins_file(|servers| {
            servers.insert(name.to_owned(), pin);
        })
    }

    /// Removes the approval (the pin) of a server's tools and prompts. Returns whether it existed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn remove(&mut self, name: &str) -> Result<bool, ServerPinsFileError> {
        let mut was_there = false;
        self.update_pins_file(|servers| was_there = servers.remove(name).is_some())?;
        Ok(was_there)
    }

    /// Reads, changes and writes the file under a lock, so that concurrent hosts lose no pins.
    fn update_pins_file(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<String, ServerApprovalRecord>),
    ) -> Result<(), ServerPinsFileError> {
        let path = self.path.clone();
        let refuse = |e: std::io::Error| ServerPinsFileError {
            path: path.clone(),
            message: format!("cannot be written: {e}"),
        };
        let _lock = acquire_file_lock(&path, || {}).map_err(refuse)?;
        let mut servers = Self::read(&path)?.servers;
        change(&mut servers);
        let content = PinsFileContent {
            version: PINS_FILE_FORMAT_VERSION,
            servers,
        };
        let bytes =
            serde_json::to_vec_pretty(&content).map_err(|e| refuse(std::io::Error::other(e)))?;
        // Do not write a file that is too large to be read: without the pins, no session starts.
        if bytes.len() as u64 > MAX_PINS_FILE_BYTES {
            let why = format!(
                "the new file would have more than {} MiB",
                MAX_PINS_FILE_BYTES >> 20
            );
            return Err(refuse(std::io::Error::other(why)));
        }
        replace_private_file(&path, &bytes).map_err(refuse)?;
        self.servers = content.servers;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offer::offered_tool_for_tests;

    #[test]
    fn a_pin_holds_for_its_settings_until_it_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/mcp.json");
        let settings = ServerSettings {
            command: Some("x".to_owned()),
            ..ServerSettings::default()
        };
        let pin = ServerApprovalRecord {
            settings: settings.connection_settings_digest(),
            given: "2026-01-01T00:00:00Z".to_owned(),
            offer: ServerToolsAndPrompts {
                tools: vec![offered_tool_for_tests("a", "d")],
                ..ServerToolsAndPrompts::default()
            },
        };
        let mut pins = ServerPinsStore::read(&path).unwrap();
        pins.pin_server("s", pin.clone()).unwrap();
        ServerPinsStore::read(&path)
            .unwrap()
            .pin_server("t", pin.clone())
            .unwrap();
        let mut again = ServerPinsStore::read(&path).unwrap();
        assert_eq!(again.find_pin("s", &settings), Some(&pin));
        let wider = ServerSettings {
            network: true,
            ..settings.clone()
        };
        assert_eq!(again.find_pin("s", &wider), None);
        assert!(again.find_pin_ignoring_settings("s").is_some());
        assert!(again.remove("s").unwrap());
        assert!(!again.remove("s").unwrap());
        assert!(again.find_pin("t", &settings).is_some());
    }

    #[test]
    fn a_damaged_file_is_an_error_and_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp.json");
        for (text, expected) in [
            ("{\"ver", "move the file away"),
            ("{\"version\":9,\"servers\":{}}", "newer"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = ServerPinsStore::read(&path).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
