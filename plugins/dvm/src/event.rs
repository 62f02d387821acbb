//! Computes ids and signatures of Nostr events (NIP-01).

use k256::schnorr::{Signature, SigningKey, VerifyingKey};
use rind_sdk::serde_json::{self, json};
use rind_sdk::{data, files, types::Error};
use sha2::{Digest, Sha256};

/// Path of the file with the secret key that signs events.
const SECRET_KEY_FILE_PATH: &str = "data/key";

/// Nostr event: a signed message between clients and relays (NIP-01).
#[data]
#[derive(PartialEq, Eq)]
pub(crate) struct NostrEvent {
    pub(crate) id: String,
    pub(crate) pubkey: String,
    pub(crate) created_at: u64,
    pub(crate) kind: u32,
    pub(crate) tags: Vec<Vec<String>>,
    pub(crate) content: String,
    pub(crate) sig: String,
}

/// Encodes bytes as lower-case hexadecimal digits.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes `N` bytes from lower-case hexadecimal digits.
pub(crate) fn from_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let [high, low] = pair else { return None };
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

impl NostrEvent {
    /// Returns the SHA-256 hash of the contents, which is the id of a genuine event.
    fn hash(&self) -> [u8; 32] {
        let parts = json!([
            0,
            self.pubkey,
            self.created_at,
            self.kind,
            self.tags,
            self.content
        ]);
        Sha256::digest(parts.to_string().as_bytes()).into()
    }

    /// Whether the id is the hash of the contents and the signature is valid for the author's key.
    /// An event from a relay, which is not trusted, may be forged.
    pub(crate) fn has_valid_hash_and_signature(&self) -> bool {
        let hash = self.hash();
        if from_hex::<32>(&self.id) != Some(hash) {
            return false;
        }
        let key = from_hex::<32>(&self.pubkey).and_then(|key| VerifyingKey::from_slice(&key).ok());
        let signature =
            from_hex::<64>(&self.sig).and_then(|sig| Signature::try_from(sig.as_slice()).ok());
        match (key, signature) {
            (Some(key), Some(signature)) => key.verify_raw(&hash, &signature).is_ok(),
            _ => false,
        }
    }

    /// Returns the values of the first tag of this name.
    pub(crate) fn first_tag_with_name(&self, name: &str) -> Option<&[String]> {
        self.tags_with_name(name).next()
    }

    /// Returns the values of every tag of this name.
    pub(crate) fn tags_with_name(&self, name: &str) -> impl Iterator<Item = &[String]> {
        let split = self.tags.iter().filter_map(|tag| tag.split_first());
        split.filter_map(move |(first, rest)| (first == name).then_some(rest))
    }

    /// Returns the event as JSON.
    pub(crate) fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Secret key that signs the events that the plugin publishes.
pub(crate) struct NostrEventSigningKey(SigningKey);

impl NostrEventSigningKey {
    /// Reads the plugin's secret key from its file. Creates a key and the file if there is no file.
    pub(crate) fn load() -> Result<Self, Error> {
        let text = match files::read_to_string(SECRET_KEY_FILE_PATH) {
            Ok(text) => text,
            Err(Error::NotFound(_)) => {
                let text = to_hex(&random_bytes()?);
                files::write(SECRET_KEY_FILE_PATH, text.as_bytes())?;
                text
            }
            Err(error) => return Err(error),
        };
        Self::parse(text.trim()).ok_or_else(|| {
            let why = "the file `key` in the data folder of the plugin `dvm` holds no secret key: 64 lower-case hexadecimal digits; \
                 remove it to have one made";
            Error::Failed(why.to_owned())
        })
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        let bytes = from_hex::<32>(text)?;
        SigningKey::from_slice(&bytes).ok().map(Self)
    }

    /// Returns the public key in hexadecimal digits.
    pub(crate) fn pubkey(&self) -> String {
        to_hex(&self.0.verifying_key().to_bytes())
    }

    /// Creates an event and signs it.
    pub(crate) fn sign_event(
        &self,
        kind: u32,
        tags: Vec<Vec<String>>,
        content: String,
        created_at: u64,
    ) -> Result<NostrEvent, Error> {
        let mut event = NostrEvent {
            id: String::new(),
            pubkey: self.pubkey(),
            created_at,
            kind,
            tags,
            content,
            sig: String::new(),
        };
        let hash = event.hash();
        let signed = self.0.sign_raw(&hash, &random_bytes()?);
        let signature =
            signed.map_err(|_| Error::Failed("the event cannot be signed".to_owned()))?;
        event.id = to_hex(&hash);
        event.sig = to_hex(&signature.to_bytes());
        Ok(event)
    }
}

fn random_bytes() -> Result<[u8; 32], Error> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::Failed(format!("cannot get random bytes for a new key: {error}"))
    })?;
    Ok(bytes)
}
