//! Creates the ids of the sessions in which a loop runs turns.
//!
//! An id has the form `loop.PLUGIN.NAME.PLACE`. `PLACE` is a digest of the workspace and of the
//! plugin's data folder, so that a plugin of the same name with another data folder, or in another
//! workspace, has other ids. No name of a plugin contains a `.`. Start from
//! [`LoopSessionIdGenerator`].

use std::path::Path;

use crate::point::handle::HostFunctionError;
use crate::session::is_session_id;
use crate::text::escape_and_truncate_line;

/// Prefix of the id of every session in which a loop runs turns.
const LOOP_SESSION_ID_PREFIX: &str = "loop.";

/// First character of the part `NAME` of the id if the loop did not name the session.
const UNNAMED_SESSION_MARKER: char = '_';

/// Number of hexadecimal digits in the part `PLACE` of the id.
const LOCATION_DIGEST_HEX_DIGITS: usize = 8;

/// Number of random digits in `NAME` if the loop did not name the session.
const RANDOM_SESSION_NAME_DIGITS: usize = 10;

/// Maximum length in bytes of the name that a loop gives a session.
const MAX_SESSION_NAME_BYTES: usize = 40;

/// Maximum length of a quoted text in an error, in bytes.
const MAX_ERROR_QUOTE_BYTES: usize = 96;

/// Ids of the sessions of one loop in one workspace.
#[derive(Clone, Debug)]
pub(super) struct LoopSessionIdGenerator {
    plugin: String,
    place: String,
}

impl LoopSessionIdGenerator {
    /// Creates the ids for the sessions of a plugin's loop in `workspace`. `keeper` is the name
    /// of the plugin's data folder.
    pub(super) fn new(plugin: &str, keeper: &str, workspace: &Path) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(workspace.as_os_str().as_encoded_bytes());
        hasher.update(&[0]);
        hasher.update(keeper.as_bytes());
        let mut place = hasher.finalize().to_hex().to_string();
        place.truncate(LOCATION_DIGEST_HEX_DIGITS);
        Self {
            plugin: plugin.to_owned(),
            place,
        }
    }

    /// Returns an id for a new session that the loop did not name.
    pub(super) fn create_unnamed_session_id(&self) -> String {
        let id = crate::clock::new_uuid_v7();
        // Use the end of the new id, which is random; its beginning encodes the time.
        let digits = id.get(id.len().saturating_sub(RANDOM_SESSION_NAME_DIGITS)..);
        self.build_session_id(&format!(
            "{UNNAMED_SESSION_MARKER}{}",
            digits.unwrap_or(&id)
        ))
    }

    /// Returns the id of the session to which the loop gave this name.
    ///
    /// # Errors
    /// The name has other characters than a-z, 0-9 and `-`, or is too long.
    pub(super) fn session_id_for_name(&self, name: &str) -> Result<String, HostFunctionError> {
        let is_in_name = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
        let id = self.build_session_id(name);
        let is_fine =
            (1..=MAX_SESSION_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_in_name);
        if !is_fine || !is_session_id(&id) {
            return Err(HostFunctionError::InvalidInput(format!(
                "`{}` is not a session name: use 1 to {MAX_SESSION_NAME_BYTES} of a-z, 0-9 and `-` (fewer if the plugin has a long name)",
                escape_and_truncate_line(name, MAX_ERROR_QUOTE_BYTES)
            )));
        }
        Ok(id)
    }

    /// Whether the id is that of a session of this loop in this workspace.
    pub(super) fn is_loop_session_id(&self, id: &str) -> bool {
        let rest = id.strip_prefix(LOOP_SESSION_ID_PREFIX);
        let rest = rest.and_then(|rest| rest.strip_prefix(&self.plugin)?.strip_prefix('.'));
        let name = rest.and_then(|rest| rest.strip_suffix(&self.place)?.strip_suffix('.'));
        name.is_some_and(|name| !name.is_empty() && !name.contains('.'))
    }

    fn build_session_id(&self, name: &str) -> String {
        format!(
            "{LOOP_SESSION_ID_PREFIX}{}.{name}.{}",
            self.plugin, self.place
        )
    }
}

/// Returns the plugin whose loop owns the session, which the id tells; `None` if no loop owns it.
#[must_use]
pub fn plugin_owning_loop_session(id: &str) -> Option<&str> {
    let mut parts = id.strip_prefix(LOOP_SESSION_ID_PREFIX)?.split('.');
    let (plugin, name, place) = (parts.next()?, parts.next()?, parts.next()?);
    let is_whole =
        parts.next().is_none() && place.len() == LOCATION_DIGEST_HEX_DIGITS && !name.is_empty();
    (is_whole && !plugin.is_empty()).then_some(plugin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plugin: &str) -> LoopSessionIdGenerator {
        LoopSessionIdGenerator::new(plugin, "keeper", Path::new("/work"))
    }

    #[test]
    fn a_loop_owns_the_sessions_that_it_names_and_those_without_a_name() {
        let own = names("heart");
        for id in [
            own.session_id_for_name("main").unwrap(),
            own.create_unnamed_session_id(),
        ] {
            assert!(is_session_id(&id), "{id}");
            assert!(own.is_loop_session_id(&id), "{id}");
            assert_eq!(plugin_owning_loop_session(&id), Some("heart"));
        }
        assert_eq!(
            own.session_id_for_name("main").unwrap(),
            own.session_id_for_name("main").unwrap()
        );
        assert_ne!(
            own.create_unnamed_session_id(),
            own.create_unnamed_session_id()
        );
    }

    #[test]
    fn a_session_of_another_plugin_place_or_workspace_is_not_its_own() {
        let own = names("heart");
        let elsewhere = LoopSessionIdGenerator::new("heart", "keeper", Path::new("/other"));
        let imitated = LoopSessionIdGenerator::new("heart", "another", Path::new("/work"));
        let others = [
            names("heart-2").session_id_for_name("main").unwrap(),
            names("hear").session_id_for_name("t").unwrap(),
            elsewhere.session_id_for_name("main").unwrap(),
            imitated.session_id_for_name("main").unwrap(),
            format!("loop.heart.a.b.{}", own.place),
            format!("loop.heart..{}", own.place),
            "20260101-000000-abcdef".to_owned(),
            "../loop.heart.main".to_owned(),
        ];
        for id in others {
            assert!(!own.is_loop_session_id(&id), "{id}");
        }
        assert_eq!(plugin_owning_loop_session("loop.heart.a.b.12345678"), None);
        assert_eq!(plugin_owning_loop_session("20260101-000000-abcdef"), None);
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        let long = "x".repeat(MAX_SESSION_NAME_BYTES + 1);
        for name in [
            "",
            "..",
            "a/b",
            "a.b",
            "_new",
            "A",
            "a b",
            "\u{1b}[2K",
            &long,
        ] {
            let error = names("heart").session_id_for_name(name).unwrap_err();
            assert!(
                matches!(error, HostFunctionError::InvalidInput(_)),
                "{name}"
            );
        }
        let plugin = "p".repeat(64);
        assert!(names(&plugin).session_id_for_name(&"x".repeat(40)).is_err());
        assert!(is_session_id(&names(&plugin).create_unnamed_session_id()));
    }
}
