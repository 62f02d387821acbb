//! Parses and checks the digests that registries publish for package files.

use std::fmt;

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256, Sha512};

/// Maximum length of npm's `integrity` field in bytes. The field may list several digests.
const MAX_INTEGRITY_FIELD_BYTES: usize = 4096;

/// Digest of a package file, as the registry publishes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PackageFileDigest {
    /// SHA-512 digest, which npm writes in base64.
    Sha512([u8; 64]),
    /// SHA-256 digest, which the other registries write in hexadecimal digits.
    Sha256([u8; 32]),
}

impl PackageFileDigest {
    /// Parses npm's `integrity` field: digests separated by white space, of which the first SHA-512
    /// is used.
    pub(super) fn parse_npm_integrity(text: &str) -> anyhow::Result<Self> {
        let is_short = text.len() <= MAX_INTEGRITY_FIELD_BYTES;
        let mut digests = text.split_ascii_whitespace().filter(|_| is_short);
        let found = digests.find_map(|digest| digest.strip_prefix("sha512-"));
        let found = found.context("the field has no SHA-512 digest")?;
        // The digest may be followed by a `?` and options.
        let found = found.split('?').next().unwrap_or(found);
        let bytes = STANDARD.decode(found).ok();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes
            .map(Self::Sha512)
            .context("the SHA-512 digest is not 64 bytes in base64")
    }

    /// Parses a SHA-256 of 64 hexadecimal digits.
    pub(super) fn parse_sha256(hex: &str) -> anyhow::Result<Self> {
        let digits: Option<Vec<u8>> = hex
            .chars()
            .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
            .collect();
        let Some(digits) = digits.filter(|digits| digits.len() == 64) else {
            bail!("the SHA-256 digest is not 64 hexadecimal digits");
        };
        let (pairs, _) = digits.as_chunks::<2>();
        let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
        let bytes = bytes.try_into().ok();
        bytes
            .map(Self::Sha256)
            .context("the SHA-256 digest is not 32 bytes")
    }

    /// Returns an error if the digest of `bytes` is a different one.
    pub(super) fn verify_bytes(&self, bytes: &[u8]) -> anyhow::Result<()> {
        let found = match self {
            Self::Sha512(_) => Self::Sha512(Sha512::digest(bytes).into()),
            Self::Sha256(_) => Self::Sha256(Sha256::digest(bytes).into()),
        };
        ensure!(
            found == *self,
            "the file has the digest {found}, but the registry lists {self}: the file was tampered with in transit, or the registry is wrong"
        );
        Ok(())
    }
}

impl fmt::Display for PackageFileDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sha512(bytes) => write!(f, "sha512-{}", STANDARD.encode(bytes)),
            Self::Sha256(bytes) => {
                f.write_str("sha256:")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_read_as_registries_write_them_and_compared() {
        let own = PackageFileDigest::Sha512(Sha512::digest(b"x").into());
        let text = format!("sha1-AAAA {own}?x");
        let parsed = PackageFileDigest::parse_npm_integrity(&text).unwrap();
        assert_eq!(parsed, own);
        parsed.verify_bytes(b"x").unwrap();
        assert!(parsed.verify_bytes(b"y").is_err());
        let own = PackageFileDigest::Sha256(Sha256::digest(b"x").into());
        let hex = own.to_string().replace("sha256:", "");
        let parsed = PackageFileDigest::parse_sha256(&hex.to_uppercase()).unwrap();
        assert_eq!(parsed, own);
        for text in ["", "sha1-AAAA", "sha512-", "sha512-AAAA", "sha512-%%%"] {
            assert!(
                PackageFileDigest::parse_npm_integrity(text).is_err(),
                "{text}"
            );
        }
        for text in ["", "00", &"g".repeat(64), &"0".repeat(63), &"é".repeat(32)] {
            assert!(PackageFileDigest::parse_sha256(text).is_err(), "{text}");
        }
    }
}
