//! Signs the records of plugin sets, and verifies signatures.
//!
//! The signature covers the text of the record, and exactly this text is stored and parsed, so that
//! no unsigned data is used. Keys have the NATS type `module`; a key of the type with which clients
//! log in cannot sign a set. Start from [`PluginSetSigningKey`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nkeys::{KeyPair, KeyPairType};
use rind_lib::session::SessionBlobs;
use rind_lib::text::escape_and_truncate_line;
use serde::{Deserialize, Serialize};

use super::record::{MAX_PLUGIN_SET_RECORD_BYTES, PluginSetRecord};
use crate::NatsError;

/// Prefix of the signed text, so that a signature made for another purpose is invalid for a set.
const SIGNED_TEXT_PREFIX: &str = "rind plugin set 1\n";

/// Maximum length of a stored message, in bytes: escaping the record as a JSON string at most
/// doubles its length.
const MAX_STORED_MESSAGE_BYTES: usize = 2 * MAX_PLUGIN_SET_RECORD_BYTES + 1024;

/// Private key with which an operator signs plugin sets.
pub struct PluginSetSigningKey(KeyPair);

impl std::fmt::Debug for PluginSetSigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("PluginSetSigningKey")
            .field(&self.public_key())
            .finish()
    }
}

impl PluginSetSigningKey {
    /// Generates a key, and returns it with its seed.
    ///
    /// # Errors
    /// The seed cannot be encoded.
    pub fn generate() -> Result<(Self, String), NatsError> {
        let pair = KeyPair::new_module();
        let seed = pair
            .seed()
            .map_err(|error| invalid_key_error(&error.to_string()))?;
        Ok((Self(pair), seed))
    }

    /// Reads a key from its seed.
    ///
    /// # Errors
    /// The text is not the seed of a key for sets of plugins.
    pub fn from_seed(seed: &str) -> Result<Self, NatsError> {
        let pair = KeyPair::from_seed(seed.trim());
        // Drop the error of the library: it may contain a part of the seed.
        let pair = pair
            .map_err(|_| invalid_key_error("the file has no seed of `rind cluster plugins key`"))?;
        match pair.key_pair_type() {
            KeyPairType::Module => Ok(Self(pair)),
            _ => Err(invalid_key_error(
                "it is a key for something else: the seed begins with SM",
            )),
        }
    }

    /// Returns the public key, with which workers verify signed sets.
    #[must_use]
    pub fn public_key(&self) -> String {
        self.0.public_key()
    }
}

/// Checks that a text is a public key for sets of plugins.
///
/// # Errors
/// The text is not a public key for sets of plugins.
pub fn check_public_key(text: &str) -> Result<(), NatsError> {
    let pair = KeyPair::from_public_key(text);
    match pair.map(|pair| pair.key_pair_type()) {
        Ok(KeyPairType::Module) => Ok(()),
        _ => Err(invalid_key_error(
            "it begins with M and is shown by `rind cluster plugins key`",
        )),
    }
}

fn invalid_key_error(why: &str) -> NatsError {
    NatsError::Config {
        what: "the key of sets of plugins".to_owned(),
        why: why.to_owned(),
    }
}

/// Plugin set whose signature was created or verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedPluginSet {
    /// Content of the set: its plugins and settings.
    pub record: PluginSetRecord,
    /// Hash of the record, which identifies the set in the log of a turn.
    pub digest: String,
    /// Public key with which the signature was verified.
    pub key: String,
}

/// Stored message of a plugin set: public key, signature and text of the record.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPluginSet {
    key: String,
    signature: String,
    record: String,
}

/// Checks and signs the record of a plugin set. Returns the signed set and the bytes to store.
pub(super) fn sign_plugin_set_record(
    key: &PluginSetSigningKey,
    record: PluginSetRecord,
) -> Result<(SignedPluginSet, Vec<u8>), String> {
    record.require_valid_record()?;
    let text = serde_json::to_string(&record).map_err(|error| error.to_string())?;
    if text.len() > MAX_PLUGIN_SET_RECORD_BYTES {
        return Err(format!(
            "the record of the set has {} bytes, and at most {MAX_PLUGIN_SET_RECORD_BYTES} are stored",
            text.len()
        ));
    }
    let signature = key.0.sign(&bytes_to_sign(&text));
    let signature = signature.map_err(|error| error.to_string())?;
    let set = SignedPluginSet {
        digest: SessionBlobs::compute_blob_id(text.as_bytes()),
        key: key.public_key(),
        record,
    };
    let stored = StoredPluginSet {
        key: set.key.clone(),
        signature: STANDARD.encode(signature),
        record: text,
    };
    let bytes = serde_json::to_vec(&stored).map_err(|error| error.to_string())?;
    Ok((set, bytes))
}

/// Parses a stored plugin set, and verifies that it is signed with one of these keys.
pub(super) fn verify_signed_plugin_set(
    bytes: &[u8],
    keys: &[String],
) -> Result<SignedPluginSet, String> {
    if bytes.len() > MAX_STORED_MESSAGE_BYTES {
        return Err(format!(
            "the set has {} bytes, and at most {MAX_STORED_MESSAGE_BYTES} are read",
            bytes.len()
        ));
    }
    let stored: StoredPluginSet = serde_json::from_slice(bytes).map_err(|error| {
        format!(
            "it is not a signed set of plugins: {}",
            escape_and_truncate_line(&error.to_string(), 200)
        )
    })?;
    if !keys.contains(&stored.key) {
        return Err(format!(
            "the set is signed with the key {}, which is not among the keys that this worker \
             trusts",
            escape_and_truncate_line(&stored.key, 80)
        ));
    }
    let refused = || format!("its signature does not match the key {}", stored.key);
    let signature = STANDARD.decode(&stored.signature).map_err(|_| refused())?;
    check_public_key(&stored.key).map_err(|error| error.to_string())?;
    let pair = KeyPair::from_public_key(&stored.key).map_err(|_| refused())?;
    let verified = pair.verify(&bytes_to_sign(&stored.record), &signature);
    verified.map_err(|_| refused())?;
    Ok(SignedPluginSet {
        record: PluginSetRecord::parse(&stored.record)?,
        digest: SessionBlobs::compute_blob_id(stored.record.as_bytes()),
        key: stored.key,
    })
}

fn bytes_to_sign(record: &str) -> Vec<u8> {
    [SIGNED_TEXT_PREFIX.as_bytes(), record.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::record::{PluginSetFile, PluginSetPlugin};
    use super::*;

    fn record() -> PluginSetRecord {
        let file = PluginSetFile {
            hash: "0".repeat(64),
            bytes: 3,
        };
        let plugin = PluginSetPlugin {
            name: "guard".to_owned(),
            version: "1.0.0".to_owned(),
            files: BTreeMap::from([("plugin.toml".to_owned(), file)]),
            grants: Vec::new(),
        };
        PluginSetRecord::new("t", Some("shop"), 7, vec![plugin])
    }

    #[test]
    fn a_changed_record_and_a_signature_of_another_key_are_refused() {
        let (key, seed) = PluginSetSigningKey::generate().unwrap();
        let (other, _) = PluginSetSigningKey::generate().unwrap();
        assert_eq!(
            PluginSetSigningKey::from_seed(&seed).unwrap().public_key(),
            key.public_key()
        );
        let (set, bytes) = sign_plugin_set_record(&key, record()).unwrap();
        let keys = [key.public_key()];
        assert_eq!(verify_signed_plugin_set(&bytes, &keys).unwrap(), set);
        let text = String::from_utf8(bytes).unwrap();
        let changed = text.replace("\\\"number\\\":7", "\\\"number\\\":8");
        assert_ne!(changed, text);
        let refused = verify_signed_plugin_set(changed.as_bytes(), &keys).unwrap_err();
        assert!(
            refused.contains("its signature does not match"),
            "{refused}"
        );
        let renamed = text.replace(&key.public_key(), &other.public_key());
        let refused =
            verify_signed_plugin_set(renamed.as_bytes(), &[other.public_key()]).unwrap_err();
        assert!(
            refused.contains("its signature does not match"),
            "{refused}"
        );
        let refused = verify_signed_plugin_set(text.as_bytes(), &[other.public_key()]).unwrap_err();
        assert!(refused.contains("not among the keys"), "{refused}");
        for other in ["", "{}", "null", "[1]"] {
            assert!(
                verify_signed_plugin_set(other.as_bytes(), &keys).is_err(),
                "{other}"
            );
        }
    }

    #[test]
    fn keys_with_which_clients_log_in_sign_no_sets() {
        let user = KeyPair::new_user();
        assert!(PluginSetSigningKey::from_seed(&user.seed().unwrap()).is_err());
        assert!(check_public_key(&user.public_key()).is_err());
        let refused = PluginSetSigningKey::from_seed("SMAB")
            .unwrap_err()
            .to_string();
        assert!(!refused.contains("SMAB"), "{refused}");
    }
}
